"""The mapper: the cheapest plan of a declared space, found exactly.

Every plan of the space gets a lower bound of its cycles in closed form, all at once; plans are then timed
exactly in rising order of the bound until no bound is left below the best. The winner is the least
(cycles, DRAM bytes, on-chip bytes, plan index) over the whole space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..blocks.array import AXES
from ..blocks.pipeline import TooSlow
from .plan import DIMS, OPERAND_DIMS, ORDERS, CoreSplit, Plan, Problem, array_work
from .schedule import Explained, explain, plan_outcome
from .traffic import array_cycles, block_bytes, larger, max_store_cycles, onchip_bytes, port_totals, visits

SUBLANES = 8
"""Rows of a TPU vector register (Austin et al., How to Scale Your Model, 2025): the streamed side's grain."""

ALL_SIDES = 16
"""Up to this many grains along a dimension every side is tried; beyond, the sides of `_PARTS` equal parts."""

_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True, kw_only=True)
class Pins:
    """What the user fixes: sides of the block (dimension -> elements) and the loop order."""

    tile: Mapping[str, int] | None = None
    order: str | None = None


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """What the mapper picked.

    Attributes
    ----------
    split, plan
        Over cores; within a core.
    cost
        Exact, of the busiest core.
    min_dram_bytes
        Least DRAM bytes over all plans that fit, whole chip.
    considered, timed
        Plans in the space that fit; plans that had to be timed exactly.
    """

    split: CoreSplit
    plan: Plan
    cost: Explained
    min_dram_bytes: int
    considered: int
    timed: int


def grain(problem: Problem, dim: str) -> int:
    """Step of a block's side: the array's side along it, or a few rows where the operand streams."""
    axes, timing = AXES[problem.dataflow], problem.timing
    if dim == axes.rows:
        return timing.rows
    if dim == axes.cols:
        return timing.cols
    return timing.rows if problem.dataflow == "os" else min(SUBLANES, timing.rows)


