"""A plan as slices on one time axis: what memory ports move, and what the busiest array does."""

from __future__ import annotations

from collections.abc import Iterator

from ..blocks.timeline import spans
from ..recorded import Slice
from .plan import Plan, Problem
from .schedule import loop_counts, stages
from .transfers import transfers_of


def array_slices(problem: Problem, plan: Plan, ahead: int = 0) -> Iterator[Slice]:
    """What each cycle of the busiest array went to: without a gap, and adding up to the plan's cycles.

    `ahead` as for :func:`systolic.mapping.schedule.stages`.
    """
    counts = loop_counts(problem, plan)
    walk = spans(counts, stages(problem, plan, ahead), problem.timing, buffers=problem.buffers)
    for start, stop, cause, block, tile in walk:
        name = f"block {block + 1} tile {tile + 1}" if tile >= 0 else "end of the run"
        yield Slice(unit="array", name=name, start=start, stop=stop, cause=cause)


def port_slices(problem: Problem, plan: Plan, ahead: int = 0) -> Iterator[Slice]:
    """What crosses the ports of one core's memories, in the order in which it does."""
    for move in transfers_of(problem, plan, ahead):
        place = problem.operands[move.operand].place
        assert place is not None
        where = f"[{move.row}:{move.row + move.rows}, {move.col}:{move.col + move.cols}]"
        of = f" of batch {move.batch}" if problem.batch > 1 else ""
        yield Slice(
            unit=place.level,
            name=f"{'store' if move.write else 'load'} {move.operand} {where}{of}",
            start=move.start,
            stop=move.start + move.cycles,
            operand=move.operand,
            bytes=move.bytes,
            write=move.write,
        )
