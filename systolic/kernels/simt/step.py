"""Schedulers cycle by cycle: which warp issues, and what it does."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compile import kernel
from .issue import blocked, carried_out, look_again, moved, turned
from .layout import *
from .memory import transfer


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
    events: Any = None,
) -> int:
    """Run thread blocks on idle SMs until all have ended; return the cycles until the last store has left.

    In each cycle each scheduler goes through its warps and issues the next instruction of the one that its
    policy likes best among those that can go: operands there, pipe free, queue not full, barrier passed.
    Cycles in which nothing can issue are skipped, and so are schedulers none of whose warps can wake yet.

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
    events
        (any, EVENT_COLUMNS) zeros, to be filled with what each warp does when, in the order in which it is
        known, as far as they go; None: nothing is kept.

    Raises
    ------
    RuntimeError
        If all warps that are left wait for one another.
    """
    subs, held, warps = settings[SUB_CORES], settings[HELD], len(starts)
    warp = np.zeros((sms * held * warps, WARP_COLUMNS), np.int64)
    slots = np.zeros((sms * held, SLOT_COLUMNS), np.int64)
    scheds = np.zeros((sms * subs, AGE + held * ((warps + subs - 1) // subs)), np.int64)
    unit = np.zeros((sms, SM_COLUMNS), np.int64)
    chip = np.zeros(OWED + 2 * len(hits), np.int64)
    rows = settings[L1_SETS] * sms + settings[L2_SETS] * settings[STEPPED_L2]
    cache = np.zeros((PLANES, max(rows, 1), max(settings[L1_WAYS], settings[L2_WAYS])), np.int64)
    cache[TAG] = -1
    each = accesses[:, LANES] * (accesses[:, WIDTH] // settings[SECTOR] + 2)
    seen = np.zeros(each.max(initial=1), np.int64)
    counted = np.zeros((len(accesses), settings[SECTOR]), np.int64)
    noted = np.zeros(1, np.int64)
    events = np.zeros((0, EVENT_COLUMNS), np.int64) if events is None else events
    warp[:, WAKE] = NEVER
    scheds[:, LAST] = -1
    scheds[:, SM] = np.arange(len(scheds)) // subs
    return int(
        _stepped(
            program, accesses, offsets, starts, shifts, bases, trips, settings, hits, sms, tally, times,
            warp, slots, scheds, unit, chip, cache, seen, counted, events, noted,
        )
    )  # fmt: skip


@kernel(**BARE)
def _stepped(
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
    warp: Any,
    slots: Any,
    scheds: Any,
    unit: Any,
    chip: Any,
    cache: Any,
    seen: Any,
    counted: Any,
    events: Any,
    noted: Any,
) -> int:
    """The same, in memory that is there."""
    held, warps, blocks = settings[HELD], len(starts), len(bases)
    started = left = 0
    for turn in range(held):
        for sm in range(sms):
            if started < blocks:
                _start(sm * held + turn, started, 0, settings, starts, warp, slots, scheds, times)
                started += 1
                left += 1
    now = 0
    while left:
        for s in range(len(scheds)):
            if scheds[s, NEXT] > now:
                continue
            w = _pick(s, now, program, settings, warp, slots, scheds, unit, tally, events, noted)
            if w < 0:
                continue
            slot, sm = warp[w, SLOT], scheds[s, SM]
            block, pc = slots[slot, BLOCK], warp[w, PC]
            op = program[pc, OP]
            tally[COUNT + ISSUED] += 1
            tally[STALL + SELECTED] += 1
            _note(w, SELECTED, now, now + 1, warp, slots, events, noted)
            warp[w, SINCE] = warp[w, WAKE] = now + 1
            warp[w, REASON] = FIXED
            warp[w, PC] = pc + 1
            scheds[s, LAST] = w
            if op in (LOAD, STORE, COPY, BULK):
                access = program[pc, ACCESS]
                done = transfer(
                    op, access, block, w - slot * warps, warp[w, TRIP], sm, now,
                    accesses, offsets, shifts, bases, trips, settings, hits, unit, chip,
                    cache, seen, counted, tally,
                )  # fmt: skip
                cycles = accesses[access, SHARED_CYCLES]
                moved(
                    op,
                    pc,
                    w,
                    slot,
                    sm,
                    now,
                    done,
                    cycles,
                    program,
                    settings,
                    warps,
                    warp,
                    slots,
                    scheds,
                    unit,
                )
            elif op in (LOOP, LOOP_TILES, UNLESS_LAST):
                turned(op, pc, w, slot, now, trips[block], program, settings, warps, warp, slots, scheds)
            elif op == EXIT:
                tally[COUNT + WARP_CYCLES] += now + 1 - times[block, 0]
                if _leave(s, w, slot, warp, slots, scheds) == 0:
                    times[block, 1] = now + 1
                    left -= 1
                    if started < blocks:
                        at = now + 1 + settings[LAUNCH]
                        _start(slot, started, at, settings, starts, warp, slots, scheds, times)
                        started += 1
                        left += 1
            else:
                carried_out(
                    op, pc, w, slot, s, sm, now, program, settings, warps, warp, slots, scheds, unit, tally
                )
        now += 1
        soonest = NEVER
        for s in range(len(scheds)):
            soonest = min(soonest, scheds[s, NEXT])
        if left and soonest >= NEVER:
            raise RuntimeError("all warps wait for one another")
        if left:
            now = max(now, soonest)
    last = max(chip[L2_FREE], chip[DRAM_FREE])
    for sm in range(sms):
        last = max(last, unit[sm, PORT_FREE])
    return int(max(now, (last + MILLI - 1) // MILLI))


@kernel(**BARE)
def _start(
    slot: int,
    block: int,
    at: int,
    settings: Any,
    starts: Any,
    warp: Any,
    slots: Any,
    scheds: Any,
    times: Any,
) -> None:
    """Put a block into a slot; its warps can issue from `at` on."""
    warps, subs = len(starts), settings[SUB_CORES]
    slots[slot] = 0
    slots[slot, BLOCK] = block
    slots[slot, ALIVE] = warps
    slots[slot, FULL_TRIP : FULL_TRIP + MOST_STAGES] = -1
    times[block, 0] = at
    for i in range(warps):
        w = slot * warps + i
        warp[w] = 0
        warp[w, SLOT] = slot
        warp[w, PC] = starts[i]
        warp[w, WAKE] = warp[w, SINCE] = at
        warp[w, REASON] = NOTHING
        s = slot // settings[HELD] * subs + (slot % settings[HELD] * warps + i) % subs
        scheds[s, AGE + scheds[s, LENGTH]] = w
        scheds[s, LENGTH] += 1
    look_again(slot, at, settings, scheds)


@kernel(**BARE)
def _leave(s: int, w: int, slot: int, warp: Any, slots: Any, scheds: Any) -> int:
    """Take a warp that has ended from its scheduler; return how many of its block are left."""
    at = AGE
    while scheds[s, at] != w:
        at += 1
    scheds[s, LENGTH] -= 1
    for i in range(at, AGE + scheds[s, LENGTH]):
        scheds[s, i] = scheds[s, i + 1]
    scheds[s, LAST] = -1
    warp[w, WAKE] = NEVER
    # It stays at its exit: whoever nudges the block reads the instruction at which each warp waits.
    warp[w, PC] -= 1
    slots[slot, ALIVE] -= 1
    return int(slots[slot, ALIVE])


@kernel(inline="always", **BARE)
def _note(
    w: int, reason: int, since: int, until: int, warp: Any, slots: Any, events: Any, noted: Any
) -> None:
    """Keep what a warp did, where there is room for it."""
    if noted[0] < len(events) and until > since:
        row = noted[0]
        noted[0] = row + 1
        events[row, EVENT_WARP] = w
        events[row, EVENT_BLOCK] = slots[warp[w, SLOT], BLOCK]
        events[row, EVENT_PC] = warp[w, PC]
        events[row, EVENT_REASON] = reason
        events[row, EVENT_FROM] = since
        events[row, EVENT_UNTIL] = until


@kernel(inline="always", **BARE)
def _pick(
    s: int,
    now: int,
    program: Any,
    settings: Any,
    warp: Any,
    slots: Any,
    scheds: Any,
    unit: Any,
    tally: Any,
    events: Any,
    noted: Any,
) -> int:
    """The warp of a scheduler that issues, or -1; notes when the scheduler has to look again.

    ``gto``: the one that issued last, else the oldest; ``gty``: else the youngest; ``lrr``: the next one by
    age after the one that issued last.
    """
    last, passed, soonest = scheds[s, LAST], False, NEVER
    again = oldest = youngest = following = -1
    for at in range(AGE, AGE + scheds[s, LENGTH]):
        w = scheds[s, at]
        if warp[w, WAKE] <= now:
            until, cause = blocked(s, w, now, program, settings, warp, slots, scheds, unit)
            tally[STALL + warp[w, REASON]] += now - warp[w, SINCE]
            _note(w, warp[w, REASON], warp[w, SINCE], now, warp, slots, events, noted)
            warp[w, SINCE] = now
            if until > now:
                warp[w, REASON] = cause
                warp[w, WAKE] = until
            else:
                tally[COUNT + ELIGIBLE] += 1
                warp[w, REASON] = NOT_SELECTED
                youngest = w
                if oldest < 0:
                    oldest = w
                if w == last:
                    again = w
                if passed and following < 0:
                    following = w
        soonest = min(soonest, warp[w, WAKE])
        passed = passed or w == last
    if oldest < 0:
        scheds[s, NEXT] = soonest
        return -1
    scheds[s, NEXT] = now + 1
    if settings[POLICY] == LRR:
        return following if following >= 0 else oldest
    if again >= 0:
        return again
    return oldest if settings[POLICY] == GTO else youngest
