"""All overlap between steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...chips.spec import TpuChip
from ...result import Result
from .lower import GemmStep, Step


def compose(steps: Sequence[Step], results: Sequence[Result], chip: TpuChip) -> tuple[Result, ...]:
    """Put the steps after one another and hide what runs beside something else.

    A fused vector op works on a matmul's results while the next ones leave the array: it takes elapsed
    cycles only beyond the matmul's own, shared by all ops fused into that matmul. Everything else runs one
    after the other, each op from cold: no operand of an op is loaded before the op begins.
    """
    rows: list[Result] = []
    room: dict[str, int] = {}
    for step, result in zip(steps, results, strict=True):
        if isinstance(step, GemmStep):
            room[step.op.name] = result.cycles
            rows.append(result)
        elif step.op.fused_into in room:
            free = room[step.op.fused_into]
            exposed = max(0, result.busy_cycles - free)
            room[step.op.fused_into] = max(0, free - result.busy_cycles)
            causes = {"vector": exposed} if exposed else {}
            rows.append(replace(result, cycles=exposed, cycles_by_cause=causes))
        else:
            rows.append(result)
    return tuple(rows)
