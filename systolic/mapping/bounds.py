"""Lower bounds of the cycles of many plans at once, in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

import numpy as np

from .plan import DIMS, OPERAND_DIMS, Problem, array_work, step_cycles
from .traffic import Sums, all_once, array_cycles, block_cycles, larger, port_totals, visits


class Bounds:
    """Bounds of all plans that share a problem: arrays with one entry per block shape.

    Parameters
    ----------
    problem
        What the busiest core has to do.
    tile
        Dimension -> sides of the blocks.
    """

    def __init__(self, problem: Problem, tile: Mapping[str, Any]) -> None:
        self.problem, self.tile = problem, tile
        self.blocks = {d: -(-problem.size(d) // tile[d]) for d in DIMS}
        self.last = {d: problem.size(d) - (self.blocks[d] - 1) * tile[d] for d in DIMS}
        self._small = {d: np.minimum(tile[d], self.last[d]) for d in DIMS}
        self._drain = 0 if problem.timing.serial else problem.timing.drain
        self.work = cache(self.work)  # type: ignore[method-assign]
        self._meanwhile = cache(self._meanwhile)  # type: ignore[method-assign]
        self._step = cache(self._step)  # type: ignore[method-assign]

    @cached_property
    def each(self) -> dict[str, Sums]:
        """Port totals when each block moves once."""
        return all_once(self.problem, self.tile)

    def work(self, way: tuple[int, int]) -> Any:
        """Cycles that the arrays are fed, or wait for themselves."""
        return array_cycles(self.problem, self.tile, way)

    def floor(self, way: tuple[int, int]) -> Any:
        """Cycles with memory never in the way."""
        timing, work = self.problem.timing, self.work(way)
        floor = work if timing.serial else timing.load + work + timing.drain
        return floor + np.zeros(len(self.tile["m"]), np.int64)

    def cycles(self, order: str, way: tuple[int, int]) -> Any:
        """No plan is faster than its port alone, nor than first loads, then arrays, then the last store."""
        problem, timing = self.problem, self.problem.timing
        by_array = self._first + self.work(way) + self._drain + self._last_store
        bound = by_array + self._store_stalls(order, way)
        ports = port_totals(problem, self.tile, order, self.each)
        moving = problem.batch * (ports.load_cycles + ports.store_cycles)
        if problem.operands["lhs"].place and problem.operands["rhs"].place:
            # The last block loads something, and all loads and all stores but two have gone before it.
            tiles, streamed, port = self._work_of(way, self.last)
            final = tiles * larger(timing.tile(streamed), port) if timing.serial else streamed + timing.drain
            bound = np.maximum(bound, moving - 2 * self._longest_store + final + self._last_store)
            if problem.buffers == 1:
                # Every block loads something, and nothing is fed meanwhile.
                count = problem.batch * self.blocks["m"] * self.blocks["n"] * self.blocks["k"]
                bound = np.maximum(bound, moving + self.work(way) - count * self._widest_gap(way))
        return np.maximum(bound, moving)

    def _work_of(self, way: tuple[int, int], size: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """What the busiest array does for one block of these sides."""
        return array_work(self.problem, way, size, self._step(way))

    def _step(self, way: tuple[int, int]) -> Any:
        return step_cycles(self.problem, way, self.tile)

    @cached_property
    def _first(self) -> Any:
        """Cycles until the first word can enter the array."""
        problem, timing = self.problem, self.problem.timing
        arrivals: list[Any] = []
        port: Any = 0
        for name in (problem.stationary, problem.streaming):
            place = problem.operands[name].place
            if place is not None:
                port = port + block_cycles(problem, name, self.tile)
            arrivals.append(port + place.latency if place is not None else 0)
        return np.maximum(arrivals[0] + (0 if timing.serial else timing.load), arrivals[1])

    @cached_property
    def _last_store(self) -> Any:
        return block_cycles(self.problem, "out", self.last)

    @cached_property
    def _longest_store(self) -> Any:
        return np.maximum.reduce([c for name in ("out", "psum") for c in self._kinds(name)])

    @cached_property
    def _shortest(self) -> dict[str, Any]:
        """Port cycles of the smallest block of each operand."""
        return {name: np.minimum.reduce(self._kinds(name)) for name in self.problem.operands}

    def _kinds(self, name: str) -> list[Any]:
        """Port cycles of each kind of block of an operand: full or last along either of its dimensions."""
        rows, cols = OPERAND_DIMS["out" if name == "psum" else name]
        ends = (self.tile, self.last)
        return [block_cycles(self.problem, name, {rows: a[rows], cols: b[cols]}) for a in ends for b in ends]

    def _meanwhile(self, way: tuple[int, int]) -> Any:
        """Cycles that one block keeps the arrays busy or waiting for themselves, at most.

        Overlapped, the wait behind the block before is among them.
        """
        timing = self.problem.timing
        tiles, streamed, port = self._work_of(way, self.tile)
        if timing.serial:
            return tiles * larger(timing.tile(streamed), port)
        apart = larger(port, max(timing.load, timing.shift_out))
        _, shortest, _ = self._work_of(way, self._small)
        return tiles * larger(streamed, apart) + larger(apart - shortest, 0)

    def _widest_gap(self, way: tuple[int, int]) -> Any:
        """Most cycles that the arrays wait for themselves, or their port, behind a tile."""
        timing, gaps = self.problem.timing, []
        for size in (self.tile, self.last):
            _, streamed, port = self._work_of(way, size)
            gaps.append(larger(larger(max(timing.load, timing.shift_out), port) - streamed, 0))
        return np.maximum(*gaps)

    def _store_stalls(self, order: str, way: tuple[int, int]) -> Any:
        """Least cycles that the arrays wait because a store stands in the queue before a load.

        Between the end of block i and the begin of block i + 2 lie the drain of block i, its store, the loads
        of block i + 2 and their latency; meanwhile the arrays wait for themselves and run block i + 1. Where
        every block stores, such stretches overlap in pairs.
        """
        problem, blocks = self.problem, self.blocks
        places = [problem.operands[name].place for name in ("lhs", "rhs")]
        if not all(places):
            return 0
        visited = visits(order, blocks, "psum")
        stores = problem.batch * blocks["m"] * blocks["n"]
        spaced = (blocks["k"] > 1) & (visited == 1)
        lhs, rhs = self._shortest["lhs"], self._shortest["rhs"]
        loads = np.where(spaced, lhs + rhs, np.minimum(lhs, rhs))
        store = np.minimum(self._shortest["out"], self._shortest["psum"])
        late = min(place.latency for place in places if place is not None)
        wait = larger(self._drain + store + late + loads - self._meanwhile(way), 0) * (store > 0)
        return np.where(spaced, stores - 1, (stores * visited - 1) // 2) * wait
