"""What the warps of one SM do in each cycle of a kernel, and how its blocks fill the SMs, for pictures."""

from __future__ import annotations

import numpy as np

from ...chips.gpu import GpuChip
from ...kernels.simt import layout as L
from ...recorded import BlockWaves, WarpRecord
from .catalogue import alike, program_of
from .lowering import problem_of
from .regime import TRIPS, step_sm
from .steps import GemmStep
from .timing import waves

EVENTS = 60_000
"""Events that are kept of one SM: of kernels with more, fewer trips of the loop are shown."""

TILES = 2
"""Tiles after one another, so that one sees the next block begin."""

PIPES = {L.VECTOR: "ffma", L.SPECIAL: "mufu", L.TENSOR: "mma", L.ADDRESS: "iadd"}

MNEMONICS = {
    L.SHARED: "ld.shared",
    L.LOAD: "ld.global",
    L.STORE: "st.global",
    L.COPY: "cp.async",
    L.COMMIT: "cp.async.commit",
    L.WAIT_COPY: "cp.async.wait",
    L.BARRIER: "bar.sync",
    L.ASYNC_MATH: "mma.async",
    L.COMMIT_MATH: "mma.commit",
    L.WAIT_MATH: "mma.wait",
    L.BULK: "cp.async.bulk",
    L.WAIT_FULL: "mbarrier.wait full",
    L.RELEASE: "mbarrier.arrive empty",
    L.WAIT_EMPTY: "mbarrier.wait empty",
    L.LOOP: "bra loop",
    L.EXIT: "exit",
    L.UNLESS_LAST: "bra unless last",
    L.SIGNAL: "mbarrier.arrive sums",
    L.AWAIT: "mbarrier.wait sums",
    L.LOOP_TILES: "bra next tile",
    L.WAIT_STORED: "mbarrier.wait stored",
}
"""Instruction of the simulated kernels -> about what PTX calls it."""


def record_warps(step: GemmStep, chip: GpuChip) -> WarpRecord:
    """Step an SM of the kernel's first wave once more and keep what each warp does.

    The share of memory that the SM has is the wave's; long loops are cut to the trips from which the report's
    time comes.
    """
    problem = problem_of(step.op, step.formats)
    like = waves(problem, step.plan, chip)[0]
    trips = min(TRIPS, like.trips)
    while True:
        events = np.zeros((EVENTS, L.EVENT_COLUMNS), np.int64)
        run = step_sm(alike(problem), step.plan, chip, like.regime, trips, TILES, events)
        if trips == 1 or not events[-1, L.EVENT_UNTIL]:
            break
        trips = -(-trips // 2)
    program = program_of(step.plan, problem, chip)
    kept = _joined(events[events[:, L.EVENT_UNTIL] > 0])
    return WarpRecord(
        cycles=run.cycles,
        tiles=TILES,
        trips=trips,
        resident=like.regime.resident,
        sub_cores=chip.sm.sub_cores,
        warps=program.warps,
        instructions=tuple(_mnemonic(row) for row in program.code.tolist()),
        warp=kept[:, L.EVENT_WARP],
        block=kept[:, L.EVENT_BLOCK],
        instruction=kept[:, L.EVENT_PC],
        reason=kept[:, L.EVENT_REASON],
        start=kept[:, L.EVENT_FROM],
        stop=kept[:, L.EVENT_UNTIL],
    )


def block_waves(step: GemmStep, chip: GpuChip) -> tuple[BlockWaves, ...]:
    """How the blocks of a kernel fill the SMs, as its time was composed."""
    found, at = [], 0.0
    for like in waves(problem_of(step.op, step.formats), step.plan, chip):
        wide = like.regime
        parts = [(1, like.first)] + ([(like.rounds - 1, like.again)] if like.rounds > 1 else [])
        for rounds, cycles in parts:
            found.append(
                BlockWaves(
                    start=at, cycles=float(cycles), rounds=rounds, sms=wide.active, resident=wide.resident
                )
            )
            at += rounds * float(cycles)
    return tuple(found)


def _joined(events: np.ndarray) -> np.ndarray:
    """Events by warp and time, those that go on as they were in one."""
    events = events[np.lexsort((events[:, L.EVENT_FROM], events[:, L.EVENT_WARP]))]
    same = [L.EVENT_WARP, L.EVENT_BLOCK, L.EVENT_PC, L.EVENT_REASON]
    goes_on = (events[1:, same] == events[:-1, same]).all(axis=1)
    first = np.concatenate([[True], ~goes_on])
    joined = events[first].copy()
    joined[:, L.EVENT_UNTIL] = np.concatenate(
        [events[:-1][first[1:], L.EVENT_UNTIL], events[-1:, L.EVENT_UNTIL]]
    )
    return np.asarray(joined)


def _mnemonic(row: list[int]) -> str:
    return PIPES[row[L.PIPE]] if row[L.OP] == L.MATH else MNEMONICS[row[L.OP]]
