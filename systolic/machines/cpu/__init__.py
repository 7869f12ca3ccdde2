"""The CPU machine: out-of-order cores, L1 and L2 of each, L3 and main memory of all.

Answers the four questions of :class:`systolic.machines.base.Machine`.
"""

from __future__ import annotations

from .arithmetic import SECONDS_PER_MAC, values
from .composition import compose
from .costing import cost
from .effort import stepping
from .lowering import lower, precision, tile_edges
from .steps import GemmStep, VectorStep

__all__ = [
    "SECONDS_PER_MAC",
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
