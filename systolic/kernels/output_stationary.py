"""An output-stationary array stepped clock by clock, every register of every PE stored.

Registers of PE (r, c): `act` and `flags` for each lane (from the left), `weight` and `weight_flags` for each
lane (from above), `psum`, and `shadow`, a finished sum on its way out. A SWAP flag on the activation starts
a new sum; the lanes add one after the other, so that a sum is one chain; a LAST flag copies the finished
sum to the shadow, where it is held. A pulse on a column's release line lets go of all sums held there; each
then moves down one row per clock until it leaves below, while sums that are held later stay.
"""

from __future__ import annotations

from typing import Any

from .compile import kernel
from .micro import count_row, mac_row, shift_row
from .stationary import (
    CLOCKS,
    LAST,
    LAST_BUSY,
    MACS,
    REAL,
    SLOTS,
    SWAP,
    TOKEN,
    WRAPS,
    wrap_row,
)

EMPTY, HELD, MOVING = 0, 1, 2
"""What a shadow is doing with a finished sum."""


@kernel
def step_output_stationary(
    left: Any,
    left_flags: Any,
    top: Any,
    top_flags: Any,
    release: Any,
    act: Any,
    flags: Any,
    weight: Any,
    weight_flags: Any,
    psum: Any,
    shadow: Any,
    shadow_state: Any,
    bottom: Any,
    bottom_full: Any,
    counts: Any,
    acc: Any,
) -> None:
    """Clock the array once for each row of the edge words, in place.

    Parameters
    ----------
    left, left_flags
        Words that enter on the left at each clock: (clocks, lanes, rows).
    top, top_flags
        Words that enter on top: (clocks, lanes, cols).
    release
        Whether there is a pulse on the column's release line: (clocks, cols).
    act, flags, weight, weight_flags
        Registers (lanes, rows, cols).
    psum, shadow, shadow_state
        Registers (rows, cols); EMPTY, HELD or MOVING.
    bottom, bottom_full
        Receive what leaves each column at each clock: (clocks, cols).
    counts, acc
        As for :func:`systolic.kernels.stationary.step_stationary`.
    """
    lanes, rows, cols = act.shape
    low, high, span = acc[0], acc[1], acc[2]
    acts, marks, weights, sums = act.reshape(-1), flags.reshape(-1), weight.reshape(-1), psum.reshape(-1)
    tops, states = weight_flags.reshape(-1), shadow_state.reshape(-1)
    for t in range(left.shape[0]):
        bottom[t, :] = 0
        bottom_full[t, :] = 0
        busy = False
        if release[t].any() or count_row(states, 0, states, 0, states.size, MOVING):
            busy = _shift_out(release[t], shadow, shadow_state, bottom[t], bottom_full[t])
        for r in range(rows - 1, -1, -1):
            for lane in range(lanes):
                here = (lane * rows + r) * cols
                shift_row(acts, here, cols, left[t, lane, r])
                shift_row(marks, here, cols, left_flags[t, lane, r])
                for c in range(cols):
                    weight[lane, r, c] = weight[lane, r - 1, c] if r > 0 else top[t, lane, c]
                for c in range(cols):
                    weight_flags[lane, r, c] = (
                        weight_flags[lane, r - 1, c] if r > 0 else top_flags[t, lane, c]
                    )
            if count_row(marks, r * cols, marks, r * cols, cols, SWAP):
                for c in range(cols):
                    if flags[0, r, c] & SWAP:
                        psum[r, c] = 0
            for lane in range(lanes):
                here = (lane * rows + r) * cols
                macs = count_row(marks, here, tops, here, cols, REAL)
                slots = cols if macs == cols else count_row(marks, here, marks, here, cols, TOKEN)
                if macs == cols:
                    mac_row(sums, r * cols, sums, r * cols, acts, here, weights, here, cols)
                elif macs > 0:
                    _masked_add(flags[lane, r], weight_flags[lane, r], act[lane, r], weight[lane, r], psum[r])
                if span != 0:
                    counts[WRAPS] += wrap_row(psum[r], low, high, span)
                counts[MACS] += macs
                counts[SLOTS] += slots
                busy = busy or slots > 0
            if count_row(marks, r * cols, marks, r * cols, cols, LAST):
                for c in range(cols):
                    if flags[0, r, c] & LAST:
                        shadow[r, c] = psum[r, c]
                        shadow_state[r, c] = HELD
        counts[CLOCKS] += 1
        if busy:
            counts[LAST_BUSY] = counts[CLOCKS]


@kernel
def _masked_add(flags: Any, weight_flags: Any, act: Any, weight: Any, psum: Any) -> None:
    """One row: add the product where both words are operands."""
    for c in range(psum.size):
        total = psum[c] + act[c] * weight[c]
        psum[c] = total if (flags[c] & weight_flags[c]) & REAL else psum[c]


@kernel
def _shift_out(release: Any, shadow: Any, shadow_state: Any, bottom: Any, bottom_full: Any) -> bool:
    """Let go of held sums where the line says so, move the moving ones down; whether one left below."""
    rows, cols = shadow.shape
    left = False
    for c in range(cols):
        if release[c]:
            for r in range(rows):
                if shadow_state[r, c] == HELD:
                    shadow_state[r, c] = MOVING
    for c in range(cols):
        if shadow_state[rows - 1, c] == MOVING:
            bottom[c] = shadow[rows - 1, c]
            bottom_full[c] = 1
            left = True
    for r in range(rows - 1, -1, -1):
        for c in range(cols):
            if shadow_state[r, c] == MOVING:
                shadow[r, c] = 0
                shadow_state[r, c] = EMPTY
            if r > 0 and shadow_state[r - 1, c] == MOVING:
                shadow[r, c] = shadow[r - 1, c]
                shadow_state[r, c] = MOVING
    return left
