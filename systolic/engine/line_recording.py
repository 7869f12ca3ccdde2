"""A loop nest on a core, access by access: which cache line it touches, and which cache has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..blocks.cache import CacheCounts, CacheHierarchy
from ..blocks.nest import WRITE, LoopNest, Matrices, blocked, naive, reordered
from ..chips.caches import Cache
from ..chips.rules import choice_problem
from ..dtypes import DTYPES
from ..errors import SystolicError, raise_if_any
from ..workload import Gemm

OPERANDS = ("lhs", "rhs", "out")
LOOPS: Mapping[str, Callable[[Matrices], LoopNest]] = {
    "naive": naive,
    "reordered": reordered,
    "blocked": partial(blocked, tile_m=4, tile_n=16, tile_k=8),
}
"""Loops that can be recorded; blocks are as high as a micro-kernel's and one line wide in float32."""

TEACHING = (
    Cache(bytes=1024, ways=2, line_bytes=64, bytes_per_cycle=None, latency_cycles=0),
    Cache(bytes=8192, ways=4, line_bytes=64, bytes_per_cycle=None, latency_cycles=0),
)
"""Caches small enough to see them overflow: 16 and 128 lines of 64 bytes."""

ACCESSES = 100_000
"""Accesses that are recorded at most."""


@dataclass(frozen=True, kw_only=True)
class LineRecording:
    """Every load and store of a loop nest, in order, and what the caches did about it.

    Attributes
    ----------
    gemm, loop
        The matmul; the loops, one of :data:`LOOPS`.
    caches
        From L1 toward memory.
    lines
        Operand -> (rows, cols) number of the line in which each element lies, counted from 0 over all three.
    operand, element, is_write
        (accesses,) index into :data:`OPERANDS`; row * columns + column; whether it stores.
    level
        (accesses,) which level had the line: 0 is L1, ``len(caches)`` main memory.
    left
        (accesses, levels) line that left each level for it, or -1.
    counts
        What the caches counted.
    """

    gemm: Gemm
    loop: str
    caches: tuple[Cache, ...]
    lines: Mapping[str, np.ndarray]
    operand: np.ndarray
    element: np.ndarray
    is_write: np.ndarray
    level: np.ndarray
    left: np.ndarray
    counts: CacheCounts


def record_lines(gemm: Gemm, loop: str = "naive", caches: Sequence[Cache] = TEACHING) -> LineRecording:
    """Send a loop nest through caches that are cold at first, and keep what each access met.

    Parameters
    ----------
    gemm
        One matmul; its operands lie row by row, each on a page of its own, as numbers of its lhs type.
    loop
        ``naive`` (i, j, k), ``reordered`` (i, k, j) or ``blocked``.
    caches
        From L1 toward memory.

    Raises
    ------
    SystolicError
        For loops that there are not; for a batch; for more than :data:`ACCESSES` accesses.
    """
    raise_if_any(choice_problem("loop", loop, tuple(LOOPS)))
    size = max(1, DTYPES[gemm.dtype].bits // 8)
    where = Matrices.row_major(gemm.m, gemm.n, gemm.k, size=size)
    about = 3 * gemm.macs
    if gemm.batch > 1 or about > ACCESSES:
        raise SystolicError(
            f"a matmul whose lines are drawn must have at most {ACCESSES:,} accesses and no batch, got "
            f"{about:,} and batch {gemm.batch}; take a smaller M,N,K such as 24,24,24"
        )
    chunks = [tuple(part.copy() for part in chunk) for chunk in LOOPS[loop](where).chunks()]
    addresses, sizes, kinds = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
    shift = caches[0].line_bytes.bit_length() - 1
    held = CacheHierarchy(caches)
    level, left = np.zeros(len(addresses), np.int64), np.full((len(addresses), len(caches)), -1, np.int64)
    before = [held.lines(at) for at in range(len(caches))]
    for i, address in enumerate(addresses):
        line = address >> shift
        level[i] = next((at for at, has in enumerate(before) if _holds(has, line)), len(caches))
        held.access(addresses[i : i + 1], sizes[i : i + 1], kinds[i : i + 1])
        for at in range(min(int(level[i]) + 1, len(caches))):
            after = held.lines(at)
            gone = np.setdiff1d(before[at], after, assume_unique=True)
            if gone.size:
                left[i, at] = gone[0]
            before[at] = after
    operand, element = _places(where, addresses)
    numbers = np.unique(np.concatenate([_lines_of(where, name, shift).ravel() for name in OPERANDS]))
    return LineRecording(
        gemm=gemm,
        loop=loop,
        caches=tuple(caches),
        lines={name: np.searchsorted(numbers, _lines_of(where, name, shift)) for name in OPERANDS},
        operand=operand,
        element=element,
        is_write=kinds == WRITE,
        level=level,
        left=np.where(left >= 0, np.searchsorted(numbers, left), -1),
        counts=held.counts,
    )


def _holds(lines: np.ndarray, line: int) -> bool:
    at = int(np.searchsorted(lines, line))
    return at < len(lines) and int(lines[at]) == line


def _shape(where: Matrices, operand: str) -> tuple[int, int]:
    return {"lhs": (where.m, where.k), "rhs": (where.k, where.n), "out": (where.m, where.n)}[operand]


def _lines_of(where: Matrices, operand: str, shift: int) -> np.ndarray:
    """(rows, cols) line of each element."""
    rows, cols = _shape(where, operand)
    base, per_row, per_col = {"lhs": where.lhs, "rhs": where.rhs, "out": where.out}[operand]
    addresses = base + np.arange(rows)[:, None] * per_row + np.arange(cols) * per_col
    return np.asarray(addresses >> shift)


def _places(where: Matrices, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which operand each address lies in, and its element."""
    starts = np.array([where.lhs[0], where.rhs[0], where.out[0]])
    operand = np.searchsorted(starts, addresses, side="right") - 1
    return operand, (addresses - starts[operand]) // where.size
