"""Bank conflicts in closed form against every address of every step, looked at one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.chips.tpu import DATAFLOWS, Array, Memory, TpuChip
from systolic.machines import tpu
from systolic.machines.base import Options
from systolic.mapping.banks import Banks, Stream, fullest_bank, slowest_step
from systolic.mapping.plan import ORDERS, Plan
from systolic.mapping.schedule import plan_outcome
from systolic.mapping.space import Pins, array_splits, fitting_tiles, legal
from systolic.workload import Gemm, Workload
from tests.strategies import sides


def by_address(banks: Banks, stream: Stream, length: int, width: int) -> int:
    """Most words in one bank in any step: bit addresses of all its elements, lines padded to whole words."""
    word = 8 * banks.word_bytes
    line = length if stream.along else width
    stride = word * -(-line * stream.bits // word)
    entering, worst = length * stream.passes, 0
    for tile in range(0, width, stream.side):
        for step in range(0, entering, stream.lanes):
            words = set()
            for position in range(step, min(step + stream.lanes, entering)):
                for place in range(tile, min(tile + stream.side, width)):
                    element = position // stream.passes
                    at = (place, element) if stream.along else (element, place)
                    begin = at[0] * stride + at[1] * stream.bits
                    words |= set(range(begin // word, (begin + stream.bits - 1) // word + 1))
            worst = max(worst, *Counter(w % banks.count for w in words).values())
    return worst


def banks(count: int, word_bytes: int) -> Banks:
    return Banks(count=count, word_bytes=word_bytes, layout="row")


@given(
    st.builds(banks, st.integers(1, 9), st.sampled_from((1, 2, 3, 4, 8))),
    st.builds(
        Stream,
        bits=st.sampled_from((4, 8, 16, 32)),
        along=st.booleans(),
        side=sides(8),
        lanes=st.integers(1, 4),
        passes=st.sampled_from((1, 1, 3, 6)),
    ),
    st.tuples(sides(20), sides(20)),
)
def test_slowest_step_is_that_of_all_addresses(of: Banks, stream: Stream, block: tuple[int, int]) -> None:
    assert slowest_step(of, stream, *block) == by_address(of, stream, *block)


@given(sides(30), sides(30), st.integers(0, 8), st.integers(1, 9))
def test_fullest_bank_counts_each_word(lines: int, words: int, stride: int, count: int) -> None:
    stride %= count
    every = Counter((i * stride + w) % count for i in range(lines) for w in range(words))
    assert fullest_bank(lines, words, stride, count) == max(every.values())


@pytest.mark.parametrize(
    ("along", "length", "cycles"),
    [
        (False, 64, 1),  # a row of 128 bf16 is 256 bytes in a row: each of 8 banks gives one word of 32
        (True, 128, 128),  # 128 lines of 256 bytes: all begin in the same bank
        (True, 129, 16),  # of 9 words, which is odd: they spread over all 8
    ],
)
def test_known_layouts(along: bool, length: int, cycles: int) -> None:
    stream = Stream(bits=16, along=along, side=128, lanes=1, passes=1)
    assert slowest_step(banks(8, 32), stream, length, 128) == cycles


def chip(layout: str, count: int | None, rows: int = 4) -> TpuChip:
    memory = Memory(banks=count, bank_bytes=None if count is None else 4, layout=layout)  # type: ignore[arg-type]
    array = Array(rows=rows, cols=4, lanes={"bf16": 1, "int8": 2})
    dram = Memory(bytes_per_s=4 * 10**9, latency_ns=9)
    return TpuChip(
        name="banked", clock_hz=10**9, array=array, mxus_per_core=2, memory={"dram": dram, "vmem": memory}
    )


def lowered(gemm: Gemm, of: TpuChip, dataflow: str, **options: object) -> tpu.GemmStep:
    work = Workload(name="one", ops=(gemm,))
    (step,) = tpu.lower(work, of, Options(dataflow=dataflow, **options))  # type: ignore[arg-type]
    assert isinstance(step, tpu.GemmStep)
    return step


@given(
    st.sampled_from(DATAFLOWS),
    st.sampled_from(("row", "column")),
    st.integers(1, 4),
    st.tuples(sides(13), sides(13), sides(13)),
    st.sampled_from(("bf16", "int8")),
)
def test_the_mapper_finds_the_fastest_plan_under_conflicts(
    dataflow: str, layout: str, count: int, shape: tuple[int, int, int], dtype: str
) -> None:
    m, n, k = shape
    step = lowered(Gemm(m=m, n=n, k=k, dtype=dtype), chip(layout, count), dataflow)
    problem = step.mapped.split.busiest
    tiles = dict(zip("mnk", fitting_tiles(problem, Pins()).T, strict=True))
    blocks = {d: -(-problem.size(d) // tiles[d]) for d in "mnk"}
    cycles = [
        plan_outcome(problem, Plan(tile={d: int(tiles[d][i]) for d in "mnk"}, order=order, split=way)).cycles
        for order in ORDERS
        for way in array_splits(problem)
        for i in np.flatnonzero(legal(problem, tiles, blocks, order, way))
    ]
    assert step.mapped.cost.cycles == min(cycles)


def test_conflicts_cost_what_they_say_and_none_are_free() -> None:
    """By hand, on 4 x 4 arrays that take 4 bf16 of the lhs per cycle, from banks of 4 bytes."""
    gemm = Gemm(m=8, n=4, k=4)
    free = tpu.cost(lowered(gemm, chip("row", None), "ws", tile=(8, 4, 4), order="mnk"), chip("row", None))
    assert "stall_bank" not in free.cycles_by_cause
    # A row of 4 bf16 is two words of 4 bytes: in 2 banks one each, in 1 bank they take turns.
    for count, stalls in ((2, 0), (1, 1)):
        of = chip("row", count)
        row = tpu.cost(lowered(gemm, of, "ws", tile=(8, 4, 4), order="mnk"), of)
        streamed = 8 // int(row.mapping["arrays_along_stream"])  # type: ignore[index]
        assert row.cycles_by_cause.get("stall_bank", 0) == stalls * streamed
    # Column by column the 4 elements lie m / 2 words apart: an even number, and all are in one of two banks.
    of = replace(chip("column", 2), mxus_per_core=1)
    row = tpu.cost(lowered(gemm, of, "ws", tile=(8, 4, 4), order="mnk"), of)
    assert row.cycles_by_cause["stall_bank"] == 8 * (4 - 1)
    row = tpu.cost(lowered(replace(gemm, m=6), of, "ws", tile=(6, 4, 4), order="mnk"), of)
    assert row.cycles_by_cause["stall_bank"] == 6 * (2 - 1)
