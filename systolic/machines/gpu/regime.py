"""What one SM does at the share of memory that a wave of blocks leaves it, by stepping its blocks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ...chips.gpu import GpuChip
from ...kernels.simt import layout as L
from .catalogue import program_of
from .plan import Plan, Problem
from .program import OPERANDS, Program

SM_PORT_BYTES = 64
"""Bytes per cycle that an SM takes from L2: 64 on Volta to Hopper (Jia et al., arXiv 1804.06826; Chips and
Cheese, Nvidia's H100)."""

QUEUE_CYCLES = 64
"""Cycles of work that may wait in front of shared memory or of the port before a warp has to."""

TRIPS = 16
"""Trips of the loop that are stepped, and twice as many: what lies between them is the pace of the loop."""

START_CYCLES = 30
"""Cycles from the end of a block to the first instruction of the next one on its SM: no figure published;
about what a taken barrier and a branch cost."""


@dataclass(frozen=True, kw_only=True)
class Regime:
    """How much of the chip's memory an SM has to itself.

    Attributes
    ----------
    resident
        Blocks on the SM.
    active
        SMs that share L2 and DRAM.
    hits
        Thousandths of the sectors of lhs and rhs that L2 answers.
    dram, onchip, latency
        Whether DRAM's bandwidth, the bandwidths of L2 and of the SM's port, and all latencies count.
    """

    resident: int
    active: int
    hits: tuple[int, int]
    dram: bool = True
    onchip: bool = True
    latency: bool = True


@dataclass(frozen=True)
class Run:
    """What stepping showed: cycles, tally (see the layout of the kernels), blocks that ran."""

    cycles: int
    tally: np.ndarray
    blocks: int


@dataclass(frozen=True, kw_only=True)
class Pace:
    """A wave's time as a function of its trips.

    Attributes
    ----------
    trip
        Cycles per trip of the loop.
    once, again
        Cycles beside its trips of the first tile on an SM, and of each one that follows.
    short, long
        The two runs that show it, of `trips` and twice as many.
    """

    trip: Fraction
    once: Fraction
    again: Fraction
    short: Run
    long: Run
    trips: int


def settings_of(chip: GpuChip, program: Program, regime: Regime, period: int) -> np.ndarray:
    """The settings of a stepped SM whose share of the chip is a regime's."""
    l2, l1, dram = chip.memory["l2"], chip.memory["l1"], chip.memory["dram"]
    sector = l2.sector_bytes
    per_second = None if dram.bytes_per_s is None else dram.bytes_per_s * dram.sustained_percent
    values = np.zeros(L.SETTINGS, np.int64)
    values[L.SUB_CORES] = chip.sm.sub_cores
    values[L.POLICY] = {"lrr": L.LRR, "gto": L.GTO, "gty": L.GTY}[chip.policy.scheduler]
    values[L.SECTOR], values[L.LINE] = sector, l2.line_bytes // sector
    values[L.L1_WAYS] = l1.ways
    values[L.L1_SETS] = max(
        1, (l1.bytes - program.shared_bytes * regime.resident) // (l1.line_bytes * l1.ways)
    )
    values[L.QUEUE], values[L.LAUNCH] = QUEUE_CYCLES, START_CYCLES
    values[L.STAGES], values[L.CONSUMERS], values[L.STORERS] = (
        program.stages,
        program.consumers,
        program.storers,
    )
    values[L.HELD], values[L.PERIOD] = regime.resident, period
    if regime.latency:
        values[L.L1_LATENCY], values[L.L2_LATENCY] = l1.latency_cycles, mean_latency(chip)
        values[L.DRAM_LATENCY] = -(-dram.latency_ns * chip.clock_hz // 10**9)
    if regime.onchip:
        values[L.PORT_MILLI] = L.MILLI * sector // SM_PORT_BYTES
        if l2.bytes_per_cycle is not None:
            values[L.L2_MILLI] = L.MILLI * sector * regime.active // l2.bytes_per_cycle
    if regime.dram and per_second is not None:
        values[L.DRAM_MILLI] = L.MILLI * sector * regime.active * chip.clock_hz * 100 // per_second
    return values


def mean_latency(chip: GpuChip) -> int:
    """Cycles from a load to its data in L2: half of the chip's data lie in the far part where there is
    one."""
    l2 = chip.memory["l2"]
    return int(
        l2.latency_cycles
        if l2.far_latency_cycles is None
        else (l2.latency_cycles + l2.far_latency_cycles) // 2
    )


def pace(problem: Problem, plan: Plan, chip: GpuChip, regime: Regime, trips: int) -> Pace:
    """The pace of a plan in a regime, from two runs of one tile and one of two tiles.

    A loop shorter than that is stepped as it is.
    """
    short = min(TRIPS, trips)
    one = _stepped(problem, plan, chip, regime, short, 1)
    more = _stepped(problem, plan, chip, regime, 2 * short, 1)
    two = _stepped(problem, plan, chip, regime, short, 2)
    trip = Fraction(more.cycles - one.cycles, short)
    return Pace(
        trip=trip,
        once=one.cycles - short * trip,
        again=max(Fraction(0), two.cycles - one.cycles - short * trip),
        short=one,
        long=more,
        trips=short,
    )


def _stepped(problem: Problem, plan: Plan, chip: GpuChip, regime: Regime, trips: int, tiles: int) -> Run:
    from .catalogue import alike

    plain = Plan(
        kernel=plan.kernel, tile=plan.tile, warps=plan.warps, stages=plan.stages, cluster=plan.cluster
    )
    return _remembered(alike(problem), plain, chip, regime, trips, tiles)


def step_sm(
    problem: Problem,
    plan: Plan,
    chip: GpuChip,
    regime: Regime,
    trips: int,
    tiles: int,
    events: np.ndarray | None = None,
) -> Run:
    """Step one SM on `tiles` tiles per resident block, of `trips` trips each.

    `events` is filled with what its warps do, see the layout of the kernels.
    """
    from ...kernels.simt.step import step_sms

    program = program_of(plan, problem, chip)
    blocks = regime.resident * (1 if plan.persistent else tiles)
    each = trips * (tiles if plan.persistent else 1)
    tally = np.zeros(L.READ + 2 * len(OPERANDS), np.int64)
    bases = np.arange(blocks)[:, None] * (1 << 36) + np.arange(len(OPERANDS))[None, :] * (1 << 32)
    cycles = step_sms(
        program.code,
        program.accesses,
        program.offsets,
        program.starts,
        program.shifts,
        bases,
        np.full(blocks, each, np.int64),
        settings_of(chip, program, regime, trips),
        np.array([*regime.hits, L.MILLI], np.int64),
        1,
        tally,
        np.zeros((blocks, 2), np.int64),
        events,
    )
    return Run(cycles, tally, blocks)


_remembered = lru_cache(maxsize=1 << 15)(step_sm)
