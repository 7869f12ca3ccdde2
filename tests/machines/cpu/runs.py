"""Lowering and costing one matmul on a CPU, and the ledger that every row must keep."""

from __future__ import annotations

from systolic import load_chip
from systolic.chips.cpu import LEVELS, CpuChip
from systolic.machines import cpu
from systolic.machines.base import Options
from systolic.result import Result
from systolic.workload import Gemm, Workload


def chip_of(name: str, **overrides: object) -> CpuChip:
    """A CPU of the catalogue, fields written with ``__`` for dots."""
    chip = load_chip(name, {path.replace("__", "."): value for path, value in overrides.items()})
    assert isinstance(chip, CpuChip)
    return chip


def lowered(op: Gemm, chip: CpuChip, **options: object) -> cpu.GemmStep:
    """The step of one matmul."""
    work = Workload(name="one", ops=(op,), dtype=op.dtype)
    (step,) = cpu.lower(work, chip, Options(**options))  # type: ignore[arg-type]
    assert isinstance(step, cpu.GemmStep)
    return step


def costed(op: Gemm, chip: CpuChip, **options: object) -> Result:
    """The row of one matmul, its launch left out."""
    return cpu.cost(lowered(op, chip, **options), chip)


def assert_ledger(row: Result, chip: CpuChip) -> None:
    """What holds for every matmul on every CPU."""
    op = row.op
    assert isinstance(op, Gemm)
    assert row.cycles == sum(row.cycles_by_cause.values())
    assert all(cycles >= 0 for cycles in row.cycles_by_cause.values())
    assert row.array_macs == row.macs
    assert row.utilization is not None and 0 < row.utilization <= 1
    assert tuple(row.bytes) == LEVELS
    for level in LEVELS:
        for name, size in (("lhs", op.lhs_bytes), ("rhs", op.rhs_bytes)):
            assert row.bytes[level][name].read >= op.count * size
        assert row.bytes[level]["out"].write >= op.count * op.out_bytes
    dram = chip.memory["dram"]
    if dram.bytes_per_s is not None:
        rate = dram.bytes_per_s * dram.sustained_percent
        assert row.level_bytes("dram") * 100 * chip.clock_hz <= rate * (row.cycles + op.count)
    for level in ("l3", "l2"):
        if (per_cycle := chip.memory[level].bytes_per_cycle) is not None and row.source != "bound":
            assert row.level_bytes(level) <= per_cycle * chip.cores * row.cycles
