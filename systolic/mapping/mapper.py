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

GUESSES = 24
"""Plans that are timed before the others: they decide how fast the search is, never what it finds."""


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
    race = _Race(tables)
    for row in race.guesses():
        race.time(row)
    for row in np.lexsort(race.keys.T[::-1]):
        if race.keys[row, 0] > race.best[0]:
            break
        race.time(row)
    assert race.chosen is not None
    table, plan = race.chosen
    return Mapped(
        split=table.split,
        plan=plan,
        cost=explain(table.split.busiest, plan),
        min_dram_bytes=int(race.keys[:, 1].min()),
        considered=len(race.keys),
        timed=race.timed,
    )


class _Race:
    """The plans of all tables, and the best one timed so far."""

    def __init__(self, tables: Sequence[_Table]) -> None:
        self.tables = tables
        self.keys = np.concatenate([t.keys for t in tables])
        self.best: tuple[float, ...] = (float("inf"),)
        self.chosen: tuple[_Table, Plan] | None = None
        self.timed = 0
        self._starts = np.cumsum([0, *(len(t.keys) for t in tables)])

    def guesses(self) -> np.ndarray:
        """Rows to time first, so that slow plans are given up early.

        A plan that moves little waits little: they move least among those whose bound is near the lowest.
        """
        near = np.flatnonzero(self.keys[:, 0] * 50 <= self.keys[:, 0].min() * 51)
        return near[np.argsort(self.keys[near, 1], kind="stable")[:GUESSES]]

    def time(self, row: int) -> None:
        """Time a plan exactly, unless its bound, or its start, shows that it cannot win."""
        key = tuple(int(v) for v in self.keys[row])
        if key >= self.best:
            return
        which = int(np.searchsorted(self._starts, row, side="right")) - 1
        table, at = self.tables[which], int(row - self._starts[which])
        plan = table.plan(at)
        limit = None if self.chosen is None else int(self.best[0]) - int(table.floors[at])
        self.timed += 1
        try:
            cycles = plan_outcome(table.split.busiest, plan, limit=limit).cycles
        except TooSlow:
            return
        if (cycles, *key[1:]) < self.best:
            self.best, self.chosen = (cycles, *key[1:]), (table, plan)


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
                index = ((number * 2**16 + w) * len(ORDERS) + o) * 2**24 + np.arange(len(tiles))
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
