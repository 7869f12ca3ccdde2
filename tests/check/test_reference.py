"""The comparison itself: on operands of our choice, against published results and exact cases."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.check import reference
from systolic.check.reference import Reference
from systolic.numerics.bounds import product_bound
from tests.check.chip import ENCODED
from tests.strategies import seeds


def verdict(dtype: str, lhs: object, rhs: object, got: object, acc: str = "fp32", out: str = "") -> tuple:
    """Whether `got` passes as lhs @ rhs in this format, and how many results left its range."""
    operand = np.int8 if acc == "int32" else np.float32
    a, b = (np.asarray(x, operand)[None] for x in (lhs, rhs))
    bound = None if acc == "int32" else product_bound(k=a.shape[2], roundings=a.shape[2], acc_dtype=acc)
    compare = Reference(dtype, dtype, acc, out or dtype, bound)
    result = np.asarray(got, np.int32 if acc == "int32" else np.float32)[None]
    worst, beyond = compare.compare(compare.operand("lhs", a), compare.operand("rhs", b), result)
    assert (worst.ratio <= 1) == (worst.error <= worst.tolerance)
    return worst.ratio <= 1, beyond


@pytest.mark.parametrize("dtype", sorted(set(ENCODED) - {"fp32"}))
@given(seed=seeds(), low=st.integers(-30, 20))
def test_reference_rounds_as_ml_dtypes_does(dtype: str, seed: int, low: int) -> None:
    """Two implementations that share nothing, from fp8's subnormals to beyond its range, ties included."""
    import jax.numpy as jnp

    rng = np.random.default_rng(seed)
    x = np.ldexp(rng.integers(-(2**12), 2**12, 1000), rng.integers(low, low + 8, 1000)).astype(np.float32)
    with np.errstate(over="ignore"):
        want = x.astype(ENCODED[dtype]).astype(np.float32)
    if dtype == "fp8_e4m3":
        want = np.where(np.isnan(want), np.copysign(np.inf, x), want)
    np.testing.assert_array_equal(
        np.asarray(reference._round(jnp, jnp.asarray(x), reference._GRIDS[dtype])), want
    )


def test_float32_on_a_bf16_chip() -> None:
    """jax-ml/jax issue 9973: the TPU's answer is right for its precision, and wrong for float32's."""
    lhs, rhs = [[0.3744, 0.1656], [0.4707, 0.1663]], [[0.3946, 0.1186], [0.1569, 0.3145]]
    tpu = [[0.17405128, 0.09669876], [0.21180916, 0.10805416]]
    fp32 = [[0.17372088, 0.09648504], [0.21183069, 0.10812637]]
    assert verdict("bf16", lhs, rhs, tpu, out="fp32") == (True, 0)
    assert verdict("bf16", lhs, rhs, fp32, out="fp32") == (False, 0)
    assert verdict("fp32", lhs, rhs, fp32) == (True, 0)
    assert verdict("fp32", lhs, rhs, tpu) == (False, 0)


def test_wrapped_int8_is_no_result() -> None:
    """jax-ml/jax issue 4465 and triton-lang/triton issue 2296: the second result is the bug."""
    lhs, rhs = [[-44, -20], [-126, 6]], [[24, -75], [127, -101]]
    assert verdict("int8", lhs, rhs, [[-3596, 5320], [-2262, 8844]], "int32", "int32") == (True, 0)
    assert verdict("int8", lhs, rhs, [[-12, -56], [42, -116]], "int32", "int32") == (False, 0)


def test_int32_wraps_on_both_sides() -> None:
    """140,000 products 127 x 127 are 2,258,060,000, which int32 holds as that less 2^32."""
    k = 140_000
    lhs, rhs = np.full((1, k), 127), np.full((k, 1), 127)
    assert verdict("int8", lhs, rhs, [[k * 127**2 - 2**32]], "int32", "int32") == (True, 0)
    assert verdict("int8", lhs, rhs, [[2**31 - 1]], "int32", "int32") == (False, 0)


def test_sums_beside_their_rounding() -> None:
    """jax-ml/ml_dtypes issue 63 and jax-ml/jax issue 17214: 257 is 256 in bf16; a bf16 sum sticks at 256."""
    ones = np.ones((1, 257)), np.ones((257, 1))
    assert verdict("bf16", *ones, [[257]], out="fp32") == (True, 0)
    assert verdict("bf16", *ones, [[256]]) == (True, 0)
    assert verdict("bf16", *ones, [[256]], out="fp32") == (False, 0)
    assert verdict("bf16", *ones, [[257]]) == (False, 0)  # no number of bf16
    assert verdict("bf16", [[-1.6171875, 0.5703125]], [[127], [-4]], [[-208]]) == (True, 0)


def test_range_of_the_result() -> None:
    """cupy/cupy issue 6566: eight products 100 x 100 are 80,000, above fp16's 65,504."""
    lhs, rhs = np.full((1, 8), 100), np.full((8, 1), 100)
    assert verdict("fp16", lhs, rhs, [[80_000]], out="fp32") == (True, 0)
    assert verdict("fp16", lhs, rhs, [[np.inf]]) == (True, 1)
    for wrong in (65_504, -np.inf, np.nan, 80_000):
        assert verdict("fp16", lhs, rhs, [[wrong]])[0] is False
    assert verdict("fp8_e4m3", lhs, rhs, [[np.nan]]) == (True, 1)
    assert verdict("fp8_e4m3", lhs, rhs, [[448]])[0] is False
    assert verdict("fp8_e4m3", [[1]], [[1]], [[np.nan]])[0] is False


def test_subnormal_results_are_kept() -> None:
    """2^-20 is a number of fp16, below its smallest normal one, 2^-14; 2^-26 is none."""
    assert verdict("fp16", [[2.0**-10]], [[2.0**-10]], [[2.0**-20]]) == (True, 0)
    assert verdict("fp16", [[2.0**-10]], [[2.0**-10]], [[0]])[0] is False
    assert verdict("fp16", [[2.0**-13]], [[2.0**-13]], [[0]]) == (True, 0)


@given(seed=seeds(), steps=st.sampled_from((-2, -1, 1, 2)))
def test_a_single_product_allows_no_other_neighbour(seed: int, steps: int) -> None:
    """With k = 1 the product is exact, so only its correct rounding passes."""
    a, b = np.random.default_rng(seed).standard_normal((2, 1, 1)).astype(ml_dtypes.bfloat16)
    right = (a.astype(np.float32) * b.astype(np.float32)).astype(ml_dtypes.bfloat16)
    wrong = (right.view(np.int16) + np.int16(steps)).view(ml_dtypes.bfloat16)
    if abs(float(a[0, 0]) * float(b[0, 0]) - float(right[0, 0])) < 0.49 * abs(
        float(wrong[0, 0] - right[0, 0])
    ):
        assert verdict("bf16", a, b, right.astype(np.float32))[0] is True
        assert verdict("bf16", a, b, wrong.astype(np.float32))[0] is False
