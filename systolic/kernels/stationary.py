"""A weight-stationary array stepped clock by clock, every register of every PE stored.

Input stationary is the same array with its operands exchanged. The array sees the words at its edges and its
registers, and nothing else: no shape, no tile.

Registers of PE (r, c): `act` and `flags` for each lane, `weight`, `shadow`, `psum` for each lane, and
`moving` words of weights on their way down, one for each row of weights that enters per clock. On each
clock a PE takes the activation of its left neighbour; a SWAP flag on it makes the shadow weight the live
one; it multiplies, rounds, adds the psum of the PE above, rounds. A moving weight falls one row per clock,
counts its hops down, and lands in the shadow of the row where none is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compile import kernel
from .micro import count_row, mac_row, shift_row

TOKEN, REAL, SWAP, LAST = 1, 2, 4, 8
"""Flags of a word: it is there; it is an operand and no padding; it is the first, the last of its tile."""

MACS, SLOTS, WRAPS, CLOCKS, LAST_BUSY, FALLING = range(6)
"""What a stepped array counts: MACs on operands, PE slots clocked with a word, sums that wrapped, clocks, the
last clock in which a word was anywhere, words of weights that are falling."""


@kernel
def step_stationary(
    left: Any,
    left_flags: Any,
    top: Any,
    top_flags: Any,
    top_hops: Any,
    act: Any,
    flags: Any,
    weight: Any,
    weight_real: Any,
    shadow: Any,
    shadow_real: Any,
    moving: Any,
    moving_flags: Any,
    moving_hops: Any,
    psum: Any,
    bottom: Any,
    bottom_flags: Any,
    counts: Any,
    acc: Any,
) -> None:
    """Clock the array once for each row of the edge words, in place.

    Parameters
    ----------
    left, left_flags
        Words that enter on the left at each clock: (clocks, lanes, rows).
    top, top_flags, top_hops
        Words of weights that enter on top: (clocks, weight_rows, cols); rows that each has yet to fall.
    act, flags, psum
        Registers (lanes, rows, cols).
    weight, weight_real, shadow, shadow_real
        Registers (rows, cols), and whether they hold an operand.
    moving, moving_flags, moving_hops
        Registers (weight_rows, rows, cols).
    bottom, bottom_flags
        Receive what the bottom row holds after each clock: (clocks, lanes, cols).
    counts
        int64, indexed by MACS, SLOTS, …; added to.
    acc
        [low, high, span] in the accumulator's type: a sum outside low..high wraps by span. A float does
        not wrap: its span is 0.
    """
    lanes, rows, cols = act.shape
    low, high, span = acc[0], acc[1], acc[2]
    acts, marks, weights, sums = act.reshape(-1), flags.reshape(-1), weight.reshape(-1), psum.reshape(-1)
    reals = weight_real.reshape(-1)
    zeros = np.zeros(cols, psum.dtype)
    for t in range(left.shape[0]):
        slots_before = counts[SLOTS]
        for r in range(rows - 1, -1, -1):
            for lane in range(lanes):
                here = (lane * rows + r) * cols
                shift_row(acts, here, cols, left[t, lane, r])
                shift_row(marks, here, cols, left_flags[t, lane, r])
            if count_row(marks, r * cols, marks, r * cols, cols, SWAP):
                for c in range(cols):
                    if flags[0, r, c] & SWAP:
                        weight[r, c] = shadow[r, c]
                        weight_real[r, c] = shadow_real[r, c]
            for lane in range(lanes):
                here = (lane * rows + r) * cols
                macs = count_row(marks, here, reals, r * cols, cols, REAL)
                counts[MACS] += macs
                if macs == cols:
                    counts[SLOTS] += cols
                    source, at = (sums, here - cols) if r > 0 else (zeros, 0)
                    mac_row(sums, here, source, at, acts, here, weights, r * cols, cols)
                else:
                    counts[SLOTS] += count_row(marks, here, marks, here, cols, TOKEN)
                    above = psum[lane, r - 1] if r > 0 else zeros
                    _masked_row(
                        flags[lane, r],
                        act[lane, r],
                        weight[r],
                        weight_real[r],
                        above,
                        zeros[0],
                        psum[lane, r],
                    )
                if span != 0:
                    counts[WRAPS] += wrap_row(psum[lane, r], low, high, span)
        busy = counts[SLOTS] > slots_before
        busy = (
            _fall(t, top, top_flags, top_hops, shadow, shadow_real, moving, moving_flags, moving_hops, counts)
            or busy
        )
        for lane in range(lanes):
            for c in range(cols):
                bottom[t, lane, c] = psum[lane, rows - 1, c]
                bottom_flags[t, lane, c] = flags[lane, rows - 1, c]
        counts[CLOCKS] += 1
        if busy:
            counts[LAST_BUSY] = counts[CLOCKS]


@kernel
def _masked_row(
    flags: Any, act: Any, weight: Any, weight_real: Any, above: Any, zero: Any, psum: Any
) -> None:
    """One row: psum = above, plus the product where both words are operands; 0 where there is no word."""
    for c in range(psum.size):
        total = above[c] + act[c] * weight[c]
        kept = total if (flags[c] & weight_real[c]) & REAL else above[c]
        psum[c] = kept if flags[c] & TOKEN else zero


@kernel
def wrap_row(psum: Any, low: Any, high: Any, span: Any) -> int:
    """Wrap sums that left the accumulator's range; return how many."""
    wraps = 0
    for c in range(psum.size):
        if psum[c] < low:
            psum[c] += span
            wraps += 1
        if psum[c] > high:
            psum[c] -= span
            wraps += 1
    return wraps


@kernel
def _fall(
    t: int,
    top: Any,
    top_flags: Any,
    top_hops: Any,
    shadow: Any,
    shadow_real: Any,
    moving: Any,
    moving_flags: Any,
    moving_hops: Any,
    counts: Any,
) -> bool:
    """Let each moving weight fall one row; return whether there was one."""
    ways, rows, cols = moving.shape
    entering = 0
    for q in range(ways):
        for c in range(cols):
            entering += (top_flags[t, q, c] & TOKEN) != 0
    if entering == 0 and counts[FALLING] == 0:
        return False
    counts[FALLING] = 0
    for q in range(ways):
        for r in range(rows - 1, -1, -1):
            for c in range(cols):
                word = moving[q, r - 1, c] if r > 0 else top[t, q, c]
                word_flags = moving_flags[q, r - 1, c] if r > 0 else top_flags[t, q, c]
                hops = moving_hops[q, r - 1, c] if r > 0 else top_hops[t, q, c]
                if word_flags & TOKEN and hops == 0:
                    shadow[r, c] = word
                    shadow_real[r, c] = word_flags & REAL
                    word_flags = 0
                there = word_flags & TOKEN
                moving[q, r, c] = word
                moving_flags[q, r, c] = word_flags
                moving_hops[q, r, c] = hops - there
                counts[FALLING] += there
    return True
