"""The GPU machine: streaming multiprocessors that run warps, L1 and shared memory, L2, main memory."""
