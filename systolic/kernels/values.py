"""What a systolic array computes, bit for bit, without stepping it.

A product element is a chain: each PE multiplies, rounds, adds to the sum from its neighbour, rounds. A chain
is as long as the array has rows of k (weight or input stationary) or as k itself (output stationary); the
accumulators add chains in rising k. Nothing else decides the bits: not the tiles, the split, nor threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compile import kernel
from .micro import COLS, ROWS, block
from .rounding import round_words


@kernel
def chain_sums(a: Any, b: Any, chain: int, out: Any) -> None:
    """Set out = A @ B as chains of `chain` products, added in rising k.

    Parameters
    ----------
    a, b, out
        (m, k), (k, n) and (m, n), C-contiguous, all float32 or all int32. Integer sums must fit int32.
    chain
        Products per chain, > 0.
    """
    m, depth = a.shape
    n = b.shape[1]
    panel = np.zeros((min(chain, depth), COLS), b.dtype)
    tile = np.zeros((ROWS, COLS), out.dtype)
    for k0 in range(0, depth, chain):
        k1 = min(depth, k0 + chain)
        for j0 in range(0, n, COLS):
            width = min(COLS, n - j0)
            for k in range(k0, k1):
                for c in range(width):
                    panel[k - k0, c] = b[k, j0 + c]
            for i0 in range(0, m, ROWS):
                block(a, i0, k0, k1, panel, tile)
                for r in range(min(ROWS, m - i0)):
                    if k0 == 0:
                        for c in range(width):
                            out[i0 + r, j0 + c] = tile[r, c]
                    else:
                        for c in range(width):
                            out[i0 + r, j0 + c] += tile[r, c]


@kernel
def chain_sums_rounding(a: Any, b: Any, chain: int, dropped: int, out: Any) -> None:
    """As :func:`chain_sums` where the registers of sums keep fewer bits than fp32.

    Parameters
    ----------
    a, b, out
        (m, k), (k, n) and (m, n), C-contiguous float32.
    chain
        Products per chain, > 0.
    dropped
        Lowest bits of each sum that its register lacks, 1 to 23: it rounds to nearest, ties to even.
    """
    m, depth = a.shape
    n = b.shape[1]
    part = np.empty(n, np.float32)
    words = part.view(np.uint32)
    for i in range(m):
        total = out[i]
        total[:] = 0
        total_words = total.view(np.uint32)
        for k0 in range(0, depth, chain):
            part[:] = 0
            for k in range(k0, min(depth, k0 + chain)):
                for j in range(n):
                    part[j] += a[i, k] * b[k, j]
                round_words(words, dropped)
            total += part
            round_words(total_words, dropped)


@kernel
def chain_sums_wrapping(a: Any, b: Any, chain: int, low: int, span: int, out: Any) -> int:
    """As :func:`chain_sums` for integers whose sums may leave the accumulator; return how often they did.

    Parameters
    ----------
    a, b, out
        (m, k), (k, n) and (m, n) int64 arrays; each product must lie within one span.
    chain
        Products per chain, > 0.
    low, span
        The accumulator holds low <= x < low + span; a sum outside wraps around by `span`.
    """
    m, depth = a.shape
    overflows = 0
    for i in range(m):
        for j in range(b.shape[1]):
            total = 0
            for k0 in range(0, depth, chain):
                part = 0
                for k in range(k0, min(depth, k0 + chain)):
                    part += a[i, k] * b[k, j]
                    if part < low or part >= low + span:
                        overflows += 1
                        part = (part - low) % span + low
                total += part
                if total < low or total >= low + span:
                    overflows += 1
                    total = (total - low) % span + low
            out[i, j] = total
    return overflows
