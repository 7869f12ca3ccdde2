"""A kernel's time: waves of thread blocks, each at the pace that stepping one SM shows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt
from typing import Literal

from ...chips.gpu import GpuChip
from ...errors import SystolicError
from ...kernels.simt import layout as L
from ...metrics import STALLS
from .catalogue import candidates, resident
from .plan import Plan, Problem
from .regime import SM_PORT_BYTES, Regime, mean_latency, pace

Amounts = dict[str, dict[str, tuple[int, int]]]

HIT_STEP = 50
"""Thousandths to which shares of hits are rounded, so that like waves share their stepping."""

SCREENED = 6
"""Plans that are stepped, of those that the closed form likes best."""

L2_SHARE = Fraction(3, 4)
"""Part of L2 that operands may fill and still be there for the next wave: the rest goes to results and to
lines that meet in a set."""


COUNTERS = {
    "instructions": L.ISSUED,
    "requests": L.REQUESTS,
    "sectors": L.SECTORS,
    "shared_requests": L.SHARED_REQUESTS,
    "bank_conflict_cycles": L.CONFLICTS,
    "l1_accesses": L.L1_LOOKUPS,
    "l1_hits": L.L1_HITS,
    "l2_accesses": L.L2_LOOKUPS,
    "l2_hits": L.L2_HITS,
    "eligible_warp_cycles": L.ELIGIBLE,
}
"""Counter -> its place in a tally, behind `layout.COUNT`."""


@dataclass(frozen=True, kw_only=True)
class KernelTiming:
    """What a kernel costs, its launch left out.

    Attributes
    ----------
    cycles, causes
        Elapsed; by cause.
    stalls, counters
        As in :class:`~systolic.result.Result`.
    bytes
        Level -> operand -> (read, written).
    ctas, resident, waves
        Thread blocks; how many an SM holds; rounds of blocks on the busiest SM.
    """

    cycles: int
    causes: dict[str, int]
    stalls: dict[str, int]
    counters: dict[str, int]
    bytes: Amounts
    ctas: int
    resident: int
    waves: int


@dataclass(frozen=True, kw_only=True)
class Waves:
    """Waves of blocks that are alike: each fills the SMs once.

    Attributes
    ----------
    regime
        Blocks of an SM, SMs at work, and what they have of the memory.
    trips
        Of each block's loop.
    rounds
        How many waves.
    first, again
        Cycles of the first of them, and of each one that follows.
    """

    regime: Regime
    trips: int
    rounds: int
    first: Fraction
    again: Fraction

    @property
    def cycles(self) -> Fraction:
        """Of all of them."""
        return self.first + (self.rounds - 1) * self.again


@dataclass(frozen=True, kw_only=True)
class _Grid:
    """The blocks of a kernel and how they share operands through L2."""

    blocks: int
    rounds: int
    rest: int
    held: int
    trips: int
    hits: tuple[int, int]
    misses: tuple[int, int]
    written: int


def choose(
    problem: Problem, chip: GpuChip, *, kernel: str | None = None, tile: tuple[int, int, int] | None = None
) -> Plan:
    """The plan of the catalogue that takes the least time, as a library's heuristic would predict it.

    A closed form ranks all plans; the best few are stepped.

    Raises
    ------
    SystolicError
        If no plan fits, or none has the tile.
    """
    plans = candidates(problem, chip, kernel)
    if not plans:
        asked = f"kernel {kernel!r}" if kernel else f"format {problem.multiplied}"
        raise SystolicError(f"{chip.name} has no tile for {asked} that fits an SM; choose another kernel")
    if tile is not None:
        matching = tuple(plan for plan in plans if plan.tile == tuple(tile))
        if not matching:
            known = ", ".join(dict.fromkeys(",".join(map(str, plan.tile)) for plan in plans))
            asked = ",".join(map(str, tile))
            raise SystolicError(
                f"tile must be one of {known} for {plans[0].kernel} on {chip.name}, got {asked}"
            )
        plans = matching
    order = {plan: i for i, plan in enumerate(plans)}
    ranked = sorted(plans, key=lambda plan: (_estimate(problem, plan, chip), order[plan]))
    return min(ranked[:SCREENED], key=lambda plan: (_cycles(problem, plan, chip), order[plan]))


def time_kernel(
    problem: Problem, plan: Plan, chip: GpuChip, mode: Literal["tiled", "stepped", "bound"] = "tiled"
) -> KernelTiming:
    """Cycles, causes, stalls, counts and bytes of one kernel."""
    grid = _grid(problem, plan, chip)
    cycles = _bound(problem, plan, chip) if mode == "bound" else _cycles(problem, plan, chip)
    return KernelTiming(
        cycles=cycles,
        causes=_causes(problem, plan, chip, grid, cycles, stepped=mode != "bound"),
        **_profile(problem, plan, chip, grid, cycles),
        bytes=_bytes(problem, plan, chip, grid),
        ctas=grid.blocks,
        resident=grid.held,
        waves=grid.rounds + (grid.rest > 0),
    )


def _grid(problem: Problem, plan: Plan, chip: GpuChip) -> _Grid:
    along_m, along_n, others = plan.blocks(problem)
    held = resident(plan, problem, chip)
    blocks = along_m * along_n * others
    rounds, rest = divmod(blocks, chip.sms * held)
    wave = min(along_m * along_n, chip.sms * held)
    tall = max(1, min(along_m, isqrt(wave * plan.tile[1] // plan.tile[0]) or 1))
    wide = max(1, min(along_n, -(-wave // tall)))
    fits = sum(problem.compulsory_bytes[:2]) // problem.batch <= L2_SHARE * chip.memory["l2"].bytes
    sides = (wide, tall) if not fits else (along_n, along_m)
    lhs, rhs, out = problem.compulsory_bytes
    again = (-(-along_n // sides[0]), -(-along_m // sides[1]))
    stays = int(L2_SHARE * chip.memory["l2"].bytes)
    # Of what is larger than L2, the least recently used is gone each time it would be used again.
    there = (lhs * (problem.lhs_in_l2 and lhs <= stays), rhs * (problem.rhs_in_l2 and rhs <= stays))
    misses = (lhs * again[0] - there[0], rhs * again[1] - there[1])
    loaded = tuple(
        size * other // share
        for size, other, share in zip((lhs, rhs), (along_n, along_m), plan.cluster[::-1], strict=True)
    )
    steps = L.MILLI // HIT_STEP
    hits = tuple(
        max(0, (2 * steps * (total - miss) + total) // (2 * max(1, total))) * HIT_STEP
        for miss, total in zip(misses, loaded, strict=True)
    )
    return _Grid(
        blocks=blocks,
        rounds=rounds,
        rest=rest,
        held=held,
        trips=plan.trips(problem),
        hits=(hits[0], hits[1]),
        misses=misses,
        written=0 if problem.out_in_l2 and out <= stays else out,
    )


def _cycles(problem: Problem, plan: Plan, chip: GpuChip, **ideal: bool) -> int:
    """Elapsed cycles: full waves, the last one, and the kernel that adds up the parts of k."""
    grid = _grid(problem, plan, chip)
    total = sum((like.cycles for like in waves(problem, plan, chip, **ideal)), Fraction(0))
    if ideal.get("dram", True):
        total = max(total, _dram_cycles(grid, chip))
    return ceil(total) + reduction_cycles(problem, plan, chip, **ideal)


def waves(problem: Problem, plan: Plan, chip: GpuChip, **ideal: bool) -> tuple[Waves, ...]:
    """The waves of blocks in which a kernel fills the SMs, in order; like ones stand together."""
    grid = _grid(problem, plan, chip)
    found: list[Waves] = []
    for rounds, held, active in ((grid.rounds, grid.held, chip.sms), *_last(grid, chip)):
        if not rounds:
            continue
        regime = Regime(resident=held, active=active, hits=grid.hits, **ideal)
        at = pace(problem, plan, chip, regime, grid.trips)
        again = grid.trips * at.trip + at.again
        first = again if found else grid.trips * at.trip + at.once
        found.append(Waves(regime=regime, trips=grid.trips, rounds=rounds, first=first, again=again))
    return tuple(found)


def _dram_cycles(grid: _Grid, chip: GpuChip) -> Fraction:
    """Cycles of DRAM for all that crosses it: results leave L2 when DRAM has nothing to read."""
    dram = chip.memory["dram"]
    if dram.bytes_per_s is None:
        return Fraction(0)
    moved = sum(grid.misses) + grid.written
    return Fraction(moved * 100 * chip.clock_hz, dram.bytes_per_s * dram.sustained_percent)


def _last(grid: _Grid, chip: GpuChip) -> tuple[tuple[int, int, int], ...]:
    """The wave that does not fill the chip: (1, blocks of an SM, SMs at work)."""
    if not grid.rest:
        return ()
    held = -(-grid.rest // chip.sms)
    return ((1, held, -(-grid.rest // held)),)


def reduction_cycles(
    problem: Problem, plan: Plan, chip: GpuChip, dram: bool = True, onchip: bool = True, latency: bool = True
) -> int:
    """Cycles of splitting k: its sums go to L2 in fp32 and come back, and a kernel that adds them is
    launched."""
    if plan.split_k == 1:
        return 0
    sums = problem.batch * problem.m * problem.n
    moved = sums * 2 * 4 * plan.split_k
    rate = chip.memory["l2"].bytes_per_cycle
    waits = 2 * mean_latency(chip) if latency else 0
    launch = chip.launch_ns * chip.clock_hz // 10**9
    return launch + waits + (-(-moved // rate) if rate and onchip else 0)


def _bound(problem: Problem, plan: Plan, chip: GpuChip) -> int:
    """A closed form that no kernel beats.

    The largest of: its multiplications on the busiest SM; its bytes through DRAM and L2; what the busiest SM
    loads, through its port and with no more on the way than its stages hold.
    """
    grid = _grid(problem, plan, chip)
    busiest = -(-grid.blocks // chip.sms)
    compute = busiest * grid.trips * tile_cycles(problem, plan, chip)
    l2, dram = chip.memory["l2"], chip.memory["dram"]
    lhs, rhs, out = problem.compulsory_bytes
    along_m, along_n, _ = plan.blocks(problem)
    through = lhs * along_n // plan.cluster[1] + rhs * along_m // plan.cluster[0] + out
    onchip = -(-through // l2.bytes_per_cycle) if l2.bytes_per_cycle else 0
    latency = max(1, mean_latency(chip) + dram.latency_ns * chip.clock_hz // 10**9)
    loaded = -(-(through - out) // grid.blocks)
    ahead = loaded * max(1, plan.stages - 1) * min(grid.held, busiest) // grid.trips
    per_cycle = min(SM_PORT_BYTES, max(1, -(-ahead // latency)))
    alone = busiest * loaded // per_cycle
    moving = ceil(_dram_cycles(grid, chip))
    return int(max(compute, onchip, moving, alone)) + reduction_cycles(problem, plan, chip)


def _estimate(problem: Problem, plan: Plan, chip: GpuChip) -> int:
    """The closed form and what each tile adds to it: waiting for its first operands, and storing its result.

    It ranks plans; those at the top are stepped.
    """
    grid = _grid(problem, plan, chip)
    busiest = -(-grid.blocks // chip.sms)
    m, n, _ = plan.tile
    stored = m * n * problem.out_bits // 8 // SM_PORT_BYTES
    waits = mean_latency(chip) + chip.memory["dram"].latency_ns * chip.clock_hz // 10**9
    rounds = 1 if plan.persistent else -(-busiest // grid.held)
    return int(_bound(problem, plan, chip) + busiest * stored // grid.held + rounds * waits)


def tile_cycles(problem: Problem, plan: Plan, chip: GpuChip) -> int:
    """Cycles of one trip at the full rate of the multipliers of an SM."""
    m, n, k = plan.tile
    rate = chip.sm.macs[problem.multiplied] if plan.tensor else chip.sm.fp32_lanes
    return -(-m * n * k // rate)


def _causes(
    problem: Problem, plan: Plan, chip: GpuChip, grid: _Grid, cycles: int, stepped: bool
) -> dict[str, int]:
    """Cycles by cause, by asking what would vanish: DRAM's bandwidth, that of L2 and port, latencies."""
    compute = min(cycles, -(-grid.blocks * grid.trips * tile_cycles(problem, plan, chip) // chip.sms))
    if not stepped:
        return _named(compute=compute, stall_dram=cycles - compute)
    no_dram = min(cycles, _cycles(problem, plan, chip, dram=False))
    no_onchip = min(no_dram, _cycles(problem, plan, chip, dram=False, onchip=False))
    prompt = min(no_onchip, _cycles(problem, plan, chip, dram=False, onchip=False, latency=False))
    compute = min(prompt, compute)
    busiest = min(prompt, -(-grid.blocks // chip.sms) * grid.trips * tile_cycles(problem, plan, chip))
    return _named(
        compute=compute,
        tail=max(0, busiest - compute),
        stall_dependency=prompt - max(busiest, compute),
        stall_latency=no_onchip - prompt,
        stall_onchip=no_dram - no_onchip,
        stall_dram=cycles - no_dram,
    )


def _named(**causes: int) -> dict[str, int]:
    return {cause: amount for cause, amount in causes.items() if amount}


def _profile(
    problem: Problem, plan: Plan, chip: GpuChip, grid: _Grid, cycles: int
) -> dict[str, dict[str, int]]:
    """Stalls and counters of all blocks, from those of the blocks that were stepped."""
    full = grid.rounds > 0
    held = grid.held if full else -(-grid.rest // chip.sms)
    active = chip.sms if full else min(grid.rest, chip.sms)
    at = pace(
        problem,
        plan,
        chip,
        Regime(resident=held, active=active, hits=grid.hits),
        grid.trips,
    )

    def scaled(index: int) -> int:
        short, long = int(at.short.tally[index]), int(at.long.tally[index])
        per_trip = Fraction(long - short, at.trips)
        return round((short + (grid.trips - at.trips) * per_trip) * grid.blocks / at.short.blocks)

    stalls = {name: max(0, scaled(L.STALL + i)) for i, name in enumerate(STALLS)}
    counters = {name: max(0, scaled(L.COUNT + index)) for name, index in COUNTERS.items()}
    counters |= {
        "warp_cycles": sum(stalls.values()),
        "unit_cycles": cycles * chip.sms,
        "issue_slots": cycles * chip.sms * chip.sm.sub_cores,
        "warp_slots": cycles * chip.sms * chip.sm.max_warps,
    }
    return {"stalls": {name: amount for name, amount in stalls.items() if amount}, "counters": counters}


def _bytes(problem: Problem, plan: Plan, chip: GpuChip, grid: _Grid) -> Amounts:
    """Bytes through DRAM, L2 and shared memory, by operand."""
    along_m, along_n, _ = plan.blocks(problem)
    lhs, rhs, out = problem.compulsory_bytes
    partial = problem.batch * problem.m * problem.n * 4 * plan.split_k if plan.split_k > 1 else 0
    amounts: Amounts = {
        "dram": {"lhs": (grid.misses[0], 0), "rhs": (grid.misses[1], 0), "out": (0, grid.written)},
        "l2": {
            "lhs": (lhs * along_n // plan.cluster[1], 0),
            "rhs": (rhs * along_m // plan.cluster[0], 0),
            "out": (0, out),
        },
    }
    if partial:
        amounts["l2"]["psum"] = (partial, partial)
    if plan.kernel != "naive":
        amounts["shared"] = {"lhs": (0, lhs * along_n), "rhs": (0, rhs * along_m)}
    return amounts
