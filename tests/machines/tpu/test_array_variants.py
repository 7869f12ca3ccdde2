"""Formats, passes, accumulators, slow MACs and banks: the three engines and both kinds of values agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from systolic.chips.tpu import DATAFLOWS, TpuChip
from systolic.errors import SystolicError
from systolic.machines import tpu
from systolic.machines.base import Options
from systolic.numerics.inputs import seeded_inputs
from systolic.workload import PRECISIONS, Gemm, Workload
from tests.strategies import banked, variants
from tests.tpu_strategies import busy_chips, small_gemms

OPERANDS = ("fp32", "bf16", "int8", "int4", "fp8_e4m3", "fp8_e5m2")


@st.composite
def variant_chips(draw: st.DrawFn) -> TpuChip:
    """A TPU small enough to be stepped, with an array and a memory of any kind."""
    chip = draw(busy_chips(4))
    memory = dict(chip.memory)
    if draw(st.booleans()):
        memory["vmem"] = draw(banked(memory["vmem"]))
    return replace(chip, array=draw(variants(chip.array)), memory=memory)


@st.composite
def variant_gemms(draw: st.DrawFn) -> Gemm:
    """A matmul of two formats, at any precision."""
    return replace(
        draw(small_gemms(12)),
        dtype=draw(st.sampled_from(OPERANDS)),
        rhs_dtype=draw(st.sampled_from(OPERANDS)),
        acc_dtype=None,
        out_dtype=None,
        precision=draw(st.sampled_from(PRECISIONS)),
    )


@given(variant_chips(), variant_gemms(), st.sampled_from(DATAFLOWS))
def test_engines_and_values_agree(chip: TpuChip, gemm: Gemm, dataflow: str) -> None:
    work = Workload(name="one", ops=(gemm,))
    try:
        (step,) = tpu.lower(work, chip, Options(dataflow=dataflow))
    except SystolicError as error:
        assert "must be one that the chip multiplies" in str(error) or "memory.vmem" in str(error)
        assume(False)
    assert isinstance(step, tpu.GemmStep)
    stepping = replace(step, mode="stepped")
    tiled, stepped, bound = (tpu.cost(s, chip) for s in (step, stepping, replace(step, mode="bound")))
    assert stepped.cycles == tiled.cycles >= bound.cycles
    assert stepped.cycles_by_cause == tiled.cycles_by_cause
    assert stepped.bytes == tiled.bytes
    assert stepped.array_macs == tiled.array_macs == step.formats.passes * gemm.macs
    assert tiled.padded_macs >= 0
    assert tiled.utilization is not None
    assert 0 < tiled.utilization <= 1
    if chip.memory["vmem"].banks is None:
        assert "stall_bank" not in tiled.cycles_by_cause

    lhs, rhs = seeded_inputs(gemm)
    seen, computed = (tpu.values(s, chip, lhs, rhs) for s in (stepping, step))
    np.testing.assert_array_equal(seen.out, computed.out)
    assert seen.overflows == computed.overflows
