"""Sweeps: the compiled search beside the mapper, and points per second of two processes."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import systolic
from systolic.chips.tpu import TpuChip
from systolic.explore.design import design_of
from systolic.explore.evaluating import Asked, evaluate_batch
from systolic.machines import tpu
from systolic.machines.base import Options
from systolic.workload import Gemm, Workload

from .conftest import Promise

POINTS = {
    "model": "512,768,768",
    "on": "tpu-v4",
    "axes": {
        "array.rows": [96, 128, 160, 192, 256],
        "array.cols": [96, 128, 160, 192, 256],
        "memory.dram.bytes_per_s": {"from": 4 * 10**11, "to": 2 * 10**12, "count": 20},
        "memory.vmem.bytes": {"from": 2**22, "to": 2**25, "count": 20},
    },
}


def test_compiled_search_beside_the_mapper(benchmark: Any, promise: Promise) -> None:
    chip = systolic.load_chip("tpu-v4")
    assert isinstance(chip, TpuChip)
    work = Workload(name="one", ops=(Gemm(m=512, n=768, k=768),))
    seconds: dict[bool, list[float]] = {False: [], True: []}

    def in_turn() -> None:
        for compiled, taken in seconds.items():
            started = perf_counter()
            tpu.lower(work, chip, Options(compiled=compiled))
            taken.append(perf_counter() - started)

    benchmark.pedantic(in_turn, warmup_rounds=2, rounds=21)
    ratio = median(seconds[False][2:]) / median(seconds[True][2:])
    promise("lowering a matmul, compiled search against mapper", ratio, " times as fast", at_least=10)


def test_points_of_one_process(benchmark: Any, promise: Promise) -> None:
    design = design_of(POINTS, name="points")
    some = [Asked(number, b"", point) for number, point in list(design.space)[::40]]
    benchmark.pedantic(evaluate_batch, args=(design, some), warmup_rounds=1, rounds=5)
    promise("points of a sweep, one process", len(some) / benchmark.stats.stats.min, "/s", at_least=1000)


def test_points_of_two_processes(benchmark: Any, promise: Promise, tmp_path: Path) -> None:
    stores = iter(tmp_path / f"{number}.sqlite" for number in range(9))

    def whole() -> None:
        systolic.sweep(POINTS, store=next(stores), workers=2)

    benchmark.pedantic(whole, warmup_rounds=1, rounds=2)
    rate = 10_000 / benchmark.stats.stats.min
    promise("points of a sweep, two processes, start included", rate, "/s", at_least=2000)
