"""Transfers one by one, against a core that is clocked cycle by cycle."""

from __future__ import annotations

from hypothesis import given, settings

from systolic.machines.tpu.clocked import Core
from systolic.mapping.plan import Plan, Problem
from systolic.mapping.schedule import plan_outcome
from systolic.mapping.transfers import transfers_of

from ..tpu_strategies import planned_problems


@settings(deadline=None, max_examples=40)
@given(planned_problems(12))
def test_transfers_are_those_of_a_clocked_core(planned: tuple[Problem, Plan]) -> None:
    problem, plan = planned
    core = Core(problem, plan)
    cycles = core.run()
    found = list(transfers_of(problem, plan))
    assert [(t.operand, t.write) for t in found if t.cycles] == [
        (t.name, t.is_store) for t in core.moved if t.cycles
    ]
    block = -1
    loads = iter([t for t in found if not t.write])
    for block, moves in enumerate(core.blocks):
        for move in moves.loads:
            load, place = next(loads), problem.operands[move.operand].place
            assert place is not None
            assert load.operand == move.operand
            assert load.start + load.cycles + place.latency == core.arrivals[block, move.operand]
    assert max((t.start + t.cycles for t in found), default=0) <= cycles


@settings(deadline=None)
@given(planned_problems())
def test_the_port_does_one_thing_at_a_time(planned: tuple[Problem, Plan]) -> None:
    problem, plan = planned
    free = 0
    for transfer in transfers_of(problem, plan):
        if transfer.cycles:
            assert transfer.start >= free
            free = transfer.start + transfer.cycles
    assert free <= plan_outcome(problem, plan).cycles
