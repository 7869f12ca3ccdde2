"""Streaming multiprocessors stepped instruction by instruction.

The machine sees programs, addresses and rates, never a matmul. ``layout`` names the columns of its arrays,
``memory`` moves sectors, ``issue`` carries instructions out, ``step`` runs schedulers cycle by cycle.
"""
