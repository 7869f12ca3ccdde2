"""Sectors on their way: L1, the port of an SM, L2, DRAM."""

from __future__ import annotations

from typing import Any

from ..compile import kernel
from .layout import *


@kernel(**BARE)
def transfer(
    op: int,
    access: int,
    block: int,
    warp: int,
    trip: int,
    sm: int,
    now: int,
    accesses: Any,
    offsets: Any,
    shifts: Any,
    bases: Any,
    trips: Any,
    settings: Any,
    hits: Any,
    unit: Any,
    chip: Any,
    cache: Any,
    seen: Any,
    counted: Any,
    tally: Any,
) -> int:
    """Move the sectors that all lanes of an access touch, each once; return when the last one is there.

    Parameters
    ----------
    op, access, block, warp, trip, sm, now
        Instruction; index of its access; block; warp of the block; trip of its loop; SM; cycle.
    accesses, offsets, shifts, bases, trips, settings, hits
        As for :func:`~systolic.kernels.simt.step.step_sms`.
    unit, chip, cache
        Queues of the SMs and of the chip; caches.
    seen, counted
        Room for the sectors of a request; (accesses, bytes of a sector) how many sectors an access touches
        whose base lies so far into one, 0 where not counted yet: where no cache asks which ones they are, a
        count is enough.
    tally
        Added to.
    """
    ahead = trip + accesses[access, LEAD]
    if accesses[access, STRIDE] and ahead >= trips[block]:
        return now
    operand = accesses[access, OPERAND]
    base = bases[block, operand] + shifts[warp, access] + ahead * accesses[access, STRIDE]
    tally[COUNT + REQUESTS] += 1
    cached = accesses[access, CACHED] and op != STORE
    if not cached and not settings[STEPPED_L2]:
        place = base % settings[SECTOR]
        if not counted[access, place]:
            counted[access, place] = _touched(op, access, base, accesses, offsets, settings, seen)
        many = counted[access, place]
        tally[COUNT + SECTORS] += many
        return int(_streamed(operand, many, op == STORE, sm, now, settings, hits, unit, chip, tally))
    many, done = _touched(op, access, base, accesses, offsets, settings, seen), now
    tally[COUNT + SECTORS] += many
    for i in range(many):
        arrives = _sector(
            operand, cached, seen[i], op == STORE, sm, now, settings, hits, unit, chip, cache, tally
        )
        done = max(done, arrives)
    return done


