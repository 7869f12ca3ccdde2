"""The timing of calls: what it takes for a number, and when there is none.

Coverage of the median by order statistics: n = 15 samples, ranks 4 and 12, 96.5% (any table of the binomial).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from math import comb

import pytest

from systolic.measured.timing import FIRST_BLOCK, WARM_UP, Timing, interval, time_calls


class Machine:
    """A machine whose call number i takes so many microseconds; its clock stands still in between."""

    def __init__(self, takes: Callable[[int], float]) -> None:
        self.takes, self.now, self.calls = takes, 0, list[int]()

    def call(self, number: int) -> None:
        self.calls.append(number)
        self.now += round(1000 * self.takes(number))

    def timed(self, spread: float, budget_s: float = 10) -> Timing:
        return time_calls(self.call, spread=spread, budget_s=budget_s, clock=lambda: self.now)


def test_a_steady_call_gets_a_number() -> None:
    timing = Machine(lambda number: 100 + number % 3).timed(0.02)
    assert (timing.median, timing.lo, timing.hi) == (101, 100, 102)
    assert timing.repeats == 3 * FIRST_BLOCK


def test_warm_up_does_not_count() -> None:
    timing = Machine(lambda number: 1e6 if number < WARM_UP else 50).timed(0.02)
    assert (timing.median, timing.lo, timing.hi) == (50, 50, 50)


def test_a_drifting_call_gets_none() -> None:
    machine = Machine(lambda number: 100 * (1 + number))
    timing = machine.timed(0.02, budget_s=5)
    assert timing.median is timing.lo is timing.hi is None
    assert timing.spread > 0.02
    assert timing.repeats == len(machine.calls) - WARM_UP
    assert machine.calls == list(range(len(machine.calls)))
    assert machine.now >= 5e9


def test_a_call_that_scatters_gets_none_though_its_medians_agree() -> None:
    chance = random.Random(1)
    machine = Machine(lambda number: chance.uniform(1000, 3000))
    timing = machine.timed(0.01, budget_s=1)
    assert timing.median is None
    assert machine.timed(0.2).median is not None


def test_a_real_clock_sees_a_real_wait() -> None:
    timing = time_calls(lambda number: time.sleep(2e-3), spread=1.0, budget_s=5)
    assert timing.median is not None
    assert timing.median >= 2000


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
