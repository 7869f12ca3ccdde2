"""Plain twins of the kernels: same names, same arguments, same words left in every register.

Each clock is a handful of whole-array shifts and masks, so that nothing here depends on the order in which
PEs are visited. Slow, and meant to be read. The flags and states are stated anew: a twin shares nothing with
what it is held against. The kernels of :mod:`systolic.kernels.streamed` are held against the stored arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

TOKEN, REAL, SWAP, LAST = 1, 2, 4, 8
EMPTY, HELD, MOVING = 0, 1, 2
MACS, SLOTS, WRAPS, CLOCKS, LAST_BUSY, FALLING = range(6)


def chain_sums(a: Any, b: Any, chain: int, out: Any) -> None:
    """Twin of :func:`systolic.kernels.values.chain_sums`: one product of a column and a row per k."""
    out[...] = 0
    with np.errstate(all="ignore"):
        for k0 in range(0, a.shape[1], chain):
            part = np.zeros_like(out)
            for column, row in zip(a.T[k0 : k0 + chain], b[k0 : k0 + chain], strict=True):
                part = part + column[:, None] * row[None, :]
            out += part


def chain_sums_wrapping(a: Any, b: Any, chain: int, low: int, span: int, out: Any) -> int:
    """Twin of :func:`systolic.kernels.values.chain_sums_wrapping`."""
    out[...] = 0
    overflows = 0
    for k0 in range(0, a.shape[1], chain):
        part = np.zeros_like(out)
        for column, row in zip(a.T[k0 : k0 + chain], b[k0 : k0 + chain], strict=True):
            part = part + column[:, None] * row[None, :]
            overflows += _wrap(part, low, span)
        out += part
        overflows += _wrap(out, low, span)
    return overflows


def chain_sums_rounding(a: Any, b: Any, chain: int, dropped: int, out: Any) -> None:
    """Twin of :func:`systolic.kernels.values.chain_sums_rounding`."""
    out[...] = 0
    with np.errstate(all="ignore"):
        for k0 in range(0, a.shape[1], chain):
            part = np.zeros_like(out)
            for column, row in zip(a.T[k0 : k0 + chain], b[k0 : k0 + chain], strict=True):
                part = part + column[:, None] * row[None, :]
                round_words(part.view(np.uint32), dropped)
            out += part
            round_words(out.view(np.uint32), dropped)


def round_words(words: Any, dropped: int) -> None:
    """Twin of :func:`systolic.kernels.rounding.round_words`: whole units in the last place, in float64."""
    numbers = words.view(np.float32)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(numbers)
        unit = np.maximum(exponent - 24, -149) + dropped
        wide = np.ldexp(np.rint(np.ldexp(numbers.astype(np.float64), -unit)), unit)
        numbers[...] = np.where(np.isfinite(numbers), wide.astype(np.float32), numbers)


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
    """Twin of :func:`systolic.kernels.stationary.step_stationary`."""
    for t in range(left.shape[0]):
        act[...] = _shifted_right(act, left[t])
        flags[...] = _shifted_right(flags, left_flags[t])
        swap = flags[0] & SWAP != 0
        weight[swap], weight_real[swap] = shadow[swap], shadow_real[swap]
        above = _shifted_down(psum, 0)
        real = flags & weight_real & REAL != 0
        psum[...] = np.where(real, _mac(above, act, weight), above)
        psum[flags & TOKEN == 0] = 0
        counts[WRAPS] += _wrap_once(psum, acc)
        counts[MACS] += np.count_nonzero(real)
        slots = int(np.count_nonzero(flags & TOKEN))
        counts[SLOTS] += slots
        # Weights in passing are clocked only while there are any.
        falls = bool(np.any(top_flags[t] & TOKEN) or np.any(moving_flags & TOKEN))
        if falls:
            words = _shifted_down(moving, top[t])
            marks = _shifted_down(moving_flags, top_flags[t])
            hops = _shifted_down(moving_hops, top_hops[t])
            there = marks & TOKEN != 0
            landed = there & (hops == 0)
            for way in range(moving.shape[0]):
                shadow[landed[way]] = words[way][landed[way]]
                shadow_real[landed[way]] = marks[way][landed[way]] & REAL
            moving[...] = words
            moving_flags[...] = np.where(landed, 0, marks)
            moving_hops[...] = hops - (there & ~landed)
        counts[FALLING] = np.count_nonzero(moving_flags & TOKEN)
        bottom[t], bottom_flags[t] = psum[:, -1], flags[:, -1]
        _tick(counts, slots > 0 or falls)


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
    """Twin of :func:`systolic.kernels.output_stationary.step_output_stationary`."""
    for t in range(left.shape[0]):
        shadow_state[(shadow_state == HELD) & (release[t] != 0)] = MOVING
        leaving = shadow_state == MOVING
        bottom[t] = np.where(leaving[-1], shadow[-1], 0)
        bottom_full[t] = leaving[-1]
        entering = _shifted_down(leaving[None], False)[0]
        fallen = _shifted_down(shadow[None], 0)[0]
        shadow[...] = np.where(entering, fallen, np.where(leaving, 0, shadow))
        shadow_state[...] = np.where(entering, MOVING, np.where(leaving, EMPTY, shadow_state))

        act[...] = _shifted_right(act, left[t])
        flags[...] = _shifted_right(flags, left_flags[t])
        weight[...] = _shifted_down(weight, top[t])
        weight_flags[...] = _shifted_down(weight_flags, top_flags[t])
        psum[flags[0] & SWAP != 0] = 0
        real = flags & weight_flags & REAL != 0
        for lane in range(act.shape[0]):
            psum[...] = np.where(real[lane], _mac(psum, act[lane], weight[lane]), psum)
            counts[WRAPS] += _wrap_once(psum, acc)
        counts[MACS] += np.count_nonzero(real)
        slots = int(np.count_nonzero(flags & TOKEN))
        counts[SLOTS] += slots
        last = flags[0] & LAST != 0
        shadow[last], shadow_state[last] = psum[last], HELD
        _tick(counts, slots > 0 or bool(np.any(leaving[-1])))


def _shifted_right(registers: Any, entering: Any) -> Any:
    """Registers (lanes, rows, cols) one column to the right; `entering` (lanes, rows) comes in."""
    return np.concatenate([entering[:, :, None], registers[:, :, :-1]], axis=2)


def _shifted_down(registers: Any, entering: Any) -> Any:
    """Registers (lanes, rows, cols) one row down; `entering`, (lanes, cols) or one value, comes in."""
    first = np.empty_like(registers[:, 0])
    first[...] = entering
    return np.concatenate([first[:, None], registers[:, :-1]], axis=1)


def _mac(total: Any, act: Any, weight: Any) -> Any:
    with np.errstate(all="ignore"):
        return total + act * weight


def _wrap(values: Any, low: int, span: int) -> int:
    """Bring every value into low <= x < low + span, in place; return how many were outside."""
    wrapped = (values - low) % span + low
    outside = int(np.count_nonzero(wrapped != values))
    values[...] = wrapped
    return outside


def _wrap_once(values: Any, acc: Any) -> int:
    """Move sums outside acc = [low, high, span] by one span, in place; return how many there were."""
    low, high, span = acc
    if span == 0:
        return 0
    below, over = values < low, values > high
    values[below] += span
    values[over] -= span
    return int(np.count_nonzero(below) + np.count_nonzero(over))


def _tick(counts: Any, busy: bool) -> None:
    counts[CLOCKS] += 1
    if busy:
        counts[LAST_BUSY] = counts[CLOCKS]
