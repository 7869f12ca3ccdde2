"""Sectors on their way: L1, the port of an SM, L2, DRAM."""

from __future__ import annotations

from typing import Any

from ..compile import kernel
from .layout import *


@kernel
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
    tally: Any,
) -> int:
    """Move the sectors that all lanes of an access touch, each once; return when the last one is there.

    Parameters
    ----------
    op, access, block, warp, trip, sm, now
        Instruction; index of its access; block; warp of the block; trip of its loop; SM; cycle.
    accesses, offsets, shifts, bases, trips, settings, hits
        As for :func:`~systolic.kernels.simt.step.step_sms`.
    unit, chip, cache, seen
        Queues of the SMs and of the chip; caches; room for the sectors of a request.
    tally
        Added to.
    """
    ahead = trip + accesses[access, LEAD]
    if accesses[access, STRIDE] and ahead >= trips[block]:
        return now
    operand = accesses[access, OPERAND]
    base = bases[block, operand] + shifts[warp, access] + ahead * accesses[access, STRIDE]
    tally[COUNT + REQUESTS] += 1
    done, known = now, 0
    for lane in range(accesses[access, LANES]):
        address = base + offsets[accesses[access, FIRST] + lane]
        last = (address + accesses[access, WIDTH] - 1) // settings[SECTOR]
        for sector in range(address // settings[SECTOR], last + 1):
            if op != BULK:
                at = known - 1
                while at >= 0 and seen[at] != sector:
                    at -= 1
                if at >= 0:
                    continue
                seen[known] = sector
                known += 1
            tally[COUNT + SECTORS] += 1
            cached = accesses[access, CACHED] and op != STORE
            arrives = _sector(
                operand, cached, sector, op == STORE, sm, now, settings, hits, unit, chip, cache, tally
            )
            done = max(done, arrives)
    return done


@kernel
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
        if (
            _lookup(row, settings[L1_SETS], settings[L1_WAYS], sector, settings[LINE], False, chip, cache)
            == 0
        ):
            tally[COUNT + L1_HITS] += 1
            return now + settings[L1_LATENCY]
    unit[sm, PORT_FREE] = max(unit[sm, PORT_FREE], now * MILLI) + settings[PORT_MILLI]
    chip[L2_FREE] = max(chip[L2_FREE], now * MILLI) + settings[L2_MILLI]
    served = max(unit[sm, PORT_FREE], chip[L2_FREE])
    tally[COUNT + L2_LOOKUPS] += 1
    if settings[STEPPED_L2]:
        sets, ways = settings[L2_SETS], settings[L2_WAYS]
        outcome = _lookup(0, sets, ways, sector, settings[LINE], stores, chip, cache)
        hit, leaving = stores or outcome == 0, max(outcome - 1, 0)
    else:
        hit = stores or _owed(chip, OWED + 2 * operand, hits[operand])
        leaving = 1 if stores and _owed(chip, OWED + 2 * operand + 1, settings[WRITE_BACK]) else 0
    if leaving:
        chip[DRAM_FREE] = max(chip[DRAM_FREE], served) + leaving * settings[DRAM_MILLI]
        tally[READ + 2 * operand + 1] += leaving * settings[SECTOR]
    if hit:
        tally[COUNT + L2_HITS] += 1
        return (served + MILLI - 1) // MILLI + settings[L2_LATENCY]
    chip[DRAM_FREE] = max(chip[DRAM_FREE], served) + settings[DRAM_MILLI]
    tally[READ + 2 * operand] += settings[SECTOR]
    return (chip[DRAM_FREE] + MILLI - 1) // MILLI + settings[L2_LATENCY] + settings[DRAM_LATENCY]


@kernel
def _owed(chip: Any, at: int, share: int) -> bool:
    """Whether this one is among `share` thousandths that are spread evenly."""
    chip[at] += share
    if chip[at] < MILLI:
        return False
    chip[at] -= MILLI
    return True


@kernel
def _lookup(
    row: int, sets: int, ways: int, sector: int, per_line: int, stores: bool, chip: Any, cache: Any
) -> int:
    """Look a sector up and keep it: 0 where it was there, else 1 + the dirty sectors that leave for it."""
    line, bit = sector // per_line, 1 << (sector % per_line)
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
    for i in range(per_line):
        leaving += cache[DIRTY, at, oldest] >> i & 1
    cache[TAG, at, oldest] = line
    cache[VALID, at, oldest] = bit
    cache[DIRTY, at, oldest] = bit if stores else 0
    cache[USED, at, oldest] = chip[TICK]
    return 1 + leaving
