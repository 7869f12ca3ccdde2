"""The ledger, true of every row: over random chips, and over the catalogue."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic import load_chip, load_model, simulate
from systolic.chips import catalogue
from systolic.chips.tpu import DATAFLOWS, Memory, TpuChip
from systolic.machines import tpu
from systolic.machines.base import Options
from systolic.workload import Gemm, VectorOp, Workload

from ...tpu_strategies import busy_chips, small_gemms
from .runs import assert_bandwidths, assert_ledger, costed, lowered

CHIPS = [chip for chip in map(load_chip, sorted(catalogue())) if isinstance(chip, TpuChip)]
SHAPES = {
    "square": {"m": 512, "n": 512, "k": 512},
    "one row": {"m": 1, "n": 4096, "k": 1024},
    "ragged": {"m": 1000, "n": 129, "k": 257},
    "one element": {"m": 1, "n": 1, "k": 1},
    "heads": {"m": 300, "n": 300, "k": 64, "batch": 12, "rhs_kind": "kv_cache"},
}


@given(busy_chips(), small_gemms(), st.sampled_from(DATAFLOWS))
def test_ledger_of_random_chips(chip: TpuChip, gemm: Gemm, dataflow: str) -> None:
    assert_ledger(costed(gemm, chip, dataflow=dataflow), chip)


@given(busy_chips(), small_gemms(), st.sampled_from(DATAFLOWS))
def test_ledger_of_bounds(chip: TpuChip, gemm: Gemm, dataflow: str) -> None:
    assert_ledger(costed(gemm, chip, dataflow=dataflow, mode="bound"), chip)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_ledger_of_the_catalogue(chip: TpuChip, shape: str, dataflow: str) -> None:
    gemm = Gemm(**SHAPES[shape], dtype=chip.native_dtype)  # type: ignore[arg-type]
    tiled = costed(gemm, chip, dataflow=dataflow)
    bound = costed(gemm, chip, dataflow=dataflow, mode="bound")
    assert (tiled.source, bound.source) == ("tiled", "bound")
    assert_ledger(tiled, chip)
    assert_ledger(bound, chip)
    assert bound.cycles <= tiled.cycles


@st.composite
def vector_ops(draw: st.DrawFn) -> VectorOp:
    """Work of the vector unit by itself, or a look-up."""
    count = st.integers(0, 300)
    return VectorOp(
        name="vector",
        kind=draw(st.sampled_from(("softmax", "add", "gather"))),
        elements=draw(st.integers(1, 300)),
        vector_ops=draw(st.integers(0, 8)),
        read_elements=draw(count),
        write_elements=draw(count),
        dtype=draw(st.sampled_from(("bf16", "fp32", "int8"))),
        count=draw(st.integers(1, 3)),
    )


@given(busy_chips(), vector_ops())
def test_ledger_of_vector_ops(chip: TpuChip, op: VectorOp) -> None:
    (step,) = tpu.lower(Workload(name="one", ops=(op,)), chip, Options())
    row = tpu.cost(step, chip)
    assert_ledger(row, chip)
    assert row.cycles >= row.busy_cycles
    (operands,) = row.bytes.values() or [{}]
    if operands:
        assert operands["other"].read == op.count * op.read_bytes
        assert operands["other"].write == op.count * op.write_bytes


def fused_to(gemm: Gemm, side: int, vector_ops: int) -> VectorOp:
    """What works on the results of `gemm`, and reads `side` elements beside them."""
    return VectorOp(
        name="fused",
        kind="add",
        elements=gemm.batch * gemm.m * gemm.n,
        vector_ops=vector_ops,
        read_elements=0,
        write_elements=0,
        side_elements=side,
        fused_into=gemm.name,
        dtype=gemm.dtype,
        count=gemm.count,
    )


@given(busy_chips(), small_gemms(), small_gemms(), st.integers(0, 200), st.integers(0, 9), vector_ops())
def test_rows_that_follow_one_another_keep_the_ledger(
    chip: TpuChip, first: Gemm, second: Gemm, side: int, vector_ops: int, alone: VectorOp
) -> None:
    """Hidden work costs no cycles but moves its bytes: bandwidth holds over all rows together."""
    first, second = replace(first, name="first"), replace(second, name="second")
    ops = (first, fused_to(first, side, vector_ops), alone, second, fused_to(second, side, 1))
    steps = tpu.lower(Workload(name="all", ops=ops), chip, Options())
    results = [tpu.cost(step, chip) for step in steps]
    rows = tpu.compose(steps, results, chip)
    assert [row.name for row in rows] == [step.op.name for step in steps]
    for row, result in zip(rows, results, strict=True):
        assert row.cycles == sum(row.cycles_by_cause.values())
        assert 0 <= row.cycles <= max(result.cycles, result.busy_cycles) or row.op.fused_into
        assert row.bytes == result.bytes
    assert_bandwidths(list(rows), chip)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_a_models_rows_add_up_on_every_chip(chip: TpuChip, phase: str) -> None:
    length = {"seq": 64} if phase == "prefill" else {"kv_len": 64}
    (report,) = simulate(load_model("gpt2", phase=phase, **length), on=chip).chips
    assert report.totals.cycles == sum(row.cycles for row in report.rows)
    assert report.totals.cycles == sum(report.totals.cycles_by_cause.values())
    assert_bandwidths(list(report.rows), chip)
    for row in report.matmuls:
        assert_ledger(row, chip)


def unlimited(chip: TpuChip) -> TpuChip:
    """The same chip on memories that never stand in the way."""
    free = {level: Memory(bytes=memory.bytes) for level, memory in chip.memory.items()}
    return replace(chip, memory=free)


@given(busy_chips(), small_gemms(), st.sampled_from(DATAFLOWS))
def test_unlimited_bandwidth_and_no_latency_mean_no_stall(chip: TpuChip, gemm: Gemm, dataflow: str) -> None:
    causes = costed(gemm, unlimited(chip), dataflow=dataflow).cycles_by_cause
    assert not any(cause.startswith("stall") for cause in causes)


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_no_stall_on_any_chip_without_limits(chip: TpuChip) -> None:
    (report,) = simulate(load_model("gpt2", seq=64), on=unlimited(chip)).chips
    assert not any(cause.startswith("stall") for cause in report.totals.cycles_by_cause)


@given(busy_chips(), small_gemms(), st.sampled_from(DATAFLOWS))
def test_every_occurrence_costs_the_same(chip: TpuChip, gemm: Gemm, dataflow: str) -> None:
    once = costed(replace(gemm, count=1), chip, dataflow=dataflow)
    thrice = costed(replace(gemm, count=3), chip, dataflow=dataflow)
    assert thrice == replace(once.times(3), op=thrice.op)


def test_equal_matmuls_of_a_workload_share_one_search() -> None:
    gemm, chip = Gemm(m=64, n=64, k=64), load_chip("tpu-v4")
    ops = (replace(gemm, name="a"), replace(gemm, name="b", count=7, masked_macs=5))
    first, second = tpu.lower(Workload(name="two", ops=ops), chip, Options())
    assert isinstance(first, tpu.GemmStep) and isinstance(second, tpu.GemmStep)
    assert first.mapped is second.mapped
    assert lowered(gemm, chip).mapped == first.mapped
