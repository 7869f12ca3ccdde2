"""The problem that one core gets, and one way of cutting it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..blocks.array import AXES, Timing
from ..blocks.dram_port import DramPort
from .banks import Banks, cycles_of_step, streams

DIMS = ("m", "n", "k")
ORDERS = ("mnk", "mkn", "nmk", "nkm", "kmn", "knm")
OPERAND_DIMS: Mapping[str, tuple[str, str]] = {"lhs": ("m", "k"), "rhs": ("k", "n"), "out": ("m", "n")}


_SMALL_NUMERATOR = 2**20
"""Up to this, cycles times bytes of any one block (less than 2**42) fit 64 bits."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A memory port as one core sees it.

    A transfer of b bytes takes ceil(b * cycles_num / bytes_den) cycles: clock over bandwidth, times the
    cores that share the port, as a reduced fraction; (0, 1) where bandwidth is unlimited. Where there is a
    `dram`, a block takes at least as long as the DRAM does.
    """

    level: str
    cycles_num: int
    bytes_den: int
    latency: int
    burst: int
    dram: DramPort | None = None

    def cycles(self, num_bytes: Any) -> Any:
        """Cycles of a transfer of `num_bytes` (an int or an integer array), rounded up."""
        if isinstance(num_bytes, np.ndarray) and self.cycles_num > _SMALL_NUMERATOR:
            exact = -(-num_bytes.astype(object) * self.cycles_num // self.bytes_den)  # these do not wrap
            return exact.astype(np.int64)
        return -(-num_bytes * self.cycles_num // self.bytes_den)


@dataclass(frozen=True, kw_only=True)
class Operand:
    """One of lhs, rhs, out (finished) or psum (unfinished sums): its format and where it lies.

    `place` is None where the operand stays in the core's own on-chip memory and needs no transfer.
    `transposed` says that memory holds it column by column; `stored` that its blocks are written as well.
    """

    bits: int
    place: Place | None
    transposed: bool = False
    stored: bool = False

    def packed_bytes(self, rows: Any, cols: Any) -> Any:
        """Bytes of a (rows, cols) block, packed."""
        return (rows * cols * self.bits + 7) // 8

    def moved_bytes(self, rows: Any, cols: Any, full_rows: int, full_cols: int) -> Any:
        """Bytes that cross the port for a (rows, cols) block of a (full_rows, full_cols) matrix.

        Each contiguous piece is rounded up to the port's burst; whole lines are one piece.
        """
        if self.transposed:
            rows, cols, full_cols = cols, rows, full_rows
        burst = self.place.burst if self.place else 1
        whole = cols == full_cols
        line = (cols * self.bits + 7) // 8
        together = _round_up((rows * cols * self.bits + 7) // 8, burst)
        return whole * together + (1 - whole) * rows * _round_up(line, burst)

    def cycles(self, num_bytes: Any) -> Any:
        """Cycles of a transfer of `num_bytes` at the port's bandwidth; 0 where nothing needs to move."""
        return self.place.cycles(num_bytes) if self.place else 0 * num_bytes

    def moved_cycles(self, rows: Any, cols: Any, full_rows: int, full_cols: int) -> Any:
        """Cycles of the port for what :meth:`moved_bytes` counts."""
        cycles = self.cycles(self.moved_bytes(rows, cols, full_rows, full_cols))
        if self.place is None or self.place.dram is None:
            return cycles
        if self.transposed:
            rows, cols, full_cols = cols, rows, full_rows
        dram = self.place.dram
        whole = dram.stream_cycles((rows * cols * self.bits + 7) // 8, write=self.stored)
        line, pitch = (cols * self.bits + 7) // 8, (full_cols * self.bits + 7) // 8
        pieces = dram.block_cycles(rows, line, pitch, write=self.stored)
        return np.maximum(cycles, np.where(cols == full_cols, whole, pieces))


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What one core has to do, and with what.

    Attributes
    ----------
    m, n, k, batch
        Shape of the core's share.
    dataflow, timing, lanes
        How its arrays work; rows of the streamed operand per cycle.
    passes
        Products of operand parts that make up a product. Weight and input stationary each array tile runs
        so often; output stationary each element of k streams so often.
    mxus
        Arrays of the core.
    operands
        ``lhs``, ``rhs``, ``out``, ``psum``.
    buffers
        Of each operand's block: 2, or 1 where nothing is loaded behind a running block.
    onchip_bytes
        Bytes of the core's on-chip memory left for blocks; None where unlimited.
    block_tiles
        Array tiles of the stationary operand that one block may hold; None where unlimited.
    acc_bytes
        Bytes of all accumulators of the core; None where sums lie in the on-chip memory.
    port
        The on-chip memory's port to the arrays.
    banks
        Its banks; None where no two words get into one another's way.
    """

    m: int
    n: int
    k: int
    batch: int
    dataflow: str
    timing: Timing
    lanes: int
    mxus: int
    operands: Mapping[str, Operand]
    buffers: int
    onchip_bytes: int | None
    acc_bytes: int | None
    port: Place
    block_tiles: int | None = None
    passes: int = 1
    banks: Banks | None = None

    def size(self, dim: str) -> int:
        """Length of one dimension."""
        return int(getattr(self, dim))

    @property
    def stationary(self) -> str:
        """The operand that is loaded into the array first; for output stationary, the one from above."""
        return "lhs" if self.dataflow == "is" else "rhs"

    @property
    def streaming(self) -> str:
        """The operand that streams through the array from the left."""
        return "rhs" if self.dataflow == "is" else "lhs"


@dataclass(frozen=True)
class Share:
    """Equal parts of a matmul: what each of `cores` cores gets, or arrays where they work apart."""

    problem: Problem
    cores: int


@dataclass(frozen=True, kw_only=True)
class CoreSplit:
    """A matmul over cores, busiest share first.

    `dim` says along what it is cut: ``batch``, ``m``, ``n``, or ``""`` for one core; `apart` how many arrays
    of a core have parts of their own, 1 where a core works on one part.
    """

    dim: str
    shares: tuple[Share, ...]
    apart: int = 1

    @property
    def busiest(self) -> Problem:
        """The share that takes longest."""
        return self.shares[0].problem


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One way to cut a problem.

    Attributes
    ----------
    tile
        Sides of the on-chip block: dimension -> elements.
    order
        Loop order over blocks, outermost first.
    split
        Arrays of a core side by side: (along the columns, along the streamed dimension; for output
        stationary along the rows).
    """

    tile: Mapping[str, int]
    order: str
    split: tuple[int, int]

    def blocks(self, problem: Problem, dim: str) -> int:
        """Blocks along one dimension."""
        return -(-problem.size(dim) // self.tile[dim])


def step_cycles(problem: Problem, split: tuple[int, int], tile: Mapping[str, Any]) -> Any:
    """Cycles of a step of the stream: a hop, or what the banks need where that is more.

    `tile` maps each dimension to the sides of the plans' blocks (ints or integer arrays).
    """
    hop = problem.timing.interval
    if problem.banks is None:
        return hop
    bits = {name: operand.bits for name, operand in problem.operands.items()}
    sides = (problem.timing.rows, problem.timing.cols)
    entering = streams(problem.dataflow, problem.banks, bits, *sides, problem.lanes, problem.passes)
    cycles = cycles_of_step(problem.dataflow, problem.banks, entering, tile, split[1])
    return cycles + (hop > cycles) * (hop - cycles)


def array_work(
    problem: Problem, split: tuple[int, int], size: Mapping[str, Any], step: Any = None
) -> tuple[Any, Any, Any]:
    """What the busiest array does for one block: (tiles, cycles streamed, cycles of the on-chip port).

    Both cycles are per tile. `size` maps each dimension to the block's sides (ints or integer arrays). A step
    of the stream takes `step` cycles, a hop where it is not given.
    """
    axes = AXES[problem.dataflow]
    timing = problem.timing
    across, along = split
    row_tiles = -(-size[axes.rows] // timing.rows)
    col_tiles = -(-size[axes.cols] // timing.cols)
    col_tiles = -(-col_tiles // across)
    if problem.dataflow == "os":
        row_tiles = -(-row_tiles // along)
        streamed_rows = problem.passes * size[axes.stream]
    else:
        row_tiles = problem.passes * row_tiles
        streamed_rows = -(-size[axes.stream] // along)
    streamed = (timing.interval if step is None else step) * -(-streamed_rows // problem.lanes)
    port = problem.port.cycles(_fed_bytes(problem, split, streamed_rows))
    return row_tiles * col_tiles, streamed, port


def _fed_bytes(problem: Problem, split: tuple[int, int], streamed_rows: Any) -> Any:
    """Bytes that the on-chip port hands to all arrays for one full tile each."""
    timing, ops = problem.timing, problem.operands
    left, top = ops[problem.streaming].bits, ops[problem.stationary].bits
    if problem.dataflow == "os":
        bits = streamed_rows * (timing.rows * left + timing.cols * top)
    else:
        bits = streamed_rows * timing.rows * left + timing.rows * timing.cols * top
    return split[0] * split[1] * ((bits + 7) // 8)


def _round_up(value: Any, step: int) -> Any:
    return -(-value // step) * step
