"""Every thread block of a kernel's grid stepped, on all SMs and with L2 as a cache.

A persistent kernel starts a block for each of its tiles here, which costs it the overlap of one tile's
stores with the next one's loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ...chips.gpu import GpuChip
from ...errors import SystolicError
from ...kernels.simt import layout as L
from ...metrics import STALLS
from .catalogue import program_of, resident
from .plan import Plan, Problem
from .program import OPERANDS
from .regime import Regime, settings_of
from .tiles import pitch, step_bytes, tile_lines
from .timing import COUNTERS, KernelTiming, reduction_cycles, tile_cycles, time_kernel

APART = 1 << 40
"""Bytes between the places of two operands."""


@dataclass(frozen=True)
class GridRun:
    """What stepping the whole grid showed.

    Attributes
    ----------
    cycles
        Until the last store has left.
    tally
        See the layout of the kernels.
    """

    cycles: int
    tally: np.ndarray


@lru_cache(maxsize=256)
def stepped_grid(problem: Problem, plan: Plan, chip: GpuChip, regime: Regime) -> GridRun:
    """Step all blocks of a kernel.

    Parameters
    ----------
    regime
        What counts; its blocks of an SM and its shares of hits are what the grid makes of them.
    """
    from ...kernels.simt.step import step_sms

    program = program_of(plan, problem, chip, exact=True)
    bases, trips = _blocks(problem, plan)
    settings = settings_of(chip, program, regime, int(trips[0]))
    l2 = chip.memory["l2"]
    settings[L.STEPPED_L2] = 1
    settings[L.L2_WAYS], settings[L.L2_SETS] = l2.ways, max(1, l2.bytes // (l2.line_bytes * l2.ways))
    tally = np.zeros(L.READ + 2 * len(OPERANDS), np.int64)
    cycles = step_sms(
        program.code,
        program.accesses,
        program.offsets,
        program.starts,
        program.shifts,
        bases,
        trips,
        settings,
        np.full(len(OPERANDS), L.MILLI, np.int64),
        min(chip.sms, len(trips)),
        tally,
        np.zeros((len(trips), 2), np.int64),
    )
    return GridRun(int(cycles), tally)


def time_grid(problem: Problem, plan: Plan, chip: GpuChip) -> KernelTiming:
    """Cycles, causes, stalls, counts and DRAM bytes of one kernel, by stepping all of its grid.

    What a cause takes is what vanishes with it, as in :func:`~systolic.machines.gpu.timing.time_kernel`. What
    L2 still holds of the results at the end leaves it while main memory has nothing else to do, at the latest
    before the kernel counts as done.

    Raises
    ------
    SystolicError
        If operands are said to lie in L2.
    """
    if problem.lhs_in_l2 or problem.rhs_in_l2 or problem.out_in_l2:
        raise SystolicError(
            "mode stepped begins with an empty L2: lhs_at, rhs_at and out_at must not be 'chip' there; "
            "use mode tiled"
        )
    tiled = time_kernel(problem, plan, chip, "tiled")
    run = _ideal(problem, plan, chip)
    adding = reduction_cycles(problem, plan, chip)
    no_dram = min(run.cycles, _ideal(problem, plan, chip, dram=False).cycles)
    no_onchip = min(no_dram, _ideal(problem, plan, chip, dram=False, onchip=False).cycles)
    prompt = min(no_onchip, _ideal(problem, plan, chip, dram=False, onchip=False, latency=False).cycles)
    work = tile_cycles(problem, plan, chip) * plan.trips(problem)
    busiest = min(prompt, -(-tiled.ctas // chip.sms) * work)
    compute = min(busiest, -(-tiled.ctas * work // chip.sms))
    causes = {
        "compute": compute,
        "tail": busiest - compute,
        "stall_dependency": prompt - busiest + adding,
        "stall_latency": no_onchip - prompt,
        "stall_onchip": no_dram - no_onchip,
        "stall_dram": run.cycles - no_dram,
    }
    read = {name: int(run.tally[L.READ + 2 * i]) for i, name in enumerate(OPERANDS)}
    out = problem.compulsory_bytes[2]
    crossing = chip.memory["dram"].transfer_cycles(read["lhs"] + read["rhs"] + out, chip.clock_hz)
    draining = max(0, crossing - run.cycles)
    causes["stall_dram"] += draining
    cycles = run.cycles + draining + adding
    stalls = {name: int(run.tally[L.STALL + i]) for i, name in enumerate(STALLS)}
    counters = {name: int(run.tally[L.COUNT + index]) for name, index in COUNTERS.items()}
    units = cycles * chip.sms
    counters |= {"warp_cycles": sum(stalls.values()), "unit_cycles": units}
    counters |= {"issue_slots": units * chip.sm.sub_cores, "warp_slots": units * chip.sm.max_warps}
    dram = {name: (read[name], 0) for name in ("lhs", "rhs")} | {"out": (0, out)}
    return replace(
        tiled,
        cycles=cycles,
        causes={cause: amount for cause, amount in causes.items() if amount},
        stalls={name: amount for name, amount in stalls.items() if amount},
        counters=counters,
        bytes={**tiled.bytes, "dram": dram},
    )


def _ideal(problem: Problem, plan: Plan, chip: GpuChip, **counts: bool) -> GridRun:
    """The whole grid where some of what holds it does not count; the queues of L2 and DRAM are the chip's."""
    regime = Regime(resident=resident(plan, problem, chip), active=1, hits=(0, 0), **counts)
    return stepped_grid(problem, plan, chip, regime)


