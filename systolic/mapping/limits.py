"""How large a count can become: checked before a search, whose counts are 64-bit integers."""

from __future__ import annotations

from collections.abc import Mapping

from ..blocks.array import AXES, folds
from .plan import DIMS, OPERAND_DIMS, Problem

LARGEST = 2**61
"""Counts up to this are sure to be exact: sums of a few of them still fit 64 bits."""

_DRAM_CYCLES_PER_BYTE = 100
"""More than any part needs, each of whose accesses has to open a row first."""


def largest_count(problem: Problem, tile: Mapping[str, int]) -> int:
    """A number that no count of a plan exceeds whose blocks have at least the sides `tile`.

    Bytes and cycles of all ports, cycles of the arrays. Exact in Python's integers, and meant to be too large
    rather than a little too small.
    """
    blocks = {d: folds(problem.size(d), tile[d]) for d in DIMS}
    moved = cycles = 0
    for name, operand in problem.operands.items():
        rows, cols = OPERAND_DIMS["out" if name == "psum" else name]
        (third,) = set(DIMS) - {rows, cols}
        pieces = problem.size(rows) * blocks[cols] + problem.size(cols) * blocks[rows]
        burst = operand.place.burst if operand.place else 1
        once = problem.size(rows) * problem.size(cols) * folds(operand.bits, 8) + pieces * burst
        amount = 2 * blocks[third] * once
        moved += amount
        if operand.place is not None:
            cycles += operand.place.cycles(amount) + pieces * blocks[third]
            cycles += _DRAM_CYCLES_PER_BYTE * amount if operand.place.dram else 0
    return problem.batch * (moved + cycles + _on_chip(problem, blocks))


def _on_chip(problem: Problem, blocks: Mapping[str, int]) -> int:
    """Cycles of the arrays, and bytes and cycles of the on-chip port, of one batch element, added up."""
    axes, timing = AXES[problem.dataflow], problem.timing
    down = problem.passes * (folds(problem.size(axes.rows), timing.rows) + blocks[axes.rows])
    across = folds(problem.size(axes.cols), timing.cols) + blocks[axes.cols]
    tiles = down * across * blocks[axes.stream] * problem.mxus
    streamed = down * across * (problem.size(axes.stream) + blocks[axes.stream] * problem.mxus)
    words = timing.rows + timing.cols
    size, sum_size = (
        max(folds(problem.operands[name].bits, 8) for name in names) for names in (("lhs", "rhs"), ("psum",))
    )
    step = timing.interval + (problem.lanes * words * size if problem.banks else 0)
    fed = problem.mxus * size * streamed * words + size * tiles * timing.rows * timing.cols
    sums = 2 * down * problem.size(axes.cols) * problem.size(axes.stream) * sum_size
    port = int(problem.port.cycles(fed)) + tiles
    return step * streamed + tiles * timing.tile(0) + fed + sums + port
