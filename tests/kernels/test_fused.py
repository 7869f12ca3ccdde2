"""Fused multiply-adds and fused dot products against exact arithmetic, and against what was measured."""

from __future__ import annotations

from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.kernels import fused
from systolic.numerics.rounding import round_to
from tests.kernels.words import assert_same_bits, floats
from tests.strategies import seeds, shapes

VOLTA, AMPERE, HOPPER = (4, 23, 23), (8, 24, 23), (16, 25, 23)
HOPPER_FP8 = (32, 13, 13)
"""Products of a group, fraction bits of aligned terms and of the register: MMA-Sim, arXiv 2511.10909."""

LOWEST = {"bf16": -126, "fp16": -14, "tf32": -126, "fp8_e4m3": -6, "fp8_e5m2": -14}


def exponent(x: Fraction, lowest: int) -> int:
    """Of the power of two below |x|, `lowest` at least; -126 of 0."""
    if x == 0:
        return -126
    power = x.numerator.bit_length() - x.denominator.bit_length()
    return max(power if abs(x) >= Fraction(2) ** power else power - 1, lowest)


def cut(x: Fraction, unit: Fraction) -> Fraction:
    """x without what lies below a unit."""
    return int(x / unit) * unit


def dot(a: np.ndarray, b: np.ndarray, dtype: str, shape: tuple[int, int, int], promote: int) -> np.float32:
    """One element in exact arithmetic, term by term."""
    group, align, keep = shape
    lowest = LOWEST[dtype]
    terms = [(Fraction(float(x)), Fraction(float(y))) for x, y in zip(a, b, strict=True)]
    total, register = np.float32(0), Fraction(0)
    for k in range(0, len(terms), group):
        if k and k % promote == 0:
            total, register = total + np.float32(float(register)), Fraction(0)
        aligned = [(x * y, exponent(x, lowest) + exponent(y, lowest)) for x, y in terms[k : k + group]]
        aligned.append((register, exponent(register, -126)))
        unit = Fraction(2) ** (max(e for _, e in aligned) - align)
        whole = sum((cut(x, unit) for x, _ in aligned), Fraction(0))
        register = cut(whole, Fraction(2) ** (exponent(whole, -126) - keep))
    return total + np.float32(float(register))


def tensor_core(
    a: np.ndarray, b: np.ndarray, dtype: str, shape: tuple[int, int, int], promote: int = 1 << 40
) -> np.ndarray:
    """A @ B by the kernel."""
    exponents = [np.empty(x.shape, np.int32) for x in (a, b)]
    for x, of in zip((a, b), exponents, strict=True):
        fused.exponents(x, LOWEST[dtype], of)
    out = np.full((a.shape[0], b.shape[1]), 7, np.float32)
    with np.errstate(all="ignore"):
        fused.fused_sums(a, b, *exponents, *shape, promote, out)
    return out


@given(
    shapes(5),
    st.sampled_from(
        [("fp16", VOLTA), ("bf16", AMPERE), ("tf32", (4, 24, 23)), ("fp16", HOPPER), ("fp8_e4m3", HOPPER_FP8)]
    ),
    seeds(),
    st.integers(0, 30),
    st.sampled_from([1, 2, 1 << 30]),
)
def test_fused_sums_are_aligned_cut_and_added_exactly(
    shape: tuple[int, int, int], core: tuple[str, tuple[int, int, int]], seed: int, spread: int, groups: int
) -> None:
    """Operands of very different sizes, so that the alignment cuts; zeros and subnormals among them."""
    m, n, k = shape
    (dtype, arithmetic), rng = core, np.random.default_rng(seed)
    k = 3 * k + arithmetic[0] // 2
    a, b = (
        round_to((rng.standard_normal(s) * 2.0 ** rng.integers(-spread, 3, s)).astype(np.float32), dtype)
        for s in ((m, k), (k, n))
    )
    a[rng.random(a.shape) < 0.1] = 0
    promote = groups * arithmetic[0]
    want = np.array([[dot(x, y, dtype, arithmetic, promote) for y in b.T] for x in a], np.float32)
    assert_same_bits(tensor_core(a, b, dtype, arithmetic, promote), want)


@pytest.mark.parametrize(
    ("core", "sum_of_ones"), [(VOLTA, 1.0), (AMPERE, 1 + 2.0**-22), (HOPPER, 1 + 2.0**-22)]
)
def test_a_volta_tensor_core_has_no_guard_bit_and_later_ones_have(
    core: tuple[int, int, int], sum_of_ones: float
) -> None:
    """Fasi et al., PeerJ CS 7:e330, section 3: 1 + 2^-24 + 2^-24 ... is 1 on a V100; a T4 and an A100 keep a
    bit more while they add."""
    a, b = np.full((1, 8), 2.0**-12, np.float32), np.full((8, 1), 2.0**-12, np.float32)
    a[0, 0] = b[0, 0] = 1
    a[0, 5:] = 0  # 1 and four times 2**-24
    assert tensor_core(a, b, "fp16", core)[0, 0] == np.float32(sum_of_ones)


