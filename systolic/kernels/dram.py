"""One channel of DRAM, command by command.

A request becomes a read or a write of an open row; before that its bank is activated, and precharged if
another row is open. A scheduler looks at the oldest requests (its queue) and issues the command that can go
first; of those, a read or write before a row command, then the older request. Time jumps from command to
command, so that waiting costs nothing; the result is that of looking at every cycle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .compile import kernel

HITS, MISSES, CONFLICTS, ACTIVATES, PRECHARGES, REFRESHES, COUNTERS = range(7)
_COLUMN, _ACTIVATE, _PRECHARGE = range(3)
_NEVER = 1 << 62

# Rows of a table of times. Of a bank: its open row, and when it may be activated, read, written, precharged.
# Of a bank group and of the channel: the same, and when the channel's command buses are free.
_ROW, _ACT, _READ, _WRITE, _PRE, _ROW_BUS, _COLUMN_BUS, _TIMES = range(8)


class ChannelTiming(NamedTuple):
    """Distances between commands, cycles; see :class:`systolic.chips.dram.DramTiming`."""

    burst: int
    cl: int
    cwl: int
    rcd_read: int
    rcd_write: int
    rp: int
    ras: int
    rc: int
    rrd_s: int
    rrd_l: int
    faw: int
    ccd_s: int
    ccd_l: int
    wr: int
    rtp: int
    wtr_s: int
    wtr_l: int
    write_turnaround: int
    refi: int
    rfc: int
    activate_slots: int


class ChannelRules(NamedTuple):
    """How a channel is built and run.

    `groups`, `banks` bank groups and banks of each; `command_buses` 1 or 2; `queue` requests that the
    scheduler sees; `in_order` reads and writes keep the order of requests; `closed` a row is closed behind
    each access; `refresh` rows are refreshed.
    """

    groups: int
    banks: int
    command_buses: int
    queue: int
    in_order: bool
    closed: bool
    refresh: bool


class Requests(NamedTuple):
    """Accesses, the oldest first: `bank` (group * banks + bank of the group), `row`: int64; `write`: bool."""

    bank: Any
    row: Any
    write: Any


class _State(NamedTuple):
    """A channel: tables of times (see above) of banks, bank groups and itself; the last four activates.

    Of the `waiting` requests, in order of age, `hits` want the open row of their bank; `seen` marks banks.
    """

    banks: Any
    groups: Any
    channel: Any
    recent: Any
    waiting: Any
    hits: Any
    seen: Any


@kernel
def step_channel(timing: Any, rules: Any, requests: Any, begun: Any, done: Any, counts: Any) -> None:
    """Serve requests that are all there at cycle 0.

    Parameters
    ----------
    timing, rules, requests
        :class:`ChannelTiming`, :class:`ChannelRules`, :class:`Requests`.
    begun, done
        Receive the cycles at which the data of each request begins and has passed the bus, int64.
    counts
        Receives the counters, int64 of length ``COUNTERS``. Of the requests, a hit found its row open, a miss
        had its bank activated, a conflict had another row closed first.
    """
    state = _idle(rules)
    helped = np.zeros(requests.bank.size, np.int8)
    size = arrived = now = looks = 0
    due = timing.refi if rules.refresh else _NEVER
    while size > 0 or arrived < requests.bank.size:
        while size < rules.queue and arrived < requests.bank.size:
            b = requests.bank[arrived]
            state.hits[b] += state.banks[_ROW, b] == requests.row[arrived]
            state.waiting[size] = arrived
            size += 1
            arrived += 1
        looks += 1
        at, place, command = _first_ready(timing, rules, requests, state, size, now, looks)
        if at >= due:
            now = _refresh(timing, rules, state, due, counts)
            due += timing.refi
            continue
        now = at
        request = state.waiting[place]
        b = requests.bank[request]
        if command == _PRECHARGE:
            helped[request] = 2
            counts[PRECHARGES] += 1
            state.banks[_ACT, b] = max(state.banks[_ACT, b], now + timing.rp)
            _close(state, b)
            _take_row_bus(rules, state, now + 1)
        elif command == _ACTIVATE:
            helped[request] = max(helped[request], 1)
            counts[ACTIVATES] += 1
            _activate(timing, rules, state, b, requests.row[request], now)
            for i in range(size):
                other = state.waiting[i]
                state.hits[b] += requests.bank[other] == b and requests.row[other] == requests.row[request]
        else:
            counts[HITS + helped[request]] += 1
            begun[request] = now + (timing.cwl if requests.write[request] else timing.cl)
            done[request] = begun[request] + timing.burst
            _access(timing, rules, state, b, requests.write[request], now)
            if rules.closed:
                counts[PRECHARGES] += 1
                state.banks[_ACT, b] = max(state.banks[_ACT, b], state.banks[_PRE, b] + timing.rp)
                _close(state, b)
            size -= 1
            for i in range(place, size):
                state.waiting[i] = state.waiting[i + 1]


@kernel
def _idle(rules: Any) -> Any:
    """A channel with all rows closed."""
    banks = np.zeros((_TIMES, rules.groups * rules.banks), np.int64)
    banks[_ROW] = -1
    groups = np.zeros((_TIMES, rules.groups), np.int64)
    channel = np.zeros(_TIMES, np.int64)
    recent = np.full(4, -_NEVER, np.int64)
    waiting = np.zeros(rules.queue, np.int64)
    hits = np.zeros(banks.shape[1], np.int64)
    return _State(banks, groups, channel, recent, waiting, hits, np.zeros_like(hits))


@kernel
def _first_ready(
    timing: Any, rules: Any, requests: Any, state: Any, size: int, now: int, looks: int
) -> tuple[int, int, int]:
    """The command that can go first: (when, for which of the waiting requests, which command).

    Only the oldest request of a bank has rows opened or closed, and no row is closed that another request
    wants; in order, younger requests do not count.
    """
    banks, channel = state.banks, state.channel
    best, chosen, command = _NEVER, 0, _PRECHARGE
    soonest = max(max(now, channel[_COLUMN_BUS]), min(channel[_READ], channel[_WRITE]))
    all_hit = state.hits.sum() == size
    for i in range(size):
        request = state.waiting[i]
        b = requests.bank[request]
        oldest = state.seen[b] != looks
        state.seen[b] = looks
        if banks[_ROW, b] == requests.row[request]:
            if rules.in_order and i > 0:
                continue
            way = _WRITE if requests.write[request] else _READ
            kind, at = _COLUMN, max(channel[way], channel[_COLUMN_BUS])
            at = max(at, max(banks[way, b], state.groups[way, b // rules.banks]))
        elif not oldest:
            continue
        elif banks[_ROW, b] < 0:
            kind, at = _ACTIVATE, max(channel[_ACT], channel[_ROW_BUS])
            at = max(at, max(banks[_ACT, b], state.groups[_ACT, b // rules.banks]))
            at = max(at, state.recent[0] + timing.faw)
        elif state.hits[b] > 0 and not rules.in_order:
            continue
        else:
            kind, at = _PRECHARGE, max(banks[_PRE, b], channel[_ROW_BUS])
        at = max(at, now)
        if at < best or (at == best and kind == _COLUMN and command != _COLUMN):
            best, chosen, command = at, i, kind
            if all_hit and at == soonest:
                break  # nothing behind it can go sooner
    return best, chosen, command


@kernel
def _take_row_bus(rules: Any, state: Any, until: int) -> None:
    state.channel[_ROW_BUS] = max(state.channel[_ROW_BUS], until)
    if rules.command_buses == 1:
        state.channel[_COLUMN_BUS] = max(state.channel[_COLUMN_BUS], until)


@kernel
def _close(state: Any, b: int) -> None:
    state.banks[_ROW, b] = -1
    state.hits[b] = 0


@kernel
def _activate(timing: Any, rules: Any, state: Any, b: int, row: int, now: int) -> None:
    banks = state.banks
    banks[_ROW, b] = row
    banks[_ACT, b] = now + timing.rc
    banks[_READ, b] = now + timing.rcd_read
    banks[_WRITE, b] = now + timing.rcd_write
    banks[_PRE, b] = now + timing.ras
    state.groups[_ACT, b // rules.banks] = now + timing.rrd_l
    state.channel[_ACT] = now + timing.rrd_s
    for i in range(3):
        state.recent[i] = state.recent[i + 1]
    state.recent[3] = now
    _take_row_bus(rules, state, now + timing.activate_slots)


@kernel
def _access(timing: Any, rules: Any, state: Any, b: int, write: bool, now: int) -> None:
    """A read or a write of the open row."""
    banks, group, channel = state.banks, state.groups[:, b // rules.banks], state.channel
    state.hits[b] -= 1
    same, other = (_WRITE, _READ) if write else (_READ, _WRITE)
    group[same] = now + timing.ccd_l
    channel[same] = now + max(timing.ccd_s, timing.burst)
    if write:
        end = now + timing.cwl + timing.burst
        group[other] = max(group[other], end + timing.wtr_l)
        channel[other] = max(channel[other], end + timing.wtr_s)
        banks[_PRE, b] = max(banks[_PRE, b], end + timing.wr)
    else:
        end = now + timing.cl + timing.burst
        channel[other] = max(channel[other], end + timing.write_turnaround - timing.cwl)
        banks[_PRE, b] = max(banks[_PRE, b], now + timing.rtp)
    channel[_COLUMN_BUS] = now + 1
    if rules.command_buses == 1:
        channel[_ROW_BUS] = max(channel[_ROW_BUS], now + 1)


@kernel
def _refresh(timing: Any, rules: Any, state: Any, due: int, counts: Any) -> Any:
    """Close all rows as soon as their banks allow, then refresh; return when the refresh is issued."""
    banks = state.banks
    begin = max(due, state.channel[_ROW_BUS])
    if (banks[_ROW] >= 0).any():
        close = begin
        for b in range(banks.shape[1]):
            if banks[_ROW, b] >= 0:
                close = max(close, banks[_PRE, b])
        for b in range(banks.shape[1]):
            if banks[_ROW, b] >= 0:
                banks[_ACT, b] = max(banks[_ACT, b], close + timing.rp)
                _close(state, b)
        counts[PRECHARGES] += 1
        begin = close + 1
    begin = max(begin, banks[_ACT].max())
    banks[_ACT] = begin + timing.rfc
    counts[REFRESHES] += 1
    _take_row_bus(rules, state, begin + 1)
    return begin
