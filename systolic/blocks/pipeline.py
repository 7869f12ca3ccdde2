"""Double-buffered blocks through one memory port and one compute unit, in exact integer cycles.

The port serves one queue in a static order: the loads of block i + 1 go out before the store of block i.
A block's loads wait until the buffers of the block before last are free; its compute waits for its loads.
With a single buffer the store of block i goes out first, and the loads of block i + 1 wait for block i.
Every time is a maximum of sums of durations, so no time rises when a duration shrinks.

Only the static order and the durations count, so a stretch of equal blocks repeats itself as soon as the
state relative to now repeats; :func:`run_nest` then skips ahead. That makes the cost of a schedule
independent of how many blocks it has, and still exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from .array import Timing


class Stage(NamedTuple):
    """Durations of one block, cycles.

    ``first``, ``second`` and ``third`` are its loads in queue order, None where nothing is loaded
    (``first`` is what the array loads before it streams); `late_*` is the latency from the end of
    a transfer to its arrival. `store` is its write-back, 0 where there is none or where it takes no time: it
    then never stands in the queue before the loads behind it. The block is `tiles`
    tiles of `streamed` cycles each, of which the on-chip port can hand over one every `port` cycles.
    `joins` says that the tile goes on with the sums of the one before. In `bank` of the `streamed` cycles no
    word enters, as a bank of the on-chip memory has another one to give first.
    """

    first: int | None
    second: int | None
    third: int | None
    late_first: int
    late_second: int
    late_third: int
    store: int
    tiles: int
    streamed: int
    port: int = 0
    joins: bool = False
    bank: int = 0

    def without_latency(self) -> Stage:
        """The same block on a memory that answers at once."""
        return self._replace(late_first=0, late_second=0, late_third=0)


class State(NamedTuple):
    """Where the schedule stands: times in cycles since the start.

    `port` the queue is free; `start` the last tile began to enter (-1: none yet); `end` its last word
    entered; `clear` the on-chip port can hand over the next tile; `before` the end of the block before;
    `ready` the results of the last block can be stored, for `pending` cycles of the port.
    """

    port: int = 0
    start: int = -1
    end: int = 0
    clear: int = 0
    before: int = 0
    ready: int = 0
    pending: int = 0

    def relative(self) -> State:
        """The state seen from `end`, with what can no longer matter forgotten."""
        now = self.end
        return State(
            max(self.port, self.before) - now,
            self.start - now,
            0,
            max(0, self.clear - now),
            self.before - now,
            self.ready - now if self.pending else 0,
            self.pending,
        )

    def later(self, cycles: int) -> State:
        """The same state, `cycles` later."""
        return State(
            self.port + cycles,
            self.start + cycles,
            self.end + cycles,
            self.clear + cycles,
            self.before + cycles,
            self.ready + cycles,
            self.pending,
        )


_PRELOAD, _COMPUTE, _WAIT, _ONCHIP, _STALL, _LATE, _SERIAL_TILES, _PORT_BLOCKS, _BANK = range(9)


class Outcome(NamedTuple):
    """Cycles of a schedule, and by cause; ``stall_dram`` holds all waiting for memory, latency included.

    `port_idle` are the cycles after the last load in which the port has nothing to do but wait for the last
    store: what comes after this schedule may load something meanwhile.
    """

    cycles: int
    causes: dict[str, int]
    port_idle: int


class TooSlow(Exception):
    """A schedule waits for memory longer than its caller wants to know."""


@dataclass(frozen=True)
class _Run:
    """One run of a nest: its loops as (representative index, how many), stages, unit, and stall limit."""

    loops: Sequence[Sequence[tuple[int, int]]]
    stage_at: Callable[[tuple[int, ...]], Stage]
    timing: Timing
    buffers: int
    limit: int | None
    counts: list[int]


def run_nest(
    loop_counts: Sequence[int],
    stage_at: Callable[[tuple[int, ...]], Stage],
    timing: Timing,
    *,
    buffers: int = 2,
    skip_ahead: bool = True,
    limit: int | None = None,
) -> Outcome:
    """Run a nest of loops over blocks.

    Parameters
    ----------
    loop_counts
        Iterations of each loop, outermost first.
    stage_at
        Index of each loop -> the block's :class:`Stage`. It may depend on an index only through
        whether it is the first, the last, or neither.
    timing
        Constants of the compute unit.
    buffers
        2, or 1: see the module's text.
    skip_ahead
        False runs every block: the plain twin.
    limit
        Give up with :class:`TooSlow` once the unit has waited for memory longer than this, cycles.
    """
    loops = [_classes(c) if skip_ahead else [(i, 1) for i in range(c)] for c in loop_counts]
    run = _Run(loops, stage_at, timing, buffers, limit, [0] * 9)
    return _close(_sweep(State(), (), run), run)


def closed(state: State, counts: Sequence[int], timing: Timing) -> Outcome:
    """What a schedule that ends in `state` costs, of whose cycles `counts` has been kept elsewhere."""
    none: dict[tuple[int, ...], Stage] = {}
    return _close(state, _Run([], none.__getitem__, timing, 2, None, list(counts)))


def states(
    loop_counts: Sequence[int],
    stage_at: Callable[[tuple[int, ...]], Stage],
    timing: Timing,
    *,
    buffers: int = 2,
) -> Iterator[State]:
    """Where the schedule stands before each block, in the order in which they run, and after the last one."""
    return (state for state, _ in tallied_states(loop_counts, stage_at, timing, buffers=buffers))


def tallied_states(
    loop_counts: Sequence[int],
    stage_at: Callable[[tuple[int, ...]], Stage],
    timing: Timing,
    *,
    buffers: int = 2,
) -> Iterator[tuple[State, Outcome]]:
    """As :func:`states`, each with what the run would have cost had it ended there."""
    run = _Run([], stage_at, timing, buffers, None, [0] * 9)
    state = State()
    for index in product(*map(range, loop_counts)):
        yield state, _close(state, run)
        state = _advance(state, stage_at(index), run)
    yield state, _close(state, run)


def _classes(count: int) -> list[tuple[int, int]]:
    """(representative index, how many): the first iteration, those between, the last."""
    if count == 1:
        return [(0, 1)]
    middle = [(1, count - 2)] if count > 2 else []
    return [(0, 1), *middle, (count - 1, 1)]


def _sweep(state: State, index: tuple[int, ...], run: _Run) -> State:
    """Run the loops inside `index`."""
    depth = len(index)
    if depth == len(run.loops):
        return _advance(state, run.stage_at(index), run)
    counts = run.counts
    for representative, times in run.loops[depth]:
        here = (*index, representative)
        if times == 1:
            state = _sweep(state, here, run)
            continue
        seen: dict[State, tuple[int, int, tuple[int, ...]]] = {}
        done = 0
        while done < times:
            view = state.relative()
            if view in seen:
                at, end, tally = seen[view]
                rounds, rest = divmod(times - done, done - at)
                port_stands = counts[_PORT_BLOCKS] == tally[_PORT_BLOCKS]
                for cause, before in enumerate(tally):
                    counts[cause] += rounds * (counts[cause] - before)
                later = state.later(rounds * (state.end - end))
                state = later._replace(port=state.port) if port_stands else later
                for _ in range(rest):
                    state = _sweep(state, here, run)
                break
            seen[view] = (done, state.end, tuple(counts))
            state = _sweep(state, here, run)
            done += 1
    return state


def _advance(state: State, stage: Stage, run: _Run) -> State:
    """Run one block: its loads, the store of the block before, its compute."""
    run.counts[_PORT_BLOCKS] += state.pending > 0 or stage[:3] != (None, None, None)
    arrive_first = arrive_rest = 0
    port = state.port
    if run.buffers == 1 and state.pending:
        port = max(state.ready, port) + state.pending
    free = max(port, state.before if run.buffers > 1 else state.end)
    if stage.first is not None:
        port = free = free + stage.first
        arrive_first = port + stage.late_first
    if stage.second is not None:
        port = free = free + stage.second
        arrive_rest = port + stage.late_second
    if stage.third is not None:
        port = free = free + stage.third
        arrive_rest = max(arrive_rest, port + stage.late_third)
    if run.buffers > 1 and state.pending:
        port = max(state.ready, port) + state.pending
    step = _one_tile_at_a_time if run.timing.serial else _back_to_back
    start, finish, clear, done = step(state, stage, arrive_first, arrive_rest, run)
    if run.limit is not None and run.counts[_LATE] > run.limit:
        raise TooSlow
    return State(port, start, finish, clear, state.end, done, stage.store)


def _one_tile_at_a_time(
    state: State, stage: Stage, arrive_first: int, arrive_rest: int, run: _Run
) -> tuple[int, int, int, int]:
    """The tiles of a block, each clocked to its end: (last start, end, port clear, results out)."""
    timing, counts = run.timing, run.counts
    alone = timing.tile(stage.streamed)
    pace = max(alone, stage.port)
    begin = max(state.end, arrive_first, arrive_rest)
    counts[_COMPUTE] += stage.tiles * (stage.streamed - stage.bank)
    counts[_BANK] += stage.tiles * stage.bank
    counts[_PRELOAD] += stage.tiles * timing.load
    counts[_SERIAL_TILES] += stage.tiles
    counts[_ONCHIP] += stage.tiles * (pace - alone)
    counts[_STALL] += begin - state.end
    counts[_LATE] += begin - state.end
    start = begin + (stage.tiles - 1) * pace
    end = start + pace
    return start, end, end, end


def _back_to_back(
    state: State, stage: Stage, arrive_first: int, arrive_rest: int, run: _Run
) -> tuple[int, int, int, int]:
    """The tiles of a block, each behind the one before: (last start, end, port clear, results out).

    Cycles in which no word enters go to the shift of weights (or of finished sums) where one is under way,
    then to the on-chip port, then to memory.
    """
    timing, counts = run.timing, run.counts
    streamed, end = stage.streamed, state.end
    fresh = state.start < 0
    shift = max(state.start, arrive_first, 0)
    own = 0 if stage.joins else timing.gap(end - state.start, streamed)
    wait = timing.load if fresh else own
    least = max(end + wait, state.clear)
    begin = max(least, shift + timing.load, arrive_rest)
    shifted = wait if fresh else max(wait, min(begin, shift + timing.load) - max(end, shift))
    onchip = max(0, min(begin, state.clear) - end - shifted)
    counts[_PRELOAD if fresh else _WAIT] += shifted
    counts[_ONCHIP] += onchip
    counts[_STALL] += begin - end - shifted - onchip
    counts[_LATE] += begin - least

    between = timing.gap(streamed, streamed)
    pace = max(streamed + between, stage.port)
    counts[_COMPUTE] += stage.tiles * (streamed - stage.bank)
    counts[_BANK] += stage.tiles * stage.bank
    counts[_WAIT] += (stage.tiles - 1) * between
    counts[_ONCHIP] += (stage.tiles - 1) * (pace - streamed - between)
    start = begin + (stage.tiles - 1) * pace
    return start, start + streamed, start + stage.port, start + streamed + timing.drain


def _close(state: State, run: _Run) -> Outcome:
    """Let the last results leave and the last store finish; name the causes."""
    timing, counts = run.timing, run.counts
    array_end = drained = state.end if timing.serial else state.end + timing.drain
    if not timing.serial:
        # The on-chip port needs as long for the last tile as for any other.
        array_end = max(drained, state.clear)
    total = max(array_end, max(state.port, state.ready) + state.pending if state.pending else 0)
    if run.limit is not None and counts[_LATE] + total - array_end > run.limit:
        raise TooSlow
    causes = {
        "preload": counts[_PRELOAD],
        "compute": counts[_COMPUTE],
        "stall_onchip": counts[_ONCHIP] + array_end - drained,
        "stall_bank": counts[_BANK],
        "stall_dram": counts[_STALL] + total - array_end,
    }
    rounds = counts[_SERIAL_TILES] if timing.serial else 1
    for cause, cycles in timing.split_drain().items():
        causes[cause] = rounds * cycles
    waits_for = "drain" if timing.shift_out else "weight_load"
    causes[waits_for] = causes.get(waits_for, 0) + counts[_WAIT]
    idle = max(0, (state.ready if state.pending else total) - state.port)
    return Outcome(total, {cause: cycles for cause, cycles in causes.items() if cycles}, idle)
