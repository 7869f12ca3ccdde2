"""Blocks through a memory port and a unit: counted by hand, and the laws that hold for every nest."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from systolic.blocks.array import Timing
from systolic.blocks.pipeline import Outcome, Stage, TooSlow, run_nest
from tests.strategies import arrays, seeds

UNIT = Timing(load=0, skew=0, shift_out=0, serial=False, rows=1, cols=1)
"""A unit that takes what it is given at once and gives it back at once."""


def block(
    load: int | None = None,
    compute: int = 1,
    store: int = 0,
    late: int = 0,
    weights: int | None = None,
    sums: int | None = None,
    tiles: int = 1,
    port: int = 0,
) -> Stage:
    """A block that loads `weights` and `load`, both `late` cycles on their way, then `sums` that are not."""
    return Stage(weights, load, sums, late, late, 0, store, tiles, compute, port)


def equal_blocks(number: int, stage: Stage, timing: Timing = UNIT, buffers: int = 2) -> Outcome:
    return run_nest((number,), lambda _: stage, timing, buffers=buffers)


# Each line counted on paper; (n blocks, stage, buffers) -> cycles, of which the unit waits for memory.
@pytest.mark.parametrize(
    ("number", "stage", "buffers", "cycles", "stalled"),
    [
        (4, block(load=5, compute=3), 2, 4 * 5 + 3, 4 * 5 + 3 - 4 * 3),  # the port is never idle
        (4, block(load=2, compute=7), 2, 2 + 4 * 7, 2),  # the unit is never idle but at first
        (4, block(load=5, compute=3), 1, 4 * (5 + 3), 4 * 5),  # one after the other
        (
            3,
            block(load=5, compute=1, store=4),
            2,
            3 * (5 + 4),
            27 - 3,
        ),  # the port alone, store and load in turn
        (3, block(load=5, compute=1, store=4), 1, 3 * (5 + 1 + 4), 30 - 3),
        (1, block(load=5, compute=1, store=4, late=2), 2, 5 + 2 + 1 + 4, 5 + 2 + 4),
        (1, block(weights=5, compute=1, late=2), 2, 5 + 2 + 1, 5 + 2),
        (1, block(load=5, compute=1, late=9, sums=3), 2, 5 + 9 + 1, 5 + 9),  # the sums are here at 8
        (1, block(load=5, compute=1, late=2, sums=3), 2, 5 + 3 + 1, 5 + 3),
        (1, block(weights=5, load=2, compute=1, sums=3), 2, 5 + 2 + 3 + 1, 5 + 2 + 3),
        # Loads end at 5, 10, 21, 26 and arrive ten later: the third waits for the buffer that is free at 16.
        (4, block(load=5, compute=1, late=10), 2, 37, 37 - 4),
        (5, block(compute=3), 2, 5 * 3, 0),  # nothing to load
        (2, block(compute=3, tiles=4), 2, 2 * 4 * 3, 0),
        (2, block(compute=3, tiles=4, port=5), 2, 8 * 5, 0),  # the port takes five cycles for each tile
    ],
)
def test_cycles_counted_by_hand(number: int, stage: Stage, buffers: int, cycles: int, stalled: int) -> None:
    outcome = equal_blocks(number, stage, buffers=buffers)
    assert outcome.cycles == cycles
    assert outcome.causes.get("stall_dram", 0) == stalled
    assert outcome.causes["compute"] == number * stage.tiles * stage.streamed


def test_weights_shift_in_behind_the_running_block() -> None:
    # 4 x 4, weight stationary, three blocks of six words, whose weights take 20 cycles from memory. By hand:
    # they arrive at 20, 40 and 60; the buffer that the third block takes has been free since 20 + 4 + 6.
    timing = Timing(load=4, skew=6, shift_out=0, serial=False, rows=4, cols=4)
    outcome = equal_blocks(3, block(weights=20, compute=6), timing)
    assert outcome.cycles == 60 + 4 + 6 + 6
    assert outcome.causes["fill"] + outcome.causes["drain"] == 6
    assert outcome.causes["preload"] == 4
    assert outcome.causes["compute"] == 3 * 6
    # Twice the array shifts weights that came late for four cycles; the rest of its waiting is memory's.
    assert outcome.causes["weight_load"] == 2 * 4
    assert outcome.causes["stall_dram"] == outcome.cycles - 6 - 4 - 3 * 6 - 2 * 4


def test_causes_of_one_serial_tile() -> None:
    # DESIGN section 5: WS and IS preload R, fill R - 1, compute s, drain C - 1; OS fill R + C - 2, drain R.
    ws = Timing(load=4, skew=4 + 3 - 2, shift_out=0, serial=True, rows=4, cols=3)
    os_ = Timing(load=0, skew=4 + 3 - 2, shift_out=4, serial=True, rows=4, cols=3)
    assert equal_blocks(1, block(compute=7), ws).causes == {"preload": 4, "fill": 3, "compute": 7, "drain": 2}
    assert equal_blocks(1, block(compute=7), os_).causes == {"fill": 5, "compute": 7, "drain": 4}


@dataclass(frozen=True)
class Nest:
    """A nest of loops, and what its blocks are."""

    counts: tuple[int, ...]
    stages: dict[tuple[str, ...], Stage]
    timing: Timing
    buffers: int

    def stage_at(self, index: tuple[int, ...]) -> Stage:
        return self.stages[tuple(map(kind, index, self.counts))]

    def run(self, changed: Callable[[Stage], Stage] = lambda stage: stage, **options: Any) -> Outcome:
        return run_nest(
            self.counts,
            lambda index: changed(self.stage_at(index)),
            self.timing,
            **{"buffers": self.buffers, **options},
        )


def kind(index: int, count: int) -> str:
    """All that a stage may know of an index."""
    return "only" if count == 1 else {0: "first", count - 1: "last"}.get(index, "middle")


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    """One to three loops over blocks with short durations, so that states repeat after few blocks or many."""
    counts = tuple(draw(st.lists(st.sampled_from((1, 2, 3, 5, 12)), min_size=1, max_size=3)))
    assume(math.prod(counts) <= 300)
    timing = Timing.of(draw(arrays()), draw(st.sampled_from(("ws", "os")))) if draw(st.booleans()) else UNIT
    longest, busy = draw(st.sampled_from((1, 4, 30))), draw(st.sampled_from((0.1, 0.5, 0.9)))
    streamed = draw(st.none() | st.integers(1, 4))  # of every block, so that more of the state repeats
    rng = np.random.default_rng(draw(seeds()))
    kinds = [sorted({kind(i, count) for i in range(count)}) for count in counts]
    stages = {
        tuple(combination): random_stage(rng, longest, busy, streamed, joins=timing.shift_out > 0)
        for combination in np.stack(np.meshgrid(*kinds), -1).reshape(-1, len(counts)).tolist()
    }
    return Nest(counts, stages, timing, draw(st.sampled_from((1, 2))))


def random_stage(
    rng: np.random.Generator, longest: int, busy: float, streamed: int | None, joins: bool
) -> Stage:
    """A stage in which each transfer is there with probability `busy`."""

    def duration() -> int:
        return int(rng.integers(0, longest + 1))

    def load() -> int | None:
        return duration() if rng.random() < busy else None

    joined = joins and bool(rng.random() < 0.3)
    return Stage(
        load(), load(), load(), duration(), duration(), duration(),
        store=duration() if rng.random() < busy else 0,
        tiles=1 if joined else int(rng.integers(1, 4)),
        streamed=streamed or duration() + 1,
        port=duration() if rng.random() < 0.5 else 0,
        joins=joined,
    )  # fmt: skip


@given(nests())
def test_skipping_ahead_changes_nothing(nest: Nest) -> None:
    assert nest.run() == nest.run(skip_ahead=False)


@given(nests())
def test_causes_add_up_and_none_is_negative(nest: Nest) -> None:
    outcome = nest.run()
    assert sum(outcome.causes.values()) == outcome.cycles
    assert min(outcome.causes.values()) > 0
    indices = np.ndindex(*nest.counts)
    assert outcome.causes["compute"] == sum(
        stage.tiles * stage.streamed for stage in map(nest.stage_at, indices)
    )


MEMORY = ("first", "second", "third", "late_first", "late_second", "late_third", "store")


@given(nests(), st.sampled_from((*MEMORY, "port")), st.data())
def test_no_time_rises_when_a_duration_shrinks(nest: Nest, name: str, data: st.DataObject) -> None:
    shrunk = {}
    for key, stage in nest.stages.items():
        duration = getattr(stage, name)
        shrunk[key] = stage._replace(**{name: data.draw(st.integers(0, duration)) if duration else duration})
    assert replace(nest, stages=shrunk).run().cycles <= nest.run().cycles


@given(nests())
def test_a_second_buffer_costs_nothing(nest: Nest) -> None:
    assert nest.run(buffers=2).cycles <= nest.run(buffers=1).cycles


def without_memory(stage: Stage) -> Stage:
    return stage._replace(first=None, second=None, third=None, store=0)


@given(nests())
def test_without_memory_a_nest_is_one_run_of_tiles(nest: Nest) -> None:
    assume(not any(stage.joins for stage in nest.stages.values()))
    outcome = nest.run(lambda stage: without_memory(stage)._replace(port=0))
    stages = map(nest.stage_at, np.ndindex(*nest.counts))
    assert outcome.cycles == nest.timing.run([s.streamed for s in stages for _ in range(s.tiles)])
    assert not {cause for cause in outcome.causes if cause.startswith("stall")}


@given(nests())
def test_a_limit_is_on_the_cycles_that_memory_adds(nest: Nest) -> None:
    outcome = nest.run()
    added = outcome.cycles - nest.run(without_memory).cycles
    assert nest.run(limit=added) == outcome
    for skip_ahead in (True, False):
        if added:
            with pytest.raises(TooSlow):
                nest.run(limit=added - 1, skip_ahead=skip_ahead)


@given(nests())
def test_memory_that_answers_at_once_is_latency_taken_away(nest: Nest) -> None:
    latencies = ("late_first", "late_second", "late_third")
    prompt = nest.run(Stage.without_latency)
    assert prompt == nest.run(lambda stage: stage._replace(**dict.fromkeys(latencies, 0)))
    assert nest.run(without_memory).cycles <= prompt.cycles <= nest.run().cycles
