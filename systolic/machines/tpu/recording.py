"""One array of a TPU recorded clock by clock, from the stepped engine's own registers and words."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...blocks.array import AXES
from ...blocks.stepping import Clocked, SteppedArray
from ...chips.tpu import TpuChip
from ...dtypes import DTYPES
from ...errors import SystolicError
from ...kernels.stationary import REAL, TOKEN
from ...mapping.slices import array_slices
from ...recorded import ArrayRecord, Grid, Leaving
from .arithmetic import entering_parts
from .clocked import Core, Piece
from .lowering import GemmStep, precision
from .stepped import add_sums, array_of

CELLS = 16
"""Cells along each side of an array whose single PEs are too many to draw."""


def record_array(
    step: GemmStep,
    chip: TpuChip,
    lhs: np.ndarray,
    rhs: np.ndarray,
    *,
    cycles: int | None = None,
    by_cell: bool = False,
) -> ArrayRecord:
    """The first array of the chip's busiest core, working on its share of lhs @ rhs.

    Parameters
    ----------
    step, chip
        A matmul from :func:`systolic.machines.tpu.lower`, and the chip it was lowered for.
    lhs, rhs
        Operands (batch, m, k) and (batch, k, n): float32, or integers.
    cycles
        Record so many cycles from when the array begins to work, and those before; None: all.
    by_cell
        Count by cells of PEs (:class:`~systolic.recorded.Grid`) instead of keeping the registers of each.

    Raises
    ------
    SystolicError
        For a matmul that is timed in closed form only.
    """
    if step.mode == "bound":
        raise SystolicError("mode must be tiled or stepped to record an array, got bound")
    problem, plan = step.mapped.split.busiest, step.mapped.plan
    core = Core(problem, plan)
    total = step.mapped.cost.cycles
    # A tile is on the array once its weights are; the record begins with one.
    shown = total if cycles is None else min(first_work(step) + max(cycles, problem.timing.load + 1), total)
    core.run(until=shown)
    lhs, rhs = lhs[: problem.batch, : problem.m], rhs[: problem.batch, :, : problem.n]
    a, b = entering_parts(step, lhs, rhs)
    array = array_of(step, chip, core, 0, lambda i: ([part[i] for part in a], [part[i] for part in b]))
    clocks = min(shown, array.clocks)
    recorder = _Recorder(step, array, core, shown, by_cell)
    for clock in array.clocked(clocks):
        recorder.take(clock)
    if not by_cell:
        named = [[_numbered(part[0])] * len(parts) for part, parts in ((a[0], a), (b[0], b))]
        twin = array_of(step, chip, core, 0, lambda _: (named[0], named[1]))
        recorder.name(twin.clocked(clocks))
    return recorder.record(chip, a[0], b[0], total)


def first_work(step: GemmStep) -> int:
    """Cycles of one occurrence until the array begins to work: it waits for its first words."""
    parts = array_slices(step.mapped.split.busiest, step.mapped.plan)
    return next(part.start for part in parts if not part.cause.startswith("stall"))


def _numbered(operand: np.ndarray) -> np.ndarray:
    """An operand whose elements are their own places: the array moves words whatever they say.

    Run through the same array, they tell which element each register holds.
    """
    return np.arange(operand.size, dtype=np.int64).reshape(operand.shape)


class _Place(NamedTuple):
    """Where in C (batch, m, n) a sum on its way out of a column belongs."""

    batch: int
    row: int
    col: int


class _Recorder:
    """Takes the clocks of an array one by one."""

    def __init__(self, step: GemmStep, array: SteppedArray, core: Core, cycles: int, by_cell: bool) -> None:
        self.step, self.array, self.core, self.cycles = step, array, core, cycles
        problem = core.problem
        self.states = [next(iter(array.states()))]
        self.words: dict[str, list[np.ndarray]] = {name: [] for name in _LOGGED}
        self.named: dict[str, list[np.ndarray]] = {}
        self.busy = [0]
        self.macs = [0]
        self.leaving: list[Leaving] = []
        self.side = -(-max(array.array.rows, array.array.cols) // CELLS) if by_cell else 0
        self.cells = [self._cells(self.states[0])] if by_cell else []
        number = np.float32 if array.is_float else np.int64
        self.out = np.zeros((problem.batch, problem.m, problem.n), number)
        self.waiting = _columns(core, array, step.dataflow)

    def take(self, clock: Clocked) -> None:
        """Note what a clock left in the registers, and what left the array."""
        for name, words in self.words.items():
            words.append(getattr(clock, name))
        self.busy.append(int(_multiplying(clock.state).any(axis=0).sum()))
        self.macs.append(clock.macs)
        if self.cells:
            self.cells.append(self._cells(clock.state))
        else:
            self.states.append(clock.state)
        self._leave(clock)

    def _leave(self, clock: Clocked) -> None:
        """Hand the sums that the bottom shows to the accumulators; no two of a clock go to one place."""
        mark = 1 if self.array.output_stationary else TOKEN
        shown = list(zip(*np.nonzero(clock.bottom_flags & mark), strict=True))
        places = [
            self.waiting[lane][col].popleft() if self.waiting[lane][col] else None for lane, col in shown
        ]
        left = [(*place, *at) for place, at in zip(places, shown, strict=True) if place is not None]
        if not left:
            return
        batch, row, col, lane, column = (np.array(index) for index in zip(*left, strict=True))
        values, sums = clock.bottom[lane, column], self.out[batch, row, col]
        add_sums(sums, values, self.step)
        self.out[batch, row, col] = sums
        cycle = len(self.macs) - 1
        self.leaving += map(
            Leaving,
            [cycle] * len(left),
            batch.tolist(),
            row.tolist(),
            col.tolist(),
            values.tolist(),
            sums.tolist(),
        )

    def _cells(self, state: dict[str, np.ndarray]) -> np.ndarray:
        """(streaming, held, busy) PEs in each cell."""
        held = state["weight_flags"] & REAL if self.array.output_stationary else state["weight_real"][None]
        grids = [state["valid"].any(0), (held != 0).any(0), _multiplying(state).any(0)]
        return np.stack([_by_cell(grid, self.side) for grid in grids])

    def record(self, chip: TpuChip, lhs: np.ndarray, rhs: np.ndarray, total: int) -> ArrayRecord:
        """All of it."""
        last = len(self.macs) - 1
        states = self.states + [self.states[-1]] * (self.cycles - last if not self.cells else 0)
        cells = np.array(self.cells + self.cells[-1:] * (self.cycles - last)) if self.cells else None
        formats = self.step.formats
        found = precision(self.step, chip)
        exact = not formats.is_float
        return ArrayRecord(
            rows=chip.array.rows,
            cols=chip.array.cols,
            lanes=self.array.lanes,
            dataflow=self.step.dataflow,
            dtype=formats.multiplied,
            acc=formats.acc,
            mac_latency=chip.array.mac_latency,
            cycles=self.cycles,
            total_cycles=total,
            registers={} if self.cells else {n: np.stack([s[n] for s in states]) for n in states[0]},
            grid=None if cells is None else Grid(self.side, cells[:, 0], cells[:, 1], cells[:, 2]),
            origins=self._origins(),
            **{name: self._logged(words) for name, words in self.words.items()},
            leaving=tuple(self.leaving),
            causes=self._causes(),
            macs=np.pad(np.array(self.macs), (0, self.cycles - last), mode="edge"),
            busy=np.pad(np.array(self.busy), (0, self.cycles - last)),
            entered=self._entered(),
            lhs=lhs,
            rhs=rhs,
            roundings=0 if exact else found.roundings if formats.passes == 1 else None,
            unit_roundoff=0.0 if exact else DTYPES[formats.acc].unit_roundoff,
        )

    def name(self, clocks: Iterator[Clocked]) -> None:
        """Take the clocks of the twin whose words are their own places."""
        self.named = {name: [] for name in ("left", "top", "act", "weight")}
        for clock in clocks:
            for name, words in self.named.items():
                words.append(getattr(clock, name) if name in _LOGGED else clock.state[name])

    def _origins(self) -> dict[str, np.ndarray]:
        origins = {}
        for name, words in self.named.items():
            log = self._logged(words)
            if name not in _LOGGED:  # registers begin with reset
                log = np.concatenate([np.zeros_like(log[:1]), log])
            origins[name] = log.astype(np.int32)
        return origins

    def _logged(self, words: Sequence[np.ndarray]) -> np.ndarray:
        """Words of each clock; nothing moves after the last one."""
        log = np.stack(words)
        around = [(0, self.cycles - len(log)), *[(0, 0)] * (log.ndim - 1)]
        return np.pad(log, around)

    def _causes(self) -> tuple[str, ...]:
        causes: list[str] = []
        for part in array_slices(self.core.problem, self.core.plan):
            causes += [part.cause] * (part.stop - part.start)
            if len(causes) >= self.cycles:
                break
        return tuple(causes[: self.cycles])

    def _entered(self) -> dict[str, np.ndarray]:
        """Bytes of each operand that have entered, or left, the array."""
        problem = self.core.problem
        sums = np.bincount([event.cycle for event in self.leaving], minlength=self.cycles + 1)
        entered = {
            problem.streaming: self._words_in("left_flags"),
            problem.stationary: self._words_in("top_flags"),
            "psum": np.cumsum(sums),
        }
        return {n: (words * problem.operands[n].bits + 7) // 8 for n, words in entered.items()}

    def _words_in(self, name: str) -> np.ndarray:
        counts = (self._logged(self.words[name]) & REAL != 0).sum(axis=(1, 2))
        return np.concatenate([[0], np.cumsum(counts)])


_LOGGED = ("left", "left_flags", "top", "top_flags", "bottom", "bottom_flags")


def _multiplying(state: dict[str, np.ndarray]) -> np.ndarray:
    """Whether each PE, on each lane, holds two operands: (lanes, rows, cols)."""
    if "weight_flags" in state:
        return np.asarray(state["valid"] & (state["weight_flags"] & REAL != 0))
    return np.asarray(state["valid"] & (state["weight_real"] != 0))


def _by_cell(grid: np.ndarray, side: int) -> np.ndarray:
    """Sums over cells of `side` x `side`."""
    rows, cols = (-(-length // side) for length in grid.shape)
    padded = np.pad(grid, ((0, rows * side - grid.shape[0]), (0, cols * side - grid.shape[1])))
    return np.asarray(padded.reshape(rows, side, cols, side).sum(axis=(1, 3)))


def _columns(core: Core, array: SteppedArray, dataflow: str) -> list[list[deque[_Place | None]]]:
    """For each lane and column, what leaves it in which order; None where padding does."""
    lanes = 1 if dataflow == "os" else array.lanes
    columns: list[list[deque[_Place | None]]] = [
        [deque() for _ in range(array.array.cols)] for _ in range(lanes)
    ]
    pieces: Sequence[tuple[int, Piece]] = core.feeders[0].pieces[: len(array.tiles)]
    for block, piece in pieces:
        if dataflow == "os" and not piece.last:
            continue
        for lane, col, place in _leaving_order(piece, array, dataflow, core.batch_of[block]):
            columns[lane][col].append(place)
    return columns


def _leaving_order(
    piece: Piece, array: SteppedArray, dataflow: str, batch: int
) -> Iterator[tuple[int, int, _Place | None]]:
    """(lane, column, place) of each sum of a piece as it leaves."""
    axes = AXES[dataflow]
    rows, cols, stream = piece.rows, piece.cols, piece.stream
    lanes = 1 if dataflow == "os" else array.lanes
    length = array.array.rows if dataflow == "os" else stream[1] - stream[0]
    for step in range(-(-length // lanes)):
        for lane in range(lanes):
            at = step * lanes + lane
            along = rows[0] + length - 1 - at if dataflow == "os" else stream[0] + at
            end = rows[1] if dataflow == "os" else stream[1]
            for col in range(array.array.cols):
                across = cols[0] + col
                if along >= end or across >= cols[1]:
                    yield lane, col, None
                    continue
                place = {axes.cols: across, axes.rows if dataflow == "os" else axes.stream: along}
                yield lane, col, _Place(batch, place["m"], place["n"])
