"""Schedulers cycle by cycle: which warp issues, and what it does."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compile import kernel
from .layout import *
from .memory import transfer


@kernel
def step_sms(
    program: Any,
    accesses: Any,
    offsets: Any,
    starts: Any,
    shifts: Any,
    bases: Any,
    trips: Any,
    settings: Any,
    hits: Any,
    sms: int,
    tally: Any,
    times: Any,
) -> int:
    """Run thread blocks on idle SMs until all have ended; return the cycles until the last store has left.

    In each cycle each scheduler goes through its warps in the order of its policy and issues the next
    instruction of the first one that can go: operands there, pipe free, queue not full, barrier passed. Cycles
    in which nothing can issue are skipped.

    Parameters
    ----------
    program
        (instructions, COLUMNS).
    accesses, offsets
        (accesses, ACCESS_COLUMNS); byte offsets of their lanes.
    starts, shifts
        (warps of a block,) first instruction; (warps, accesses) byte offset of a warp's addresses.
    bases, trips
        (blocks, operands) addresses; (blocks,) trips of the loop. Blocks start in this order.
    settings, hits
        (SETTINGS,); (operands,) thousandths of the sectors that L2 answers where it is not stepped.
    sms
        How many SMs.
    tally, times
        Added to: (READ + 2 * operands,) see layout. Set: (blocks, 2) start and end of each block.
    """
    subs, held, warps, blocks = settings[SUB_CORES], settings[HELD], len(starts), len(bases)
    warp = np.zeros((sms * held * warps, WARP_COLUMNS), np.int64)
    slots = np.zeros((sms * held, SLOT_COLUMNS), np.int64)
    scheds = np.zeros((sms * subs, AGE + held * ((warps + subs - 1) // subs)), np.int64)
    unit = np.zeros((sms, SM_COLUMNS), np.int64)
    chip = np.zeros(OWED + 2 * len(hits), np.int64)
    rows = settings[L1_SETS] * sms + settings[L2_SETS] * settings[STEPPED_L2]
    cache = np.zeros((PLANES, max(rows, 1), max(settings[L1_WAYS], settings[L2_WAYS])), np.int64)
    cache[TAG] = -1
    seen = np.zeros(1024, np.int64)
    warp[:, WAKE] = NEVER
    scheds[:, LAST] = -1

    started = left = 0
    for turn in range(held):
        for sm in range(sms):
            if started < blocks:
                _start(sm * held + turn, started, 0, subs, held, starts, warp, slots, scheds, times)
                started += 1
                left += 1
    now = 0
    while left:
        moved, soonest = False, NEVER
        for s in range(len(scheds)):
            w, wakes = _pick(s, now, program, settings, warps, warp, slots, scheds, unit, tally)
            soonest = min(soonest, wakes)
            if w < 0:
                continue
            moved = True
            slot, sm = w // warps, s // subs
            pc = warp[w, PC]
            op = program[pc, OP]
            tally[COUNT + ISSUED] += 1
            tally[STALL + SELECTED] += 1
            warp[w, SINCE] = warp[w, WAKE] = now + 1
            warp[w, REASON] = FIXED
            warp[w, PC] = pc + 1
            scheds[s, LAST] = w
            if op in (LOAD, STORE, COPY, BULK):
                access, block = program[pc, ACCESS], slots[slot, BLOCK]
                done = transfer(
                    op, access, block, w % warps, warp[w, TRIP], sm, now, accesses, offsets, shifts, bases, trips,
                    settings, hits, unit, chip, cache, seen, tally,
                )  # fmt: skip
                cycles = accesses[access, SHARED_CYCLES]
                _moved(op, pc, w, slot, sm, now, done, cycles, program, settings, warps, warp, slots, unit)
            elif op == LOOP:
                warp[w, TRIP] += 1
                if warp[w, TRIP] < trips[slots[slot, BLOCK]]:
                    warp[w, PC] = program[pc, ARG]
            elif op == LOOP_TILES:
                slots[slot, STORED] += 1
                _nudge(slot, now, program, warps, warp)
                warp[w, TRIP] += 1
                if warp[w, TRIP] < trips[slots[slot, BLOCK]] // settings[PERIOD]:
                    warp[w, PC] = program[pc, ARG]
            elif op == UNLESS_LAST:
                if (warp[w, TRIP] + 1) % settings[PERIOD]:
                    warp[w, PC] = program[pc, ARG]
            elif op == EXIT:
                warp[w, WAKE] = NEVER
                slots[slot, ALIVE] -= 1
                tally[COUNT + WARP_CYCLES] += now + 1 - times[slots[slot, BLOCK], 0]
                _leave(s, w, scheds)
                if slots[slot, ALIVE] == 0:
                    times[slots[slot, BLOCK], 1] = now + 1
                    left -= 1
                    if started < blocks:
                        at = now + 1 + settings[LAUNCH]
                        _start(slot, started, at, subs, held, starts, warp, slots, scheds, times)
                        started += 1
                        left += 1
            else:
                _carry_out(
                    op, pc, w, slot, s, sm, now, program, settings, warps, warp, slots, scheds, unit, tally
                )
        now = now + 1 if moved else soonest
    last = max(unit[:, PORT_FREE].max(), max(chip[L2_FREE], chip[DRAM_FREE]))
    return max(now, (last + MILLI - 1) // MILLI)


@kernel
def _start(
    slot: int,
    block: int,
    at: int,
    subs: int,
    held: int,
    starts: Any,
    warp: Any,
    slots: Any,
    scheds: Any,
    times: Any,
) -> None:
    """Put a block into a slot; its warps can issue from `at` on."""
    warps = len(starts)
    slots[slot] = 0
    slots[slot, BLOCK] = block
    slots[slot, ALIVE] = warps
    slots[slot, FULL_TRIP : FULL_TRIP + MOST_STAGES] = -1
    times[block, 0] = at
    for i in range(warps):
        w = slot * warps + i
        warp[w] = 0
        warp[w, PC] = starts[i]
        warp[w, WAKE] = warp[w, SINCE] = at
        warp[w, REASON] = NOTHING
        s = slot // held * subs + i % subs
        scheds[s, AGE + scheds[s, LENGTH]] = w
        scheds[s, LENGTH] += 1


@kernel
def _leave(s: int, w: int, scheds: Any) -> None:
    """Take a warp from its scheduler."""
    at = AGE
    while scheds[s, at] != w:
        at += 1
    scheds[s, LENGTH] -= 1
    for i in range(at, AGE + scheds[s, LENGTH]):
        scheds[s, i] = scheds[s, i + 1]


@kernel
def _pick(
    s: int,
    now: int,
    program: Any,
    settings: Any,
    warps: int,
    warp: Any,
    slots: Any,
    scheds: Any,
    unit: Any,
    tally: Any,
) -> tuple[int, int]:
    """The warp of a scheduler that issues, or -1; and when to look again."""
    count, policy = scheds[s, LENGTH], settings[POLICY]
    favourite = -1
    for i in range(count):
        if scheds[s, AGE + i] == scheds[s, LAST]:
            favourite = i
    picked, soonest = -1, NEVER
    for at in range(count):
        i = _place(policy, at, count, favourite)
        w = scheds[s, AGE + i]
        if warp[w, WAKE] > now:
            soonest = min(soonest, warp[w, WAKE])
            continue
        until, cause = _blocked(s, w, now, program, settings, warps, warp, slots, scheds, unit)
        tally[STALL + warp[w, REASON]] += now - warp[w, SINCE]
        warp[w, SINCE] = now
        if until > now:
            warp[w, REASON] = cause
            warp[w, WAKE] = until
            soonest = min(soonest, until)
            continue
        tally[COUNT + ELIGIBLE] += 1
        warp[w, REASON] = NOT_SELECTED
        soonest = now + 1
        if picked < 0:
            picked = w
    return picked, soonest


@kernel
def _place(policy: int, at: int, count: int, favourite: int) -> int:
    """Which warp by age a scheduler looks at in its turn `at`; `favourite` issued last, -1 where it is gone."""
    if policy == LRR:
        return (favourite + 1 + at) % count
    if favourite < 0:
        return at if policy == GTO else count - 1 - at
    if at == 0:
        return favourite
    if policy == GTO:
        return at - 1 if at - 1 < favourite else at
    return count - at if count - at > favourite else count - 1 - at


@kernel
def _blocked(
    s: int,
    w: int,
    now: int,
    program: Any,
    settings: Any,
    warps: int,
    warp: Any,
    slots: Any,
    scheds: Any,
    unit: Any,
) -> tuple[int, int]:
    """Until when the next instruction of a warp cannot go, and why; 0 where it can."""
    pc = warp[w, PC]
    op, slot, sm = program[pc, OP], w // warps, s // settings[SUB_CORES]
    for column in range(DST, SRC2 + 1):
        name = program[pc, column]
        if name >= 0 and warp[w, READY + name] > now:
            return warp[w, READY + name], warp[w, WHY + name]
    if op == MATH:
        return scheds[s, program[pc, PIPE]], MATH_BUSY
    if op == ASYNC_MATH:
        return scheds[s, TENSOR] - program[pc, BUSY], MATH_BUSY
    if op == SHARED:
        return unit[sm, MIO_FREE] - settings[QUEUE], MIO
    if op in (LOAD, STORE, COPY):
        return (unit[sm, PORT_FREE] + MILLI - 1) // MILLI - settings[QUEUE], LG
    if op in (WAIT_COPY, WAIT_MATH):
        kind = 0 if op == WAIT_COPY else 1
        over = warp[w, PENDING + kind] - program[pc, ARG]
        if over > 0:
            return warp[w, GROUP + kind * GROUPS + over - 1], LONG if op == WAIT_COPY else GMMA
    elif op == WAIT_FULL:
        stage = warp[w, TRIP] % settings[STAGES]
        if slots[slot, FULL_TRIP + stage] < warp[w, TRIP]:
            return NEVER, LONG
        return slots[slot, FULL_AT + stage], LONG
    elif op == WAIT_EMPTY:
        stage, times = warp[w, TRIP] % settings[STAGES], warp[w, TRIP] // settings[STAGES]
        if slots[slot, RELEASED + stage] < settings[CONSUMERS] * times:
            return NEVER, SYNC
    elif op == AWAIT:
        if slots[slot, SUMMED] <= warp[w, TRIP]:
            return NEVER, SYNC
    elif op == WAIT_STORED:
        tile = warp[w, TRIP] // settings[PERIOD]
        if slots[slot, STORED] < settings[STORERS] * (tile - 1):
            return NEVER, SYNC
    return 0, SELECTED


@kernel
def _moved(
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
    unit: Any,
) -> None:
    """What a load or copy leaves behind whose data are there at `done`."""
    if op == LOAD:
        warp[w, READY + program[pc, DST]] = done
        warp[w, WHY + program[pc, DST]] = LONG
    if op in (LOAD, STORE):
        return
    unit[sm, MIO_FREE] = max(now, unit[sm, MIO_FREE]) + cycles
    kind = 0 if op == COPY else 2
    warp[w, OPENED + kind] = max(warp[w, OPENED + kind], done)
    if op == BULK and program[pc, ARG]:
        stage = warp[w, TRIP] % settings[STAGES]
        slots[slot, FULL_TRIP + stage] = warp[w, TRIP]
        slots[slot, FULL_AT + stage] = warp[w, OPENED + 2]
        warp[w, OPENED + 2] = 0
        _nudge(slot, now, program, warps, warp)


@kernel
def _carry_out(
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
    elif op in (COMMIT, COMMIT_MATH):
        kind = 0 if op == COMMIT else 1
        warp[w, GROUP + kind * GROUPS + warp[w, PENDING + kind]] = warp[w, OPENED + kind]
        warp[w, PENDING + kind] += 1
        warp[w, OPENED + kind] = 0
    elif op in (WAIT_COPY, WAIT_MATH):
        at = 0 if op == WAIT_COPY else 1
        gone = max(0, warp[w, PENDING + at] - program[pc, ARG])
        warp[w, PENDING + at] -= gone
        for group in range(warp[w, PENDING + at]):
            warp[w, GROUP + at * GROUPS + group] = warp[w, GROUP + at * GROUPS + group + gone]
    elif op == BARRIER:
        _arrive(slot, w, now + max(latency, 1), warps, warp, slots)
    elif op == SIGNAL:
        slots[slot, SUMMED] += 1
        _nudge(slot, now, program, warps, warp)
    elif op == RELEASE:
        lag = program[pc, ARG]
        if warp[w, TRIP] >= lag:
            slots[slot, RELEASED + (warp[w, TRIP] - lag) % settings[STAGES]] += 1
            _nudge(slot, now, program, warps, warp)


@kernel
def _arrive(slot: int, w: int, passed: int, warps: int, warp: Any, slots: Any) -> None:
    """A warp comes to its block's barrier; the last one opens it."""
    slots[slot, ARRIVED] += 1
    warp[w, REASON] = SYNC
    warp[w, WAKE] = NEVER
    if slots[slot, ARRIVED] < slots[slot, ALIVE]:
        return
    slots[slot, ARRIVED] = 0
    for other in range(slot * warps, slot * warps + warps):
        if warp[other, REASON] == SYNC and warp[other, WAKE] == NEVER:
            warp[other, WAKE] = passed


@kernel
def _nudge(slot: int, now: int, program: Any, warps: int, warp: Any) -> None:
    """Let the warps of a block that wait for one another look again."""
    for w in range(slot * warps, slot * warps + warps):
        op = program[warp[w, PC], OP]
        if warp[w, WAKE] == NEVER and op in (WAIT_FULL, WAIT_EMPTY, AWAIT, WAIT_STORED):
            warp[w, WAKE] = now + 1
