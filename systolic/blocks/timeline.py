"""A schedule of blocks as a timeline of the compute unit: what each of its cycles went to, in order.

The unit is seen where its results come out: of a systolic array that is the bottom PE of the first column
(output stationary: the far corner), which works ``fill`` cycles after the first word has entered. Where
several causes share a gap between two tiles, waiting for memory is placed first, then the on-chip port, then
the shift of weights or sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from .array import Timing
from .pipeline import Outcome, Stage, State, tallied_states


class Span(NamedTuple):
    """Cycles start <= t < stop of the unit that went to `cause`; tile `tile` of block `block`."""

    start: int
    stop: int
    cause: str
    block: int
    tile: int


Part = tuple[str, int, int]
"""Cause, cycles, tile."""


def spans(
    loop_counts: Sequence[int],
    stage_at: Callable[[tuple[int, ...]], Stage],
    timing: Timing,
    *,
    buffers: int = 2,
) -> Iterator[Span]:
    """The cycles of the unit without a gap, from 0 to the end of the run; arguments as for `run_nest`.

    Their sum by cause is the schedule's :class:`~systolic.blocks.pipeline.Outcome`.
    """
    at, block = 0, -1
    walk = tallied_states(loop_counts, stage_at, timing, buffers=buffers)
    before, spent = next(walk)
    for block, index in enumerate(product(*map(range, loop_counts))):
        stage, (after, total) = stage_at(index), next(walk)
        one_by_one = _one_tile_at_a_time if timing.serial else _back_to_back
        for cause, cycles, tile in one_by_one(before, after, stage, timing, spent, total):
            if cycles:
                yield Span(at, at + cycles, cause, block, tile)
                at += cycles
        before, spent = after, total
    tail = _tail(before, timing, spent.cycles)
    for cause, cycles in tail:
        if cycles:
            yield Span(at, at + cycles, cause, block, -1)
            at += cycles


def _one_tile_at_a_time(
    before: State, after: State, stage: Stage, timing: Timing, spent: Outcome, total: Outcome
) -> Iterator[Part]:
    """Each tile loads, fills, streams and drains."""
    pace = (after.end - after.start) if stage.tiles else 0
    yield "stall_dram", after.end - stage.tiles * pace - before.end, 0
    around = timing.split_drain()
    for tile in range(stage.tiles):
        yield "preload", timing.load, tile
        yield "fill", around["fill"], tile
        yield "compute", stage.streamed - stage.bank, tile
        yield "stall_bank", stage.bank, tile
        yield "drain", around["drain"], tile
        yield "stall_onchip", pace - timing.tile(stage.streamed), tile


def _back_to_back(
    before: State, after: State, stage: Stage, timing: Timing, spent: Outcome, total: Outcome
) -> Iterator[Part]:
    """Tiles follow one another; what went by before the first of them is what the schedule counted."""
    between = timing.gap(stage.streamed, stage.streamed)
    pace = max(stage.streamed + between, stage.port)
    begin = after.start - (stage.tiles - 1) * pace
    fresh, wait = before.start < 0, "drain" if timing.shift_out else "weight_load"

    def counted(cause: str) -> int:
        return total.causes.get(cause, 0) - spent.causes.get(cause, 0)

    shift = counted("preload") if fresh else counted(wait) - (stage.tiles - 1) * between
    gap = begin - before.end
    # What the run would wait for at its end is no part of this block; the gap holds the rest.
    onchip = min(gap - shift, max(0, before.clear - before.end - shift))
    yield "stall_dram", gap - shift - onchip, 0
    yield "stall_onchip", onchip, 0
    yield "preload" if fresh else wait, shift, 0
    if fresh:
        yield "fill", timing.split_drain()["fill"], 0
    for tile in range(stage.tiles):
        yield "compute", stage.streamed - stage.bank, tile
        yield "stall_bank", stage.bank, tile
        if tile < stage.tiles - 1:
            yield wait, between, tile
            yield "stall_onchip", pace - stage.streamed - between, tile


def _tail(last: State, timing: Timing, cycles: int) -> Iterator[tuple[str, int]]:
    """From the last tile's last word to the end of the run."""
    if timing.serial:
        yield "stall_dram", cycles - last.end
        return
    drained = last.end + timing.drain
    yield "drain", timing.split_drain()["drain"]
    yield "stall_onchip", max(0, last.clear - drained)
    yield "stall_dram", cycles - max(drained, last.clear)
