"""Seeded operands: reproducible, the same whatever part is drawn, of the stated distribution."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.numerics.inputs import (
    OPERAND_ELEMENTS,
    RESULT_ELEMENTS,
    column_strips,
    draw_lhs,
    draw_rhs,
    seeded_inputs,
    split,
)
from systolic.workload import Gemm
from tests.strategies import gemms

WIDE = Gemm(name="wide", m=600, k=150, n=3000, batch=2, count=3)  # several blocks per stream


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_split_covers_in_order_and_evenly(length: int, most: int) -> None:
    most = max(most, length // 1000)
    ranges = split(length, most)
    sizes = [len(r) for r in ranges]
    assert ranges[0].start == 0 and ranges[-1].stop == length
    assert all(a.stop == b.start for a, b in pairwise(ranges))
    assert max(sizes) <= most and max(sizes) - min(sizes) <= 1


@given(st.builds(Gemm, m=st.integers(1, 10**6), n=st.integers(1, 10**5), k=st.integers(1, 10**6)))
def test_strips_cover_the_columns_within_bounds(gemm: Gemm) -> None:
    strips = column_strips(gemm)
    assert [j for strip in strips for j in (strip.start, strip.stop)][:: 2 * len(strips) - 1] == [0, gemm.n]
    widest = max(map(len, strips))
    assert widest == 1 or widest * gemm.k <= OPERAND_ELEMENTS
    assert widest <= 512 or widest * gemm.m <= RESULT_ELEMENTS


@given(gemms(largest=40), st.data())
def test_rows_drawn_alone_equal_rows_of_the_whole(gemm: Gemm, data: st.DataObject) -> None:
    lhs, rhs = seeded_inputs(gemm, seed=5)
    assert lhs.shape == (gemm.batch, gemm.m, gemm.k)
    assert rhs.shape == (gemm.batch, gemm.k, gemm.n)
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, gemm.m - 1), min_size=1))))
    np.testing.assert_array_equal(draw_lhs(gemm, 5, 0, range(gemm.batch), rows), lhs[:, rows])


def test_parts_of_large_operands_equal_the_whole() -> None:
    lhs, _ = seeded_inputs(WIDE, occurrence=2)
    rows = np.array([0, 7, 436, 437, 438, 599])
    np.testing.assert_array_equal(draw_lhs(WIDE, 0, 2, range(1, 2), rows), lhs[1:, rows])
    tall = Gemm(m=8200, k=8, n=1100)
    strips = column_strips(tall)
    assert len(strips) > 1
    whole = seeded_inputs(tall)[1]
    for i, strip in enumerate(strips):
        got = draw_rhs(tall, 0, 0, range(1), i)
        np.testing.assert_array_equal(got, whole[:, :, strip.start : strip.stop])


def test_draws_do_not_depend_on_threads_or_order() -> None:
    with ThreadPoolExecutor(3) as pool:
        drawn = list(pool.map(lambda o: seeded_inputs(WIDE, occurrence=o), (2, 0, 1, 2, 0)))
    for occurrence, both in zip((2, 0, 1, 2, 0), drawn, strict=True):
        for got, want in zip(both, seeded_inputs(WIDE, occurrence=occurrence), strict=True):
            np.testing.assert_array_equal(got, want)


def test_what_is_another_product_has_other_numbers() -> None:
    lhs, rhs = seeded_inputs(WIDE)
    others = [
        seeded_inputs(WIDE, seed=1),
        seeded_inputs(WIDE, occurrence=1),
        seeded_inputs(replace(WIDE, name="other")),
    ]
    for other_lhs, other_rhs in others:
        assert (other_lhs != lhs).mean() > 0.99
        assert (other_rhs != rhs).mean() > 0.99
    assert (lhs[0] != lhs[1]).mean() > 0.99
    assert len(np.unique(lhs)) > 0.98 * lhs.size  # no stream is used twice; float32 normals seldom repeat
    fp32 = seeded_inputs(replace(WIDE, dtype="fp32", rhs_dtype=None, out_dtype=None))
    np.testing.assert_array_equal(fp32[0], lhs)


def test_floats_are_standard_normal() -> None:
    lhs, rhs = seeded_inputs(WIDE)
    for x in (lhs, rhs):
        assert x.dtype == np.float32
        assert abs(x.mean()) < 5 / np.sqrt(x.size)
        assert abs(x.var() - 1) < 5 * np.sqrt(2 / x.size)
        assert abs((np.abs(x) < 1).mean() - 0.6827) < 5 * 0.47 / np.sqrt(x.size)


@pytest.mark.parametrize(("dtype", "steps"), [("int8", 32), ("int4", 2)])
def test_integers_reach_both_ends_at_four_deviations(dtype: str, steps: int) -> None:
    integers = seeded_inputs(Gemm(name="wide", m=600, k=150, n=3000, batch=2, dtype=dtype))[1]
    normals = seeded_inputs(WIDE)[1]
    assert integers.dtype == np.int8
    assert (integers.min(), integers.max()) == (-4 * steps, 4 * steps - 1)
    np.testing.assert_array_equal(integers, np.clip(np.rint(normals * steps), -4 * steps, 4 * steps - 1))
