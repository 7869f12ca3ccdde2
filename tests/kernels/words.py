"""Random words and registers for the kernels, and equality to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from systolic.kernels.stationary import FALLING, LAST, REAL, SWAP, TOKEN

Arrays = dict[str, np.ndarray]

INT32 = np.array([-(2**31), 2**31 - 1, 2**32], np.int64)
"""low, high, span of an int32 accumulator."""
NARROW = np.array([-100, 99, 200], np.int64)
"""An accumulator that sums of words in -9..9 leave often, and by less than a span."""
FLOAT = np.array([-np.inf, np.inf, 0], np.float32)

EDGES = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38],
    np.float32,
)
"""Signed zeros, infinities, NaN, and the smallest and largest of the subnormal and normal numbers."""


def floats(rng: np.random.Generator, shape: tuple[int, ...], edges: float = 0.0) -> np.ndarray:
    """N(0, 1) as float32; with `edges`, over all exponents, that share of them replaced by :data:`EDGES`."""
    words = rng.standard_normal(shape).astype(np.float32)
    if edges:
        words = np.ldexp(words, rng.integers(-100, 60, shape)).astype(np.float32)
        words = np.where(rng.random(shape) < edges, rng.choice(EDGES, shape), words)
    return words


def integers(rng: np.random.Generator, shape: tuple[int, ...], acc: np.ndarray) -> np.ndarray:
    """int64 words of which no product is wider than the accumulator's span."""
    side = 128 if acc is INT32 else 9
    return rng.integers(-side, side, shape)


def random_flags(rng: np.random.Generator, shape: tuple[int, ...], density: float) -> np.ndarray:
    """Flags of words; `density` is the share of words that are there, and of these that are operands."""
    marks = TOKEN | np.where(rng.random(shape) < density, REAL, 0)
    for mark in (SWAP, LAST):
        marks |= np.where(rng.random(shape) < 0.2, mark, 0)
    return np.where(rng.random(shape) < density, marks, 0).astype(np.uint8)


def counted(rng: np.random.Generator) -> np.ndarray:
    """Counters in the middle of a run."""
    counts = rng.integers(0, 1000, 6)
    counts[FALLING] = 0
    return counts


def copied(arrays: Arrays) -> Arrays:
    return {name: array.copy() for name, array in arrays.items()}


def assert_same_words(got: Arrays, want: Arrays) -> None:
    """Every array equal to the bit."""
    assert got.keys() == want.keys()
    for name in want:
        assert_same_bits(got[name], want[name], name)


def assert_same_bits(got: np.ndarray, want: np.ndarray, name: str = "") -> None:
    """Equal to the bit, the sign of a zero included; any NaN equals any other."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape), name
    np.testing.assert_array_equal(_bits(got), _bits(want), name)


def _bits(words: np.ndarray) -> Any:
    if words.dtype != np.float32:
        return words
    return np.where(np.isnan(words), np.float32(np.nan), words).view(np.uint32)
