"""Bounds never exceed exact cycles, and exact cycles obey the laws of a static order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.blocks.pipeline import TooSlow
from systolic.mapping.bounds import Bounds
from systolic.mapping.plan import DIMS, Place, Plan, Problem
from systolic.mapping.schedule import explain, plan_outcome
from systolic.metrics import CAUSES

from ..tpu_strategies import planned_problems

Planned = tuple[Problem, Plan]


def bounds_of(problem: Problem, plan: Plan) -> Bounds:
    """The bounds of a single plan."""
    return Bounds(problem, {d: np.array([plan.tile[d]]) for d in DIMS})


@given(planned_problems())
def test_no_bound_exceeds_the_exact_cycles(planned: Planned) -> None:
    problem, plan = planned
    exact, bounds = plan_outcome(problem, plan).cycles, bounds_of(problem, plan)
    assert bounds.cycles(plan.order, plan.split)[0] <= exact
    assert bounds.floor(plan.split)[0] <= exact


@given(planned_problems())
def test_skipping_ahead_changes_nothing(planned: Planned) -> None:
    assert plan_outcome(*planned) == plan_outcome(*planned, skip_ahead=False)


@given(planned_problems(), st.integers(0, 300))
def test_a_plan_is_given_up_only_when_it_is_that_slow(planned: Planned, limit: int) -> None:
    """The search leaves a plan once it waits `limit` cycles for memory above the floor of its arrays."""
    exact = plan_outcome(*planned)
    try:
        assert plan_outcome(*planned, limit=limit) == exact
    except TooSlow:
        assert exact.cycles > bounds_of(*planned).floor(planned[1].split)[0] + limit


@given(planned_problems())
def test_a_plan_that_waits_forever_is_given_up(planned: Planned) -> None:
    problem, plan = planned
    far = Place(level="dram", cycles_num=1, bytes_den=1, latency=10**6, burst=1)
    operands = {name: replace(operand, place=far) for name, operand in problem.operands.items()}
    with pytest.raises(TooSlow):
        plan_outcome(replace(problem, operands=operands), plan, limit=10**6 - 1)


@given(planned_problems())
def test_causes_add_up_and_none_is_negative(planned: Planned) -> None:
    found = explain(*planned)
    assert found.cycles == plan_outcome(*planned).cycles == sum(found.causes.values())
    assert all(cycles > 0 for cycles in found.causes.values())
    assert set(found.causes) <= set(CAUSES)
    assert 0 <= found.behind_memory <= found.causes.get("weight_load", 0)


@given(planned_problems())
def test_compute_is_what_the_busiest_array_streams(planned: Planned) -> None:
    """With memory out of the way nothing stalls, and the cycles are those of the closed form."""
    problem, plan = planned
    free = Place(level="dram", cycles_num=0, bytes_den=1, latency=0, burst=1)
    operands = {
        name: replace(operand, place=None if operand.place is None else free)
        for name, operand in problem.operands.items()
    }
    at_once = explain(replace(problem, operands=operands, port=free), plan)
    assert not {"stall_dram", "stall_latency", "stall_onchip"} & set(at_once.causes)
    assert at_once.causes["compute"] == explain(problem, plan).causes["compute"]


def sped_up(place: Place | None, times: int, latency: int) -> Place | None:
    """The same port with `times` its bandwidth and another latency."""
    return place and replace(place, bytes_den=place.bytes_den * times, latency=latency)


@given(planned_problems(), st.sampled_from(("lhs", "rhs", "out", "all")), st.integers(1, 9))
def test_more_bandwidth_or_less_latency_never_costs_cycles(planned: Planned, which: str, times: int) -> None:
    problem, plan = planned
    faster = dict(problem.operands)
    for name, operand in problem.operands.items():
        if which == "all" or name == which or (name == "psum" and which == "out"):
            latency = operand.place.latency // 2 if operand.place else 0
            faster[name] = replace(operand, place=sped_up(operand.place, times, latency))
    quick = replace(problem, operands=faster, port=sped_up(problem.port, times, 0))
    assert plan_outcome(quick, plan).cycles <= plan_outcome(problem, plan).cycles
