"""What is compared, and how it is cut up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.check import choose_mode, estimate_seconds
from systolic.check.plan import blocks, describe, sampled_rows
from systolic.models import load_model
from systolic.numerics.inputs import OPERAND_ELEMENTS, RESULT_ELEMENTS, column_strips
from systolic.workload import Gemm

large = st.builds(
    Gemm,
    m=st.integers(1, 20_000),
    n=st.integers(1, 60_000),
    k=st.integers(1, 60_000),
    batch=st.integers(1, 20),
    count=st.integers(1, 3),
)


@given(large, st.data())
def test_blocks_cover_everything_once_in_bounded_memory(gemm: Gemm, data: st.DataObject) -> None:
    rows = np.unique(data.draw(st.lists(st.integers(0, gemm.m - 1), min_size=1, max_size=9)))
    if data.draw(st.booleans()):
        rows = np.arange(gemm.m)
    strips = column_strips(gemm)
    seen = np.zeros((gemm.count, gemm.batch, gemm.m), np.int64)
    for block in blocks(gemm, rows, gemm.count):
        width = len(strips[block.strip])
        seen[block.occurrence, block.batch.start : block.batch.stop, block.rows] += width
        pieces = len(block.batch), block.rows.size
        assert pieces == (1, 1) or np.prod(pieces) * (width - 1) <= RESULT_ELEMENTS
        for side in (block.rows.size, width - 1):
            assert len(block.batch) * side * gemm.k <= max(OPERAND_ELEMENTS, gemm.k)
    assert (seen[:, :, rows] == gemm.n).all()
    assert seen.sum() == gemm.count * gemm.batch * rows.size * gemm.n


@given(large, st.lists(st.integers(-3, 20_003)), st.integers(0, 100))
def test_sample_holds_the_named_rows(gemm: Gemm, edges: list[int], seed: int) -> None:
    rows = sampled_rows(gemm, edges, seed)
    inside = {e for e in edges if 0 <= e < gemm.m} | {0, gemm.m - 1}
    assert inside <= set(rows.tolist())
    assert len(set(rows.tolist()) - inside) <= 8
    assert (np.diff(rows) > 0).all() and rows[0] == 0 and rows[-1] == gemm.m - 1


def test_sample_has_eight_seeded_rows() -> None:
    gemm = Gemm(m=10**6, n=8, k=8)
    assert sampled_rows(gemm, (), 0).size == 10
    assert set(sampled_rows(gemm, (), 0)) != set(sampled_rows(gemm, (), 1))


@pytest.mark.parametrize(
    ("rows", "gemm", "occurrences", "text"),
    [
        ([0, 1, 2, 7, 9], Gemm(m=10, n=1, k=1), 1, "rows 0-2, 7, 9 of 10"),
        (range(10), Gemm(m=10, n=1, k=1), 1, "all rows"),
        ([0], Gemm(m=1, n=1, k=1), 1, "the only row"),
        (range(3), Gemm(m=3, n=1, k=1, count=12), 12, "all rows, all 12 occurrences"),
        ([0, 9], Gemm(m=10, n=1, k=1, count=12), 1, "rows 0, 9 of 10, the first of 12 occurrences"),
        ([0, 9], Gemm(m=10, n=1, k=1, count=12), 2, "rows 0, 9 of 10, the first 2 of 12 occurrences"),
    ],
)
def test_rows_are_named(rows: list[int], gemm: Gemm, occurrences: int, text: str) -> None:
    assert describe(np.array(rows), gemm, occurrences) == text


def test_cost_decides_and_says_so() -> None:
    mode, reason = choose_mode([Gemm(m=512, n=768, k=768)])
    assert mode == "full"
    assert reason.startswith("check full: all values of 302 MMAC, about ")
    mode, reason = choose_mode(load_model("gpt2", seq=1024).gemms)
    assert mode == "sample"
    assert (
        "--check full compares all values of 145.8 GMAC, about " in reason
    )  # 12 (7,077,888 1024 + 1536 1024^2) + lm_head
    assert choose_mode([Gemm(m=512, n=768, k=768)], limit_seconds=0)[0] == "sample"


def test_drawing_counts_where_it_is_the_work() -> None:
    """A decode step of 8e9 weights is few MACs, but all weights would have to be drawn."""
    step = [Gemm(m=1, n=14336, k=4096, count=96), Gemm(m=1, n=4096, k=14336, count=32)]
    assert choose_mode(step)[0] == "sample"
    assert estimate_seconds(step) > 10 * estimate_seconds([Gemm(m=1024, n=1024, k=1024)])
