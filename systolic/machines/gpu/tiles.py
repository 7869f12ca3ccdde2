"""How a block's tiles lie in memory: which bytes each lane of a copy or a store moves."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

import numpy as np

from .plan import Problem

VECTOR_BYTES = 16
"""Most bytes that a lane moves at once."""


def pitch(problem: Problem, operand: str) -> int:
    """Bytes from one line of an operand's matrix to the next."""
    wide = {
        "lhs": (problem.m if problem.layout[0] == "t" else problem.k, problem.lhs_bits),
        "rhs": (problem.k if problem.layout[1] == "t" else problem.n, problem.rhs_bits),
        "out": (problem.n, problem.out_bits),
    }
    length, bits = wide[operand]
    return -(-length * bits // 8)


def tile_lines(problem: Problem, operand: str, tile: tuple[int, int, int]) -> tuple[int, int]:
    """(lines, bytes of a line) of the part of an operand that belongs to a tile, as it lies in memory."""
    m, n, k = (min(side, size) for side, size in zip(tile, (problem.m, problem.n, problem.k), strict=True))
    if operand == "out":
        return m, n * problem.out_bits // 8
    rows, cols, bits = (m, k, problem.lhs_bits) if operand == "lhs" else (k, n, problem.rhs_bits)
    if problem.layout[0 if operand == "lhs" else 1] == "t":
        rows, cols = cols, rows
    return rows, cols * bits // 8


def step_bytes(problem: Problem, operand: str, tile_k: int) -> int:
    """Bytes by which the address of an operand's tile moves on from one tile of k to the next."""
    along = problem.layout[0] == "n" if operand == "lhs" else problem.layout[1] == "t"
    bits = problem.lhs_bits if operand == "lhs" else problem.rhs_bits
    return tile_k * bits // 8 if along else tile_k * pitch(problem, operand)


def lane_bytes(problem: Problem, operand: str) -> int:
    """Bytes that a lane can move at once: as many as every line of the operand is aligned to, 4 at least."""
    return max(4, gcd(VECTOR_BYTES, pitch(problem, operand)))


def requests(
    lines: int, line_bytes: int, line_pitch: int, width: int, warp_size: int
) -> Iterator[tuple[np.ndarray, int]]:
    """The requests of warps that move `lines` lines: byte offsets of the lanes, and bytes of a lane.

    Lanes move `width` bytes each, side by side along a line, then along the next one.
    """
    per_line = -(-line_bytes // width)
    pieces = np.arange(lines * per_line)
    offsets = pieces // per_line * line_pitch + pieces % per_line * width
    for first in range(0, len(offsets), warp_size):
        yield offsets[first : first + warp_size], min(width, line_bytes)
