"""What a run leaves behind for pictures and traces: plain facts with their times, and nothing that draws.

Machines record, viewers read. Times are elapsed cycles since the start of the run: something that takes
cycle 1 alone starts at 0 and stops at 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Something that a unit did, or waited for, without a break.

    Attributes
    ----------
    unit
        ``"array"``, ``"vector"``, or the memory level whose port it was.
    name
        What it was, as ``"rhs block 3"``.
    start, stop
        Elapsed cycles; ``start <= stop``.
    cause
        Cause of the cycles, as in :data:`systolic.metrics.CAUSES`; ``""`` on a port. ``stall_dram`` is all
        waiting for memory, latency included.
    operand, bytes
        What a port moved.
    write
        Whether it moved toward memory.
    """

    unit: str
    name: str
    start: int
    stop: int
    cause: str = ""
    operand: str = ""
    bytes: int = 0
    write: bool = False

    def later(self, cycles: int) -> Slice:
        """The same, `cycles` later."""
        return Slice(
            unit=self.unit,
            name=self.name,
            start=self.start + cycles,
            stop=self.stop + cycles,
            cause=self.cause,
            operand=self.operand,
            bytes=self.bytes,
            write=self.write,
        )


@dataclass(frozen=True, slots=True)
class Leaving:
    """A sum that left the array in `cycle`, and what became of its place in the result by that.

    `batch`, `row` and `col` are its place in C; `sum` is what the accumulators hold there after they have
    taken `value`.
    """

    cycle: int
    batch: int
    row: int
    col: int
    value: float
    sum: float


@dataclass(frozen=True, slots=True)
class Grid:
    """What the PEs of each cell of an array did, where single PEs would be too many: (cycles + 1, …) counts.

    A cell is `side` x `side` PEs. `streaming` PEs hold an operand that moves, `held` a live weight (output
    stationary: a word from above), `busy` multiply.
    """

    side: int
    streaming: np.ndarray
    held: np.ndarray
    busy: np.ndarray


@dataclass(frozen=True, kw_only=True)
class WarpRecord:
    """One SM of a GPU, cycle by cycle: what each of its warps does, or waits for.

    Attributes
    ----------
    cycles
        Cycles stepped.
    tiles, trips
        Tiles that each resident block's place works on, one after another; trips of the loop of each, which
        are fewer than the kernel's where what they show repeats.
    resident, sub_cores
        Thread blocks on the SM at once; schedulers, which have the warps by turns.
    warps
        Warps of a block.
    instructions
        Mnemonic of each instruction of the kernel.
    warp, block
        (events,) place of the warp on the SM; number of its thread block.
    instruction, reason
        (events,) which instruction it issues or waits to issue; index into :data:`systolic.metrics.STALLS`.
    start, stop
        (events,) elapsed cycles. Events of a warp of one block follow one another without gaps.
    """

    cycles: int
    tiles: int
    trips: int
    resident: int
    sub_cores: int
    warps: int
    instructions: tuple[str, ...]
    warp: np.ndarray
    block: np.ndarray
    instruction: np.ndarray
    reason: np.ndarray
    start: np.ndarray
    stop: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockWaves:
    """Waves of thread blocks over a GPU's SMs that are alike.

    Attributes
    ----------
    start, cycles
        Elapsed cycles when the first of them begins; cycles of each.
    rounds
        How many follow one another.
    sms, resident
        SMs at work; thread blocks on each.
    """

    start: float
    cycles: float
    rounds: int
    sms: int
    resident: int


@dataclass(frozen=True, kw_only=True)
class ArrayRecord:
    """One array, clock by clock: index c is after clock edge c, index 0 is reset.

    Attributes
    ----------
    rows, cols, lanes, dataflow, dtype, acc
        The array: PEs; rows of the streamed operand per cycle; ``ws``, ``os`` or ``is``; number formats of
        the multipliers and of the sums.
    mac_latency
        Cycles from the operands in a PE's registers to the sum in its register.
    cycles, total_cycles
        Cycles recorded; cycles of the whole run.
    registers
        Name -> (cycles + 1, …) as :meth:`systolic.blocks.stepping.SteppedArray.state_at` returns them; empty
        where `grid` stands in for them.
    grid
        Counts by cell, or None.
    origins
        ``act``, ``weight``, ``left``, ``top`` -> for each word in these registers, or at these edges, which
        element of its operand it is: row * columns + column. Meaningless where there is no operand.
    left, left_flags
        Words that enter on the left in clock c, at index c - 1: (clocks, lanes, rows).
    top, top_flags
        Words that enter above: (clocks, ways, cols).
    bottom, bottom_flags
        Words that the bottom shows after clock c, at index c - 1: (clocks, lanes, cols).
    leaving
        The sums that left, in order.
    causes
        Cause of each cycle, at index c - 1.
    macs, busy
        (cycles + 1,) MACs on operands so far; PEs that multiplied in this cycle.
    entered
        Operand -> (cycles + 1,) bytes of it that have entered the array so far.
    lhs, rhs
        The operands of this array's core as they enter the multipliers: (batch, m, k) and (batch, k, n).
    roundings, unit_roundoff
        n and u of the bound gamma_n of a sum (0 and 0 where sums are exact); n is None where operands enter
        in parts, as the sum of their products is no product of theirs.
    """

    rows: int
    cols: int
    lanes: int
    dataflow: str
    dtype: str
    acc: str
    mac_latency: int
    cycles: int
    total_cycles: int
    registers: Mapping[str, np.ndarray]
    grid: Grid | None
    origins: Mapping[str, np.ndarray]
    left: np.ndarray
    left_flags: np.ndarray
    top: np.ndarray
    top_flags: np.ndarray
    bottom: np.ndarray
    bottom_flags: np.ndarray
    leaving: Sequence[Leaving]
    causes: Sequence[str]
    macs: np.ndarray
    busy: np.ndarray
    entered: Mapping[str, np.ndarray]
    lhs: np.ndarray
    rhs: np.ndarray
    roundings: int | None
    unit_roundoff: float

    @property
    def is_whole(self) -> bool:
        """Whether every cycle of the run was recorded."""
        return self.cycles == self.total_cycles
