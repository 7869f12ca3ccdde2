"""A TPU whose DRAM is stepped, beside the same TPU with a bandwidth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import systolic
from systolic.chips.dram import dram_parts
from systolic.chips.tpu import DATAFLOWS, TpuChip
from systolic.mapping.bounds import Bounds
from systolic.mapping.plan import DIMS, Plan
from systolic.mapping.schedule import plan_outcome
from systolic.workload import Gemm

from ...tpu_strategies import busy_chips, plans, small_gemms
from .runs import costed, lowered

PARTS = st.sampled_from(dram_parts())


def with_dram(chip: TpuChip, part: str, channels: int) -> TpuChip:
    """The chip with its DRAM stepped; its bandwidth is still there."""
    dram = replace(chip.memory["dram"], model="timing", part=part, channels=channels)
    return replace(chip, memory={**chip.memory, "dram": dram})


@settings(deadline=None, max_examples=8)
@given(busy_chips(), small_gemms(12), PARTS, st.integers(1, 3), st.sampled_from(DATAFLOWS))
def test_stepped_engine_moves_blocks_as_long_as_the_tiled_one(
    chip: TpuChip, gemm: Gemm, part: str, channels: int, dataflow: str
) -> None:
    chip = with_dram(chip, part, channels)
    tiled = costed(gemm, chip, dataflow=dataflow)
    stepped = costed(gemm, chip, dataflow=dataflow, mode="stepped")
    bound = costed(gemm, chip, dataflow=dataflow, mode="bound")
    assert stepped.cycles == tiled.cycles >= bound.cycles
    assert stepped.bytes == tiled.bytes
    assert sum(tiled.cycles_by_cause.values()) == tiled.cycles


@settings(deadline=None, max_examples=15)
@given(st.data(), busy_chips(), small_gemms(40), PARTS, st.integers(1, 3))
def test_no_plan_is_faster_than_its_bound(
    data: st.DataObject, chip: TpuChip, gemm: Gemm, part: str, channels: int
) -> None:
    step = lowered(gemm, with_dram(chip, part, channels))
    problem = step.mapped.split.busiest
    plan: Plan = data.draw(plans(problem))
    bounds = Bounds(problem, {d: np.array([plan.tile[d]]) for d in DIMS})
    assert bounds.cycles(plan.order, plan.split)[0] <= plan_outcome(problem, plan).cycles


@settings(deadline=None, max_examples=15)
@given(busy_chips(), small_gemms(60), PARTS, st.integers(1, 3))
def test_dram_is_never_faster_than_the_bandwidth(chip: TpuChip, gemm: Gemm, part: str, channels: int) -> None:
    """Pinned to the same plan, whose blocks move no fewer bytes and take no less time."""
    full = replace(chip.memory["dram"], sustained_percent=100)
    chip = replace(chip, memory={**chip.memory, "dram": full})
    plan = lowered(gemm, with_dram(chip, part, channels)).mapped.plan
    pins = {"tile": tuple(plan.tile[d] for d in DIMS), "order": plan.order}
    try:
        plain = costed(gemm, chip, **pins)
    except systolic.SystolicError:
        return
    stepped = costed(gemm, with_dram(chip, part, channels), **pins)
    assert stepped.cycles >= plain.cycles


@pytest.mark.parametrize("name", ["tpu-v1", "tpu-v4", "tpu-v5p", "tpu-v6e"])
def test_streams_of_a_chip_come_near_its_printed_bandwidth(name: str) -> None:
    """A matrix-vector product is one stream of weights; vendors print the peak without refreshes."""
    chip = systolic.load_chip(name, {"memory.dram.model": "timing"})
    gemm = Gemm(m=1, n=8192, k=8192, dtype=chip.native_dtype, lhs_at="chip", out_at="chip")
    row = costed(gemm, chip)
    printed = chip.memory["dram"].bytes_per_s
    assert printed is not None
    assert 0.8 < row.level_bytes("dram") / row.cycles * chip.clock_hz / printed < 0.98