def test_sums_are_cut_not_rounded() -> None:
    """Fasi et al., section 3.4: the result is truncated, of negative numbers towards zero too."""
    a = np.array([[1, 2.0**-12], [-1, 2.0**-12]], np.float32)
    b = np.array([[1], [2.0**-12 + 2.0**-13]], np.float32)
    b[1, 0] = 1.5 * 2.0**-12
    got = tensor_core(a, b, "fp16", HOPPER)
    assert got[0, 0] == 1  # 1 + 1.5 * 2**-24, of which the nearest float is 1 + 2**-23
    assert got[1, 0] == -1 + 2.0**-23  # -1 + 1.5 * 2**-24, with floats 2**-24 apart: towards zero


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="too many sums without machine code")
def test_fp8_sums_on_hopper_lose_percents() -> None:
    """DeepSeek-AI, DeepSeek-V3 Technical Report, section 3.5.2: with K = 4096 the maximum relative error of
    random matrices is nearly 2% (of which distribution it does not say); a promotion to fp32 every 128
    products mends it."""
    rng = np.random.default_rng(0)
    a, b = (round_to(rng.random(s, np.float32), "fp8_e4m3") for s in ((64, 4096), (4096, 64)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    plain, promoted = (tensor_core(a, b, "fp8_e4m3", HOPPER_FP8, every) for every in (1 << 40, 128))
    assert 0.01 < (np.abs(plain - exact) / exact).max() < 0.1
    assert (np.abs(promoted - exact) / exact).max() < 0.002


@given(shapes(6), seeds(), st.sampled_from((0.0, 0.05, 0.3)))
def test_fma_sums_round_once(shape: tuple[int, int, int], seed: int, edges: float) -> None:
    """Against exact fractions where all is finite."""
    m, n, k = shape
    rng = np.random.default_rng(seed)
    a, b = floats(rng, (m, k), edges), floats(rng, (k, n), edges)
    out = np.empty((m, n), np.float32)
    with np.errstate(all="ignore"):
        fused.fma_sums(a, b, out)
    for i, j in np.ndindex(m, n):
        total = np.float32(0)
        for x, y in zip(a[i], b[:, j], strict=True):
            if not np.isfinite([x, y, total]).all():
                break
            total = rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(total)), total)
        else:
            assert out[i, j] == total


def rounded(x: Fraction, near: np.float32) -> np.float32:
    """The nearest float32, ties to even, by comparing neighbours of a first guess."""
    with np.errstate(all="ignore"):
        guess = np.float32(float(x))
    if not np.isfinite(guess):
        return guess
    around = [np.nextafter(guess, np.float32(way)) for way in (-np.inf, np.inf)]
    candidates = [c for c in (guess, *around) if np.isfinite(c)]
    return min(candidates, key=lambda c: (abs(Fraction(float(c)) - x), c.view(np.uint32) & 1))


def test_a_fused_multiply_add_keeps_what_two_roundings_lose() -> None:
    """(1 + 2^-12)^2 - (1 + 2^-11) = 2^-24: the case of IEEE 754-2019, 5.4.1."""
    a = np.array([[-1, 1 + 2.0**-12]], np.float32)
    b = np.array([[1 + 2.0**-11], [1 + 2.0**-12]], np.float32)
    out = np.empty((1, 1), np.float32)
    fused.fma_sums(a, b, out)
    assert out[0, 0] == 2.0**-24


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_so(special: float) -> None:
    a, b = np.ones((2, 20), np.float32), np.ones((20, 3), np.float32)
    a[0, 3] = special
    got = tensor_core(a, b, "bf16", AMPERE)
    np.testing.assert_array_equal(got, np.array([[special] * 3, [20] * 3], np.float32))


def test_sums_beyond_the_range_are_inf() -> None:
    a, b = np.full((1, 8), 2.0**100, np.float32), np.full((8, 1), 2.0**100, np.float32)
    assert tensor_core(a, b, "bf16", AMPERE)[0, 0] == np.inf
    b[1:4] *= -1
    b[4:] = 0  # 2**200 - 3 * 2**200
    assert tensor_core(a, b, "bf16", AMPERE)[0, 0] == -np.inf
