"""The arrays of several cycles per MAC: the plain ones where it takes one, and registers that round."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.kernels import multicycle, reference, stationary, values
from systolic.kernels.rounding import round_words
from systolic.kernels.stationary import FALLING, TOKEN
from tests.kernels import test_stationary
from tests.kernels.words import FLOAT, NARROW, assert_same_bits, copied, floats
from tests.strategies import seeds, sides

EDGES = ("left", "left_flags", "top", "top_flags", "top_hops", "bottom", "bottom_flags")
Sizes = tuple[int, int, int, int]
sizes = st.tuples(st.integers(1, 3), sides(5), sides(6), st.integers(1, 12))


@given(seeds(), sizes, st.integers(1, 3), st.booleans())
def test_one_clock_is_the_plain_stationary_array(seed: int, of: Sizes, ways: int, is_float: bool) -> None:
    lanes, rows, cols, clocks = of
    acc = FLOAT if is_float else NARROW
    plain = test_stationary.arguments(np.random.default_rng(seed), lanes, rows, cols, ways, clocks, acc, 0.7)
    # Sums of the clock before stand where there was a word.
    plain["psum"][plain["flags"] & TOKEN == 0] = 0
    paced = copied(plain)
    stationary.step_stationary(**plain)

    lines = {"act", "flags", "psum", "moving", "moving_flags", "moving_hops"}
    registers = {
        n: a[None] if n in lines else a for n, a in paced.items() if n not in (*EDGES, "counts", "acc")
    }
    for name in ("product", "product_flags"):
        registers[name] = np.zeros_like(registers["act" if name == "product" else "flags"])
    edges = [paced[name] for name in ("left", "left_flags", "top", "top_flags", "top_hops")]
    out = [paced[name] for name in ("bottom", "bottom_flags", "counts", "acc")]
    multicycle.step_stationary_multicycle(*edges, registers, *out, 0)
    for name, array in registers.items():
        if not name.startswith("product"):
            assert_same_bits(array[0] if name in lines else array, plain[name], name)
    assert_same_bits(paced["bottom"], plain["bottom"])
    np.testing.assert_array_equal(paced["bottom_flags"], plain["bottom_flags"] & TOKEN)
    plain["counts"][FALLING] = paced["counts"][FALLING]
    np.testing.assert_array_equal(paced["counts"], plain["counts"])


@given(seeds(), st.integers(0, 23))
def test_a_register_rounds_to_nearest_ties_to_even(seed: int, dropped: int) -> None:
    numbers = floats(np.random.default_rng(seed), (300,), edges=0.1)
    got, want = numbers.copy(), numbers.copy()
    round_words(got.view(np.uint32), dropped)
    reference.round_words(want.view(np.uint32), dropped)
    assert_same_bits(got, want)
    if dropped == 16:
        with np.errstate(over="ignore"):
            assert_same_bits(got, numbers.astype(ml_dtypes.bfloat16).astype(np.float32))


@given(
    seeds(), st.tuples(sides(5), sides(20), sides(6)), st.integers(1, 20), st.sampled_from((0, 10, 13, 16))
)
def test_chains_that_round_are_their_twin(
    seed: int, shape: tuple[int, int, int], chain: int, dropped: int
) -> None:
    m, k, n = shape
    rng = np.random.default_rng(seed)
    a, b = floats(rng, (m, k), edges=0.02), floats(rng, (k, n), edges=0.02)
    got, want, exact = (np.full((m, n), 7, np.float32) for _ in range(3))
    with np.errstate(all="ignore"):
        values.chain_sums_rounding(a, b, chain, dropped, got)
    reference.chain_sums_rounding(a, b, chain, dropped, want)
    assert_same_bits(got, want)
    if dropped == 0:
        values.chain_sums(a, b, chain, exact)
        assert_same_bits(got, exact)


@pytest.mark.parametrize(("dropped", "sum_"), [(16, 256.0), (10, 257.0), (0, 257.0)])
def test_a_sum_in_bf16_gets_stuck(dropped: int, sum_: float) -> None:
    """jax-ml/ml_dtypes issue 63: 256 + 1 lies between two numbers of bf16, and rounds to the even one."""
    ones, out = np.ones((1, 257), np.float32), np.zeros((1, 1), np.float32)
    values.chain_sums_rounding(ones, np.ascontiguousarray(ones.T), 257, dropped, out)
    assert out[0, 0] == sum_
