"""The stored weight-stationary array against its twin: every register, every count, every clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.kernels import reference, stationary
from systolic.kernels.stationary import CLOCKS, FALLING, LAST_BUSY, MACS, REAL, SLOTS, SWAP, TOKEN, WRAPS
from tests.kernels.words import (
    FLOAT,
    INT32,
    NARROW,
    Arrays,
    assert_same_words,
    copied,
    counted,
    floats,
    integers,
    random_flags,
)
from tests.strategies import seeds, sides

ACCUMULATORS = {"float": FLOAT, "int32": INT32, "narrow": NARROW}


def arguments(
    rng: np.random.Generator,
    lanes: int,
    rows: int,
    cols: int,
    ways: int,
    clocks: int,
    acc: Any,
    density: float,
) -> Arrays:
    """An array in the middle of a run, and the words at its edges."""

    def numbers(*shape: int) -> np.ndarray:
        return floats(rng, shape, edges=0.02) if acc is FLOAT else integers(rng, shape, acc)

    def marks(*shape: int) -> np.ndarray:
        return random_flags(rng, shape, density)

    def real(*shape: int) -> np.ndarray:
        return np.where(rng.random(shape) < density, REAL, 0).astype(np.uint8)

    arrays = {
        "left": numbers(clocks, lanes, rows),
        "left_flags": marks(clocks, lanes, rows),
        "top": numbers(clocks, ways, cols),
        "top_flags": marks(clocks, ways, cols) & (TOKEN | REAL),
        "top_hops": rng.integers(0, rows, (clocks, ways, cols)).astype(np.int16),
        "act": numbers(lanes, rows, cols),
        "flags": marks(lanes, rows, cols),
        "weight": numbers(rows, cols),
        "weight_real": real(rows, cols),
        "shadow": numbers(rows, cols),
        "shadow_real": real(rows, cols),
        "moving": numbers(ways, rows, cols),
        "moving_flags": marks(ways, rows, cols) & (TOKEN | REAL),
        "moving_hops": rng.integers(0, rows, (ways, rows, cols)).astype(np.int16),
        "psum": numbers(lanes, rows, cols),
        "bottom": numbers(clocks, lanes, cols),
        "bottom_flags": marks(clocks, lanes, cols),
        "counts": counted(rng),
        "acc": acc.copy(),
    }
    arrays["counts"][FALLING] = np.count_nonzero(arrays["moving_flags"] & TOKEN)
    return arrays


@given(
    seeds(),
    st.tuples(st.integers(1, 3), sides(6), sides(20), st.integers(1, 3), st.integers(1, 12)),
    st.sampled_from(sorted(ACCUMULATORS)),
    st.sampled_from((0.3, 0.9, 1.0)),
)
def test_step_stationary_is_its_twin(
    seed: int, shape: tuple[int, int, int, int, int], kind: str, density: float
) -> None:
    before = arguments(np.random.default_rng(seed), *shape, ACCUMULATORS[kind], density)
    got, want = copied(before), copied(before)
    with np.errstate(all="ignore"):  # without the JIT the kernel's infinities would warn
        stationary.step_stationary(**got)
    reference.step_stationary(**want)
    assert_same_words(got, want)


def test_a_row_wider_than_a_byte_counts_right() -> None:
    # NumPy's uint8 wraps at 256 where Numba widens it.
    before = arguments(np.random.default_rng(0), 1, 1, 300, 1, 2, INT32, 1.0)
    got, want = copied(before), copied(before)
    stationary.step_stationary(**got)
    reference.step_stationary(**want)
    assert_same_words(got, want)
    assert got["counts"][SLOTS] - before["counts"][SLOTS] == 600


def single_pe(word: int, weight: int, psum_limit: np.ndarray) -> Arrays:
    """One PE that holds `weight` as its shadow, and one word that swaps it in."""
    arrays = arguments(np.random.default_rng(0), 1, 1, 1, 1, 1, psum_limit, 1.0)
    for name in ("top_flags", "moving_flags", "counts"):
        arrays[name][...] = 0
    arrays["left"][...], arrays["left_flags"][...] = word, TOKEN | REAL | SWAP
    arrays["shadow"][...], arrays["shadow_real"][...] = weight, REAL
    return arrays


@pytest.mark.parametrize(
    ("product", "sum_", "wraps"), [(99, 99, 0), (100, -100, 1), (-100, -100, 0), (-101, 99, 1)]
)
def test_a_sum_wraps_at_the_ends_of_its_accumulator(product: int, sum_: int, wraps: int) -> None:
    # Expected by hand: the accumulator holds -100..99, 200 numbers.
    arrays = single_pe(product, 1, NARROW)
    stationary.step_stationary(**arrays)
    assert arrays["bottom"][0, 0, 0] == sum_
    assert arrays["counts"][WRAPS] == wraps
    assert arrays["counts"][MACS] == arrays["counts"][SLOTS] == 1
    assert arrays["counts"][CLOCKS] == arrays["counts"][LAST_BUSY] == 1
