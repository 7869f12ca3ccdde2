"""Measured time of real hardware: taken, shipped with the package, and held beside the simulated one."""