@kernel(**BARE)
def _touched(op: int, access: int, base: int, accesses: Any, offsets: Any, settings: Any, seen: Any) -> int:
    """List the sectors that the lanes touch, each once; a bulk copy goes row by row. Return how many."""
    known, highest = 0, -1
    for lane in range(accesses[access, LANES]):
        address = base + offsets[accesses[access, FIRST] + lane]
        last = (address + accesses[access, WIDTH] - 1) // settings[SECTOR]
        for sector in range(address // settings[SECTOR], last + 1):
            at = -1 if op == BULK or sector > highest else known - 1
            while at >= 0 and seen[at] != sector:
                at -= 1
            if at < 0:
                seen[known] = sector
                known += 1
                highest = max(highest, sector)
    return known


@kernel(**BARE)
def _streamed(
    operand: int,
    many: int,
    stores: bool,
    sm: int,
    now: int,
    settings: Any,
    hits: Any,
    unit: Any,
    chip: Any,
    tally: Any,
) -> int:
    """Sectors one after another past an L2 that answers its share of them; return when the last is there."""
    at_port, at_l2, at_dram = max(unit[sm, PORT_FREE], now * MILLI), max(chip[L2_FREE], now * MILLI), 0
    dram, share = chip[DRAM_FREE], settings[WRITE_BACK] if stores else hits[operand]
    owed, served, moved = chip[OWED + 2 * operand + stores], 0, 0
    for _ in range(many):
        at_port += settings[PORT_MILLI]
        at_l2 += settings[L2_MILLI]
        owed += share
        due = owed >= MILLI
        if due:
            owed -= MILLI
        if due == stores:
            dram = at_dram = max(dram, max(at_port, at_l2)) + settings[DRAM_MILLI]
            moved += 1
        else:
            served = max(at_port, at_l2)
    unit[sm, PORT_FREE], chip[L2_FREE], chip[DRAM_FREE] = at_port, at_l2, dram
    chip[OWED + 2 * operand + stores] = owed
    tally[READ + 2 * operand + stores] += moved * settings[SECTOR]
    tally[COUNT + L2_LOOKUPS] += many
    tally[COUNT + L2_HITS] += many if stores else many - moved
    if stores:
        return int((max(at_port, at_l2) + MILLI - 1) // MILLI + settings[L2_LATENCY])
    done = (served + MILLI - 1) // MILLI + settings[L2_LATENCY] if moved < many else now
    if moved:
        far = settings[L2_LATENCY] + settings[DRAM_LATENCY]
        done = max(done, (at_dram + MILLI - 1) // MILLI + far)
    return int(done)


@kernel(inline="always", **BARE)
def _sector(
    operand: int,
    cached: bool,
    sector: int,
    stores: bool,
    sm: int,
    now: int,
    settings: Any,
    hits: Any,
    unit: Any,
    chip: Any,
    cache: Any,
    tally: Any,
) -> int:
    """One sector; return when its data are there (a store's: when L2 has them)."""
    if cached:
        tally[COUNT + L1_LOOKUPS] += 1
        row = settings[L2_SETS] * settings[STEPPED_L2] + sm * settings[L1_SETS]
        sets, ways = settings[L1_SETS], settings[L1_WAYS]
        if _lookup(row, sets, ways, sector, settings[LINE], False, chip, cache) == 0:
            tally[COUNT + L1_HITS] += 1
            return int(now + settings[L1_LATENCY])
    if not settings[STEPPED_L2]:
        return int(_streamed(operand, 1, stores, sm, now, settings, hits, unit, chip, tally))
    unit[sm, PORT_FREE] = max(unit[sm, PORT_FREE], now * MILLI) + settings[PORT_MILLI]
    chip[L2_FREE] = max(chip[L2_FREE], now * MILLI) + settings[L2_MILLI]
    served = max(unit[sm, PORT_FREE], chip[L2_FREE])
    tally[COUNT + L2_LOOKUPS] += 1
    outcome = _lookup(0, settings[L2_SETS], settings[L2_WAYS], sector, settings[LINE], stores, chip, cache)
    hit, leaving = stores or outcome == 0, max(outcome - 1, 0)
    if leaving:
        chip[DRAM_FREE] = max(chip[DRAM_FREE], served) + leaving * settings[DRAM_MILLI]
        tally[READ + 2 * operand + 1] += leaving * settings[SECTOR]
    if hit:
        tally[COUNT + L2_HITS] += 1
        return int((served + MILLI - 1) // MILLI + settings[L2_LATENCY])
    chip[DRAM_FREE] = max(chip[DRAM_FREE], served) + settings[DRAM_MILLI]
    tally[READ + 2 * operand] += settings[SECTOR]
    return int((chip[DRAM_FREE] + MILLI - 1) // MILLI + settings[L2_LATENCY] + settings[DRAM_LATENCY])


@kernel(inline="always", **BARE)
def _lookup(
    row: int, sets: int, ways: int, sector: int, per_line: int, stores: bool, chip: Any, cache: Any
) -> int:
    """Look a sector up and keep it: 0 where it was there, else 1 + the dirty sectors that leave for it."""
    line = sector // per_line
    bit = 1 << (sector - line * per_line)
    at, oldest = row + line % sets, 0
    chip[TICK] += 1
    for way in range(ways):
        if cache[TAG, at, way] == line:
            there = cache[VALID, at, way] & bit
            cache[VALID, at, way] |= bit
            cache[USED, at, way] = chip[TICK]
            if stores:
                cache[DIRTY, at, way] |= bit
            return 0 if there else 1
        if cache[USED, at, way] < cache[USED, at, oldest]:
            oldest = way
    leaving = 0
    if cache[DIRTY, at, oldest]:
        for i in range(per_line):
            leaving += cache[DIRTY, at, oldest] >> i & 1
    cache[TAG, at, oldest] = line
    cache[VALID, at, oldest] = bit
    cache[DIRTY, at, oldest] = bit if stores else 0
    cache[USED, at, oldest] = chip[TICK]
    return 1 + leaving
