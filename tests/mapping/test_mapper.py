"""The mapper against brute force, and the laws of what it picks."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.chips import load_chip
from systolic.chips.tpu import DATAFLOWS, Array, Memory, Policy, TpuChip
from systolic.errors import SystolicError
from systolic.machines import tpu
from systolic.machines.base import Options
from systolic.mapping.plan import ORDERS
from systolic.result import Result
from systolic.workload import Gemm, Workload

from ..strategies import sides
from ..tpu_strategies import busy_chips, small_gemms
from .brute_force import brute_force

SHAPES_EACH = 34  # for each dataflow and convention: 204 in all


def random_case(draw: random.Random, convention: str) -> tuple[Gemm, TpuChip]:
    """A matmul of sides up to 64 and a chip on whose memory it presses."""
    rows, cols = draw.choice([(8, 8), (8, 16), (16, 8), (16, 16), (32, 8), (12, 20)])
    dram = Memory(
        bytes_per_s=draw.choice([None, 10**9, 3 * 10**9, 13 * 10**9, 40 * 10**9]),
        latency_ns=draw.choice([0, 0, 7, 50]),
        burst_bytes=draw.choice([1, 1, 8, 32]),
        sustained_percent=draw.choice([100, 83]),
    )
    vmem = Memory(
        bytes=draw.choice([None, 3000, 6000, 12_000, 30_000]),
        bytes_per_s=draw.choice([None, None, 15 * 10**9, 60 * 10**9]),
    )
    memory = {"dram": dram, "vmem": vmem}
    if draw.random() < 0.4:
        memory["acc"] = Memory(bytes=draw.choice([1000, 4000, None]))
    chip = TpuChip(
        name="drawn",
        clock_hz=draw.choice([7, 10]) * 10**8,
        cores=draw.choice([1, 1, 2, 3]),
        mxus_per_core=draw.choice([1, 1, 2, 4]),
        array=Array(
            rows=rows,
            cols=cols,
            convention=convention,  # type: ignore[arg-type]
            lanes=dict.fromkeys(("bf16", "int8", "fp32"), draw.choice([1, 1, 2])),
            weight_rows=draw.choice([1, 1, 3]),
        ),
        memory=memory,
        policy=Policy(
            activations=draw.choice(["dram", "dram", "vmem"]),
            overlap=draw.choice(["double", "double", "none"]),
        ),
    )
    gemm = Gemm(
        m=draw.randint(1, 64),
        n=draw.randint(1, 64),
        k=draw.randint(1, 64),
        batch=draw.choice([1, 1, 2, 3]),
        dtype=draw.choice(["bf16", "int8", "fp32"]),
        rhs_kind=draw.choice(["weight", "activation"]),
    )
    return gemm, chip


def lowered(gemm: Gemm, chip: TpuChip, **options: object) -> tpu.GemmStep:
    """The step of one matmul."""
    (step,) = tpu.lower(Workload(name="one", ops=(gemm,)), chip, Options(**options))  # type: ignore[arg-type]
    assert isinstance(step, tpu.GemmStep)
    return step


def costed(gemm: Gemm, chip: TpuChip, **options: object) -> Result:
    """The row of one matmul."""
    return tpu.cost(lowered(gemm, chip, **options), chip)


@pytest.mark.parametrize("convention", ["serial", "overlapped"])
@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_the_mapper_equals_brute_force(dataflow: str, convention: str) -> None:
    """The least (cycles, DRAM bytes, on-chip bytes, plan) over all sides, orders and splits."""
    draw = random.Random(f"{dataflow} {convention}")
    fitting = 0
    for _ in range(SHAPES_EACH):
        gemm, chip = random_case(draw, convention)
        best = brute_force(gemm, chip, dataflow)
        if best is None:
            with pytest.raises(SystolicError, match=r"memory\.vmem of drawn .* must hold two buffers"):
                lowered(gemm, chip, dataflow=dataflow)
            continue
        fitting += 1
        step = lowered(gemm, chip, dataflow=dataflow)
        row = tpu.cost(step, chip)
        split, plan = step.mapped.split, step.mapped.plan
        sides = tuple(plan.tile[d] for d in "mnk")
        assert (split.dim, plan.split, plan.order, sides) == best.plan, (gemm, chip)
        assert row.cycles == best.cycles, (gemm, chip)
        assert row.level_bytes("dram") == best.dram_bytes, (gemm, chip)
        assert row.level_bytes("vmem") + row.level_bytes("acc") == best.onchip_bytes, (gemm, chip)
        assert row.min_dram_bytes == best.min_dram_bytes, (gemm, chip)
    assert fitting > SHAPES_EACH // 2


@pytest.mark.parametrize("order", ORDERS)
def test_a_pinned_order_leaves_the_best_of_its_plans(order: str) -> None:
    draw = random.Random(order)
    fitting = 0
    for dataflow in 4 * DATAFLOWS:
        gemm, chip = random_case(draw, draw.choice(["serial", "overlapped"]))
        best = brute_force(gemm, chip, dataflow, order)
        if best is not None:
            row = costed(gemm, chip, dataflow=dataflow, order=order)
            assert row.mapping is not None and row.mapping["order"] == best.plan[2] == order
            assert (row.cycles, row.level_bytes("dram")) == (best.cycles, best.dram_bytes), (gemm, chip)
            fitting += 1
    assert fitting > 2


@given(busy_chips(), small_gemms(), st.sampled_from(("ws", "is")), st.data())
def test_pinned_sides_are_honoured_or_refused(
    chip: TpuChip, gemm: Gemm, dataflow: str, data: st.DataObject
) -> None:
    m, n = (data.draw(sides(gemm_side)) for gemm_side in (gemm.m, gemm.n))
    rows = chip.array.rows
    k = data.draw(st.sampled_from((rows, 2 * rows, gemm.k, gemm.k + 1)))
    try:
        step = lowered(gemm, chip, dataflow=dataflow, tile=(m, n, k))
    except SystolicError as error:
        assert f"tile {m},{n},{k} of {gemm.m},{gemm.n},{gemm.k} must fit memory.vmem" in str(error)
        return
    share = step.mapped.split.busiest
    assert step.mapped.plan.tile == {"m": min(m, share.m), "n": min(n, share.n), "k": min(k, share.k)}
    row = tpu.cost(step, chip)
    assert row.mapping is not None and row.mapping["tile"] == step.mapped.plan.tile


@pytest.mark.parametrize("dataflow", ["ws", "is"])
def test_a_pinned_side_that_would_cut_sums_elsewhere_is_refused(dataflow: str) -> None:
    """The values of a matmul depend on dataflow and array, so k is cut where the array cuts it."""
    chip = load_chip("teaching-4x4")
    gemm = Gemm(m=8, n=8, k=10, dtype="fp32")
    with pytest.raises(SystolicError, match=r"multiple of array\.rows \(4\) or cover k \(10\), got 6"):
        lowered(gemm, chip, dataflow=dataflow, tile=(8, 8, 6))
    for fine in (4, 8, 10, 11):
        lowered(gemm, chip, dataflow=dataflow, tile=(8, 8, fine))
    lowered(gemm, chip, dataflow="os", tile=(4, 4, 6), order="mnk")


@given(busy_chips(), small_gemms(), st.sampled_from(DATAFLOWS))
def test_a_larger_buffer_never_raises_cycles_nor_least_traffic(
    chip: TpuChip, gemm: Gemm, dataflow: str
) -> None:
    for level in ("vmem", "acc"):
        if level not in chip.memory or chip.memory[level].bytes is None:
            continue
        size = chip.memory[level].bytes
        before = costed(gemm, chip, dataflow=dataflow)
        for larger in (size + 1, size * 3 // 2, 2 * size, 10 * size, None):
            memory = {**chip.memory, level: replace(chip.memory[level], bytes=larger)}
            after = costed(gemm, replace(chip, memory=memory), dataflow=dataflow)
            assert after.cycles <= before.cycles
            assert after.min_dram_bytes <= before.min_dram_bytes
            before = after


@given(busy_chips(), small_gemms(), st.sampled_from(DATAFLOWS), st.integers(2, 9))
def test_more_bandwidth_never_costs_cycles(chip: TpuChip, gemm: Gemm, dataflow: str, times: int) -> None:
    before = costed(gemm, chip, dataflow=dataflow).cycles
    for level, memory in chip.memory.items():
        if memory.bytes_per_s is not None:
            quick = {**chip.memory, level: replace(memory, bytes_per_s=memory.bytes_per_s * times)}
            assert costed(gemm, replace(chip, memory=quick), dataflow=dataflow).cycles <= before
