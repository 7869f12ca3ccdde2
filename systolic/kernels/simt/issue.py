"""What an instruction of a warp waits for, and what it leaves behind when it goes."""

from __future__ import annotations

from typing import Any

from ..compile import kernel
from .layout import *


@kernel(inline="always", **BARE)
def blocked(
    s: int,
    w: int,
    now: int,
    program: Any,
    settings: Any,
    warp: Any,
    slots: Any,
    scheds: Any,
    unit: Any,
) -> tuple[int, int]:
    """Until when the next instruction of a warp cannot go, and why; no later than `now` where it can."""
    pc = warp[w, PC]
    op, until, cause = program[pc, OP], 0, SELECTED
    for column in range(SRC2, DST - 1, -1):
        name = program[pc, column]
        if name >= 0 and warp[w, READY + name] > now:
            until, cause = warp[w, READY + name], warp[w, WHY + name]
    if until > now:
        pass
    elif op == MATH:
        until, cause = scheds[s, program[pc, PIPE]], MATH_BUSY
    elif op == SHARED:
        until, cause = unit[scheds[s, SM], MIO_FREE] - settings[QUEUE], MIO
    elif op in (LOAD, STORE, COPY):
        port = unit[scheds[s, SM], PORT_FREE]
        until, cause = (port + MILLI - 1) // MILLI - settings[QUEUE], LG
    elif op == ASYNC_MATH:
        until, cause = scheds[s, TENSOR] - program[pc, BUSY], MATH_BUSY
    elif op in (WAIT_COPY, WAIT_MATH):
        kind = 0 if op == WAIT_COPY else 1
        over = warp[w, PENDING + kind] - program[pc, ARG]
        if over > 0:
            until, cause = warp[w, GROUP + kind * GROUPS + over - 1], LONG if op == WAIT_COPY else GMMA
    elif op in (WAIT_FULL, WAIT_EMPTY, AWAIT, WAIT_STORED):
        until, cause = _signalled(op, warp[w, TRIP], warp[w, SLOT], settings, slots)
    return until, cause


