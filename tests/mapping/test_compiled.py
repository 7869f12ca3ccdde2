"""The compiled search finds what the mapper finds: plan, cycles by cause, bytes, and how many plans fit."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.chips import load_chip
from systolic.chips.tpu import TpuChip
from systolic.errors import SystolicError
from systolic.machines import tpu
from systolic.machines.base import Options
from systolic.mapping.plan import ORDERS
from systolic.workload import Gemm, Workload

from ..tpu_strategies import busy_chips, small_gemms
from .brute_force import brute_force
from .test_mapper import lowered, random_case


def both(gemm: Gemm, chip: TpuChip, **options: object) -> tuple[tpu.GemmStep, tpu.GemmStep] | None:
    """The step as the mapper makes it, and as the compiled search does; None where neither finds a plan."""
    try:
        plain = lowered(gemm, chip, **options)
    except SystolicError as error:
        with pytest.raises(SystolicError) as other:
            lowered(gemm, chip, compiled=True, **options)
        assert str(other.value) == str(error)
        return None
    return plain, lowered(gemm, chip, compiled=True, **options)


def assert_equal(gemm: Gemm, chip: TpuChip, **options: object) -> bool:
    """Whether there is a plan; all of the two steps but the plans that had to be timed is the same."""
    found = both(gemm, chip, **options)
    if found is None:
        return False
    plain, compiled = found
    assert replace(compiled.mapped, timed=plain.mapped.timed) == plain.mapped, (gemm, chip, options)
    return True


@pytest.mark.parametrize("convention", ["serial", "overlapped"])
@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_it_equals_the_mapper_and_brute_force(dataflow: str, convention: str) -> None:
    draw = random.Random(f"compiled {dataflow} {convention}")
    fitting = 0
    for number in range(40):
        gemm, chip = random_case(draw, convention)
        fitting += assert_equal(gemm, chip, dataflow=dataflow)
        if number < 6 and (best := brute_force(gemm, chip, dataflow)) is not None:
            step = lowered(gemm, chip, dataflow=dataflow, compiled=True)
            assert tpu.cost(step, chip).cycles == best.cycles
            plan = step.mapped.plan
            sides = tuple(plan.tile[d] for d in "mnk")
            assert (step.mapped.split.dim, plan.split, plan.order, sides) == best.plan
    assert fitting > 20


@pytest.mark.parametrize("order", ORDERS)
def test_it_honours_a_pinned_order(order: str) -> None:
    draw = random.Random(f"compiled {order}")
    for dataflow in ("ws", "os", "is"):
        gemm, chip = random_case(draw, draw.choice(["serial", "overlapped"]))
        assert_equal(gemm, chip, dataflow=dataflow, order=order)


@settings(deadline=None, max_examples=60)
@given(gemm=small_gemms(), chip=busy_chips(), dataflow=st.sampled_from(["ws", "os", "is"]))
def test_it_equals_the_mapper_on_any_chip(gemm: Gemm, chip: TpuChip, dataflow: str) -> None:
    assert_equal(gemm, chip, dataflow=dataflow)


@pytest.mark.parametrize("chip", ["tpu-v1", "tpu-v4", "tpu-v6e"])
def test_it_equals_the_mapper_on_chips_of_the_catalogue(chip: str) -> None:
    loaded = load_chip(chip)
    assert isinstance(loaded, TpuChip)
    for m, n, k, batch in ((512, 768, 768, 1), (77, 300, 513, 2), (8, 4096, 1000, 1)):
        gemm = Gemm(m=m, n=n, k=k, batch=batch, dtype=loaded.native_dtype)
        assert assert_equal(gemm, loaded)
        assert assert_equal(gemm, loaded, tile=(64, 256, 256))


def test_a_workload_costs_the_same() -> None:
    chip = load_chip("tpu-v4")
    work = Workload(name="two", ops=tuple(Gemm(m=m, n=256, k=512, name=f"g{m}", count=m) for m in (3, 200)))
    steps = [tpu.lower(work, chip, Options(compiled=compiled)) for compiled in (False, True)]  # type: ignore[arg-type]
    plain, compiled = ([tpu.cost(step, chip) for step in made] for made in steps)  # type: ignore[arg-type]
    assert plain == compiled
