"""Cycles and bytes of a step; no values."""

from __future__ import annotations

from typing import Any

from ...blocks.array import AXES, Timing, folds
from ...blocks.dram_port import port_cycles
from ...blocks.pipeline import Outcome, Stage, run_nest
from ...chips.tpu import TpuChip
from ...mapping.plan import DIMS, CoreSplit, Plan, Problem, array_work
from ...mapping.schedule import explain
from ...mapping.space import array_splits
from ...mapping.traffic import onchip_bytes, port_totals, sides
from ...result import Bytes, Result, Traffic, add_bytes
from .lowering import GemmStep, Step, VectorStep, precision
from .placement import capacity

VECTOR_BLOCKS = 16
"""A vector op works on blocks of 1/16 of the on-chip memory, so that two blocks in and two out leave most of
it to whatever else lies there. A choice, not a measurement: it sets only the exposed first load and last
store."""


def cost(step: Step, chip: TpuChip, record: Any = None) -> Result:
    """Cycles, bytes and events of all occurrences of a step, run by itself.

    Parameters
    ----------
    step
        From :func:`systolic.machines.tpu.lowering.lower`.
    chip
        The chip it was lowered for.
    record
        A list that receives the state of the stepped arrays, or None.
    """
    one = _vector(step, chip) if isinstance(step, VectorStep) else gemm_cost(step, chip, record=record)
    return one.times(step.op.count)


def gemm_cost(step: GemmStep, chip: TpuChip, ahead: int = 0, record: Any = None) -> Result:
    """One occurrence of a matmul, of whose first weights `ahead` port cycles are loaded already."""
    if step.mode == "bound":
        return _bound(step, chip)
    if step.mode == "stepped":
        from .stepped import stepped_cost

        return stepped_cost(step, chip, ahead, record)
    return tiled_cost(step, chip, ahead)


def tiled_cost(step: GemmStep, chip: TpuChip, ahead: int = 0) -> Result:
    """Whole blocks scheduled exactly, with the array's exact timing."""
    mapped = step.mapped
    cost = explain(mapped.split.busiest, mapped.plan, ahead) if ahead else mapped.cost
    return gemm_result(
        step,
        chip,
        cycles=cost.cycles,
        causes=cost.causes,
        behind_memory=cost.behind_memory,
        port_idle=cost.port_idle,
        traffic=plan_bytes(mapped.split, mapped.plan),
        array_macs=_array_macs(mapped.split),
        source="tiled",
    )