def _blocks(problem: Problem, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """(blocks, operands) addresses, and trips of each block, in the order in which blocks start."""
    trips = plan.trips(problem)
    sizes = [-(-size // problem.batch) for size in problem.compulsory_bytes]
    bases, counts = [], []
    along_m, along_n, _ = plan.blocks(problem)
    for batch in range(problem.batch):
        for part in range(plan.split_k):
            first = part * trips
            left = -(-problem.k // plan.tile[2]) - first
            for row, column in _order(along_m, along_n):
                starts = _starts(problem, plan, row, column, first)
                places = zip(starts, sizes, strict=True)
                bases.append([i * APART + batch * size + at for i, (at, size) in enumerate(places)])
                counts.append(max(1, min(trips, left)))
    return np.array(bases, np.int64), np.array(counts, np.int64)


def _starts(problem: Problem, plan: Plan, row: int, column: int, first: int) -> tuple[int, int, int]:
    """Byte offsets in lhs, rhs and out at which the block of a tile begins."""
    m, n, k = plan.tile
    along = (problem.layout[0] == "t", problem.layout[1] == "n")
    lhs = row * m * (problem.lhs_bits // 8 if along[0] else pitch(problem, "lhs"))
    rhs = column * n * (problem.rhs_bits // 8 if along[1] else pitch(problem, "rhs"))
    out = row * m * pitch(problem, "out") + column * n * problem.out_bits // 8
    lhs += first * step_bytes(problem, "lhs", k) + _part(problem, plan, "lhs", column, plan.cluster[1])
    rhs += first * step_bytes(problem, "rhs", k) + _part(problem, plan, "rhs", row, plan.cluster[0])
    return lhs, rhs, out


def _part(problem: Problem, plan: Plan, operand: str, place: int, sharers: int) -> int:
    """Byte offset of the part of a tile that a block copies for its cluster."""
    lines = tile_lines(problem, operand, plan.tile)[0]
    return place % sharers * -(-lines // sharers) * pitch(problem, operand)


def _order(along_m: int, along_n: int, band: int = 8) -> Iterator[tuple[int, int]]:
    """Tiles in bands of columns, down each band: neighbours in time share operands in L2 (CUTLASS)."""
    for left in range(0, along_n, band):
        for row in range(along_m):
            for column in range(left, min(along_n, left + band)):
                yield row, column
