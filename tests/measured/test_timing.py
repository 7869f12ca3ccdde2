"""The timing of calls: what it takes for a number, and when there is none.

Coverage of the median by order statistics: n = 15 samples, ranks 4 and 12, 96.5% (any table of the binomial).
"""

from __future__ import annotations

import random
import time
from math import comb

import pytest

from systolic.measured.timing import FIRST_BLOCK, WARM_UP, interval, time_calls


def busy(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_a_steady_call_gets_a_number() -> None:
    timing = time_calls(lambda number: busy(2e-3), spread=0.2, budget_s=20)
    assert timing.median is not None
    assert timing.lo is not None
    assert timing.hi is not None
    assert timing.lo <= timing.median <= timing.hi
    assert 2000 <= timing.median < 2600
    assert timing.spread <= 0.2


def test_a_drifting_call_gets_none() -> None:
    calls: list[int] = []

    def slower(number: int) -> None:
        calls.append(number)
        busy(2e-4 * (1 + number))

    timing = time_calls(slower, spread=0.02, budget_s=0.3)
    assert timing.median is timing.lo is timing.hi is None
    assert timing.spread > 0.02
    assert timing.repeats == len(calls) - WARM_UP
    assert calls == list(range(len(calls)))


def test_a_call_that_scatters_gets_none_though_its_medians_agree() -> None:
    chance = random.Random(1)
    timing = time_calls(lambda number: busy(chance.uniform(1e-3, 3e-3)), spread=0.01, budget_s=0.5)
    assert timing.median is None


def test_a_number_needs_two_blocks() -> None:
    timing = time_calls(lambda number: busy(1e-3), spread=0.5, budget_s=5)
    assert timing.repeats >= 3 * FIRST_BLOCK


@pytest.mark.parametrize("count", [15, 45, 105, 1500])
def test_interval_covers_the_median_as_often_as_it_says(count: int) -> None:
    samples = [float(i) for i in range(count)]
    lo, hi = interval(samples)
    cut = int(lo)
    assert hi == count - 1 - cut
    outside = 2 * sum(comb(count, heads) for heads in range(cut + 1)) / 2**count
    assert outside <= 0.05
    assert outside + 2 * comb(count, cut + 1) / 2**count > 0.05
    if count == 15:
        assert (lo, hi) == (3.0, 11.0)


def test_long_runs_use_the_normal_law() -> None:
    lo, hi = interval([float(i) for i in range(10_000)])
    assert (lo, hi) == (4902.0, 5097.0)  # 5000 -+ 1.96 * sqrt(10000) / 2
