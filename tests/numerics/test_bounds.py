"""The bounds against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.errors import SystolicError
from systolic.numerics.bounds import gamma, product_bound, split_error
from tests.strategies import seeds

U32 = 2.0**-24


def test_gamma_is_highams() -> None:
    """N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., lemma 3.1."""
    assert gamma(0, U32) == 0
    n, u = 768, Fraction(1, 2**24)
    assert gamma(n, U32) == pytest.approx(float(n * u / (1 - n * u)), rel=1e-15)


@pytest.mark.parametrize(("n", "u"), [(256, 2.0**-8), (2**24, U32), (-1, U32)])
def test_gamma_refuses_where_no_bound_exists(n: int, u: float) -> None:
    with pytest.raises(SystolicError, match=f"no error bound exists for {n} roundings"):
        gamma(n, u)


@given(seed=seeds(), k=st.integers(1, 300))
def test_gamma_holds_for_a_sequential_fp32_sum(seed: int, k: int) -> None:
    a, b = np.random.default_rng(seed).standard_normal((2, k), np.float32)
    total = np.float32(0)
    for product in a * b:
        total += product
    exact = sum((Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True)), Fraction())
    size = sum(abs(Fraction(float(x)) * Fraction(float(y))) for x, y in zip(a, b, strict=True))
    error = abs(Fraction(float(total)) - exact)
    assert error <= Fraction(gamma(k, U32)) * size
    assert error <= Fraction(product_bound(k=k, roundings=k, acc_dtype="fp32").factor) * size


def parts(x: np.ndarray, count: int) -> list[np.ndarray]:
    """x as bf16 numbers that add up to it, as nearly as so many can; float64 arrays."""
    out, rest = [], x.astype(np.float64)
    for _ in range(count):
        out.append(rest.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64))
        rest = rest - out[-1]
    return out


@given(seed=seeds())
def test_products_of_parts_stay_within_split_error(seed: int) -> None:
    """The schemes of XLA's bf16_3x and bf16_6x: products i + j < 2, or < 3, of parts numbered from 0."""
    a, b = np.random.default_rng(seed).standard_normal((2, 1000), np.float32)
    exact = a.astype(np.float64) * b
    for passes, count in ((3, 2), (6, 3)):
        pairs = [(i, j) for i in range(count) for j in range(count) if i + j < count]
        assert len(pairs) == passes
        x, y = parts(a, count), parts(b, count)
        got = sum(x[i] * y[j] for i, j in pairs)
        assert (np.abs(got - exact) <= split_error(passes, 2.0**-8) * np.abs(exact)).all()


def test_split_error_knows_its_schemes() -> None:
    assert split_error(1, 2.0**-8) == 0
    assert split_error(6, 2.0**-8) < split_error(3, 2.0**-8) < 2.0**-8
    with pytest.raises(SystolicError, match="passes must be 1, 3 or 6, got 2"):
        split_error(2, 2.0**-8)


def test_underflow_of_a_narrow_accumulator_is_allowed_for() -> None:
    """Eight products of 2^-13, each 2^-26, are all lost in fp16, whose smallest number is 2^-24."""
    exact = 8 * 2.0**-26
    assert np.float16(2.0**-26) == 0
    bound = product_bound(k=8, roundings=8, acc_dtype="fp16")
    assert bound.factor * exact + bound.floor >= exact
    assert product_bound(k=8, roundings=8, acc_dtype="fp32").floor < 1e-35
