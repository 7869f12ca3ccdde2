"""A plan as a nest of blocks, and its exact cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ..blocks.pipeline import Outcome, Stage, run_nest
from .plan import DIMS, OPERAND_DIMS, Operand, Plan, Problem, array_work, step_cycles

Index = tuple[int, ...]


class Move(NamedTuple):
    """A transfer: which operand, its bytes across the port, and the cycles that they take."""

    operand: str
    bytes: int
    cycles: int


class Block(NamedTuple):
    """One block of the nest: its sides, its loads in queue order, its store (None: sums stay)."""

    size: dict[str, int]
    loads: tuple[Move, ...]
    store: Move | None
    joins: bool


def loop_counts(problem: Problem, plan: Plan) -> tuple[int, ...]:
    """Iterations of the loops over batch and blocks, outermost first."""
    return (problem.batch, *(plan.blocks(problem, d) for d in plan.order))


def kind_of(index: Index, counts: tuple[int, ...]) -> tuple[int, ...]:
    """All that a block depends on: whether each index is the first, the last, both or neither."""
    return tuple((i == 0) + 2 * (i == c - 1) for i, c in zip(index, counts, strict=True))


def block_at(problem: Problem, plan: Plan, index: Index) -> Block:
    """The block at an index of (batch, loops in plan order).

    Depends on each index only through whether it is the first, the last, or neither. A batch element starts
    with blocks of its own.
    """
    at = dict(zip(plan.order, index[1:], strict=True))
    of = {d: plan.blocks(problem, d) for d in DIMS}
    size = {d: min(plan.tile[d], problem.size(d) - at[d] * plan.tile[d]) for d in DIMS}
    entered = _changed(plan.order, index, of, first=True)
    left = _changed(plan.order, index, of, first=False)
    names = [problem.stationary, problem.streaming]
    loads = [n for n in names if entered & {"batch", *OPERAND_DIMS[n]}]
    arrives = bool(entered & {"batch", "m", "n"})
    if arrives and at["k"] > 0:
        loads.append("psum")
    moves = tuple(_move(problem, n, size) for n in loads if problem.operands[n].place is not None)
    store = None
    if left & {"batch", "m", "n"}:
        name = "out" if at["k"] == of["k"] - 1 else "psum"
        if problem.operands[name].place is not None:
            store = _move(problem, name, size)
    return Block(size, moves, store, joins=problem.dataflow == "os" and at["k"] > 0)


def _changed(order: str, index: Index, of: dict[str, int], *, first: bool) -> set[str]:
    """Dimensions whose index differs from the block before (first) or in the block after (not first).

    The very first block differs from nothing in everything, and so does the last.
    """
    changed: set[str] = set()
    for dim, i in zip(reversed(order), reversed(index[1:]), strict=True):
        turned = i == 0 if first else i == of[dim] - 1
        if of[dim] > 1:
            changed.add(dim)
        if not turned:
            return changed
    return changed | {"batch"}


def _move(problem: Problem, name: str, size: dict[str, int]) -> Move:
    operand: Operand = problem.operands[name]
    rows, cols = OPERAND_DIMS["out" if name == "psum" else name]
    shape = size[rows], size[cols], problem.size(rows), problem.size(cols)
    return Move(name, int(operand.moved_bytes(*shape)), int(operand.moved_cycles(*shape)))


def stage_of(problem: Problem, plan: Plan, block: Block) -> Stage:
    """Durations of a block."""
    moved = {move.operand: move.cycles for move in block.loads}

    def load(name: str) -> tuple[int | None, int]:
        operand = problem.operands[name]
        if name not in moved or operand.place is None:
            return None, 0
        return moved[name], operand.place.latency

    first, late_first = load(problem.stationary)
    second, late_second = load(problem.streaming)
    third, late_third = load("psum")
    store = block.store
    step = step_cycles(problem, plan.split, plan.tile)
    tiles, streamed, port = array_work(problem, plan.split, block.size, step)
    return Stage(
        first,
        second,
        third,
        late_first,
        late_second,
        late_third,
        store.cycles if store else 0,
        int(tiles),
        int(streamed),
        int(port),
        block.joins,
        int(streamed // step * (step - problem.timing.interval)),
    )


def stages(problem: Problem, plan: Plan, ahead: int = 0) -> Callable[[Index], Stage]:
    """Index -> stage, computed once for each kind of block.

    `ahead` port cycles of the very first weights have been spent before the run.
    """
    counts = loop_counts(problem, plan)
    known: dict[tuple[int, ...], Stage] = {}

    def at(index: Index) -> Stage:
        kind = kind_of(index, counts)
        if kind not in known:
            known[kind] = stage_of(problem, plan, block_at(problem, plan, index))
        return known[kind]

    if not ahead:
        return at

    def after_prefetch(index: Index) -> Stage:
        return at(index) if any(index) else _with_weights_ahead(at(index), problem, ahead)

    return after_prefetch


def _with_weights_ahead(stage: Stage, problem: Problem, ahead: int) -> Stage:
    """A block of whose weights `ahead` port cycles are loaded already; all of them need no waiting."""
    weights_first = problem.stationary == "rhs"
    cycles = stage.first if weights_first else stage.second
    if cycles is None:
        return stage
    left = cycles - ahead if cycles > ahead else None
    return stage._replace(first=left) if weights_first else stage._replace(second=left)


def first_weights(problem: Problem, plan: Plan) -> Move | None:
    """The transfer of a run's very first rhs block; None where it needs none."""
    loads = block_at(problem, plan, (0, 0, 0, 0)).loads
    return next((move for move in loads if move.operand == "rhs"), None)


