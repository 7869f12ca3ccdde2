"""All overlap between steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...chips.spec import TpuChip
from ...result import Result
from .lowering import GemmStep, Step


def compose(steps: Sequence[Step], results: Sequence[Result], chip: TpuChip) -> tuple[Result, ...]:
    """Put the steps after one another and hide what runs beside something else.

    A fused vector op works on a matmul's results while the next ones leave the array, and reads what else it
    needs beside the matmul's own transfers: it takes elapsed cycles only beyond what the vector unit, and the
    memory port, have left of the matmul's time, shared by all ops fused into it. Everything else runs one
    after the other, each op from cold: no operand of an op is loaded before the op begins.
    """
    rows: list[Result] = []
    room: dict[str, _Room] = {}
    for step, result in zip(steps, results, strict=True):
        if isinstance(step, GemmStep):
            room[step.op.name] = _Room(result.cycles, result.cycles - _port_cycles(result, chip))
            rows.append(result)
        elif step.op.fused_into in room:
            left = room[step.op.fused_into]
            over_vector = max(0, result.busy_cycles - left.vector)
            over_port = max(0, _port_cycles(result, chip) - left.port)
            exposed = max(over_vector, over_port)
            room[step.op.fused_into] = left.less(result.busy_cycles, _port_cycles(result, chip))
            cause = "vector" if over_vector >= over_port else "stall_dram"
            causes = {cause: exposed} if exposed else {}
            rows.append(replace(result, cycles=exposed, cycles_by_cause=causes))
        else:
            rows.append(result)
    return tuple(rows)


@dataclass(frozen=True)
class _Room:
    """Cycles that the vector unit, and the memory port, have left while a matmul runs."""

    vector: int
    port: int

    def less(self, vector: int, port: int) -> _Room:
        return _Room(max(0, self.vector - vector), max(0, self.port - port))


def _port_cycles(result: Result, chip: TpuChip) -> int:
    """Cycles of the memory port that a row's traffic takes, all levels between chip and core."""
    return sum(
        chip.memory[level].transfer_cycles(result.level_bytes(level), chip.clock_hz)
        for level in ("dram", "cmem")
        if level in result.bytes
    )