def tile_sides(problem: Problem, dim: str) -> list[int]:
    """Sides of a block that the space holds along a dimension, rising."""
    length, step = problem.size(dim), grain(problem, dim)
    grains = -(-length // step)
    if grains <= ALL_SIDES:
        counts: Sequence[int] = range(1, grains + 1)
    else:
        counts = sorted({-(-grains // parts) for parts in _PARTS if parts <= grains})
    return [min(length, c * step) for c in counts]


def array_splits(problem: Problem) -> list[tuple[int, int]]:
    """Ways to lay a core's arrays side by side: (along the columns, along the stream or the rows)."""
    return [(a, problem.mxus // a) for a in range(problem.mxus, 0, -1) if problem.mxus % a == 0]


def search(splits: Sequence[CoreSplit], pins: Pins) -> Mapped | None:
    """The best plan over all ways to split a matmul, or None when no plan fits the on-chip memory."""
    tables = [t for i, split in enumerate(splits) if (t := _Table.of(i, split, pins)) is not None]
    if not tables:
        return None
    keys = np.concatenate([t.keys for t in tables])
    order = np.lexsort(keys.T[::-1])
    starts = np.cumsum([0, *(len(t.keys) for t in tables)])
    best: tuple[int, int, int, int] | None = None
    chosen: tuple[_Table, Plan] | None = None
    timed = 0
    for row in order:
        bound, dram, onchip, index = (int(v) for v in keys[row])
        if best is not None and bound > best[0]:
            break
        if best is not None and (bound, dram, onchip, index) >= best:
            continue
        which = int(np.searchsorted(starts, row, side="right")) - 1
        table, at = tables[which], int(row - starts[which])
        plan = table.plan(at)
        limit = None if best is None else best[0] - int(table.floors[at])
        timed += 1
        try:
            cycles = plan_outcome(table.split.busiest, plan, limit=limit).cycles
        except TooSlow:
            continue
        if best is None or (cycles, dram, onchip, index) < best:
            best, chosen = (cycles, dram, onchip, index), (table, plan)
    assert chosen is not None
    table, plan = chosen
    return Mapped(
        split=table.split,
        plan=plan,
        cost=explain(table.split.busiest, plan),
        min_dram_bytes=int(keys[:, 1].min()),
        considered=len(keys),
        timed=timed,
    )


@dataclass(frozen=True)
class _Table:
    """All plans of one core split that fit.

    `keys` (bound, DRAM bytes, on-chip bytes, plan index), `floors` cycles with memory never in the way, and
    what each plan is.
    """

    split: CoreSplit
    keys: np.ndarray
    floors: np.ndarray
    tiles: np.ndarray
    orders: np.ndarray
    ways: np.ndarray

    def plan(self, row: int) -> Plan:
        """The plan of a row."""
        sides = {d: int(s) for d, s in zip(DIMS, self.tiles[row], strict=True)}
        ways = array_splits(self.split.busiest)
        return Plan(tile=sides, order=ORDERS[self.orders[row]], split=ways[self.ways[row]])

    @classmethod
    def of(cls, number: int, split: CoreSplit, pins: Pins) -> _Table | None:
        problem = split.busiest
        tiles = _fitting_tiles(problem, pins)
        if not len(tiles):
            return None
        tile = dict(zip(DIMS, tiles.T, strict=True))
        blocks = {d: -(-problem.size(d) // tile[d]) for d in DIMS}
        ways = array_splits(problem)
        works = [array_cycles(problem, tile, way) for way in ways]
        timing = problem.timing
        floors = [work if timing.serial else timing.load + work + timing.drain for work in works]
        onchip = [_onchip_total(split, tile, way) for way in ways]
        parts = []
        for o, order in enumerate(ORDERS):
            if pins.order not in (None, order):
                continue
            distinct = _first_of_its_kind(order, blocks) if pins.order is None else np.ones(len(tiles), bool)
            dram = _dram_total(split, tile, order)
            ports = port_totals(problem, tile, order)
            for w, way in enumerate(ways):
                keep = distinct & _legal(problem, tile, blocks, order, way)
                bound = _lower_bound(problem, tile, blocks, ports, works[w], way, order)
                index = ((number * len(ways) + w) * len(ORDERS) + o) * 2**24 + np.arange(len(tiles))
                rows = np.stack([bound, dram, onchip[w], index], axis=1)[keep]
                count = len(rows)
                floor = (floors[w] + np.zeros(len(tiles), np.int64))[keep]
                parts.append((rows, floor, tiles[keep], np.full(count, o), np.full(count, w)))
        columns = tuple(np.concatenate(p) for p in zip(*parts, strict=True))
        return cls(split, *columns) if len(columns[0]) else None


def _fitting_tiles(problem: Problem, pins: Pins) -> np.ndarray:
    if pins.tile is not None:
        choices = [[min(pins.tile[d], problem.size(d))] for d in DIMS]
    else:
        choices = [tile_sides(problem, d) for d in DIMS]
    grid = np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, 3).astype(np.int64)
    onchip, acc = block_bytes(problem, dict(zip(DIMS, grid.T, strict=True)))
    fits = np.ones(len(grid), bool)
    if problem.onchip_bytes is not None:
        fits &= onchip <= problem.onchip_bytes
    if problem.acc_bytes is not None:
        fits &= acc <= problem.acc_bytes
    return grid[fits]


def _first_of_its_kind(order: str, blocks: Mapping[str, Any]) -> Any:
    """Whether no earlier order visits the same blocks in the same sequence (loops of one block do not count)."""
    fresh: Any = np.ones(len(blocks["m"]), bool)
    for earlier in ORDERS[: ORDERS.index(order)]:
        same: Any = np.ones(len(blocks["m"]), bool)
        for a in DIMS:
            for b in DIMS:
                swapped = (order.index(a) < order.index(b)) != (earlier.index(a) < earlier.index(b))
                if swapped:
                    same &= ~((blocks[a] > 1) & (blocks[b] > 1))
        fresh &= ~same
    return fresh


def _legal(problem: Problem, tile: Any, blocks: Any, order: str, way: tuple[int, int]) -> Any:
    """Output stationary keeps one chain over k: k in one block, or innermost with one tile per array."""
    if problem.dataflow != "os":
        return np.ones(len(tile["m"]), bool)
    tiles, _, _ = array_work(problem, way, tile)
    long_enough = tile["k"] >= problem.timing.rows
    return (blocks["k"] == 1) | ((tiles == 1) & long_enough & (order[-1] == "k"))


def _dram_total(split: CoreSplit, tile: Any, order: str) -> Any:
    total: Any = 0
    for share in split.shares:
        problem = share.problem
        moved = port_totals(problem, tile, order).bytes
        for (name, _), amount in moved.items():
            place = problem.operands[name].place
            if place is not None and place.level == "dram":
                total = total + share.cores * problem.batch * amount
    return total + np.zeros(len(tile["m"]), np.int64)


def _onchip_total(split: CoreSplit, tile: Any, way: tuple[int, int]) -> Any:
    total: Any = 0
    for share in split.shares:
        for amount in onchip_bytes(share.problem, tile, way).values():
            total = total + share.cores * share.problem.batch * amount
    return total + np.zeros(len(tile["m"]), np.int64)


def _lower_bound(
    problem: Problem, tile: Any, blocks: Any, ports: Any, work: Any, way: tuple[int, int], order: str
) -> Any:
    """No plan is faster: neither than its port, nor than its first load, its arrays and its last store."""
    timing, batch = problem.timing, problem.batch
    first = _first_loads(problem, tile)
    last = {d: problem.size(d) - (blocks[d] - 1) * tile[d] for d in DIMS}
    last_store = _block_cycles(problem, "out", last)
    drain = 0 if timing.serial else timing.drain
    by_array = first + work + drain + last_store + _store_stalls(problem, tile, blocks, last, way, order)
    moving = batch * (ports.load_cycles + ports.store_cycles)
    bound = np.maximum(by_array, moving)
    if problem.operands["lhs"].place and problem.operands["rhs"].place:
        # The last block loads something, and all loads and all stores but two have gone before it.
        tiles, streamed, port = array_work(problem, way, last)
        final = tiles * larger(timing.tile(streamed), port) if timing.serial else streamed + timing.drain
        bound = np.maximum(bound, moving - 2 * max_store_cycles(problem, tile) + final + last_store)
    return bound


def _store_stalls(
    problem: Problem, tile: Any, blocks: Any, last: Any, way: tuple[int, int], order: str
) -> Any:
    """Least cycles that the arrays wait because a store stands in the queue before a load.

    Between the end of block i and the begin of block i + 2 lie the drain of block i, its store, the loads of
    block i + 2 and their latency; only block i + 1 runs meanwhile. Blocks that all store overlap in pairs.
    """
    timing = problem.timing
    small = {d: np.minimum(tile[d], last[d]) for d in DIMS}
    names = ("lhs", "rhs")
    places = [problem.operands[n].place for n in names]
    loads = [_block_cycles(problem, n, small) for n in names]
    tiles, streamed, port = array_work(problem, way, tile)
    pace = larger(timing.tile(streamed), port) if timing.serial else larger(streamed, port)
    meanwhile = tiles * larger(pace, larger(timing.load, timing.shift_out))
    stores = problem.batch * blocks["m"] * blocks["n"]
    spaced = (blocks["k"] > 1) & (visits(order, blocks, "psum") == 1)
    both = loads[0] + loads[1] if all(places) else 0 * loads[0]
    either = np.minimum(loads[0], loads[1]) if all(places) else 0 * loads[0]
    late = min(p.latency if p else 0 for p in places)
    store = np.minimum(_block_cycles(problem, "out", small), _block_cycles(problem, "psum", small))
    drain = 0 if timing.serial else timing.drain
    wait = larger(drain + store + late + np.where(spaced, both, either) - meanwhile, 0) * (store > 0)
    every = np.where(blocks["k"] > 1, stores * visits(order, blocks, "psum"), stores)
    return np.where(spaced, stores - 1, (every - 1) // 2) * wait


def _block_cycles(problem: Problem, name: str, side: Any) -> Any:
    """Port cycles of one block of an operand with the given sides."""
    operand = problem.operands[name]
    rows, cols = OPERAND_DIMS["out" if name == "psum" else name]
    size = operand.moved_bytes(side[rows], side[cols], problem.size(rows), problem.size(cols))
    return operand.cycles(size)


def _first_loads(problem: Problem, tile: Any) -> Any:
    """Cycles until the first word can enter the array."""
    arrivals: list[Any] = []
    port: Any = 0
    for name in (problem.stationary, problem.streaming):
        operand = problem.operands[name]
        if operand.place is not None:
            port = port + _block_cycles(problem, name, tile)
            arrivals.append(port + operand.place.latency)
        else:
            arrivals.append(0)
    if problem.timing.serial:
        return np.maximum(arrivals[0], arrivals[1])
    return np.maximum(arrivals[0] + problem.timing.load, arrivals[1])
