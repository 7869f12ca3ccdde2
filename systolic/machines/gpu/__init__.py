"""The GPU machine: streaming multiprocessors that run warps, L1 and shared memory, L2, main memory.

Answers the four questions of :class:`systolic.machines.base.Machine`.
"""

from __future__ import annotations

from .arithmetic import SECONDS_PER_MAC, values
from .composition import compose
from .costing import cost
from .effort import stepping
from .lowering import lower, precision, tile_edges
from .steps import AttentionStep, GemmStep, VectorStep

__all__ = [
    "SECONDS_PER_MAC",
    "AttentionStep",
    "GemmStep",
    "VectorStep",
    "compose",
    "cost",
    "lower",
    "precision",
    "stepping",
    "tile_edges",
    "values",
]
