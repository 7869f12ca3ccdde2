"""The declared space of plans: which block sides, loop orders and array splits the mapper considers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..blocks.array import AXES
from .plan import DIMS, ORDERS, Problem, array_work
from .traffic import block_bytes

SUBLANES = 8
"""Rows of a TPU vector register (Austin et al., How to Scale Your Model, 2025): the streamed side's grain."""

ALL_SIDES = 16
"""Up to this many grains along a dimension every side is tried; beyond, the sides of 1, 2, 3, 4, 6, 8, 12 …
equal parts, down to a single grain."""


@dataclass(frozen=True, kw_only=True)
class Pins:
    """What the user fixes: sides of the block (dimension -> elements) and the loop order."""

    tile: Mapping[str, int] | None = None
    order: str | None = None


def grain(problem: Problem, dim: str) -> int:
    """Step of a block's side: the array's side along it, or a few rows where the operand streams."""
    axes, timing = AXES[problem.dataflow], problem.timing
    if dim == axes.rows:
        return timing.rows
    if dim == axes.cols:
        return timing.cols
    return timing.rows if problem.dataflow == "os" else min(SUBLANES, timing.rows)


def tile_sides(problem: Problem, dim: str) -> list[int]:
    """Sides of a block that the space holds along a dimension, rising."""
    length, step = problem.size(dim), grain(problem, dim)
    grains = -(-length // step)
    if grains <= ALL_SIDES:
        counts: Sequence[int] = range(1, grains + 1)
    else:
        parts = (p for i in range(grains.bit_length()) for p in (2**i, 3 * 2**i) if p < grains)
        counts = sorted({1, *(-(-grains // p) for p in parts)})
    return [min(length, c * step) for c in counts]


def array_splits(problem: Problem) -> list[tuple[int, int]]:
    """Ways to lay a core's arrays side by side: (along the columns, along the stream or the rows)."""
    return [(a, problem.mxus // a) for a in range(problem.mxus, 0, -1) if problem.mxus % a == 0]


def fitting_tiles(problem: Problem, pins: Pins) -> np.ndarray:
    """Sides (plans, m n k) of all blocks of the space whose buffers fit the memories."""
    if pins.tile is not None:
        choices = [[min(pins.tile[d], problem.size(d))] for d in DIMS]
    else:
        choices = [tile_sides(problem, d) for d in DIMS]
    grid = np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, 3).astype(np.int64)
    onchip, acc = block_bytes(problem, dict(zip(DIMS, grid.T, strict=True)))
    fits = np.ones(len(grid), bool)
    if problem.onchip_bytes is not None:
        fits &= onchip <= problem.onchip_bytes
    if problem.acc_bytes is not None:
        fits &= acc <= problem.acc_bytes
    if problem.block_tiles is not None and problem.dataflow != "os":
        axes, timing = AXES[problem.dataflow], problem.timing
        rows, cols = (grid[:, DIMS.index(dim)] for dim in (axes.rows, axes.cols))
        fits &= -(-rows // timing.rows) * -(-cols // timing.cols) <= problem.block_tiles
    return grid[fits]


def first_of_its_kind(order: str, blocks: Mapping[str, Any]) -> Any:
    """Whether no earlier order visits the same blocks in the same sequence; a loop of one block is none."""
    fresh: Any = np.ones(len(blocks["m"]), bool)
    for earlier in ORDERS[: ORDERS.index(order)]:
        same: Any = np.ones(len(blocks["m"]), bool)
        for a in DIMS:
            for b in DIMS:
                swapped = (order.index(a) < order.index(b)) != (earlier.index(a) < earlier.index(b))
                if swapped:
                    same &= ~((blocks[a] > 1) & (blocks[b] > 1))
        fresh &= ~same
    return fresh


def legal(problem: Problem, tile: Any, blocks: Any, order: str, way: tuple[int, int]) -> Any:
    """Output stationary keeps one chain over k: k in one block, or innermost with one tile per array."""
    if problem.dataflow != "os":
        return np.ones(len(tile["m"]), bool)
    tiles, _, _ = array_work(problem, way, tile)
    long_enough = tile["k"] >= problem.timing.rows
    return (blocks["k"] == 1) | ((tiles == 1) & long_enough & (order[-1] == "k"))
