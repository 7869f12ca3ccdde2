"""The stepped DRAM against the laws of its own parameters."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.blocks.dram import FIELDS, Dram, DramRun
from systolic.chips.dram import DramPart, dram_parts, load_dram_part
from systolic.errors import SystolicError

PARTS = dram_parts()


def one_channel(name: str, **choices: object) -> Dram:
    """One channel of a part whose addresses say plainly where they go: row, bank, group, column."""
    order = ("channel", "row", "bank", "group", "column")
    plain = {"line_accesses": 1, "order": order, "skewed": False, "refresh": False, **choices}
    return Dram(part=load_dram_part(name), channels=1, **plain)  # type: ignore[arg-type]


def address(part: DramPart, *, row: int = 0, bank: int = 0, group: int = 0, column: int = 0) -> int:
    """Byte address of an access under the order of :func:`one_channel`."""
    place = (row * part.banks + bank) * part.groups + group
    return place * part.row_bytes + column * part.access_bytes


def done(dram: Dram, addresses: list[int], writes: list[bool] | bool = False) -> list[int]:
    """When the data of each access have passed."""
    return dram.run(np.array(addresses), np.array(writes)).done.tolist()  # type: ignore[no-any-return]


def fraction_of_peak(dram: Dram, run: DramRun) -> float:
    """Bandwidth of a run over the peak of its channels."""
    seconds = run.cycles / dram.part.clock_hz
    return (run.read_bytes + run.write_bytes) / seconds / dram.peak_bytes_per_s


@pytest.mark.parametrize("name", PARTS)
def test_row_miss_opens_the_row_first(name: str) -> None:
    dram = one_channel(name)
    t = dram.part.timing
    assert done(dram, [0]) == [t.rcd_read + t.cl + t.burst]
    assert done(dram, [0], True) == [t.rcd_write + t.cwl + t.burst]


@pytest.mark.parametrize("name", PARTS)
def test_row_hit_waits_for_the_bus_of_its_bank_group_alone(name: str) -> None:
    dram = one_channel(name)
    first, second = done(dram, [0, address(dram.part, column=1)])
    assert second - first == max(dram.part.timing.ccd_l, dram.part.timing.burst)


@pytest.mark.parametrize("name", PARTS)
def test_row_conflict_closes_the_other_row_first(name: str) -> None:
    dram = one_channel(name)
    t = dram.part.timing
    closed = max(t.ras, t.rcd_read + t.rtp)
    opened = max(closed + t.rp, t.rc)
    assert done(dram, [0, address(dram.part, row=1)])[1] == opened + t.rcd_read + t.cl + t.burst
    closed = max(t.ras, t.rcd_write + t.cwl + t.burst + t.wr)
    opened = max(closed + t.rp, t.rc)
    assert done(dram, [0, address(dram.part, row=1)], True)[1] == opened + t.rcd_write + t.cwl + t.burst


@pytest.mark.parametrize("name", PARTS)
def test_latencies_rise_from_hit_to_miss_to_conflict(name: str) -> None:
    dram = one_channel(name)
    miss = done(dram, [0])[0]
    opened, hit = done(dram, [0, address(dram.part, column=1)])
    _, conflict = done(dram, [0, address(dram.part, row=1)])
    assert hit - opened < miss < conflict - opened + dram.part.timing.rcd_read


@pytest.mark.parametrize("name", PARTS)
def test_bus_turns_between_reads_and_writes(name: str) -> None:
    dram = one_channel(name, scheduler="in-order")
    t = dram.part.timing
    other = address(dram.part, column=1)
    read, write = done(dram, [0, other], [False, True])
    assert write - read == t.burst + t.write_turnaround
    write, read = done(dram, [0, other], [True, False])
    assert write == t.rcd_write + t.cwl + t.burst
    assert read == max(write + t.wtr_l, t.rcd_read) + t.cl + t.burst


@pytest.mark.parametrize("name", PARTS)
def test_fifth_activate_waits_for_its_window(name: str) -> None:
    dram = one_channel(name)
    t, part = dram.part.timing, dram.part
    places = [(g, b) for b in range(part.banks) for g in range(part.groups)][:5]
    opened: list[tuple[int, int]] = []
    for group, _ in places:
        apart = [at + (t.rrd_l if g == group else t.rrd_s) for at, g in opened]
        window = [opened[-4][0] + t.faw] if len(opened) >= 4 else []
        opened.append((max([0, *apart, *window, *(at + t.activate_slots for at, _ in opened)]), group))
    got = done(dram, [address(part, group=g, bank=b) for g, b in places])
    late = got[-1] - (opened[-1][0] + t.rcd_read + t.cl + t.burst)
    assert 0 <= late <= 2 - part.command_buses  # on one bus a read may stand where the activate would


@pytest.mark.parametrize("name", PARTS)
def test_one_bank_turns_rows_over_once_in_its_row_cycle(name: str) -> None:
    dram = one_channel(name, queue=1)
    t, turns = dram.part.timing, 50
    run = dram.run(np.array([address(dram.part, row=i % 2) for i in range(turns)]))
    cycle = max(t.rc, max(t.ras, t.rcd_read + t.rtp) + t.rp)
    assert run.cycles == (turns - 1) * cycle + t.rcd_read + t.cl + t.burst
    assert (run.hits, run.misses, run.conflicts) == (0, 1, turns - 1)


@pytest.mark.parametrize("page", ["open", "closed"])
def test_closed_page_makes_a_second_look_cost_a_row(page: str) -> None:
    dram = one_channel("DDR4", page=page)
    run = dram.run(np.array([0, address(dram.part, column=1)]))
    assert (run.hits, run.misses, run.activates) == ((1, 1, 1) if page == "open" else (0, 2, 2))
    t = dram.part.timing
    assert run.cycles == (t.rcd_read + t.ccd_l if page == "open" else t.rc + t.rcd_read) + t.cl + t.burst


def test_hits_go_first_or_wait_their_turn() -> None:
    """A second request for the open row passes one for another row, unless data keep their order."""
    part = load_dram_part("DDR4")
    mixed = [0, address(part, row=1), address(part, column=1)]
    first = one_channel("DDR4").run(np.array(mixed))
    assert first.done[2] < first.done[1]
    assert (first.hits, first.conflicts) == (1, 1)
    ordered = one_channel("DDR4", scheduler="in-order").run(np.array(mixed))
    assert (np.diff(ordered.done) > 0).all()
    assert (ordered.hits, ordered.conflicts) == (0, 2)


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("name", PARTS)
def test_stream_reaches_the_peak_less_refreshes(name: str, write: bool) -> None:
    dram = Dram(part=load_dram_part(name), channels=4)
    timing = dram.part.timing
    run = dram.run(np.arange(20_000) * dram.part.access_bytes, write)
    assert fraction_of_peak(dram, run) == pytest.approx(1 - timing.rfc / timing.refi, rel=0.04)


@pytest.mark.parametrize("name", PARTS)
def test_random_access_stays_far_below_a_stream(name: str) -> None:
    dram = Dram(part=load_dram_part(name), channels=4, refresh=False)
    part, count = dram.part, 20_000
    places = np.random.default_rng(1).integers(0, dram.bytes // part.access_bytes, count)
    run = dram.run(places * part.access_bytes)
    assert run.hits < 0.02 * count
    assert run.cycles >= run.activates / dram.channels / 4 * part.timing.faw * 0.99
    assert fraction_of_peak(dram, run) < 0.6


@pytest.mark.parametrize("name", PARTS)
def test_refresh_takes_its_share_of_time(name: str) -> None:
    part = load_dram_part(name)
    addresses = np.arange(30_000) * part.access_bytes
    with_refresh = Dram(part=part, channels=2).run(addresses)
    without = Dram(part=part, channels=2, refresh=False).run(addresses)
    share = 1 - without.cycles / with_refresh.cycles
    assert share == pytest.approx(part.timing.rfc / part.timing.refi, rel=0.25)
    assert without.refreshes == 0
    assert with_refresh.refreshes // 2 in (rounds := with_refresh.cycles // part.timing.refi, rounds + 1)


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(PARTS), st.integers(1, 3000), st.booleans(), st.booleans())
def test_more_channels_never_slow_a_stream_down(name: str, accesses: int, write: bool, skewed: bool) -> None:
    """Not so for steps through memory: four channels can meet a step that three do not."""
    part = load_dram_part(name)
    addresses = np.arange(accesses) * part.access_bytes
    cycles = [
        Dram(part=part, channels=c, skewed=skewed, refresh=False).run(addresses, write).data_cycles
        for c in (1, 2, 4, 8, 16)
    ]
    assert cycles == sorted(cycles, reverse=True)


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(PARTS),
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 1 << 33), st.booleans()), min_size=1, max_size=200),
    st.sampled_from(["open", "closed"]),
    st.sampled_from(["fr-fcfs", "in-order"]),
)
def test_every_request_is_served_once(
    name: str, channels: int, requests: list[tuple[int, bool]], page: str, scheduler: str
) -> None:
    part = load_dram_part(name)
    dram = Dram(part=part, channels=channels, page=page, scheduler=scheduler)  # type: ignore[arg-type]
    addresses, writes = (np.array(column) for column in zip(*requests, strict=True))
    run = dram.run(addresses, writes)
    assert run.hits + run.misses + run.conflicts == len(requests)
    assert run.read_bytes + run.write_bytes == len(requests) * part.access_bytes
    assert run.write_bytes == writes.sum() * part.access_bytes
    assert run.activates >= run.misses + run.conflicts
    assert (run.done - run.begun == part.timing.burst).all()
    for channel in range(channels):
        begun = np.sort(run.begun[dram.locate(addresses).channel == channel])
        assert (np.diff(begun) >= part.timing.burst).all()


@given(
    st.sampled_from(list(permutations(FIELDS))),
    st.integers(1, 5),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
)
def test_each_place_has_one_address(order: tuple[str, ...], channels: int, line: int, skewed: bool) -> None:
    part = replace(load_dram_part("HBM2"), rows=3, row_bytes=128, banks=2)
    dram = Dram(part=part, channels=channels, order=order, line_accesses=line, skewed=skewed)
    accesses = dram.bytes // part.access_bytes
    where = dram.locate(np.arange(accesses) * part.access_bytes + 7)
    assert len(set(zip(*(part.tolist() for part in where), strict=True))) == accesses
    limits = (channels, part.groups * part.banks, part.rows, part.columns)
    assert all(d.min() >= 0 and d.max() < limit for d, limit in zip(where, limits, strict=True))


def test_skew_spreads_steps_that_would_meet_one_channel() -> None:
    addresses = np.arange(512) * (64 * 128)
    spread = Dram(part=load_dram_part("HBM2"), channels=64).locate(addresses).channel
    met = Dram(part=load_dram_part("HBM2"), channels=64, skewed=False).locate(addresses).channel
    assert len(set(met.tolist())) == 1
    assert np.bincount(spread, minlength=64).max() <= 2 * 512 // 64


def test_wrong_choices_are_named_together() -> None:
    part = load_dram_part("DDR4")
    with pytest.raises(SystolicError) as caught:
        Dram(part=part, channels=0, queue=0, order=("row",), page="ajar", scheduler="lifo")  # type: ignore[arg-type]
    fields = [line.split()[0] for line in caught.value.problems]
    assert fields == ["channels", "queue", "order", "page", "scheduler"]
