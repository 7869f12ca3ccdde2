"""A plan as slices: each cycle has one cause, each byte one transfer, and both add up."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given

from systolic.mapping.plan import Plan, Problem
from systolic.mapping.schedule import plan_outcome
from systolic.mapping.slices import array_slices, port_slices
from systolic.mapping.traffic import port_totals
from tests.tpu_strategies import planned_problems


@given(planned_problems())
def test_the_array_is_accounted_for_in_each_cycle(drawn: tuple[Problem, Plan]) -> None:
    problem, plan = drawn
    slices, outcome = list(array_slices(problem, plan)), plan_outcome(problem, plan)
    assert (slices[0].start, slices[-1].stop) == (0, outcome.cycles)
    assert all(before.stop == after.start for before, after in pairwise(slices))
    by_cause = Counter[str]()
    for part in slices:
        by_cause[part.cause] += part.stop - part.start
    assert by_cause == outcome.causes


@given(planned_problems())
def test_the_ports_move_what_the_plan_moves(drawn: tuple[Problem, Plan]) -> None:
    problem, plan = drawn
    moved = Counter[tuple[str, str]]()
    slices = list(port_slices(problem, plan))
    for part in slices:
        moved[part.operand, "write" if part.write else "read"] += part.bytes
    expected = {
        key: problem.batch * int(amount)
        for key, amount in port_totals(problem, plan.tile, plan.order).bytes.items()
        if problem.operands[key[0]].place is not None and amount
    }
    assert moved == expected
    # The port does one thing at a time.
    assert all(b.start >= a.stop for a, b in pairwise(p for p in slices if p.stop > p.start))
    assert max((p.stop for p in slices), default=0) <= plan_outcome(problem, plan).cycles
