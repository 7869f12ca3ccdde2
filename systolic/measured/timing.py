"""How long a call takes, or that it cannot be told."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from time import perf_counter_ns

FIRST_BLOCK = 5
"""Calls whose median is compared with that of twice as many more, and so on."""

WARM_UP = 2
"""Calls before the first one that counts."""

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What repeating a call showed; times in microseconds.

    Attributes
    ----------
    median, lo, hi
        None where no two medians agreed.
    repeats, spread
        As in :class:`~systolic.measured.record.Measurement`.
    """

    median: float | None
    lo: float | None
    hi: float | None
    repeats: int
    spread: float


def time_calls(
    call: Callable[[int], object],
    *,
    spread: float,
    budget_s: float,
    first: int = FIRST_BLOCK,
    clock: Callable[[], int] = perf_counter_ns,
) -> Timing:
    """Time a call until the medians of two blocks of calls agree, and their confidence interval is as narrow.

    Each block has twice as many calls as the one before. A machine that drifts keeps the medians apart, one
    that does something else now and then keeps the interval wide; when the budget is spent, there is no
    number.

    Parameters
    ----------
    call
        Runs once and returns when the work is complete; its argument counts the calls.
    spread
        Largest distance of the two medians, and largest half width of the interval, over the median.
    budget_s
        Seconds after which no new block begins.
    first
        Calls of the first block.
    clock
        Nanoseconds since some moment.

    Returns
    -------
    Timing
        Median and interval over the last two blocks.
    """
    for number in range(WARM_UP):
        call(number)
    begun = clock()
    done = WARM_UP
    before: list[float] = []
    size = first
    apart = float("inf")
    while True:
        block = []
        for number in range(done, done + size):
            start = clock()
            call(number)
            block.append((clock() - start) / 1000)
        done += size
        if before:
            earlier, later = statistics.median(before), statistics.median(block)
            apart = abs(earlier - later) / ((earlier + later) / 2)
            both = sorted(before + block)
            lo, hi = interval(both)
            if apart <= spread and hi - lo <= 2 * spread * statistics.median(both):
                return Timing(median=statistics.median(both), lo=lo, hi=hi, repeats=len(both), spread=apart)
        if (clock() - begun) / 1e9 > budget_s:
            return Timing(median=None, lo=None, hi=None, repeats=done - WARM_UP, spread=apart)
        before, size = block, 2 * size


def interval(ordered: list[float]) -> tuple[float, float]:
    """The interval that holds the median with 95% confidence, of sorted independent samples."""
    cut = _rank(len(ordered))
    return ordered[cut], ordered[-1 - cut]


@lru_cache(maxsize=256)
def _rank(count: int) -> int:
    """Samples to leave out at either end: most so that the rest holds the median often enough.

    The median lies between the samples of ranks r + 1 and n - r unless r or fewer of n fair coins show heads,
    or as few tails.
    """
    if count > 2000:  # the binomial is normal enough by then
        return int(count / 2 - 0.98 * count**0.5)
    left_out, tail = 0, 0.0
    for heads in range(count // 2):
        tail += comb(count, heads) / 2**count
        if 1 - 2 * tail < CONFIDENCE:
            break
        left_out = heads
    return left_out
