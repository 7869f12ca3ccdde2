"""The value kernels against the chain that they stand for, and against their twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.kernels import reference, values
from tests.kernels.words import INT32, NARROW, assert_same_bits, floats
from tests.strategies import seeds, shapes, sides

EDGE_SHARES = st.sampled_from((0.0, 0.01, 0.2))


def chained(a: np.ndarray, b: np.ndarray, chain: int) -> np.ndarray:
    """One element after another: multiply, round, add, round; a new chain every `chain` products."""
    out = np.empty((a.shape[0], b.shape[1]), a.dtype)
    for i, j in np.ndindex(out.shape):
        total = a.dtype.type(0)
        for k0 in range(0, a.shape[1], chain):
            part = a.dtype.type(0)
            for x, y in zip(a[i, k0 : k0 + chain], b[k0 : k0 + chain, j], strict=True):
                part = part + x * y
            total = total + part
        out[i, j] = total
    return out


def multiplied(a: np.ndarray, b: np.ndarray, chain: int) -> np.ndarray:
    """What the kernel makes of A @ B, in an output that held something else."""
    out = np.full((a.shape[0], b.shape[1]), 7, a.dtype)
    with np.errstate(all="ignore"):  # without the JIT its infinities would warn
        values.chain_sums(a, b, chain, out)
    return out


@given(shapes(9), st.integers(1, 12), seeds(), EDGE_SHARES)
def test_chain_sums_is_the_sequential_chain(
    shape: tuple[int, int, int], chain: int, seed: int, edges: float
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(seed)
    a, b = floats(rng, (m, k), edges), floats(rng, (k, n), edges)
    with np.errstate(all="ignore"):
        want = chained(a, b, chain)
    assert_same_bits(multiplied(a, b, chain), want)


@given(st.tuples(sides(20), sides(150), sides(40)), st.integers(1, 50), seeds(), EDGE_SHARES)
def test_chain_sums_is_its_twin(shape: tuple[int, int, int], chain: int, seed: int, edges: float) -> None:
    # Wider than a register block of any machine, so that full and ragged blocks come together.
    m, n, k = shape
    rng = np.random.default_rng(seed)
    a, b = floats(rng, (m, k), edges), floats(rng, (k, n), edges)
    want = np.empty((m, n), np.float32)
    reference.chain_sums(a, b, chain, want)
    assert_same_bits(multiplied(a, b, chain), want)


@given(st.tuples(sides(20), sides(150), sides(40)), st.integers(1, 50), seeds())
def test_integer_sums_are_exact_whatever_the_chain(
    shape: tuple[int, int, int], chain: int, seed: int
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-128, 128, (m, k), np.int32), rng.integers(-128, 128, (k, n), np.int32)
    want = np.empty((m, n), np.int32)
    reference.chain_sums(a, b, chain, want)
    assert_same_bits(multiplied(a, b, chain), want)
    np.testing.assert_array_equal(want, a.astype(np.int64) @ b.astype(np.int64))


@given(st.tuples(sides(20), sides(80), sides(20)), st.integers(1, 20), seeds(), st.data())
def test_rows_and_columns_do_not_depend_on_their_neighbours(
    shape: tuple[int, int, int], chain: int, seed: int, data: st.DataObject
) -> None:
    # So the values depend on no tile, split or thread.
    m, n, k = shape
    rng = np.random.default_rng(seed)
    a, b = floats(rng, (m, k)), floats(rng, (k, n))
    rows = sorted(data.draw(st.lists(st.integers(0, m - 1), min_size=1, unique=True), "rows"))
    cols = sorted(data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True), "cols"))
    some = multiplied(np.ascontiguousarray(a[rows]), np.ascontiguousarray(b[:, cols]), chain)
    assert_same_bits(some, multiplied(a, b, chain)[np.ix_(rows, cols)])


def test_a_product_is_rounded_before_it_is_added() -> None:
    # (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 rounds to 1 + 2^-11. Fused with the addition, 2^-24 would be left.
    x = np.float32(1 + 2.0**-12)
    a = np.array([[-(1 + 2.0**-11), x]], np.float32)
    b = np.array([[1], [x]], np.float32)
    assert multiplied(a, b, 2)[0, 0] == 0


def test_the_chain_decides_the_order_of_sums() -> None:
    # In rising k, 2^24 + 1 rounds back to 2^24 twice; two chains of two keep the second pair's 2.
    a, b = np.array([[2.0**24, 0, 1, 1]], np.float32), np.ones((4, 1), np.float32)
    assert multiplied(a, b, 4)[0, 0] == 2.0**24
    assert multiplied(a, b, 2)[0, 0] == 2.0**24 + 2


def test_subnormal_products_are_kept() -> None:
    # 2^-75 * 2^-74 = 2^-149, the smallest float32; flushed to zero the sum would be 0.
    a, b = np.full((1, 3), 2.0**-75, np.float32), np.full((3, 1), 2.0**-74, np.float32)
    assert multiplied(a, b, 3)[0, 0] == np.float32(3 * 2.0**-149)


@given(shapes(9), st.integers(1, 12), seeds(), st.sampled_from(("int32", "narrow")))
def test_wrapping_sums_are_their_twin(shape: tuple[int, int, int], chain: int, seed: int, kind: str) -> None:
    m, n, k = shape
    low, _, span = map(int, INT32 if kind == "int32" else NARROW)
    side = 2**15 if kind == "int32" else 9  # a product is then no wider than the span
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-side, side, (m, k)), rng.integers(-side, side, (k, n))
    got, want = np.full((2, m, n), 7)
    wraps = values.chain_sums_wrapping(a, b, chain, low, span, got)
    assert wraps == reference.chain_sums_wrapping(a, b, chain, low, span, want)
    assert_same_bits(got, want)
    # An accumulator is a ring: wherever sums wrapped, the result is the exact one modulo the span.
    np.testing.assert_array_equal((got - a @ b) % span, 0)
    assert (got >= low).all()
    assert (got < low + span).all()


@pytest.mark.parametrize(("chain", "wraps"), [(2**17, 1), (2**16, 1), (2, 1)])
def test_int32_wraps_where_the_next_sum_does_not_fit(chain: int, wraps: int) -> None:
    # 2^17 products of (-128)^2 = 2^14 add up to 2^31, one more than int32 holds.
    a, b = np.full((1, 2**17), -128), np.full((2**17, 1), -128)
    out = np.zeros((1, 1), np.int64)
    assert values.chain_sums_wrapping(a, b, chain, -(2**31), 2**32, out) == wraps
    assert out[0, 0] == -(2**31)


@pytest.mark.parametrize(
    ("products", "sum_", "wraps"),
    [([99], 99, 0), ([99, 1], -100, 1), ([99, 1, -1], 99, 2), ([-99, -1], -100, 0)],
)
def test_a_sum_wraps_as_soon_as_it_leaves_its_accumulator(products: list[int], sum_: int, wraps: int) -> None:
    # By hand: -100..99 holds 200 numbers; 99 + 1 is -100, and one less is 99 again.
    a, b = np.array([products]), np.ones((len(products), 1), np.int64)
    out = np.zeros((1, 1), np.int64)
    assert values.chain_sums_wrapping(a, b, 9, -100, 200, out) == wraps
    assert out[0, 0] == sum_