def gemm_result(
    step: GemmStep,
    chip: TpuChip,
    *,
    cycles: int,
    causes: dict[str, int],
    traffic: Bytes,
    array_macs: int,
    source: str,
    behind_memory: int = 0,
    port_idle: int = 0,
) -> Result:
    """The row of one occurrence of a matmul."""
    op, mapped = step.op, step.mapped
    slots, held, busy = _slots(mapped.split, mapped.plan)
    pe_cycles = chip.pes * chip.array.lanes[step.multiplied] * cycles // chip.array.mac_interval
    arrays = chip.cores * chip.mxus_per_core
    return Result(
        op=op,
        kind="matmul",
        cycles=cycles,
        busy_cycles=cycles,
        clock_hz=chip.clock_hz,
        cycles_by_cause=causes,
        behind_memory=behind_memory,
        bytes=traffic,
        array_macs=array_macs,
        padded_macs=slots - array_macs,
        pe_cycles=pe_cycles,
        mapped_pe_cycles=max(array_macs, pe_cycles * busy * held // (arrays * slots)),
        source=source,
        mapping=describe(step),
        precision=str(precision(step, chip)),
        min_dram_bytes=mapped.min_dram_bytes,
        notes=step.notes,
        port_idle=port_idle,
    )


def describe(step: GemmStep) -> dict[str, Any]:
    """What the mapper picked, as plain data."""
    split, plan = step.mapped.split, step.mapped.plan
    problem = split.busiest
    return {
        "dataflow": step.dataflow,
        "tile": {d: min(plan.tile[d], problem.size(d)) for d in DIMS},
        "blocks": {d: plan.blocks(problem, d) for d in DIMS},
        "order": plan.order,
        "cores": folds(sum(s.cores for s in split.shares), split.apart),
        "split_over_cores": split.dim,
        "arrays_along_batch": split.apart,
        "arrays_along_columns": plan.split[0],
        "arrays_along_rows" if step.dataflow == "os" else "arrays_along_stream": plan.split[1],
        "plans_that_fit": step.mapped.considered,
    }


def plan_bytes(split: CoreSplit, plan: Plan) -> dict[str, dict[str, Traffic]]:
    """Bytes through each level's port, whole chip, one occurrence."""
    parts: list[Bytes] = []
    for share in split.shares:
        problem, times = share.problem, share.cores * share.problem.batch
        for (name, way), amount in port_totals(problem, plan.tile, plan.order).bytes.items():
            place = problem.operands[name].place
            if place is not None and amount:
                parts.append({place.level: {name: _traffic(way, times * int(amount))}})
        for (level, name, way), amount in onchip_bytes(problem, plan.tile, plan.split).items():
            parts.append({level: {name: _traffic(way, times * int(amount))}})
    return add_bytes(*parts)


def _traffic(way: str, amount: int) -> Traffic:
    return Traffic(read=amount) if way == "read" else Traffic(write=amount)


def _array_macs(split: CoreSplit) -> int:
    return sum(
        s.cores * s.problem.passes * s.problem.batch * s.problem.m * s.problem.n * s.problem.k
        for s in split.shares
    )


def _slots(split: CoreSplit, plan: Plan) -> tuple[int, int, int]:
    """(PE slots clocked with a word, those of PEs that hold work, arrays that get a tile), one occurrence."""
    slots = held = busy = 0
    for share in split.shares:
        problem = share.problem
        axes, timing = AXES[problem.dataflow], problem.timing
        length = {d: problem.size(d) for d in DIMS}
        row_tiles = sum(
            c * folds(s, timing.rows) for c, s in sides(length[axes.rows], plan.tile[axes.rows]) if c
        )
        col_tiles = sum(
            c * folds(s, timing.cols) for c, s in sides(length[axes.cols], plan.tile[axes.cols]) if c
        )
        streamed = _streamed_slots(problem, plan)
        times = share.cores * problem.batch * (1 if problem.dataflow == "os" else problem.passes)
        slots += times * row_tiles * col_tiles * timing.rows * timing.cols * streamed
        held += times * length[axes.rows] * length[axes.cols] * streamed
        busy += share.cores * _busy_arrays(problem, plan)
    return slots, held, busy


def _streamed_slots(problem: Problem, plan: Plan) -> int:
    """Lane slots along the streamed dimension: its pieces, each rounded up to whole cycles of all lanes."""
    stream = AXES[problem.dataflow].stream
    total = 0
    for count, length in sides(problem.size(stream), plan.tile[stream]):
        part = length * (problem.passes if problem.dataflow == "os" else 1)
        share = part if problem.dataflow == "os" else folds(part, plan.split[1])
        rest = part
        while rest > 0 and count:
            piece = min(share, rest)
            total += count * folds(piece, problem.lanes) * problem.lanes
            rest -= piece
    return total


def _busy_arrays(problem: Problem, plan: Plan) -> int:
    axes, timing = AXES[problem.dataflow], problem.timing
    side = {d: min(plan.tile[d], problem.size(d)) for d in DIMS}
    across = min(plan.split[0], folds(side[axes.cols], timing.cols))
    if problem.dataflow == "os":
        return across * min(plan.split[1], folds(side[axes.rows], timing.rows))
    return across * folds(side[axes.stream], folds(side[axes.stream], plan.split[1]))


def _bound(step: GemmStep, chip: TpuChip) -> Result:
    """Closed form, no blocks: the arrays with memory never in the way, and each byte moved once.

    A lower bound of every plan with the same split over cores.
    """
    split = step.mapped.split
    ways = array_splits(split.busiest)
    cycles, causes, _ = min((_array_bound(split, way) for way in ways), key=lambda found: found.cycles)
    traffic: dict[str, dict[str, Traffic]] = {}
    moving = 0
    for name in ("lhs", "rhs", "out"):
        operand = split.busiest.operands[name]
        if operand.place is None:
            continue
        amount = {"lhs": step.op.lhs_bytes, "rhs": step.op.rhs_bytes, "out": step.op.out_bytes}[name]
        way = "write" if name == "out" else "read"
        traffic = add_bytes(traffic, {operand.place.level: {name: _traffic(way, amount)}})
    for level, operands in traffic.items():
        amount = sum(t.total for t in operands.values())
        moving = max(moving, chip.memory[level].transfer_cycles(amount, chip.clock_hz))
    if moving > cycles:
        causes = {**causes, "stall_dram": moving - cycles}
        cycles = moving
    return gemm_result(
        step,
        chip,
        cycles=cycles,
        causes=causes,
        traffic=traffic,
        array_macs=_array_macs(split),
        source="bound",
    )


def _array_bound(split: CoreSplit, way: tuple[int, int]) -> Outcome:
    problem = split.busiest
    whole = Plan(tile={d: problem.size(d) for d in DIMS}, order="mnk", split=way)
    tiles, streamed, _ = array_work(problem, way, whole.tile)
    stage = Stage(None, None, None, 0, 0, 0, 0, tiles, streamed)
    return run_nest((problem.batch,), lambda _: stage, problem.timing)


def _vector(step: VectorStep, chip: TpuChip) -> Result:
    """A vector op: blocks through the memory port and the vector unit, or pure traffic."""
    op = step.op
    cycles_each = -(-op.elements * op.vector_ops // (chip.cores * chip.vector.ops_per_cycle))
    if op.fused_into:
        read, write = op.side_bytes, 0
        cycles, causes, idle = cycles_each, {"vector": cycles_each}, 0
    else:
        read, write = op.read_bytes, op.write_bytes
        cycles, causes, idle = _vector_schedule(step, chip, cycles_each)
        if step.level == "vmem" and (wait := onchip_cycles(read, chip) - cycles) > 0:
            cycles, causes = cycles + wait, {**causes, "stall_onchip": wait}
    traffic: dict[str, dict[str, Traffic]] = {}
    if read or write:
        traffic = {step.level: {"other": Traffic(read, write)}}
    return Result(
        op=op,
        kind="gather" if op.kind == "gather" else "vector",
        cycles=cycles,
        busy_cycles=cycles_each,
        clock_hz=chip.clock_hz,
        cycles_by_cause={c: v for c, v in causes.items() if v},
        bytes=traffic,
        source="tiled",
        port_idle=idle,
    )


def onchip_cycles(read_bytes: int, chip: TpuChip) -> int:
    """Cycles in which the cores read `read_bytes` from their on-chip memories, in equal parts."""
    each = chip.memory["vmem"].cycles_per_byte(chip.clock_hz)
    return -(-read_bytes * each.numerator // (each.denominator * chip.cores))


VECTOR_UNIT = Timing(load=0, skew=0, shift_out=0, serial=False, rows=1, cols=1)
"""The vector unit as the block pipeline sees it: it takes its words at once and gives them back at once."""


def _vector_schedule(step: VectorStep, chip: TpuChip, vector_cycles: int) -> Outcome:
    """Equal blocks, double-buffered: load, compute, store. One occurrence."""
    blocks, stage = vector_blocks(step, chip, vector_cycles)
    outcome = run_nest((blocks,), lambda _: stage, VECTOR_UNIT)
    causes = {("vector" if cause == "compute" else cause): v for cause, v in outcome.causes.items()}
    return outcome._replace(causes=causes)


def vector_blocks(step: VectorStep, chip: TpuChip, vector_cycles: int) -> tuple[int, Stage]:
    """How many blocks an occurrence of a vector op has, and what each of them takes.

    `vector_cycles` are those of the vector unit for all of them.
    """
    op, clock = step.op, chip.clock_hz
    room = chip.memory["vmem"].bytes
    amount = op.read_bytes + op.write_bytes
    blocks = 1 if room is None else max(1, -(-amount * VECTOR_BLOCKS // capacity(chip, "vmem")))
    memory = chip.memory[step.level]
    onchip = step.level == "vmem"

    def share(whole: int) -> int:
        return -(-whole // blocks)

    def transfer(num_bytes: int, write: bool = False) -> int:
        return 0 if onchip else port_cycles(memory, share(num_bytes), clock, write=write)

    stage = Stage(
        transfer(op.read_bytes) if op.read_bytes and not onchip else None,
        None,
        None,
        memory.latency_cycles(clock),
        0,
        0,
        transfer(op.write_bytes, write=True),
        1,
        share(vector_cycles),
    )
    return blocks, stage
