"""Closed forms of traffic, buffers and bounds against an enumeration of all blocks."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given

from systolic.blocks.array import AXES, pieces
from systolic.mapping.plan import DIMS, OPERAND_DIMS, ORDERS, Plan, Problem
from systolic.mapping.schedule import block_at, indices
from systolic.mapping.space import ALL_SIDES, array_splits, grain, tile_sides
from systolic.mapping.traffic import block_bytes, onchip_bytes, port_totals

from ..tpu_strategies import planned_problems, problems

Planned = tuple[Problem, Plan]


@given(planned_problems())
def test_port_totals_are_those_of_all_blocks(planned: Planned) -> None:
    problem, plan = planned
    moved: Counter[tuple[str, str]] = Counter()
    load_cycles = store_cycles = 0
    for index in indices(problem, plan):
        block = block_at(problem, plan, index)
        for move in block.loads:
            moved[move.operand, "read"] += move.bytes
            load_cycles += problem.operands[move.operand].cycles(move.bytes)
        if block.store is not None:
            moved[block.store.operand, "write"] += block.store.bytes
            store_cycles += problem.operands[block.store.operand].cycles(block.store.bytes)
    totals = port_totals(problem, plan.tile, plan.order)
    for (name, way), amount in totals.bytes.items():
        expected = problem.batch * amount if problem.operands[name].place is not None else 0
        assert moved.pop((name, way), 0) == expected
    assert not moved
    assert load_cycles == problem.batch * totals.load_cycles
    assert store_cycles == problem.batch * totals.store_cycles


@given(planned_problems())
def test_onchip_bytes_are_those_of_all_array_tiles(planned: Planned) -> None:
    problem, plan = planned
    axes, timing, is_os = AXES[problem.dataflow], problem.timing, problem.dataflow == "os"
    elements: Counter[str] = Counter()
    for index in indices(problem, plan):
        size = block_at(problem, plan, index).size
        at = dict(zip(plan.order, index[1:], strict=True))
        ends_sums = (at["k"] + 1) * plan.tile["k"] >= problem.k
        share = size[axes.stream] if is_os else -(-size[axes.stream] // plan.split[1])
        for left, right in pieces(size[axes.cols], timing.cols):
            for top, bottom in pieces(size[axes.rows], timing.rows):
                for begin, end in pieces(size[axes.stream], share):
                    rows, cols, streamed = bottom - top, right - left, end - begin
                    elements[problem.streaming] += rows * streamed
                    elements[problem.stationary] += cols * (streamed if is_os else rows)
                    elements["psum"] += ends_sums * rows * cols if is_os else cols * streamed
    elements["out"] = problem.batch * problem.m * problem.n
    for (level, name, _), amount in onchip_bytes(problem, plan.tile, plan.split).items():
        assert level == ("acc" if name == "psum" else "vmem")
        assert problem.batch * amount == elements[name] * problem.operands[name].bits // 8


@given(planned_problems())
def test_buffers_hold_the_largest_block_of_each_operand(planned: Planned) -> None:
    """Twice where the run has another block of it and two buffers are in use."""
    problem, plan = planned
    distinct: dict[str, set[tuple[int, ...]]] = {name: set() for name in problem.operands}
    largest = dict.fromkeys(problem.operands, 0)
    for index in indices(problem, plan):
        at = dict(zip(plan.order, index[1:], strict=True))
        size = block_at(problem, plan, index).size
        for name, operand in problem.operands.items():
            rows, cols = OPERAND_DIMS["out" if name == "psum" else name]
            distinct[name].add((index[0], at[rows], at[cols]))
            largest[name] = max(largest[name], operand.packed_bytes(size[rows], size[cols]))
    held = {n: min(problem.buffers, len(distinct[n])) * largest[n] for n in problem.operands}
    moved = {n for n, operand in problem.operands.items() if operand.place is not None}
    inputs = sum(held[n] for n in ("lhs", "rhs") if n in moved)
    results = held["out"] if "out" in moved else 0
    beside, apart = (held["psum"], 0) if problem.acc_bytes is None else (results, held["psum"])
    assert block_bytes(problem, plan.tile) == (inputs + beside, apart)


@given(problems())
def test_many_plans_at_once_are_one_by_one(problem: Problem) -> None:
    tiles = np.array([(a, b, c) for a in (1, problem.m) for b in (2, problem.n) for c in (3, problem.k)])
    many = dict(zip(DIMS, np.minimum(tiles, [problem.size(d) for d in DIMS]).T, strict=True))
    each = [{d: int(many[d][i]) for d in DIMS} for i in range(len(tiles))]
    for order in ORDERS:
        together = port_totals(problem, many, order)
        alone = [port_totals(problem, tile, order) for tile in each]
        for key, amounts in together.bytes.items():
            np.testing.assert_array_equal(amounts, [totals.bytes[key] for totals in alone])
    for split in array_splits(problem):
        onchip = onchip_bytes(problem, many, split)
        for key, amounts in onchip.items():
            expected = [onchip_bytes(problem, tile, split)[key] for tile in each]
            np.testing.assert_array_equal(np.broadcast_to(amounts, len(each)), expected)


@given(problems(300))
def test_sides_of_the_space_are_whole_grains_up_to_the_whole_length(problem: Problem) -> None:
    for dim in DIMS:
        length, step, found = problem.size(dim), grain(problem, dim), tile_sides(problem, dim)
        assert found == sorted(set(found))
        assert found[-1] == length
        assert found[0] == min(step, length)
        assert all(side % step == 0 for side in found[:-1])
        if -(-length // step) <= ALL_SIDES:
            assert len(found) == -(-length // step)
