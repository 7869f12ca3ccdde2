"""Public bug reports about memory traffic, bandwidth and units: cases S-21, S-22, S-26 to S-28 and S-31."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from systolic import Gemm, Report, load_chip, simulate
from systolic.blocks.stepping import SteppedArray
from systolic.chips.tpu import TpuChip
from systolic.machines import tpu
from systolic.machines.base import Options
from systolic.metrics import METRICS
from systolic.result import Result
from systolic.workload import Workload


def report(gemm: Gemm, dataflow: str = "ws", side: int = 16, **knobs: Any) -> Report:
    """A matmul on a serial array of side x side."""
    overrides = {"array.rows": side, "array.cols": side, **knobs}
    return simulate(gemm, on="teaching-4x4", overrides=overrides, dataflow=dataflow)


def row_of(gemm: Gemm, dataflow: str = "ws", side: int = 16, **knobs: Any) -> Result:
    """Its row."""
    return report(gemm, dataflow, side, **knobs).chips[0].rows[0]


def elements(row: Result) -> int:
    """Elements of int8 operands and int32 results that cross the port of main memory."""
    return sum(
        traffic.total // (1 if name in ("lhs", "rhs") else 4) for name, traffic in row.bytes["dram"].items()
    )


def test_traffic_falls_with_buffers_to_each_element_once() -> None:
    """S-21, SCALE-Sim issue 27: 128 cubed; buffers of 1, 8 and 64 KiB for each of three operands.

    At 64 KiB everything fits, so 3 * 16,384 elements move; the peer wrote every slice of k out, some 131,072.
    """
    cube = Gemm(m=128, n=128, k=128, dtype="int8")
    slow = {"memory.dram.bytes_per_s": "10 GB/s"}
    rows = [row_of(cube, **slow, **{"memory.vmem.bytes": 3 * kib * 1024}) for kib in (1, 8, 64)]
    moved = [elements(row) for row in rows]
    assert moved == sorted(moved, reverse=True)
    assert moved[0] > moved[-1] == 49_152
    assert rows[-1].bytes["dram"]["out"].write == 4 * 16_384


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_the_least_traffic_falls_with_buffers_in_every_dataflow(dataflow: str) -> None:
    """S-21: the fastest plan may move more than it must; what it must move is reported beside it."""
    cube = Gemm(m=128, n=128, k=128, dtype="int8")
    least = [
        row_of(cube, dataflow, **{"memory.vmem.bytes": 3 * kib * 1024}).min_dram_bytes or 0
        for kib in (1, 2, 4, 8, 16, 32, 64)
    ]
    assert least == sorted(least, reverse=True)
    assert least[0] > least[-1] == 16_384 + 16_384 + 4 * 16_384


@pytest.mark.parametrize(
    ("dtype", "out_dtype", "operand", "result"),
    [("bf16", "fp32", 8_192, 16_384), ("int8", "int32", 4_096, 16_384)],
)
def test_bytes_are_bytes(dtype: str, out_dtype: str, operand: int, result: int) -> None:
    """S-22, SCALE-Sim issue 24 and ARM-software/SCALE-Sim issue 54: 64 cubed, each element once."""
    traffic = row_of(Gemm(m=64, n=64, k=64, dtype=dtype, out_dtype=out_dtype)).bytes["dram"]
    assert (traffic["lhs"].read, traffic["rhs"].read, traffic["out"].write) == (operand, operand, result)


def test_every_column_of_numbers_carries_a_unit() -> None:
    """S-22: every figure of the report is a word, a share, or has a unit in the registry."""
    unitless = {metric.name for metric in METRICS.values() if not metric.unit}
    numbers = set()

    def walk(value: Any, name: str = "") -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, key)
        elif isinstance(value, list):
            for item in value:
                walk(item, name)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers.add(name)

    walk(report(Gemm(m=64, n=64, k=64, dtype="bf16")).to_dict())
    assert {"cycles", "seconds", "macs", "read", "write"} <= numbers
    assert numbers & unitless == {"schema"}


def test_no_mac_before_its_operands_have_arrived() -> None:
    """S-26, ARM-software/SCALE-Sim issue 15: 4 x 4, m = n = k = 4, memory gives one element per clock.

    32 elements come in, the array takes its 14 cycles, 16 results go out. What the array would take alone,
    and what the cold start adds, stand apart.
    """
    chip = load_chip("teaching-4x4", {"memory.dram.bytes_per_s": "4 GB/s"})
    assert isinstance(chip, TpuChip)
    gemm = Gemm(m=4, n=4, k=4, dtype="fp32", name="cold")
    (step,) = tpu.lower(Workload(name="cold", ops=(gemm,)), chip, Options(dataflow="os", mode="stepped"))
    arrays: list[SteppedArray] = []
    row = tpu.cost(step, chip, record=arrays)
    assert row.cycles == 32 + 14 + 16
    assert row.cycles_by_cause["stall_dram"] == 32 + 16
    assert row.cycles - row.cycles_by_cause["stall_dram"] == 14
    (array,) = arrays
    assert array.tiles[0].start == 33
    assert not array.state_at(32)["valid"].any()
    assert array.state_at(33)["valid"].any()


def test_buffers_that_change_no_cycles_change_traffic_and_the_report_says_both() -> None:
    """S-27, SCALE-Sim issue 50: SRAM sizes changed four times, cycles never moved, no idea why."""
    square = Gemm(m=512, n=512, k=512, dtype="int8")
    knobs = {"array.convention": "overlapped", "memory.dram.bytes_per_s": "1 TB/s"}
    runs = [
        report(square, side=32, **knobs, **{"memory.vmem.bytes": f"{kib} KiB"}).chips[0]
        for kib in (16, 32, 64, 128)
    ]
    assert {chip.rows[0].bound_by for chip in runs} == {"compute"}
    moved = [chip.rows[0].level_bytes("dram") for chip in runs]
    assert moved == sorted(moved, reverse=True)
    assert moved[0] > moved[-1]
    for chip in runs:
        assert any("memory.vmem.bytes" in note for note in chip.notes)
        assert chip.rows[0].mapping is not None and chip.rows[0].mapping["tile"]


@pytest.mark.parametrize("level", ["vmem", "acc"])
def test_less_memory_is_never_faster(level: str) -> None:
    """S-28, KULeuven-MICAS/zigzag issue 52: halve one buffer after the other from a working configuration."""
    chip = load_chip(
        "tpu-v4",
        {"memory.vmem.bytes": "8 MiB", "memory.acc.bytes": "1 MiB", "memory.acc.bytes_per_s": "unlimited"}
        | {"memory.acc.latency_ns": 0, "memory.acc.burst_bytes": 1, "policy.block_bytes": "unlimited"},
    )
    gemm = Gemm(m=512, n=1536, k=768, dtype="bf16")
    cycles, least = [], []
    for halvings in range(5):
        memory = chip.memory[level]
        assert memory.bytes is not None
        smaller = replace(
            chip, memory={**chip.memory, level: replace(memory, bytes=memory.bytes >> halvings)}
        )
        row = simulate(gemm, on=smaller).chips[0].rows[0]
        cycles.append(row.cycles)
        least.append(row.min_dram_bytes or 0)
    assert cycles == sorted(cycles)
    assert least == sorted(least)
    assert cycles[-1] > cycles[0]


@pytest.mark.parametrize("on", ["tpu-v1", "tpu-v4", "teaching-4x4"])
def test_a_batch_reads_shared_weights_once(on: str) -> None:
    """S-31, ARM-software/SCALE-Sim issue 34: 768 -> 256 for 1 and 64 rows; 196,608 weights either way."""
    slow = {"memory.dram.bytes_per_s": "10 GB/s"} if on == "teaching-4x4" else {}
    chip = load_chip(on, slow)
    assert isinstance(chip, TpuChip)
    size = 1 if chip.native_dtype == "int8" else 2 if chip.native_dtype == "bf16" else 4
    one, many = (
        simulate(Gemm(m=m, n=256, k=768, dtype=chip.native_dtype), on=chip).chips[0].rows[0] for m in (1, 64)
    )
    assert one.bytes["dram"]["rhs"].read == many.bytes["dram"]["rhs"].read == 196_608 * size
    assert many.cycles < 16 * one.cycles
