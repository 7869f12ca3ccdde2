"""What comes between kernels, and what an epilogue leaves of the ops fused into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...chips.gpu import GpuChip
from ...quantity import latency_cycles
from ...result import Result, is_matmul
from .passes import pass_of
from .steps import AttentionStep, GemmStep, Step, VectorStep


def compose(steps: Sequence[Step], results: Sequence[Result], chip: GpuChip) -> tuple[Result, ...]:
    """Put the kernels of one queue after one another.

    A kernel starts ``launch_ns`` after the one before it has ended; nothing else passes between them, and
    nothing of one overlaps the next. An op fused into a matmul works on each tile of its results while
    other thread blocks are still multiplying: it takes elapsed cycles for the last wave of blocks alone, or
    where main memory has no time left for what it reads beside. Fused attention is one kernel, launched
    with its first matmul.
    """
    launch = latency_cycles(chip.launch_ns, chip.clock_hz)
    rows: list[Result] = []
    host: dict[str, Result] = {}
    for step, result in zip(steps, results, strict=True):
        if isinstance(step, VectorStep) and step.op.fused_into in host:
            rows.append(_in_epilogue(step, result, host[step.op.fused_into], chip))
            continue
        if isinstance(step, GemmStep):
            host[step.op.name] = result
        rows.append(_launched(result, launch * _kernels(step), chip))
    return tuple(rows)


def _kernels(step: Step) -> int:
    """Kernels that one occurrence of a step launches; the one that adds split sums is in its matmul."""
    return int(step.op is step.attention.scores) if isinstance(step, AttentionStep) else 1


def _launched(result: Result, each: int, chip: GpuChip) -> Result:
    """A row with the time to launch its kernels, `each` for one occurrence."""
    cycles = each * result.op.count
    if not cycles:
        return result
    slots = result.pe_cycles * cycles // result.cycles if result.cycles else 0
    return replace(
        result,
        cycles=result.cycles + cycles,
        cycles_by_cause={**result.cycles_by_cause, "launch": cycles},
        pe_cycles=result.pe_cycles + slots,
    )


def _in_epilogue(step: VectorStep, result: Result, host: Result, chip: GpuChip) -> Result:
    """A fused op's row: what its matmul does not hide."""
    assert is_matmul(host)
    count = step.op.count
    alone = pass_of(step.op, step.op.side_bytes, 0, chip)
    waves = max(1, int((host.mapping or {}).get("waves", 1)))
    lanes = -(-alone.lanes // waves)
    dram = chip.memory["dram"].transfer_cycles(host.level_bytes("dram") // host.op.count, chip.clock_hz)
    idle = max(0, host.cycles // host.op.count - dram)
    waiting = max(0, alone.dram - idle)
    exposed = max(lanes, waiting) * count
    cause = "vector" if lanes >= waiting else "stall_dram"
    return replace(result, cycles=exposed, cycles_by_cause={cause: exposed} if exposed else {})
