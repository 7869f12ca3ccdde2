"""The search of :mod:`systolic.mapping.mapper`, compiled: for whoever maps thousands of matmuls.

Numba loads with the first search. What it finds is what the mapper finds, plan and all; problems that it
does not cover (banks, a simulated DRAM, huge matmuls) are left to the mapper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..blocks.array import AXES
from ..blocks.pipeline import State, closed
from .limits import LARGEST
from .mapper import Mapped, search
from .plan import DIMS, OPERAND_DIMS, ORDERS, CoreSplit, Plan, Problem
from .schedule import Explained, explained
from .space import Pins, array_splits, tile_sides

FOREVER = 2**62
OPERANDS = ("lhs", "rhs", "out", "psum")


def compiled_search(splits: Sequence[CoreSplit], pins: Pins) -> Mapped | None:
    """As :func:`systolic.mapping.mapper.search`; `timed` may differ, since plans come in another order."""
    if not all(_covered(split.busiest) for split in splits):
        return search(splits, pins)
    from ..kernels import plans

    tables = [_Split(split, pins) for split in splits]
    pinned = -1 if pins.order is None else ORDERS.index(pins.order)
    room = sum(table.most for table in tables) * len(ORDERS)
    keys, found = np.empty((room, plans.KEY), np.int64), np.empty((room, plans.PLAN), np.int64)
    best, winner = np.full(plans.KEY, FOREVER, np.int64), np.zeros(plans.PLAN, np.int64)
    tally = np.array([FOREVER, 0, 0, FOREVER, 0], np.int64)
    for number, t in enumerate(tables):
        where = (keys, found, tally, best, winner)
        plans.tabulate(t.unit, t.operands, t.shares, t.sides, t.lengths, t.ways, pinned, number, *where)
    _, held, considered, least_dram, _ = tally.tolist()
    if not considered:
        return None
    if held:
        units, operands = np.stack([t.unit for t in tables]), np.stack([t.operands for t in tables])
        ways = np.zeros((len(tables), max(len(t.ways) for t in tables), 2), np.int64)
        for number, t in enumerate(tables):
            ways[number, : len(t.ways)] = t.ways
        shapes = np.stack([t.shares[0] for t in tables])
        plans.race(units, operands, shapes, ways, keys, found, tally, best, winner)
    which, m, n, k, order, way, _ = winner.tolist()
    chosen = tables[which]
    split = chosen.split
    plan = Plan(tile={"m": m, "n": n, "k": k}, order=ORDERS[order], split=array_splits(split.busiest)[way])
    return Mapped(
        split=split,
        plan=plan,
        cost=chosen.explain(plan),
        min_dram_bytes=least_dram,
        considered=considered,
        timed=int(tally[plans.TIMED]),
    )


def _covered(problem: Problem) -> bool:
    """Whether the kernels know all that happens, and bytes times cycles of any one transfer fit 64 bits."""
    if problem.banks is not None or problem.port.cycles_num * _most_fed(problem) > LARGEST:
        return False
    for name, operand in problem.operands.items():
        place = operand.place
        if place is None:
            continue
        rows, cols = (problem.size(d) for d in OPERAND_DIMS["out" if name == "psum" else name])
        most = rows * cols * operand.bits // 8 + (rows + cols) * (place.burst + 1)
        if place.dram is not None or place.cycles_num * most > LARGEST:
            return False
    return True


def _most_fed(problem: Problem) -> int:
    """More bytes than the on-chip port hands over for one array tile of any block."""
    timing = problem.timing
    bits = max(operand.bits for operand in problem.operands.values())
    longest = problem.passes * problem.size(AXES[problem.dataflow].stream) + timing.rows
    return problem.mxus * ((timing.rows + timing.cols) * longest * bits // 8 + 1)


class _Split:
    """A core split as plain arrays. Its shares differ in their shape alone."""

    def __init__(self, split: CoreSplit, pins: Pins) -> None:
        problem = split.busiest
        timing, axes = problem.timing, AXES[problem.dataflow]
        self.split = split
        self.unit = np.array(
            [
                *(timing.load, timing.skew, timing.shift_out, timing.serial, timing.rows, timing.cols),
                *(timing.interval, problem.lanes, problem.passes, problem.buffers),
                *(DIMS.index(axes.rows), DIMS.index(axes.cols), DIMS.index(axes.stream)),
                *(problem.dataflow == "os", problem.port.cycles_num, problem.port.bytes_den, problem.mxus),
                *_limits(problem),
            ],
            np.int64,
        )
        self.operands = np.array([_operand(problem, name) for name in OPERANDS], np.int64)
        self.shares = np.array(
            [(s.problem.m, s.problem.n, s.problem.k, s.problem.batch, s.cores) for s in split.shares],
            np.int64,
        )
        self.ways = np.array(array_splits(problem), np.int64)
        choices = [
            tile_sides(problem, d) if pins.tile is None else [min(pins.tile[d], problem.size(d))]
            for d in DIMS
        ]
        self.lengths = np.array([len(c) for c in choices], np.int64)
        self.sides = np.array([c + [0] * (int(self.lengths.max()) - len(c)) for c in choices], np.int64)
        self.most = int(self.lengths.prod()) * len(self.ways)

    def explain(self, plan: Plan) -> Explained:
        """As :func:`systolic.mapping.schedule.explain`."""
        from ..kernels import blocks

        problem = self.split.busiest
        tile = np.array([plan.tile[d] for d in DIMS], np.int64)
        order = np.array([DIMS.index(d) for d in plan.order], np.int64)
        way = np.array(plan.split, np.int64)
        state, counts = np.empty(7, np.int64), np.empty(blocks.TALLIES, np.int64)
        stages = np.zeros((blocks.KINDS, blocks.STAGE), np.int64)
        seen = np.empty((4, blocks.SEEN, 9 + blocks.TALLIES), np.int64)

        def outcome(unit: Any, operands: Any) -> Any:
            blocks.run_nest(
                unit, operands, self.shares[0], tile, order, way, blocks.FOREVER, state, counts, stages, seen
            )
            return closed(State(*state.tolist()), counts.tolist(), problem.timing)

        prompt = self.operands.copy()
        prompt[:, blocks.LATENCY] = 0
        at_once = self.unit.copy()
        at_once[blocks.LOAD] = 0
        return explained(
            outcome(self.unit, self.operands),
            lambda: outcome(self.unit, prompt).cycles,
            lambda: outcome(at_once, self.operands).cycles,
        )


def _limits(problem: Problem) -> Iterator[int]:
    """Of a block: bytes on chip (there may be less than none), in the accumulators, and array tiles."""
    yield FOREVER if problem.onchip_bytes is None else problem.onchip_bytes
    yield from (-1 if limit is None else limit for limit in (problem.acc_bytes, problem.block_tiles))


def _operand(problem: Problem, name: str) -> tuple[int, ...]:
    operand = problem.operands[name]
    place = operand.place
    if place is None:
        return (0, 0, 1, 0, 1, operand.bits, operand.transposed, 0)
    rate = (place.cycles_num, place.bytes_den, place.latency, place.burst)
    return (1, *rate, operand.bits, operand.transposed, place.level == "dram")
