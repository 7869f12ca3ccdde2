"""Rounding against ml_dtypes, exact arithmetic, and published examples."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.errors import SystolicError
from systolic.numerics.rounding import integer_range, quantize, round_to
from tests.strategies import seeds

ENCODED = {
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
}


def any_words(seed: int, size: int = 20_000) -> np.ndarray:
    """float32 numbers of every size: random words, so also subnormals, inf and NaN."""
    words = np.random.default_rng(seed).integers(0, 2**32, size, np.uint32)
    special = np.array([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F7FFFFF, 1], np.uint32)
    return np.concatenate([words, special]).view(np.float32)


@pytest.mark.parametrize("dtype", ENCODED)
@given(seed=seeds(), bits=st.integers(0, 15))
def test_rounds_as_ml_dtypes_does(dtype: str, seed: int, bits: int) -> None:
    x = any_words(seed)
    x = (x.view(np.uint32) >> np.uint32(bits) << np.uint32(bits)).view(np.float32)  # so that ties occur
    with np.errstate(all="ignore"):
        want = x.astype(ENCODED[dtype]).astype(np.float32)
    np.testing.assert_array_equal(round_to(x, dtype), want)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**127), max_value=2.0**127))
def test_tf32_keeps_ten_bits_and_ties_to_even(x: float) -> None:
    exponent = max(int(np.frexp(x)[1]) - 1, -126)
    unit = Fraction(2) ** (exponent - 10)
    want = float(round(Fraction(x) / unit) * unit)  # Fraction rounds ties to even
    assert float(round_to(np.array([x], np.float32), "tf32")[0]) == want


@pytest.mark.parametrize("dtype", ["bf16", "tf32"])
def test_nan_stays_nan_and_overflow_becomes_inf(dtype: str) -> None:
    words = np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F7FFFFF, 0xFF7FFFFF], np.uint32)
    got = round_to(words.view(np.float32), dtype)
    assert np.isnan(got[:3]).all()
    np.testing.assert_array_equal(got[3:], [np.inf, -np.inf])


@pytest.mark.parametrize(("dtype", "largest"), [("fp16", 65504), ("fp8_e4m3", 448), ("fp8_e5m2", 57344)])
def test_range_ends_where_the_format_says(dtype: str, largest: float) -> None:
    """IEEE 754-2019 table 3.5 and the OCP 8-bit floating point specification 1.0, table 1."""
    got = round_to(np.array([largest, 2 * largest], np.float32), dtype)
    assert got[0] == largest
    assert not np.isfinite(got[1])


def test_shape_and_layout_are_kept() -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 7), np.float32)
    assert round_to(x, "fp32") is x
    np.testing.assert_array_equal(
        round_to(x.transpose(2, 0, 1), "bf16"), round_to(x, "bf16").transpose(2, 0, 1)
    )
    assert round_to(np.zeros((0, 4), np.float32), "bf16").shape == (0, 4)


def test_product_of_rounded_operands_as_reported_for_a_tpu() -> None:
    """jax-ml/jax issue 9973: what a TPU returned for a float32 product, and what float32 is."""
    lhs = np.array([[0.3744, 0.1656], [0.4707, 0.1663]], np.float32)
    rhs = np.array([[0.3946, 0.1186], [0.1569, 0.3145]], np.float32)
    tpu = [[0.17405128, 0.09669876], [0.21180916, 0.10805416]]
    np.testing.assert_allclose(round_to(lhs, "bf16") @ round_to(rhs, "bf16"), tpu, rtol=1e-7)
    np.testing.assert_allclose(lhs @ rhs, [[0.17372088, 0.09648504], [0.21183069, 0.10812637]], rtol=3e-7)


def test_result_rounding_is_not_an_error_of_the_sum() -> None:
    """jax-ml/ml_dtypes issue 63: 257 and -207.66406 are 256 and -208 in bf16."""
    np.testing.assert_array_equal(round_to(np.array([257, -207.66406], np.float32), "bf16"), [256, -208])


@pytest.mark.parametrize("dtype", ["int4", "int8", "int32"])
def test_quantize_rounds_to_even_and_saturates(dtype: str) -> None:
    low, high = integer_range(dtype)
    bits = {"int4": 4, "int8": 8, "int32": 32}[dtype]
    assert (low, high) == (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    got = quantize(np.array([0.5, 1.5, -2.5, 1e30, -1e30], np.float32), dtype)
    np.testing.assert_array_equal(got, [0, 2, -2, high, low])
    np.testing.assert_array_equal(quantize(np.array([0.75], np.float32), dtype, 4.0), [3])


def test_a_format_of_the_other_kind_is_refused() -> None:
    with pytest.raises(SystolicError, match="dtype must be a float format to round to, got 'int8'"):
        round_to(np.zeros(1, np.float32), "int8")
    with pytest.raises(SystolicError, match="dtype must be an integer format, got 'bf16'"):
        quantize(np.zeros(1, np.float32), "bf16")
