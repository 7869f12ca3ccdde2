"""Streaming multiprocessors stepped instruction by instruction.

The machine sees programs, addresses and rates, never a matmul. ``layout`` names the columns of its arrays,
``memory`` moves sectors, ``issue`` says what an instruction waits for and what it leaves behind, ``step``
runs the schedulers cycle by cycle.
"""
