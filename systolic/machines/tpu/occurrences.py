"""A composed run as slices on one time axis: op after op, layer after layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from ...blocks.pipeline import states
from ...blocks.timeline import spans
from ...chips.tpu import TpuChip
from ...mapping.plan import array_work
from ...mapping.schedule import loop_counts
from ...mapping.slices import array_slices, port_slices
from ...recorded import Slice
from ...result import Result
from ..base import Occurrence
from .composition import weights_ahead
from .costing import VECTOR_UNIT, gemm_cost, vector_blocks
from .lowering import GemmStep, Step, VectorStep


def timeline(
    steps: Sequence[Step], results: Sequence[Result], rows: Sequence[Result], chip: TpuChip
) -> Iterator[Occurrence]:
    """Every occurrence of every op, in the order in which they run; their cycles are those of the rows.

    Ops with the same count that follow one another (the ops of a layer) take turns. Slices are those of the
    busiest core.

    Parameters
    ----------
    steps
        From :func:`systolic.machines.tpu.lower`, in tiled mode.
    results, rows
        Costs of the steps by themselves, and what :func:`systolic.machines.tpu.compose` made of them.
    chip
        The chip they were lowered for.
    """
    start = 0
    ops = zip(steps, rows, weights_ahead(steps, results, chip), strict=True)
    for count, group in groupby(ops, key=lambda op: op[0].op.count):
        layer = list(group)
        for number in range(count):
            for step, row, ahead in layer:
                cycles, slices = _occurrence(step, row, chip, number, ahead or (0, 0))
                yield Occurrence(row, number, start, cycles, slices)
                start += cycles


def most_slices(steps: Sequence[Step], chip: TpuChip) -> int:
    """How many slices :func:`timeline` gives at most: from the blocks, without walking through them."""
    each_tile = 6 if chip.array.convention == "serial" else 4
    total = 0
    for step in steps:
        if isinstance(step, VectorStep):
            total += step.op.count * 4 * vector_blocks(step, chip, 0)[0]
            continue
        problem, plan = step.mapped.split.busiest, step.mapped.plan
        tiles, _, _ = array_work(problem, plan.split, plan.tile)
        total += step.op.count * math.prod(loop_counts(problem, plan)) * (8 + each_tile * int(tiles))
    return total


def _occurrence(
    step: Step, row: Result, chip: TpuChip, number: int, ahead: tuple[int, int]
) -> tuple[int, Iterator[Slice]]:
    """Cycles of one occurrence, and its slices from cycle 0 on."""
    if isinstance(step, GemmStep):
        loaded = ahead[0] if number == 0 else ahead[1]
        cycles = gemm_cost(step, chip, loaded).cycles if loaded else step.mapped.cost.cycles
        return cycles, _matmul_slices(step, loaded)
    each, more = divmod(row.cycles, step.op.count)
    cycles = each + (number < more)
    if step.op.fused_into:
        # What finds no room beside its matmul has one cause: see `compose`.
        cause = next(iter(row.cycles_by_cause), "")
        exposed = Slice(unit="vector", name=row.name, start=0, stop=cycles, cause=cause)
        return cycles, iter((exposed,) if cycles else ())
    return cycles, _vector_slices(step, row, chip, cycles)


def _matmul_slices(step: GemmStep, ahead: int) -> Iterator[Slice]:
    problem, plan = step.mapped.split.busiest, step.mapped.plan
    yield from port_slices(problem, plan, ahead)
    yield from array_slices(problem, plan, ahead)


def _vector_slices(step: VectorStep, row: Result, chip: TpuChip, cycles: int) -> Iterator[Slice]:
    """Blocks of a vector op through the memory port and the vector unit."""
    op = step.op
    blocks, stage = vector_blocks(step, chip, row.busy_cycles // op.count)
    end = 0
    for begin, stop, cause, block, _ in spans((blocks,), lambda _: stage, VECTOR_UNIT):
        name = f"block {block + 1} of {blocks}"
        cause = "vector" if cause == "compute" else cause
        yield Slice(unit="vector", name=name, start=begin, stop=stop, cause=cause)
        end = stop
    if end < cycles:
        yield Slice(unit="vector", name="on-chip port", start=end, stop=cycles, cause="stall_onchip")
    if step.level == "vmem":
        return
    moved = {False: op.read_bytes, True: op.write_bytes}
    for i, state in enumerate(states((blocks,), lambda _: stage, VECTOR_UNIT)):
        port = state.port
        if i < blocks and stage.first is not None:
            at = max(port, state.before)
            port = at + stage.first
            yield _vector_move(step, moved, i, blocks, False, at, port)
        if i > 0 and op.write_bytes:
            at = max(port, state.ready) if stage.store else state.ready
            yield _vector_move(step, moved, i - 1, blocks, True, at, at + stage.store)


def _vector_move(
    step: VectorStep, moved: dict[bool, int], block: int, blocks: int, write: bool, start: int, stop: int
) -> Slice:
    """A block of what a vector op reads or writes; the first are a byte larger where it does not divide."""
    each, more = divmod(moved[write], blocks)
    return Slice(
        unit=step.level,
        name=f"{'store' if write else 'load'} block {block + 1} of {blocks}",
        start=start,
        stop=stop,
        operand="other",
        bytes=each + (block < more),
        write=write,
    )
