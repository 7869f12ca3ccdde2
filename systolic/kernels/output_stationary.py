"""An output-stationary array stepped clock by clock, every register of every PE stored.

Registers of PE (r, c): `act` and `flags` for each lane (from the left), `weight` and `weight_flags` for each
lane (from above), `psum`, and `shadow`, a finished sum on its way out. A SWAP flag on the activation starts
a new sum; the lanes add one after the other, so that a sum is one chain; a LAST flag copies the finished
sum to the shadow, where it is held. A pulse on a column's release line lets go of all sums held there; each
then moves down one row per clock until it leaves below, while sums that are held later stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compile import kernel
from .stationary import CLOCKS, LAST, LAST_BUSY, MACS, REAL, SLOTS, SWAP, TOKEN, WRAPS

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
    zero = np.zeros(1, psum.dtype)[0]
    row = np.empty(cols, act.dtype)
    row_flags = np.empty(cols, flags.dtype)
    for t in range(left.shape[0]):
        busy = False
        for c in range(cols):
            for r in range(rows):
                if release[t, c] and shadow_state[r, c] == HELD:
                    shadow_state[r, c] = MOVING
            leaves = shadow_state[rows - 1, c] == MOVING
            bottom[t, c] = shadow[rows - 1, c] if leaves else zero
            bottom_full[t, c] = leaves
            busy = busy or leaves
            for r in range(rows - 1, -1, -1):
                if shadow_state[r, c] == MOVING:
                    shadow[r, c] = zero
                    shadow_state[r, c] = EMPTY
                if r > 0 and shadow_state[r - 1, c] == MOVING:
                    shadow[r, c] = shadow[r - 1, c]
                    shadow_state[r, c] = MOVING
        for r in range(rows - 1, -1, -1):
            for lane in range(lanes):
                for c in range(cols):
                    row[c] = act[lane, r, c]
                    row_flags[c] = flags[lane, r, c]
                act[lane, r, 0] = left[t, lane, r]
                flags[lane, r, 0] = left_flags[t, lane, r]
                for c in range(cols - 1):
                    act[lane, r, c + 1] = row[c]
                    flags[lane, r, c + 1] = row_flags[c]
                for c in range(cols):
                    weight[lane, r, c] = weight[lane, r - 1, c] if r > 0 else top[t, lane, c]
                    weight_flags[lane, r, c] = (
                        weight_flags[lane, r - 1, c] if r > 0 else top_flags[t, lane, c]
                    )
            macs = 0
            slots = 0
            wraps = 0
            for c in range(cols):
                total = zero if flags[0, r, c] & SWAP else psum[r, c]
                for lane in range(lanes):
                    if (flags[lane, r, c] & weight_flags[lane, r, c]) & REAL:
                        total = total + act[lane, r, c] * weight[lane, r, c]
                        macs += 1
                        if total < low:
                            total += span
                            wraps += 1
                        elif total > high:
                            total -= span
                            wraps += 1
                    slots += (flags[lane, r, c] & TOKEN) != 0
                psum[r, c] = total
                if flags[0, r, c] & LAST:
                    shadow[r, c] = total
                    shadow_state[r, c] = HELD
            busy = busy or slots > 0
            counts[MACS] += macs
            counts[SLOTS] += slots
            counts[WRAPS] += wraps
        counts[CLOCKS] += 1
        if busy:
            counts[LAST_BUSY] = counts[CLOCKS]
