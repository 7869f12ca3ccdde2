"""Stepped, tiled and bound: what each says of the same matmul, and how they agree."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from systolic import load_chip
from systolic.blocks.stepping import SteppedArray
from systolic.chips.tpu import CONVENTIONS, DATAFLOWS, TpuChip
from systolic.machines import tpu
from systolic.result import Result
from systolic.workload import Gemm

from ...strategies import shapes
from ...tpu_strategies import busy_chips, small_gemms
from .runs import assert_ledger, lowered

TEACHING = load_chip("teaching-4x4")


def all_modes(gemm: Gemm, chip: TpuChip, dataflow: str) -> tuple[Result, Result, Result]:
    """(stepped, tiled, bound) of one and the same plan."""
    step = lowered(gemm, chip, dataflow=dataflow)
    stepped, tiled, bound = (
        tpu.cost(replace(step, mode=mode), chip)  # type: ignore[arg-type]
        for mode in ("stepped", "tiled", "bound")
    )
    return stepped, tiled, bound


@given(busy_chips(), small_gemms(), st.sampled_from(DATAFLOWS))
def test_stepped_is_tiled_and_no_bound_exceeds_them(chip: TpuChip, gemm: Gemm, dataflow: str) -> None:
    stepped, tiled, bound = all_modes(gemm, chip, dataflow)
    assert (stepped.source, tiled.source, bound.source) == ("stepped", "tiled", "bound")
    assert stepped.cycles == tiled.cycles
    assert dict(stepped.cycles_by_cause) == dict(tiled.cycles_by_cause)
    assert stepped.bytes == tiled.bytes
    assert stepped.array_macs == tiled.array_macs == gemm.macs
    assert bound.cycles <= tiled.cycles
    assert_ledger(stepped, chip)


@given(shapes(20), st.sampled_from(DATAFLOWS), st.sampled_from(CONVENTIONS))
def test_all_three_are_equal_where_memory_never_limits(
    shape: tuple[int, int, int], dataflow: str, convention: str
) -> None:
    m, n, k = shape
    chip = replace(TEACHING, array=replace(TEACHING.array, convention=convention))
    stepped, tiled, bound = all_modes(Gemm(m=m, n=n, k=k, dtype="fp32"), chip, dataflow)
    assert stepped.cycles == tiled.cycles == bound.cycles
    assert dict(stepped.cycles_by_cause) == dict(tiled.cycles_by_cause) == dict(bound.cycles_by_cause)


@given(busy_chips(), small_gemms(), st.sampled_from(DATAFLOWS))
def test_padding_is_what_the_arrays_clock_beside_real_operands(
    chip: TpuChip, gemm: Gemm, dataflow: str
) -> None:
    """The registers count their slots; the report's figure is a closed form over the tiles."""
    # One array stands for all that work on batch elements of their own.
    chip = replace(chip, cores=1, mxus_per_core=1 if gemm.batch > 1 else chip.mxus_per_core)
    step = replace(lowered(gemm, chip, dataflow=dataflow), mode="stepped")
    arrays: list[SteppedArray] = []
    row = tpu.cost(step, chip, record=arrays)
    seen = [array.run("stored") for array in arrays]
    assert sum(run.macs for run in seen) * gemm.count == row.array_macs
    slots = sum(run.slots or 0 for run in seen)
    assert slots * gemm.count == row.array_macs + row.padded_macs
