"""All overlap between steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ...blocks.dram_port import port_cycles
from ...chips.tpu import TpuChip
from ...mapping.schedule import first_weights
from ...mapping.traffic import block_bytes
from ...result import Result
from .costing import gemm_cost, onchip_cycles
from .lowering import GemmStep, Step


def compose(steps: Sequence[Step], results: Sequence[Result], chip: TpuChip) -> tuple[Result, ...]:
    """Put the steps after one another and hide what runs beside something else.

    A fused vector op works on a matmul's results while the next ones leave the array, and reads what else it
    needs beside the matmul's own transfers: it takes elapsed cycles only beyond what the vector unit, and the
    memory port, have left of the matmul's time, shared by all ops fused into it; where its results stream
    into another matmul, of the time of both. Everything else runs one after the other. What an op may load
    before it begins is the chip's ``policy.prefetch``: nothing, or the first weights of a matmul, while the
    port stands idle behind the last load of the ops before it.
    """
    if chip.policy.prefetch == "weights":
        results = _with_weights_ahead(steps, results, chip)
    rows: list[Result] = []
    room: dict[str, _Room] = {}
    for step, result in zip(steps, results, strict=True):
        if isinstance(step, GemmStep):
            room[step.op.name] = _room_beside(steps, results, len(rows), chip)
            rows.append(result)
        elif step.op.fused_into in room:
            needed = _Room(result.busy_cycles, _port_cycles(result, chip), _onchip_cycles(result, chip))
            cause, exposed = room[step.op.fused_into].exposed(needed)
            room[step.op.fused_into] = room[step.op.fused_into].less(needed)
            causes = {cause: exposed} if exposed else {}
            rows.append(replace(result, cycles=exposed, cycles_by_cause=causes))
        else:
            rows.append(result)
    return tuple(rows)


def _with_weights_ahead(steps: Sequence[Step], results: Sequence[Result], chip: TpuChip) -> list[Result]:
    """The results when each matmul finds as much of its first weights loaded as the port had time for."""
    improved = list(results)
    for i, (step, ahead) in enumerate(zip(steps, weights_ahead(steps, results, chip), strict=True)):
        if ahead is None or not isinstance(step, GemmStep):
            continue
        first, count = gemm_cost(step, chip, ahead[0]), step.op.count
        again = first if ahead[1] == ahead[0] else gemm_cost(step, chip, ahead[1])
        improved[i] = first if count == 1 else first.plus(again.times(count - 1))
    return improved


def weights_ahead(
    steps: Sequence[Step], results: Sequence[Result], chip: TpuChip
) -> list[tuple[int, int] | None]:
    """Port cycles of its first weights that each matmul finds loaded: its first occurrence, and the others.

    None for what loads no weights. The occurrences of a run of ops with the same count (the layers of a
    model) follow one another: the first op of the run follows the last one, but for its first occurrence.
    """
    if chip.policy.prefetch != "weights":
        return [None] * len(steps)
    idle = [_idle_after(steps, results, i, chip) for i in range(len(steps))]
    ahead: list[tuple[int, int] | None] = []
    for i, step in enumerate(steps):
        if not isinstance(step, GemmStep) or step.op.rhs_kind != "weight" or step.mode == "bound":
            ahead.append(None)
            continue
        end, before = i, i - 1
        opens = before < 0 or steps[before].op.count != step.op.count
        while opens and end + 1 < len(steps) and steps[end + 1].op.count == step.op.count:
            end += 1
        first = _ahead(steps, idle, step, before)
        ahead.append((first, _ahead(steps, idle, step, end) if opens else first))
    return ahead


def _idle_after(steps: Sequence[Step], results: Sequence[Result], i: int, chip: TpuChip) -> int:
    """Port cycles, up to the end of op i, since the last matmul's last load, not taken by ops between."""
    idle = 0
    for j in range(i, -1, -1):
        step, result = steps[j], results[j]
        if not isinstance(step, GemmStep) and step.op.fused_into:
            idle -= _port_cycles(result, chip) // step.op.count
        else:
            idle += result.port_idle
        if isinstance(step, GemmStep):
            break
    return max(0, idle)


def _ahead(steps: Sequence[Step], idle: Sequence[int], step: GemmStep, before: int) -> int:
    """Port cycles of the first weights of `step` that fit behind op `before`: in time, and in memory."""
    if before < 0:
        return 0
    problem = step.mapped.split.busiest
    move, place = first_weights(problem, step.mapped.plan), problem.operands["rhs"].place
    if move is None or place is None:
        return 0
    room = move.bytes
    running = next((s for s in reversed(steps[: before + 1]) if isinstance(s, GemmStep)), None)
    if running is not None and running.mapped.split.busiest.onchip_bytes is not None:
        used, _ = block_bytes(running.mapped.split.busiest, running.mapped.plan.tile)
        room = min(room, running.mapped.split.busiest.onchip_bytes - used)
    return min(idle[before], move.cycles if room >= move.bytes else int(place.cycles(max(0, room))))


class _Room(NamedTuple):
    """Cycles that the vector unit, the memory port and the on-chip ports have left while a matmul runs.

    Of a fused op, those that it needs.
    """

    vector: int
    port: int
    onchip: int

    def less(self, used: _Room) -> _Room:
        """What is left once `used` is taken."""
        return _Room(*(max(0, left - taken) for left, taken in zip(self, used, strict=True)))

    def exposed(self, needed: _Room) -> tuple[str, int]:
        """(cause, cycles) of what finds no room; a tie goes to the first cause."""
        over = [max(0, want - left) for want, left in zip(needed, self, strict=True)]
        return ("vector", "stall_dram", "stall_onchip")[over.index(max(over))], max(over)


def _room_beside(steps: Sequence[Step], results: Sequence[Result], i: int, chip: TpuChip) -> _Room:
    """Room beside matmul i, and beside the one that its results stream into."""
    step, beside = steps[i], [results[i]]
    if isinstance(step, GemmStep) and step.op.out_at == "stream":
        taker = next(j for j in range(i + 1, len(steps)) if isinstance(steps[j], GemmStep))
        beside.append(results[taker])
    cycles = sum(result.cycles for result in beside)
    port, onchip = (sum(of(result, chip) for result in beside) for of in (_port_cycles, _onchip_cycles))
    return _Room(cycles, cycles - port, cycles - onchip)


def _onchip_cycles(result: Result, chip: TpuChip) -> int:
    """Cycles of the cores' on-chip ports that a row's reads take."""
    return onchip_cycles(sum(traffic.read for traffic in result.bytes.get("vmem", {}).values()), chip)


def _port_cycles(result: Result, chip: TpuChip) -> int:
    """Cycles of the memory port that a row's traffic takes, all levels between chip and core."""
    return sum(
        port_cycles(chip.memory[level], result.level_bytes(level), chip.clock_hz)
        for level in ("dram", "cmem")
        if level in result.bytes
    )
