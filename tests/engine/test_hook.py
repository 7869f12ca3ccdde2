"""The hook that computes matmuls as a chip does."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from systolic import Gemm, SystolicError, load_chip, matmul_hook
from systolic.engine.hook import machine_of
from systolic.machines.base import Options

RNG = np.random.default_rng(1)


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-8, 9, shape).astype(np.float32)


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
@pytest.mark.parametrize("chip", ["teaching-4x4", "tpu-v4"])
def test_integer_valued_matmuls_are_exact(chip: str, dataflow: str) -> None:
    """Integers below 2**24 add without rounding in any order, so the product is NumPy's."""
    on_matmul = matmul_hook(load_chip(chip), Options(dataflow=dataflow))
    gemm = Gemm(m=5, n=7, k=13, batch=2, dtype="bf16", out_dtype="fp32")
    lhs, rhs = integers(2, 5, 13), integers(2, 13, 7)
    np.testing.assert_array_equal(on_matmul(gemm, lhs, rhs), lhs @ rhs)


def test_some_rows_have_the_values_that_all_rows_have() -> None:
    hook = matmul_hook(load_chip("tpu-v4"))
    gemm = Gemm(m=9, n=5, k=200, dtype="bf16", out_dtype="fp32")
    lhs, rhs = RNG.standard_normal((1, 9, 200), np.float32), RNG.standard_normal((1, 200, 5), np.float32)
    np.testing.assert_array_equal(hook(gemm, lhs[:, [0, 8]], rhs), hook(gemm, lhs, rhs)[:, [0, 8]])


def test_integer_overflow_is_counted_not_hidden() -> None:
    """127 * 127 * 140000 = 2.26e9 exceeds 2**31 - 1 once; it wraps as two's complement does."""
    hook = matmul_hook(load_chip("tpu-v4"))
    gemm = Gemm(m=1, n=1, k=140_000, dtype="int8")
    ones = np.full((1, 1, 140_000), 127, np.int8)
    values = hook.values(gemm, ones, ones.reshape(1, -1, 1))
    assert values.out[0, 0, 0] == 127 * 127 * 140_000 - 2**32
    assert values.overflows == 1


def test_a_kind_without_a_machine_is_refused() -> None:
    chip = load_chip("tpu-v4")
    object.__setattr__(chip, "kind", "abacus")
    with pytest.raises(SystolicError, match=r"no machine models kind 'abacus'; known: .*tpu"):
        machine_of(dataclasses.replace(chip, kind="abacus"))
