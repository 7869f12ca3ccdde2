"""Lowering and costing one matmul, and the ledger that every row must keep."""

from __future__ import annotations

from systolic.chips.tpu import TpuChip
from systolic.machines import tpu
from systolic.machines.base import Options
from systolic.result import Result, Traffic, add_bytes
from systolic.workload import Gemm, Workload


def lowered(gemm: Gemm, chip: TpuChip, **options: object) -> tpu.GemmStep:
    """The step of one matmul."""
    work = Workload(name="one", ops=(gemm,), dtype=gemm.dtype)
    (step,) = tpu.lower(work, chip, Options(**options))  # type: ignore[arg-type]
    assert isinstance(step, tpu.GemmStep)
    return step


def costed(gemm: Gemm, chip: TpuChip, **options: object) -> Result:
    """The row of one matmul."""
    return tpu.cost(lowered(gemm, chip, **options), chip)


def assert_ledger(row: Result, chip: TpuChip) -> None:
    """What holds for every row of every machine."""
    assert row.cycles == sum(row.cycles_by_cause.values())
    assert all(cycles >= 0 for cycles in row.cycles_by_cause.values())
    assert 0 <= row.behind_memory <= row.cycles_by_cause.get("weight_load", 0)
    for operands in row.bytes.values():
        assert all(traffic.read >= 0 and traffic.write >= 0 for traffic in operands.values())
    if chip.policy.prefetch == "none":
        assert_bandwidths([row], chip)  # else an op before it may have lent it some of the port's time
    if isinstance(row.op, Gemm):
        _assert_matmul(row, row.op, chip)


def _assert_matmul(row: Result, gemm: Gemm, chip: TpuChip) -> None:
    assert row.array_macs == row.macs == gemm.count * gemm.batch * gemm.m * gemm.n * gemm.k
    assert row.useful_macs <= row.macs
    assert row.padded_macs >= 0
    assert row.utilization is not None and row.mapped_utilization is not None
    assert 0 < row.utilization <= row.mapped_utilization <= 1
    outer = add_bytes(*({"outer": ops} for level, ops in row.bytes.items() if level in ("dram", "cmem")))
    moved = outer.get("outer", {})
    once = {"lhs": gemm.lhs_bytes, "rhs": gemm.rhs_bytes, "out": gemm.out_bytes}
    for name, size in once.items():
        stays_on_chip = name not in moved
        if name == "rhs" and gemm.rhs_kind != "activation":
            assert not stays_on_chip, "weights and keys come from memory"
        if chip.policy.activations == "dram":
            assert not stays_on_chip, "activations come from memory and return to it"
        if not stays_on_chip:
            crossing = moved[name].write if name == "out" else moved[name].read
            assert crossing >= gemm.count * size
    spilled = moved.get("psum", Traffic())
    assert spilled.read == spilled.write, "unfinished sums that leave come back"
    if row.source != "bound":
        assert row.min_dram_bytes is not None and row.min_dram_bytes <= row.level_bytes("dram")
        for name in ("lhs", "rhs"):
            assert row.bytes["vmem"][name].read >= gemm.count * once[name]
        assert row.bytes["vmem"]["out"].write == gemm.count * gemm.out_bytes


def assert_bandwidths(rows: list[Result], chip: TpuChip) -> None:
    """Average bandwidth of each port over all rows is at most what was set.

    Main memory and cmem are the whole chip's, both ways; vmem is each core's, toward the arrays.
    """
    cycles, total = sum(row.cycles for row in rows), add_bytes(*(row.bytes for row in rows))
    for level, memory in chip.memory.items():
        if memory.bytes_per_s is None or level not in total or level == "acc":
            continue
        traffic = sum(total[level].values(), Traffic())
        amount, ports = (traffic.read, chip.cores) if level == "vmem" else (traffic.total, 1)
        rate = memory.bytes_per_s * memory.sustained_percent * ports
        assert amount * 100 * chip.clock_hz <= rate * cycles, f"{level} is faster than it can be"