@kernel(**BARE)
def _signalled(op: int, trip: int, slot: int, settings: Any, slots: Any) -> tuple[int, int]:
    """The same for instructions that wait for other warps of the block."""
    if op == WAIT_FULL:
        stage = trip % settings[STAGES]
        return (slots[slot, FULL_AT + stage] if slots[slot, FULL_TRIP + stage] >= trip else NEVER), LONG
    if op == WAIT_EMPTY:
        stage, times = trip % settings[STAGES], trip // settings[STAGES]
        there = slots[slot, RELEASED + stage] >= settings[CONSUMERS] * times
    elif op == AWAIT:
        there = slots[slot, SUMMED] > trip
    else:
        there = slots[slot, STORED] >= settings[STORERS] * (trip // settings[PERIOD] - 1)
    return (0 if there else NEVER), SYNC


@kernel(inline="always", **BARE)
def moved(
    op: int,
    pc: int,
    w: int,
    slot: int,
    sm: int,
    now: int,
    done: int,
    cycles: int,
    program: Any,
    settings: Any,
    warps: int,
    warp: Any,
    slots: Any,
    scheds: Any,
    unit: Any,
) -> None:
    """What a load or copy leaves behind whose data are there at `done`."""
    if op == LOAD:
        warp[w, READY + program[pc, DST]] = done
        warp[w, WHY + program[pc, DST]] = LONG
    elif op != STORE:
        unit[sm, MIO_FREE] = max(now, unit[sm, MIO_FREE]) + cycles
        kind = 0 if op == COPY else 2
        warp[w, OPENED + kind] = max(warp[w, OPENED + kind], done)
        if op == BULK and program[pc, ARG]:
            stage = warp[w, TRIP] % settings[STAGES]
            slots[slot, FULL_TRIP + stage] = warp[w, TRIP]
            slots[slot, FULL_AT + stage] = warp[w, OPENED + 2]
            warp[w, OPENED + 2] = 0
            nudge(slot, now, program, settings, warps, warp, scheds)


@kernel(inline="always", **BARE)
def turned(
    op: int,
    pc: int,
    w: int,
    slot: int,
    now: int,
    last: int,
    program: Any,
    settings: Any,
    warps: int,
    warp: Any,
    slots: Any,
    scheds: Any,
) -> None:
    """The end of a loop of `last` trips, or a jump over what only the last trip of each tile does."""
    if op == UNLESS_LAST:
        again = (warp[w, TRIP] + 1) % settings[PERIOD] > 0
    else:
        if op == LOOP_TILES:
            slots[slot, STORED] += 1
            nudge(slot, now, program, settings, warps, warp, scheds)
            last //= settings[PERIOD]
        warp[w, TRIP] += 1
        again = warp[w, TRIP] < last
    if again:
        warp[w, PC] = program[pc, ARG]


@kernel(inline="always", **BARE)
def carried_out(
    op: int,
    pc: int,
    w: int,
    slot: int,
    s: int,
    sm: int,
    now: int,
    program: Any,
    settings: Any,
    warps: int,
    warp: Any,
    slots: Any,
    scheds: Any,
    unit: Any,
    tally: Any,
) -> None:
    """An instruction that stays within its SM."""
    name, busy, latency = program[pc, DST], program[pc, BUSY], program[pc, LATENCY]
    if op == MATH:
        scheds[s, program[pc, PIPE]] = now + busy
        if name >= 0:
            warp[w, READY + name] = now + latency
            warp[w, WHY + name] = FIXED
    elif op == SHARED:
        unit[sm, MIO_FREE] = max(now, unit[sm, MIO_FREE]) + busy
        tally[COUNT + SHARED_REQUESTS] += 1
        tally[COUNT + CONFLICTS] += busy - program[pc, ARG]
        if name >= 0:
            warp[w, READY + name] = unit[sm, MIO_FREE] - 1 + latency
            warp[w, WHY + name] = SHORT
    elif op == ASYNC_MATH:
        scheds[s, TENSOR] = max(now, scheds[s, TENSOR]) + busy
        unit[sm, MIO_FREE] = max(now, unit[sm, MIO_FREE]) + program[pc, ARG]
        done = max(scheds[s, TENSOR], unit[sm, MIO_FREE]) + latency
        warp[w, OPENED + 1] = max(warp[w, OPENED + 1], done)
    elif op in (COMMIT, COMMIT_MATH, WAIT_COPY, WAIT_MATH):
        _group(op, w, program[pc, ARG], warp)
    elif op == BARRIER:
        needed = program[pc, ARG] if program[pc, ARG] else slots[slot, ALIVE]
        _arrive(slot, w, now + max(latency, 1), needed, settings, warps, warp, slots, scheds)
    elif op == SIGNAL:
        slots[slot, SUMMED] += 1
        nudge(slot, now, program, settings, warps, warp, scheds)
    elif op == RELEASE:
        lag = program[pc, ARG]
        if warp[w, TRIP] >= lag:
            slots[slot, RELEASED + (warp[w, TRIP] - lag) % settings[STAGES]] += 1
            nudge(slot, now, program, settings, warps, warp, scheds)


@kernel(**BARE)
def _group(op: int, w: int, left: int, warp: Any) -> None:
    """Close a group of asynchronous work, or forget those that a wait has seen end."""
    kind = 0 if op in (COMMIT, WAIT_COPY) else 1
    if op in (COMMIT, COMMIT_MATH):
        warp[w, GROUP + kind * GROUPS + warp[w, PENDING + kind]] = warp[w, OPENED + kind]
        warp[w, PENDING + kind] += 1
        warp[w, OPENED + kind] = 0
        return
    gone = max(0, warp[w, PENDING + kind] - left)
    warp[w, PENDING + kind] -= gone
    for group in range(warp[w, PENDING + kind]):
        warp[w, GROUP + kind * GROUPS + group] = warp[w, GROUP + kind * GROUPS + group + gone]


@kernel(**BARE)
def _arrive(
    slot: int,
    w: int,
    passed: int,
    needed: int,
    settings: Any,
    warps: int,
    warp: Any,
    slots: Any,
    scheds: Any,
) -> None:
    """A warp comes to a barrier of its block where `needed` meet; the last one opens it."""
    slots[slot, ARRIVED] += 1
    warp[w, REASON] = SYNC
    warp[w, WAKE] = AT_BARRIER
    if slots[slot, ARRIVED] < needed:
        return
    slots[slot, ARRIVED] = 0
    for other in range(slot * warps, slot * warps + warps):
        if warp[other, WAKE] == AT_BARRIER:
            warp[other, WAKE] = passed
    look_again(slot, passed, settings, scheds)


@kernel(**BARE)
def nudge(slot: int, now: int, program: Any, settings: Any, warps: int, warp: Any, scheds: Any) -> None:
    """Let the warps of a block that wait for one another look again."""
    for w in range(slot * warps, slot * warps + warps):
        if warp[w, WAKE] == NEVER:
            op = program[warp[w, PC], OP]
            if op in (WAIT_FULL, WAIT_EMPTY, AWAIT, WAIT_STORED):
                warp[w, WAKE] = now + 1
    look_again(slot, now + 1, settings, scheds)


@kernel(**BARE)
def look_again(slot: int, at: int, settings: Any, scheds: Any) -> None:
    """Let the schedulers of a slot's SM go through their warps at `at`."""
    first = slot // settings[HELD] * settings[SUB_CORES]
    for s in range(first, first + settings[SUB_CORES]):
        scheds[s, NEXT] = min(scheds[s, NEXT], at)
