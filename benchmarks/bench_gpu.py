"""The stepped GPU on one core: warp instructions per second; a large matmul and a model as processes."""

from __future__ import annotations

from typing import Any

import pytest

from systolic import Gemm, Workload, load_chip
from systolic.kernels.simt import layout
from systolic.machines.base import Options
from systolic.machines.gpu import lower
from systolic.machines.gpu.grid import stepped_grid
from systolic.machines.gpu.lowering import problem_of
from systolic.machines.gpu.regime import Regime

from .bench_commands import systolic
from .conftest import Promise


def test_stepped_grid(benchmark: Any, promise: Promise) -> None:
    """Every block of a 2048x2048x1024 matmul on all SMs of an A100."""
    chip = load_chip("a100")
    gemm = Gemm(m=2048, n=2048, k=1024, dtype="bf16")
    (step,) = lower(Workload(name="grid", ops=(gemm,), dtype="bf16"), chip, Options())
    problem = problem_of(step.op, step.formats)
    regime = Regime(resident=2, active=1, hits=(0, 0))
    run = benchmark.pedantic(
        stepped_grid.__wrapped__, args=(problem, step.plan, chip, regime), warmup_rounds=1, rounds=3
    )
    instructions = int(run.tally[layout.COUNT + layout.ISSUED])
    promise("stepped GPU", instructions / benchmark.stats.stats.min, "warp instructions/s", at_least=1e7)


@pytest.mark.parametrize(("model", "seconds"), [("4096,4096,4096", 2.0), ("gpt2", 3.0)])
def test_simulated_on_an_a100(benchmark: Any, promise: Promise, model: str, seconds: float) -> None:
    """A whole process, its kernels compiled before."""
    benchmark.pedantic(
        systolic, args=("run", model, "--on", "a100", "--check", "off"), warmup_rounds=1, rounds=3
    )
    promise(f"{model} on a100, second run", benchmark.stats.stats.median, "s", at_most=seconds)