def plan_outcome(
    problem: Problem, plan: Plan, *, skip_ahead: bool = True, limit: int | None = None
) -> Outcome:
    """Exact cycles of a plan on one core. ``skip_ahead=False`` visits every block; `limit` see `run_nest`."""
    return run_nest(
        loop_counts(problem, plan),
        stages(problem, plan),
        problem.timing,
        buffers=problem.buffers,
        skip_ahead=skip_ahead,
        limit=limit,
    )


class Explained(NamedTuple):
    """Cycles of a plan, and by cause.

    `behind_memory` is the part of ``weight_load`` in which the array would have waited for memory anyway:
    weights that shift in at once would not save it. `port_idle` as for an `Outcome`.
    """

    cycles: int
    causes: dict[str, int]
    behind_memory: int
    port_idle: int


def explain(problem: Problem, plan: Plan, ahead: int = 0) -> Explained:
    """Cycles of a plan by cause, by asking what would vanish; `ahead` as for :func:`stages`.

    ``stall_latency`` is what a memory that answers at once would save; ``stall_dram`` is the rest of the
    waiting for memory.
    """
    counts, at, buffers = loop_counts(problem, plan), stages(problem, plan, ahead), problem.buffers
    return explained(
        run_nest(counts, at, problem.timing, buffers=buffers),
        lambda: run_nest(counts, lambda i: at(i).without_latency(), problem.timing, buffers=buffers).cycles,
        lambda: run_nest(counts, at, replace(problem.timing, load=0), buffers=buffers).cycles,
    )


def explained(outcome: Outcome, prompt: Callable[[], int], at_once: Callable[[], int]) -> Explained:
    """Cycles by cause of an outcome, from its cycles on a `prompt` memory and with weights `at_once`."""
    causes = dict(outcome.causes)
    stalled = causes.pop("stall_dram", 0)
    latency = min(stalled, outcome.cycles - prompt()) if stalled else 0
    causes |= {c: v for c, v in (("stall_dram", stalled - latency), ("stall_latency", latency)) if v}
    shifting = causes.get("weight_load", 0)
    behind = 0
    if shifting:
        saved = outcome.cycles - at_once()
        if stalled > saved:
            behind = max(0, shifting - saved)
    return Explained(outcome.cycles, causes, behind, outcome.port_idle)


def indices(problem: Problem, plan: Plan) -> Iterator[Index]:
    """All indices of the nest, in the order in which blocks run."""

    def walk(prefix: Index, counts: tuple[int, ...]) -> Iterator[Index]:
        if not counts:
            yield prefix
            return
        for i in range(counts[0]):
            yield from walk((*prefix, i), counts[1:])

    return walk((), loop_counts(problem, plan))
