"""Lowering and costing one matmul on a GPU, and the ledger that every row must keep."""

from __future__ import annotations

from systolic import load_chip
from systolic.chips.gpu import GpuChip
from systolic.machines import gpu
from systolic.machines.base import Options
from systolic.result import Result
from systolic.workload import Gemm, Workload


def chip_of(name: str, **overrides: object) -> GpuChip:
    """A GPU of the catalogue, fields written with ``__`` for dots."""
    chip = load_chip(name, {path.replace("__", "."): value for path, value in overrides.items()})
    assert isinstance(chip, GpuChip)
    return chip


def lowered(op: Gemm, chip: GpuChip, **options: object) -> gpu.GemmStep:
    """The step of one matmul."""
    work = Workload(name="one", ops=(op,), dtype=op.dtype)
    (step,) = gpu.lower(work, chip, Options(**options))  # type: ignore[arg-type]
    assert isinstance(step, gpu.GemmStep)
    return step


def costed(op: Gemm, chip: GpuChip, **options: object) -> Result:
    """The row of one matmul, its launch left out."""
    return gpu.cost(lowered(op, chip, **options), chip)


def assert_ledger(row: Result, chip: GpuChip) -> None:
    """What holds for every matmul on every GPU."""
    op = row.op
    assert isinstance(op, Gemm)
    assert row.cycles == sum(row.cycles_by_cause.values())
    assert all(cycles >= 0 for cycles in row.cycles_by_cause.values())
    assert row.array_macs == row.macs
    assert row.padded_macs >= 0
    assert row.utilization is not None and 0 < row.utilization <= 1
    for name, size in (("lhs", op.lhs_bytes), ("rhs", op.rhs_bytes)):
        for level in ("dram", "l2"):
            assert row.bytes[level][name].read >= op.count * size
    for level in ("dram", "l2"):
        assert row.bytes[level]["out"].write >= op.count * op.out_bytes
    dram = chip.memory["dram"]
    if dram.bytes_per_s is not None:
        rate = dram.bytes_per_s * dram.sustained_percent
        assert row.level_bytes("dram") * 100 * chip.clock_hz <= rate * (row.cycles + op.count)
    assert sum(row.stalls.values()) == row.counters["warp_cycles"]
    assert row.counters["l2_hits"] <= row.counters["l2_accesses"]
    assert row.counters["l1_hits"] <= row.counters["l1_accesses"]
