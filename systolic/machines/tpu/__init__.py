"""The TPU machine: HBM, on-chip memory, systolic arrays, accumulators, vector unit.

Answers the four questions of :class:`systolic.machines.base.Machine`.
"""

from __future__ import annotations

from .compose import compose
from .cost import cost
from .lower import GemmStep, VectorStep, lower, precision, tile_edges
from .values import values

__all__ = ["GemmStep", "VectorStep", "compose", "cost", "lower", "precision", "tile_edges", "values"]
