"""The addresses that a loop nest touches, in order, a buffer at a time."""

from __future__ import annotations

from typing import Any

from .compile import kernel

TOTAL, STEP, OUTER = range(3)
"""Columns of `loops`: iterations of the whole range, of one block of it, and the loop over blocks (or -1)."""
BASE, SIZE, KIND, DEPTH, AFTER = range(5)
"""Columns of `accesses` before its strides."""
STRIDES = 5


@kernel
def fill(loops: Any, accesses: Any, at: Any, addresses: Any, sizes: Any, kinds: Any) -> int:
    """Write as many whole rounds of the innermost loop as fit; return the accesses written.

    Parameters
    ----------
    loops
        int64 (depth, 3), the outermost first. A loop over blocks runs ceil(TOTAL / STEP) times; the loop
        inside a block, whose OUTER is that loop's index, runs STEP times, fewer in the last block. A plain
        loop has STEP 1 and OUTER -1.
    accesses
        int64 (n, 5 + depth): first address, bytes, kind (as in :mod:`systolic.kernels.cache`), how many loops
        stand around it, whether it follows (1) or precedes (0) the loop that stands beside it, and bytes per
        iteration of each loop.
    at
        int64 (depth,): the iteration that each loop has reached, where to go on; at[0] < 0 when all is done.
    addresses, sizes, kinds
        int64, int32, uint8: where the accesses go; they hold at least TOTAL + 2 of the innermost loop
        times the accesses, so that one round of it always fits.
    """
    depth, written = loops.shape[0], 0
    deepest = depth - 1
    most = loops[deepest, TOTAL] + 2
    room = addresses.size - most * accesses.shape[0]
    while at[0] >= 0 and written <= room:
        opened = deepest  # loops that have just begun: their accesses before the inner loop are due
        while opened > 0 and at[opened] == 0:
            opened -= 1
        for level in range(opened, deepest):
            written = _emit(accesses, at, level + 1, 0, addresses, sizes, kinds, written)
        written = _emit_innermost(accesses, at, _extent(loops, at, deepest), addresses, sizes, kinds, written)
        level = deepest - 1
        while level >= 0:
            written = _emit(accesses, at, level + 1, 1, addresses, sizes, kinds, written)
            at[level] += 1
            if at[level] < _extent(loops, at, level):
                break
            at[level] = 0
            level -= 1
        if level < 0:
            at[0] = -1
    return written


@kernel
def _extent(loops: Any, at: Any, level: int) -> int:
    """Iterations of a loop, where those around it stand."""
    around = loops[level, OUTER]
    if around >= 0:
        return int(min(loops[level, STEP], loops[level, TOTAL] - at[around] * loops[level, STEP]))
    return int((loops[level, TOTAL] + loops[level, STEP] - 1) // loops[level, STEP])


@kernel
def _emit(
    accesses: Any,
    at: Any,
    depth: int,
    after: int,
    addresses: Any,
    sizes: Any,
    kinds: Any,
    written: int,
) -> int:
    """Write the accesses that stand inside `depth` loops, before or after the loop beside them."""
    for access in range(accesses.shape[0]):
        if accesses[access, DEPTH] == depth and accesses[access, AFTER] == after:
            address = accesses[access, BASE]
            for level in range(depth):
                address += accesses[access, STRIDES + level] * at[level]
            addresses[written] = address
            sizes[written] = accesses[access, SIZE]
            kinds[written] = accesses[access, KIND]
            written += 1
    return written


@kernel
def _emit_innermost(
    accesses: Any, at: Any, extent: int, addresses: Any, sizes: Any, kinds: Any, written: int
) -> int:
    """Write the accesses of all iterations of the innermost loop."""
    depth = at.size
    together = 0
    for access in range(accesses.shape[0]):
        together += accesses[access, DEPTH] == depth
    order = 0
    for access in range(accesses.shape[0]):
        if accesses[access, DEPTH] != depth:
            continue
        address = accesses[access, BASE]
        for level in range(depth - 1):
            address += accesses[access, STRIDES + level] * at[level]
        step = accesses[access, STRIDES + depth - 1]
        for place in range(written + order, written + order + extent * together, together):
            addresses[place] = address
            sizes[place] = accesses[access, SIZE]
            kinds[place] = accesses[access, KIND]
            address += step
        order += 1
    return written + extent * together
