"""Cycles, bytes and counts of one step, launches left out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ...chips.gpu import GpuChip
from ...result import Result, Traffic
from ..base import Mode
from .attention import attention_cost
from .grid import time_grid
from .lowering import precision, problem_of
from .passes import epilogue_cost, pass_cost
from .plan import Plan, Problem
from .steps import AttentionStep, GemmStep, Step, VectorStep
from .timing import KernelTiming, time_kernel


def cost(step: Step, chip: GpuChip, record: Any = None) -> Result:
    """Cost of all occurrences of a step."""
    if isinstance(step, AttentionStep):
        return attention_cost(step, chip)
    if isinstance(step, VectorStep):
        return epilogue_cost(step.op, chip) if step.op.fused_into else pass_cost(step.op, chip)
    return gemm_cost(step, chip)


def gemm_cost(step: GemmStep, chip: GpuChip) -> Result:
    """Cost of all occurrences of a matmul."""
    problem = problem_of(step.op, step.formats)
    timing = _timed(problem, step.plan, chip, step.mode)
    peak = chip.sms * chip.sm.macs[step.formats.multiplied if step.formats.tensor else "fp32"]
    m, n, k = step.plan.tile
    padded = step.op.batch * (-(-step.op.m // m) * m * -(-step.op.n // n) * n * -(-step.op.k // k) * k)
    return Result(
        op=step.op,
        kind="matmul",
        cycles=timing.cycles,
        busy_cycles=timing.cycles,
        clock_hz=chip.clock_hz,
        cycles_by_cause=dict(timing.causes),
        bytes={
            level: {operand: Traffic(read, write) for operand, (read, write) in operands.items()}
            for level, operands in timing.bytes.items()
        },
        array_macs=problem.macs,
        padded_macs=padded - problem.macs,
        pe_cycles=timing.cycles * peak,
        mapped_pe_cycles=timing.cycles * peak,
        precision=str(precision(step, chip)),
        stalls=dict(timing.stalls),
        counters=dict(timing.counters),
        source=step.mode,
        mapping={
            "kernel": step.plan.kernel,
            "tile": {"m": m, "n": n, "k": k},
            "stages": step.plan.stages,
            "split_k": step.plan.split_k,
            "ctas": timing.ctas,
            "resident": timing.resident,
            "waves": timing.waves,
        },
    ).times(step.op.count)


@lru_cache(maxsize=1024)
def _timed(problem: Problem, plan: Plan, chip: GpuChip, mode: Mode) -> KernelTiming:
    if mode == "stepped":
        return time_grid(problem, plan, chip)
    return time_kernel(problem, plan, chip, mode)
