"""Transformer matmuls on systolic arrays: what they cost, cycle by cycle, and whether the result is right."""
