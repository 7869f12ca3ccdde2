"""Values of each kernel beside plain loops in the same order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic import Gemm
from systolic.machines import cpu
from systolic.machines.cpu.blocking import blocks_of
from systolic.numerics.rounding import round_to

from .runs import chip_of, lowered


def fma(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """a · b + c rounded once; exact operands of few bits keep float64 from rounding twice."""
    return np.float32(np.float64(a) * np.float64(b) + np.float64(c))


def plain(kernel: str, a: np.ndarray, b: np.ndarray, block: int) -> np.ndarray:
    """One sum at a time, k in rising order."""
    out = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i, j in np.ndindex(out.shape):
        total = np.float32(0)
        for k0 in range(0, a.shape[1], block):
            part = np.float32(0)
            for k in range(k0, min(a.shape[1], k0 + block)):
                if kernel in ("naive", "reordered"):
                    part = part + a[i, k] * b[k, j]
                else:
                    part = fma(a[i, k], b[k, j], part)
            total = part if k0 == 0 else total + part
        out[i, j] = total
    return out


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 200), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
@pytest.mark.parametrize("kernel", ["naive", "reordered", "simd", "blocked"])
def test_values_are_those_of_plain_loops(kernel: str, m: int, n: int, k: int, seed: int) -> None:
    chip = chip_of("teaching-cpu")
    step = lowered(Gemm(m=m, n=n, k=k, dtype="fp32"), chip, kernel=kernel)
    rng = np.random.default_rng(seed)
    # Ten significant bits: a product and a float32 then add up in float64 without a first rounding.
    a, b = ((rng.integers(-512, 512, shape) / 512).astype(np.float32) for shape in ((1, m, k), (1, k, n)))
    block = blocks_of("blocked", "fp32", chip).k if kernel == "blocked" else k
    got = cpu.values(step, chip, a, b).out[0]
    assert np.array_equal(got, plain(kernel, a[0], b[0], block))


def test_kernels_differ_where_roundings_do() -> None:
    chip = chip_of("teaching-cpu")
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 8, 300), (1, 300, 8)))
    outs = [
        cpu.values(lowered(Gemm(m=8, n=8, k=300, dtype="fp32"), chip, kernel=kernel), chip, a, b).out
        for kernel in ("naive", "simd", "blocked")
    ]
    assert not np.array_equal(outs[0], outs[1])
    assert not np.array_equal(outs[1], outs[2])


def test_tiles_sum_even_and_odd_k_apart() -> None:
    """Two chains of 16 products in each block of 32, then their sum (the kernel's own docstring)."""
    chip = chip_of("sapphire-rapids")
    step = lowered(Gemm(m=4, n=3, k=64, dtype="bf16"), chip, kernel="amx")
    rng = np.random.default_rng(2)
    a, b = (
        round_to(rng.standard_normal(shape).astype(np.float32), "bf16") for shape in ((1, 4, 64), (1, 64, 3))
    )
    want = np.zeros((4, 3), np.float32)
    for i, j in np.ndindex(want.shape):
        for k0 in (0, 32):
            chains = [np.float32(0), np.float32(0)]
            for k in range(k0, k0 + 32):
                chains[k % 2] = fma(a[0, i, k], b[0, k, j], chains[k % 2])
            want[i, j] += chains[0] + chains[1]
    got = cpu.values(step, chip, a, b).out[0]
    assert np.array_equal(got, round_to(want, str(step.op.out_dtype)))


def test_integers_are_exact() -> None:
    chip = chip_of("sapphire-rapids")
    step = lowered(Gemm(m=5, n=6, k=70, dtype="int8"), chip, kernel="amx")
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-128, 128, shape, dtype=np.int8) for shape in ((1, 5, 70), (1, 70, 6)))
    assert np.array_equal(cpu.values(step, chip, a, b).out, a.astype(np.int32) @ b.astype(np.int32))
