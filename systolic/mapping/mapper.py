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

from ..blocks.pipeline import TooSlow
from .bounds import Bounds
from .plan import DIMS, ORDERS, CoreSplit, Plan
from .schedule import Explained, explain, plan_outcome
from .space import Pins, array_splits, first_of_its_kind, fitting_tiles, legal
from .traffic import Sums, all_once, onchip_bytes, port_totals


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
        tiles = fitting_tiles(problem, pins)
        if not len(tiles):
            return None
        tile = dict(zip(DIMS, tiles.T, strict=True))
        bounds, ways = Bounds(problem, tile), array_splits(problem)
        each = [bounds.each, *(all_once(share.problem, tile) for share in split.shares[1:])]
        onchip = [_onchip_total(split, tile, way) for way in ways]
        parts = []
        for o, order in enumerate(ORDERS):
            if pins.order not in (None, order):
                continue
            fresh = (
                first_of_its_kind(order, bounds.blocks) if pins.order is None else np.ones(len(tiles), bool)
            )
            if not fresh.any():
                continue
            dram = _dram_total(split, tile, order, each)
            for w, way in enumerate(ways):
                keep = fresh & legal(problem, tile, bounds.blocks, order, way)
                index = ((number * len(ways) + w) * len(ORDERS) + o) * 2**24 + np.arange(len(tiles))
                rows = np.stack([bounds.cycles(order, way), dram, onchip[w], index], axis=1)[keep]
                count = len(rows)
                parts.append(
                    (rows, bounds.floor(way)[keep], tiles[keep], np.full(count, o), np.full(count, w))
                )
        columns = tuple(np.concatenate(p) for p in zip(*parts, strict=True))
        return cls(split, *columns) if len(columns[0]) else None


def _dram_total(split: CoreSplit, tile: Any, order: str, each: Sequence[Mapping[str, Sums]]) -> Any:
    total: Any = np.zeros(len(tile["m"]), np.int64)
    for share, sums in zip(split.shares, each, strict=True):
        problem = share.problem
        for (name, _), amount in port_totals(problem, tile, order, sums).bytes.items():
            place = problem.operands[name].place
            if place is not None and place.level == "dram":
                total = total + share.cores * problem.batch * amount
    return total


def _onchip_total(split: CoreSplit, tile: Any, way: tuple[int, int]) -> Any:
    total: Any = np.zeros(len(tile["m"]), np.int64)
    for share in split.shares:
        for amount in onchip_bytes(share.problem, tile, way).values():
            total = total + share.cores * share.problem.batch * amount
    return total
