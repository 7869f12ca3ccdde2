"""Number formats at work: rounding into a format, error bounds, seeded operands.

Everything here takes and returns NumPy arrays and knows no chip.
"""
