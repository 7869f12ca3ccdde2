"""The stored output-stationary array against its twin: every register, every count, every clock."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from systolic.kernels import output_stationary, reference
from systolic.kernels.output_stationary import EMPTY, HELD, MOVING
from systolic.kernels.stationary import SLOTS
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
    rng: np.random.Generator, lanes: int, rows: int, cols: int, clocks: int, acc: Any, density: float
) -> Arrays:
    """An array in the middle of a run, and the words at its edges."""

    def numbers(*shape: int) -> np.ndarray:
        return floats(rng, shape, edges=0.02) if acc is FLOAT else integers(rng, shape, acc)

    def marks(*shape: int) -> np.ndarray:
        return random_flags(rng, shape, density)

    def some(*shape: int) -> np.ndarray:
        return (rng.random(shape) < 0.3).astype(np.uint8)

    return {
        "left": numbers(clocks, lanes, rows),
        "left_flags": marks(clocks, lanes, rows),
        "top": numbers(clocks, lanes, cols),
        "top_flags": marks(clocks, lanes, cols),
        "release": some(clocks, cols),
        "act": numbers(lanes, rows, cols),
        "flags": marks(lanes, rows, cols),
        "weight": numbers(lanes, rows, cols),
        "weight_flags": marks(lanes, rows, cols),
        "psum": numbers(rows, cols),
        "shadow": numbers(rows, cols),
        "shadow_state": rng.choice(np.array([EMPTY, HELD, MOVING], np.uint8), (rows, cols)),
        "bottom": numbers(clocks, cols),
        "bottom_full": some(clocks, cols),
        "counts": counted(rng),
        "acc": acc.copy(),
    }


@given(
    seeds(),
    st.tuples(st.integers(1, 3), sides(6), sides(20), st.integers(1, 12)),
    st.sampled_from(sorted(ACCUMULATORS)),
    st.sampled_from((0.3, 0.9, 1.0)),
)
def test_step_output_stationary_is_its_twin(
    seed: int, shape: tuple[int, int, int, int], kind: str, density: float
) -> None:
    before = arguments(np.random.default_rng(seed), *shape, ACCUMULATORS[kind], density)
    got, want = copied(before), copied(before)
    with np.errstate(all="ignore"):  # without the JIT the kernel's infinities would warn
        output_stationary.step_output_stationary(**got)
    reference.step_output_stationary(**want)
    assert_same_words(got, want)


def test_a_row_wider_than_a_byte_counts_right() -> None:
    # NumPy's uint8 wraps at 256 where Numba widens it.
    before = arguments(np.random.default_rng(0), 1, 1, 300, 2, INT32, 1.0)
    got, want = copied(before), copied(before)
    output_stationary.step_output_stationary(**got)
    reference.step_output_stationary(**want)
    assert_same_words(got, want)
    assert got["counts"][SLOTS] - before["counts"][SLOTS] == 600
