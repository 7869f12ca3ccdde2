"""Durations that are looked up, against stepping every access of the blocks where they really lie."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.blocks.dram import Dram
from systolic.blocks.dram_port import DramPort, port_cycles
from systolic.chips.dram import dram_parts, load_dram_part
from systolic.chips.tpu import Memory

CHIPS = {"DDR3": 2, "DDR4": 4, "GDDR6": 12, "HBM2-2400": 64, "HBM3": 32}


def port(name: str, channels: int, sharers: int = 1) -> DramPort:
    """A port at the clock of the part itself."""
    part = load_dram_part(name)
    return DramPort(Dram(part=part, channels=channels), part.clock_hz, sharers)


def stepped(dram: Dram, begin: int, runs: int, run_bytes: int, pitch: int) -> int:
    """Cycles of one block at its place, by stepping all of it."""
    unit = dram.part.access_bytes
    starts = begin + np.arange(runs)[:, None] * pitch
    return dram.run((starts + np.arange(run_bytes // unit) * unit).ravel()).data_cycles


@pytest.mark.parametrize("name", CHIPS)
def test_long_streams_stay_within_three_percent_of_stepping(name: str) -> None:
    """Refreshes included: an even share here, real ones there."""
    one = port(name, CHIPS[name])
    num_bytes = 12_000 * CHIPS[name] * one.dram.part.access_bytes
    whole = one.dram.run(np.arange(0, num_bytes, one.dram.part.access_bytes)).data_cycles
    assert one.stream_cycles(num_bytes, write=False) == pytest.approx(whole, rel=0.03)


@pytest.mark.parametrize("name", CHIPS)
def test_blocks_stay_within_ten_percent_of_stepping(name: str) -> None:
    """On the mean of many patterns and places, from blocks of 64 KiB on; a single one may be off by more."""
    one, rng = port(name, CHIPS[name]), np.random.default_rng(3)
    restless = Dram(part=one.dram.part, channels=one.dram.channels, refresh=False)
    errors = []
    for run_bytes in (256, 512, 1024, 1536, 2048):
        runs = 2**16 // run_bytes * int(rng.integers(1, 5))
        pitch = run_bytes * int(rng.choice([2, 3, 4, 7, 14, 16, 64]))
        begins = rng.integers(0, 2**18, 4) * run_bytes
        there = np.mean([stepped(restless, int(b), runs, run_bytes, pitch) for b in begins])
        found = one.block_cycles(runs, run_bytes, pitch, write=False)
        errors.append(abs(found / float(there * one.cycles_per_cycle) - 1))
    assert np.mean(errors) < 0.1
    assert max(errors) < 0.35


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(sorted(CHIPS)),
    st.integers(1, 3),
    st.integers(1, 3000),
    st.integers(0, 4000),
    st.booleans(),
)
def test_durations_never_fall_with_more_pieces(
    name: str, sharers: int, run_bytes: int, gap: int, write: bool
) -> None:
    runs = np.concatenate([np.arange(1, 200), np.arange(200, 20_000, 517)])
    cycles = port(name, 4, sharers).block_cycles(runs, run_bytes, run_bytes + gap, write=write)
    assert (np.diff(cycles) >= 0).all()
    assert cycles[0] > 0


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(sorted(CHIPS)), st.integers(1, 4), st.integers(1, 10**7), st.booleans())
def test_no_stream_beats_the_peak_less_refreshes(
    name: str, sharers: int, num_bytes: int, write: bool
) -> None:
    one = port(name, 4, sharers)
    part = one.dram.part
    seconds = Fraction(one.stream_cycles(num_bytes, write=write), one.clock_hz)
    share = 1 - Fraction(part.timing.rfc, part.timing.refi)
    assert num_bytes * sharers <= seconds * 4 * part.channel_bytes_per_s * share


def test_arrays_hold_what_single_blocks_take() -> None:
    one = port("HBM2", 16)
    rows, lines = np.array([1, 7, 512, 9000]), np.array([64, 64, 256, 4096])
    together = one.block_cycles(rows, lines, 4096, write=True)
    assert together.tolist() == [
        one.block_cycles(int(r), int(b), 4096, write=True) for r, b in zip(rows, lines, strict=True)
    ]


@pytest.mark.parametrize("name", dram_parts())
def test_other_clocks_round_up(name: str) -> None:
    part = load_dram_part(name)
    own = DramPort(Dram(part=part, channels=2), part.clock_hz)
    other = DramPort(own.dram, 700_000_001)
    for num_bytes in (1, 1000, 10**6):
        ratio = Fraction(other.clock_hz, part.clock_hz)
        cycles = other.stream_cycles(num_bytes, write=False)
        exact = (own.stream_cycles(num_bytes, write=False) - 1) * ratio
        assert exact < cycles < exact + ratio + 1
    first = Fraction((part.timing.rcd_read + part.timing.cl) * 700_000_001, part.clock_hz)
    assert other.latency - 1 < first <= other.latency


def test_a_store_turns_the_bus_there_and_back() -> None:
    one = port("DDR4", 1)
    t = one.dram.part.timing
    cycles = one.stream_cycles(64, write=False)
    turned = (t.burst + t.write_turnaround + t.wtr_l + t.cl) * one.cycles_per_cycle
    assert cycles == -(-t.burst * one.cycles_per_cycle // 1)
    assert one.stream_cycles(64, write=True) == -(-turned // 1)


def test_sharers_wait_for_one_another() -> None:
    alone, shared = port("HBM2", 16), port("HBM2", 16, sharers=2)
    assert shared.stream_cycles(2**20, write=False) == pytest.approx(
        2 * alone.stream_cycles(2**20, write=False), rel=0.1
    )


def test_bandwidth_stays_an_upper_limit() -> None:
    wide = Memory(bytes_per_s=10**13, model="timing", part="HBM2", channels=16)
    narrow = Memory(bytes_per_s=10**9, model="timing", part="HBM2", channels=16)
    plain = Memory(bytes_per_s=10**9, sustained_percent=50)
    assert port_cycles(wide, 10**6, 10**9) > 10**6 / 256
    assert port_cycles(narrow, 10**6, 10**9) == 10**6
    assert port_cycles(plain, 10**6, 10**9) == 2 * 10**6
