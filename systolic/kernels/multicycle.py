"""Arrays whose MAC takes several clocks, or whose sums keep fewer bits than fp32; every register stored.

The arrays of :mod:`systolic.kernels.stationary` and :mod:`systolic.kernels.output_stationary`, to which they
are equal where a MAC takes one clock. A hop takes `interval` clocks: a register that passes words on is a
line of as many, of which at most one holds a word, and entry 0 is the one that arrived in this clock. The
operands multiply as they arrive; `product` is the multiplier's pipeline of `latency` registers, whose last
entry is added in this clock. Each clock is a handful of whole-array shifts: NumPy needs no compiler for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .stationary import CLOCKS, LAST, LAST_BUSY, MACS, REAL, SLOTS, SWAP, TOKEN, WRAPS

Registers = Mapping[str, np.ndarray]


def step_stationary_multicycle(
    left: Any,
    left_flags: Any,
    top: Any,
    top_flags: Any,
    top_hops: Any,
    registers: Registers,
    bottom: Any,
    bottom_flags: Any,
    counts: Any,
    acc: Any,
    dropped: int,
) -> None:
    """Clock a weight- or input-stationary array once for each row of the edge words, in place.

    Parameters
    ----------
    left, left_flags, top, top_flags, top_hops, bottom, bottom_flags, counts, acc
        As for :func:`systolic.kernels.stationary.step_stationary`.
    registers
        `act`, `flags` and `psum` (interval, lanes, rows, cols); `product` and `product_flags` (latency,
        lanes, rows, cols); `moving`, `moving_flags` and `moving_hops` (interval, weight_rows, rows, cols);
        `weight`, `weight_real`, `shadow`, `shadow_real` (rows, cols).
    dropped
        Lowest bits that the registers of float sums lack.
    """
    r = registers
    for t in range(left.shape[0]):
        _push(r["act"], _from_left(r["act"], left[t]))
        _push(r["flags"], _from_left(r["flags"], left_flags[t]))
        flags = r["flags"][0]
        swap = flags[0] & SWAP != 0
        r["weight"][swap], r["weight_real"][swap] = r["shadow"][swap], r["shadow_real"][swap]
        _multiply(r, flags & r["weight_real"] & REAL, r["weight"], counts)
        above = _from_above(r["psum"], 0)
        done = r["product_flags"][-1]
        sums = _add(above, r["product"][-1], done & REAL != 0)
        sums[done & TOKEN == 0] = 0
        counts[WRAPS] += _fit(sums, acc, dropped)
        _push(r["psum"], sums)
        falls = _fall(r, top[t], top_flags[t], top_hops[t])
        bottom[t], bottom_flags[t] = sums[:, -1], done[:, -1] & TOKEN
        _tick(counts, falls or _occupied(r["flags"]) or _occupied(r["product_flags"]))


def step_output_stationary_multicycle(
    left: Any,
    left_flags: Any,
    top: Any,
    top_flags: Any,
    release: Any,
    registers: Registers,
    bottom: Any,
    bottom_full: Any,
    counts: Any,
    acc: Any,
    dropped: int,
) -> None:
    """Clock an output-stationary array once for each row of the edge words, in place.

    Parameters
    ----------
    left, left_flags, top, top_flags, release, bottom, bottom_full, counts, acc
        As for :func:`systolic.kernels.output_stationary.step_output_stationary`.
    registers
        `act`, `flags`, `weight` and `weight_flags` (interval, lanes, rows, cols); `product` and
        `product_flags` (latency, lanes, rows, cols); `psum`, `held` and `held_full` (rows, cols); `leaving`
        and `leaving_full` (interval, rows, cols).
    dropped
        Lowest bits that the registers of float sums lack.
    """
    r = registers
    for t in range(left.shape[0]):
        let_go = (r["held_full"] & release[t]) != 0
        leaves = let_go | (r["leaving_full"][-1] != 0)
        sums = np.where(let_go, r["held"], r["leaving"][-1])
        bottom[t], bottom_full[t] = np.where(leaves[-1], sums[-1], 0), leaves[-1]
        _push(r["leaving"], _from_above(np.where(leaves, sums, 0)[None, None], 0)[0])
        _push(r["leaving_full"], _from_above(leaves[None, None], 0)[0])
        r["held"][let_go], r["held_full"][let_go] = 0, 0

        for name, word in (("act", left[t]), ("flags", left_flags[t])):
            _push(r[name], _from_left(r[name], word))
        for name, word in (("weight", top[t]), ("weight_flags", top_flags[t])):
            _push(r[name], _from_above(r[name], word))
        _multiply(r, r["flags"][0] & r["weight_flags"][0] & REAL, r["weight"][0], counts)
        done = r["product_flags"][-1]
        r["psum"][done[0] & SWAP != 0] = 0
        for lane in range(left.shape[1]):
            r["psum"][...] = _add(r["psum"], r["product"][-1, lane], done[lane] & REAL != 0)
            counts[WRAPS] += _fit(r["psum"], acc, dropped)
        last = done[0] & LAST != 0
        r["held"][last], r["held_full"][last] = r["psum"][last], 1
        _tick(counts, bool(leaves[-1].any()) or _occupied(r["flags"]) or _occupied(r["product_flags"]))


def _multiply(r: Registers, real: Any, weight: Any, counts: Any) -> None:
    """Let the operands that arrived in this clock into the multipliers."""
    flags = r["flags"][0]
    with np.errstate(all="ignore"):
        _push(r["product"], r["act"][0] * weight)
    _push(r["product_flags"], (flags & ~np.uint8(REAL)) | real)
    counts[MACS] += np.count_nonzero(real)
    counts[SLOTS] += np.count_nonzero(flags & TOKEN)


def _add(total: Any, product: Any, real: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.where(real, total + product, total)


def _fit(sums: Any, acc: Any, dropped: int) -> int:
    """Bring sums into what their register holds, in place; return how many wrapped."""
    low, high, span = acc
    if span != 0:
        below, over = sums < low, sums > high
        sums[below] += span
        sums[over] -= span
        return int(np.count_nonzero(below) + np.count_nonzero(over))
    if dropped:
        words, number = sums.view(np.uint32), ~np.isnan(sums)
        half, odd = np.uint32((1 << (dropped - 1)) - 1), (words[number] >> np.uint32(dropped)) & np.uint32(1)
        words[number] = (words[number] + half + odd) & ~np.uint32((1 << dropped) - 1)
    return 0


def _fall(r: Registers, top: Any, top_flags: Any, top_hops: Any) -> bool:
    """Let each weight that has been in its row for a hop fall; return whether there was any."""
    if not (_occupied(top_flags) or _occupied(r["moving_flags"])):
        return False
    words, marks = _from_above(r["moving"], top), _from_above(r["moving_flags"], top_flags)
    hops = _from_above(r["moving_hops"], top_hops)
    there = marks & TOKEN != 0
    for way in range(words.shape[0]):
        lands = there[way] & (hops[way] == 0)
        r["shadow"][lands], r["shadow_real"][lands] = words[way][lands], marks[way][lands] & REAL
        marks[way][lands] = 0
    _push(r["moving"], words)
    _push(r["moving_flags"], marks)
    _push(r["moving_hops"], hops - (marks & TOKEN))
    return True


def _push(line: Any, words: Any) -> None:
    """Move a line of registers on by one, in place."""
    line[1:] = line[:-1]
    line[0] = words


def _from_left(line: Any, entering: Any) -> Any:
    """What has stayed for a hop, one column to the right; `entering` (lanes, rows) comes in."""
    return np.concatenate([entering[:, :, None], line[-1][:, :, :-1]], axis=2)


def _from_above(line: Any, entering: Any) -> Any:
    """What has stayed for a hop, one row down; `entering`, (lanes, cols) or one value, comes in."""
    first = np.empty_like(line[-1][:, 0])
    first[...] = entering
    return np.concatenate([first[:, None], line[-1][:, :-1]], axis=1)


def _occupied(flags: Any) -> bool:
    return bool((flags & TOKEN).any())


def _tick(counts: Any, busy: bool) -> None:
    counts[CLOCKS] += 1
    if busy:
        counts[LAST_BUSY] = counts[CLOCKS]
