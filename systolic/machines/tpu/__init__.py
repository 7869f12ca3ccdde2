"""The TPU machine: HBM, on-chip memory, systolic arrays, accumulators, vector unit.

Answers the four questions of :class:`systolic.machines.base.Machine`.
"""

from __future__ import annotations

from .arithmetic import SECONDS_PER_MAC, values
from .composition import compose
from .costing import cost
from .effort import stepping
from .lowering import GemmStep, VectorStep, lower, precision, tile_edges
from .occurrences import most_slices, timeline

__all__ = [
    "SECONDS_PER_MAC",
    "GemmStep",
    "VectorStep",
    "compose",
    "cost",
    "lower",
    "most_slices",
    "precision",
    "stepping",
    "tile_edges",
    "timeline",
    "values",
]
