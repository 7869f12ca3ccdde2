"""The sums of AMX tiles against Python's rationals, and against a real matrix unit where there is one."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from systolic.kernels.compile import kernel
from systolic.kernels.tiles import fma, tile_sums
from tests.strategies import seeds


@kernel
def one_fma(a: float, b: float, c: float) -> float:
    return fma(a, b, c)


def rounded(exact: Fraction) -> np.float32:
    """A rational as the nearest float32, ties to even (inf where it is too large)."""
    if exact == 0:
        return np.float32(0)
    size = abs(exact)
    exponent = max(math.frexp(size)[1] - 24, -149) if size < 2**1000 else 1000
    units = size / Fraction(2) ** exponent
    whole = units.numerator // units.denominator
    rest = units - whole
    whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    with np.errstate(over="ignore"):
        number = np.float32(np.float64(whole) * np.float64(2.0) ** exponent)
    return -number if exact < 0 else number


def flushed(number: np.float32) -> np.float32:
    return np.float32(0) if abs(number) < 2.0**-126 else number


def plain_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Twin of :func:`tile_sums` in rationals; even and odd k apart, block by block of 32."""
    out = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i, j in np.ndindex(out.shape):
        for k0 in range(0, a.shape[1], 32):
            chains = []
            for first in (0, 1):
                total = np.float32(0)
                for k in range(k0 + first, min(k0 + 32, a.shape[1]), 2):
                    x, y = flushed(a[i, k]), flushed(b[k, j])
                    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(total))
                    total = flushed(rounded(exact))
                chains.append(total)
            both = flushed(np.float32(chains[0] + chains[1]))
            out[i, j] = flushed(np.float32(out[i, j] + both))
    return out


def bf16(rng: np.random.Generator, shape: tuple[int, int], scale: float) -> np.ndarray:
    """N(0,1), and about half of it times `scale`, as bf16 numbers."""
    numbers = rng.standard_normal(shape) * scale ** rng.integers(0, 2, shape)
    return numbers.astype(ml_dtypes.bfloat16).astype(np.float32)


def computed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.empty((a.shape[0], b.shape[1]), np.float32)
    tile_sums(a, b, out)
    return out


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 70),
    seeds(),
    st.sampled_from((1.0, 1e3, 1e17, 1e-19, 1e-38)),
)
def test_sums_are_the_twins(m: int, n: int, k: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    a, b = bf16(rng, (m, k), scale), bf16(rng, (k, n), scale)
    np.testing.assert_array_equal(computed(a, b), plain_sums(a, b))


def finite(width: int) -> st.SearchStrategy[float]:
    return st.floats(width=width, allow_nan=False, allow_infinity=False)


@given(finite(16), finite(16), finite(32))
@example(1 + 2.0**-7, 1 + 2.0**-7, 2.0**24 + 2)  # rounding twice would meet a tie here
@example(2.0**-24, 2.0**-24, 1 + 2.0**-23)
def test_a_fused_multiply_add_rounds_once(a: float, b: float, c: float) -> None:
    x, y = (np.float32(np.float32(factor).astype(ml_dtypes.bfloat16)) for factor in (a, b))
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(c)
    assert np.float32(one_fma(x, y, np.float32(c))) == rounded(exact)


def has_amx() -> bool:
    """The CPU flag, and a product that tells two chains of 16 from one chain of 32."""
    import jax.numpy as jnp

    info = Path("/proc/cpuinfo")
    flagged = info.exists() and " amx_bf16" in info.read_text()
    rng = np.random.default_rng(0)
    a, b = bf16(rng, (16, 32), 1.0), bf16(rng, (32, 16), 1.0)
    operands = (jnp.asarray(x, jnp.bfloat16) for x in (a, b))
    library = np.asarray(jnp.matmul(*operands, preferred_element_type=jnp.float32))
    return flagged and bool((library == computed(a, b)).all())


@pytest.mark.parametrize("m", [3, 16, 33])
@pytest.mark.parametrize("n", [2, 16, 50])
@pytest.mark.parametrize("k", [32, 96, 768])
def test_a_real_matrix_unit_computes_the_same_bits(m: int, n: int, k: int) -> None:
    import jax.numpy as jnp

    if not has_amx():
        pytest.skip("this CPU has no AMX: the sums are held against the twin only")
    rng = np.random.default_rng(m * n * k)
    a, b = bf16(rng, (m, k), 1.0), bf16(rng, (k, n), 1.0)
    operands = (jnp.asarray(x, jnp.bfloat16) for x in (a, b))
    library = np.asarray(jnp.matmul(*operands, preferred_element_type=jnp.float32))
    np.testing.assert_array_equal(computed(a, b).view(np.int32), library.view(np.int32))
