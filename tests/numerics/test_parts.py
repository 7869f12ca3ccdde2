"""fp32 as sums of bf16 parts: nothing is lost, and the passes are those of OpenXLA."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.numerics.parts import PASSES, PRODUCTS, interleave, parts_of, split
from tests.strategies import seeds


def test_passes_are_those_of_jax_and_their_products_those_of_openxla() -> None:
    """jax.lax.Precision: 1, 3 and 6 passes. dot_algorithm_rewriter.cc, RewriteF32ToBF16X3 and X6."""
    assert PASSES == {"default": 1, "high": 3, "highest": 6}
    high, middle, low = range(3)
    assert PRODUCTS[3] == ((middle, high), (high, middle), (high, high))  # two parts: its "low" is ours
    assert PRODUCTS[6] == (
        (middle, middle),
        (high, low),
        (low, high),
        (high, middle),
        (middle, high),
        (high, high),
    )
    assert [parts_of(passes) for passes in (1, 3, 6)] == [1, 2, 3]


@given(seeds())
def test_three_parts_of_bf16_are_fp32(seed: int) -> None:
    """8 + 8 + 8 significant bits, as long as the lowest part is no subnormal number."""
    rng = np.random.default_rng(seed)
    x = np.ldexp(rng.standard_normal(200), rng.integers(-90, 90, 200)).astype(np.float32)
    parts = split(x, 3, "bf16")
    for part in parts:
        np.testing.assert_array_equal(part, part.astype(ml_dtypes.bfloat16).astype(np.float32))
    wide = [part.astype(np.float64) for part in parts]
    np.testing.assert_array_equal(wide[0] + wide[1] + wide[2], x)
    assert (np.abs(x - wide[0]) <= 2.0**-8 * np.abs(x)).all()
    assert (np.abs(x - wide[0] - wide[1]) <= 2.0**-16 * np.abs(x)).all()


@pytest.mark.parametrize("x", [np.inf, -np.inf, np.nan, 3.4e38])
def test_what_is_not_finite_has_no_rest(x: float) -> None:
    first, second, third = split(np.array([x], np.float32), 3, "bf16")
    assert not np.isfinite(first[0])
    assert second[0] == third[0] == 0


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 1))
def test_groups_stay_together_and_the_last_is_filled_with_zeros(length: int, group: int, axis: int) -> None:
    shape = (length, 2) if axis == 0 else (2, length)
    first = np.arange(1, 1 + 2 * length, dtype=np.float32).reshape(shape)
    got = np.moveaxis(interleave([first, -first], [1, 0, 0], axis, group), axis, 0)
    first = np.moveaxis(first, axis, 0)
    want = []
    for start in range(0, length, group):
        part = np.zeros((group, 2), np.float32)
        part[: len(first[start : start + group])] = first[start : start + group]
        want += [-part, part, part]
    np.testing.assert_array_equal(got, np.concatenate(want))
