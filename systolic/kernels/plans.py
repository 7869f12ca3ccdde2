"""The mapper's search in machine code: the same bounds, the same least key as :mod:`systolic.mapping.mapper`.

Nearly all that a bound is made of depends on one side of the block, or on two; it is computed once for each
and looked up for each plan. A plan whose bound lies above a time already found is counted, and forgotten.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .blocks import (
    ACC,
    BATCH,
    BITS,
    BLOCK_TILES,
    BUFFERS,
    COLS,
    IN_DRAM,
    KINDS,
    LATENCY,
    LHS,
    LOAD,
    ON_COLS,
    ON_ROWS,
    ONCHIP,
    OUT,
    OUTPUT_STATIONARY,
    PASSES,
    PLACED,
    PSUM,
    RHS,
    ROWS,
    SEEN,
    SERIAL,
    SHIFT_OUT,
    SKEW,
    STAGE,
    STREAM,
    TALLIES,
    K,
    M,
    N,
    array_work,
    moved_bytes,
    moved_cycles,
    run_nest,
    up,
)
from .compile import kernel

ORDERS = np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]], np.int64)
"""Loop orders over m, n, k (0, 1, 2), in the order in which plans are numbered."""
BOUND, DRAM, ONCHIP_BYTES, NUMBER = range(4)
KEY = 4
"""Columns of keys: cycles (a lower bound, or exact), bytes, bytes, number of the plan."""
SPLIT, TILE_M, TILE_N, TILE_K, ORDER, WAY, FLOOR = range(7)
PLAN = 7
"""Columns of plans."""
CORES = 4
"""The column of `shares` behind those of a shape."""
GUESSES = 6
"""Plans that are timed before the others, as in the twin."""
LOWEST, HELD, CONSIDERED, LEAST_DRAM, TIMED = range(5)
"""Entries of `tally`: least bound so far, rows that may win, plans that fit, least DRAM bytes, timed ones."""

_BYTES, _CYCLES, _SHORTEST, _LONGEST, _LAST, _WHOLE, _ROOM = range(7)
"""Of an operand's blocks, by their two sides: all moved once, port cycles of kinds, bytes of the buffers."""
_SUM, _FULL, _END = range(3)
"""Array tiles along rows or columns: over all blocks, of a full block, of the last."""
_PACE, _WIDEST, _FINAL, _GAP, _BUSY, _EXTRA, _PARTS = range(7)
"""Along the stream: cycles per array tile over all blocks, and what the bounds ask of single ones."""


def _visit_table() -> Any:
    """[which of m, n, k have several blocks, order, operand]: whether blocks are brought again and again."""
    again = np.zeros((8, 6, 4), np.bool_)
    for many in range(8):
        for o, order in enumerate(ORDERS):
            for name, third in ((LHS, N), (RHS, M), (OUT, K), (PSUM, K)):
                inside = list(order)[list(order).index(third) + 1 :]
                again[many, o, name] = any(many >> dim & 1 for dim in inside)
    return again


def _fresh_table() -> Any:
    """[which have several blocks, order]: whether no earlier order visits the same blocks in the same way."""
    kept: dict[tuple[int, tuple[int, ...]], int] = {}
    fresh = np.zeros((8, 6), np.bool_)
    for many in range(8):
        for o, order in enumerate(ORDERS):
            real = tuple(int(dim) for dim in order if many >> int(dim) & 1)
            fresh[many, o] = kept.setdefault((many, real), o) == o
    return fresh


_REREAD = np.array([LHS, RHS, PSUM], np.int64)
_AGAIN, _FRESH = _visit_table(), _fresh_table()


@kernel(error_model="numpy")
def tabulate(
    unit: Any,
    operands: Any,
    shares: Any,
    sides: Any,
    lengths: Any,
    ways: Any,
    pinned: Any,
    split: Any,
    keys: Any,
    plans: Any,
    tally: Any,
    best: Any,
    chosen: Any,
) -> None:
    """Visit all plans of one core split that fit; keep those that may beat `best`, and time some.

    Parameters
    ----------
    unit, operands
        int64: see :mod:`systolic.kernels.blocks`.
    shares
        int64 (s, 5): m, n, k, batch and cores of each share, the busiest first.
    sides, lengths
        int64 (3, most), (3,): sides of blocks to consider along m, n and k, and how many there are.
    ways
        int64 (w, 2): arrays side by side, along the columns and along the stream.
    pinned
        The one order to consider; -1: all, without those that do the same as an earlier one.
    split
        Number of the core split.
    keys, plans, tally
        int64 (rows, KEY), (rows, PLAN), (5,): what is found goes there, behind that of earlier splits.
    best, chosen
        int64 (KEY,), (PLAN,): the least exact key so far, and its plan.
    """
    shape, count = shares[0], shares.shape[0]
    most, arrays = sides.shape[1], ways.shape[0]
    pairs = np.zeros((4, most, most, 7), np.int64)
    moved = np.zeros((count, 4, most, most), np.int64)
    rows, cols = np.zeros((arrays, most, 3), np.int64), np.zeros((arrays, most, 3), np.int64)
    stream = np.zeros((arrays, most, 7), np.int64)
    folds = np.zeros((count, 2, most), np.int64)
    parts = np.zeros((count, arrays, most), np.int64)
    _fill_pairs(unit, operands, shares, sides, lengths, pairs, moved)
    _fill_lines(unit, operands, shares, sides, lengths, ways, rows, cols, stream, folds, parts)
    state, counts = np.empty(7, np.int64), np.empty(TALLIES, np.int64)
    stages, seen = np.zeros((KINDS, STAGE), np.int64), np.empty((4, SEEN, 9 + TALLIES), np.int64)
    at, key, tile = np.empty(3, np.int64), np.empty(KEY, np.int64), np.empty(3, np.int64)
    works, more = np.empty(arrays, np.int64), np.empty((count, 3), np.int64)
    blocks, theirs, many = np.empty(3, np.int64), np.empty((count, 3), np.int64), np.empty(count, np.int64)
    drain = np.int64(0) if unit[SERIAL] else unit[SKEW] + unit[SHIFT_OUT]
    both = operands[LHS, PLACED] and operands[RHS, PLACED]
    late = min(operands[LHS, LATENCY], operands[RHS, LATENCY])
    on_rows, on_cols, on_stream = unit[ON_ROWS], unit[ON_COLS], unit[STREAM]
    stationary_lhs = on_cols == M
    stays, moves = (LHS, RHS) if stationary_lhs else (RHS, LHS)
    fits = np.zeros((lengths[0], lengths[1], lengths[2]), np.bool_)
    fitting = _fill_fits(unit, sides, lengths, pairs, fits)
    # Large blocks first: they are often among the best, and the fewer blocks, the sooner a plan is timed.
    for i in range(lengths[0] - 1, -1, -1):
        for j in range(lengths[1] - 1, -1, -1):
            for c in range(lengths[2] - 1, -1, -1):
                if not fits[i, j, c]:
                    continue
                fitting -= 1
                at[M], at[N], at[K] = i, j, c
                ir, ic, it = at[on_rows], at[on_cols], at[on_stream]
                for d in range(3):
                    tile[d] = sides[d, at[d]]
                for s in range(count):
                    many[s] = 0
                    for d in range(3):
                        theirs[s, d] = up(shares[s, d], tile[d])
                        if theirs[s, d] > 1:
                            many[s] |= 1 << d
                once = np.int64(0)
                for s in range(count):
                    times = shares[s, CORES] * shares[s, BATCH]
                    lhs = times * moved[s, LHS, i, c] if operands[LHS, IN_DRAM] else 0
                    rhs = times * moved[s, RHS, c, j] if operands[RHS, IN_DRAM] else 0
                    psum = 2 * times * moved[s, PSUM, i, j] if operands[PSUM, IN_DRAM] else 0
                    once += lhs + rhs + (times * moved[s, OUT, i, j] if operands[OUT, IN_DRAM] else 0)
                    more[s, 0], more[s, 1] = (theirs[s, N] - 1) * lhs, (theirs[s, M] - 1) * rhs
                    more[s, 2] = (theirs[s, K] - 1) * psum
                for d in range(3):
                    blocks[d] = theirs[0, d]
                lhs_port, rhs_port = pairs[LHS, i, c, _WHOLE], pairs[RHS, c, j, _WHOLE]
                port = lhs_port if stationary_lhs else rhs_port
                arrive = port + operands[stays, LATENCY] + (0 if unit[SERIAL] else unit[LOAD])
                if operands[moves, PLACED]:
                    arrive = max(arrive, lhs_port + rhs_port + operands[moves, LATENCY])
                ends = arrive + drain + pairs[OUT, i, j, _LAST]
                stores = shape[BATCH] * blocks[M] * blocks[N]
                store = min(pairs[OUT, i, j, _SHORTEST], pairs[PSUM, i, j, _SHORTEST])
                # Output stationary, the array holds one chain over k: see ``space.legal``.
                chained = unit[OUTPUT_STATIONARY] and blocks[K] > 1
                hopeless = True
                for w in range(arrays):
                    works[w] = shape[BATCH] * rows[w, ir, _SUM] * cols[w, ic, _SUM] * stream[w, it, _PACE]
                    works[w] -= stream[w, it, _WIDEST]
                    hopeless = hopeless and ends + works[w] > best[BOUND]
                for o in range(6):
                    if o != pinned if pinned >= 0 else not _FRESH[many[0], o]:
                        continue
                    dram = once
                    for s in range(count):
                        for name in range(3):
                            if _AGAIN[many[s], o, _REREAD[name]]:
                                dram += more[s, name]
                    allowed = arrays
                    if chained:
                        allowed = _legal_ways(rows, cols, ir, ic, tile[K] >= unit[ROWS] and ORDERS[o, 2] == K)
                    tally[CONSIDERED] += allowed
                    if allowed and dram < tally[LEAST_DRAM]:
                        tally[LEAST_DRAM] = dram
                    if hopeless or not allowed:
                        continue
                    sums = blocks[K] if _AGAIN[many[0], o, PSUM] else 1
                    moving = shape[BATCH] * (
                        (blocks[N] if _AGAIN[many[0], o, LHS] else 1) * pairs[LHS, i, c, _CYCLES]
                        + (blocks[M] if _AGAIN[many[0], o, RHS] else 1) * pairs[RHS, c, j, _CYCLES]
                        + pairs[OUT, i, j, _CYCLES]
                        + 2 * (sums - 1) * pairs[PSUM, i, j, _CYCLES]
                    )
                    if moving > best[BOUND]:
                        continue
                    spaced = blocks[K] > 1 and sums == 1
                    loads = pairs[LHS, i, c, _SHORTEST] + pairs[RHS, c, j, _SHORTEST]
                    if not spaced:
                        loads = min(pairs[LHS, i, c, _SHORTEST], pairs[RHS, c, j, _SHORTEST])
                    waits = stores - 1 if spaced else (stores * sums - 1) // 2
                    for w in range(arrays):
                        full, work = rows[w, ir, _FULL] * cols[w, ic, _FULL], works[w]
                        bound = ends + work
                        if bound > best[BOUND] or (chained and full > 1):
                            continue
                        if both:
                            if store > 0:
                                busy = full * stream[w, it, _BUSY] + stream[w, it, _EXTRA]
                                bound += waits * max(drain + store + late + loads - busy, 0)
                            final = stream[w, it, _FINAL] * (
                                rows[w, ir, _END] * cols[w, ic, _END] if unit[SERIAL] else 1
                            )
                            stored = max(pairs[OUT, i, j, _LONGEST], pairs[PSUM, i, j, _LONGEST])
                            bound = max(bound, moving - 2 * stored + final + pairs[OUT, i, j, _LAST])
                            if unit[BUFFERS] == 1:
                                bound = max(bound, moving + work - stores * blocks[K] * stream[w, it, _GAP])
                        bound = max(bound, moving)
                        if bound > best[BOUND]:
                            continue
                        amount = np.int64(0)
                        for s in range(count):
                            amount += _onchip(unit, operands, shares, folds, parts, s, w, ir, ic, it)
                        key[BOUND], key[DRAM], key[ONCHIP_BYTES] = bound, dram, amount
                        key[NUMBER] = ((split * 2**16 + w) * 6 + o) * 2**24 + fitting
                        floor = work if unit[SERIAL] else unit[LOAD] + work + drain
                        if not _before(key, best):
                            continue
                        if bound >= tally[LOWEST] // 8 * 7:
                            held = tally[HELD]
                            tally[HELD] += 1
                            keys[held] = key
                            _write(plans[held], split, tile, o, w, floor)
                            continue
                        tally[LOWEST] = bound
                        tally[TIMED] += 1
                        cycles = run_nest(
                            unit,
                            operands,
                            shape,
                            tile,
                            ORDERS[o],
                            ways[w],
                            best[BOUND] - floor,
                            state,
                            counts,
                            stages,
                            seen,
                        )
                        if cycles >= 0:
                            key[BOUND] = cycles
                            if _before(key, best):
                                best[:] = key
                                _write(chosen, split, tile, o, w, floor)


@kernel(error_model="numpy")
def race(
    units: Any,
    operands: Any,
    shapes: Any,
    ways: Any,
    keys: Any,
    plans: Any,
    tally: Any,
    best: Any,
    chosen: Any,
) -> None:
    """Time whatever may still beat `best`.

    Parameters
    ----------
    units, operands, shapes, ways
        One entry per core split: see :mod:`systolic.kernels.blocks`.
    keys, plans, tally, best, chosen
        What :func:`tabulate` left.
    """
    state, counts = np.empty(7, np.int64), np.empty(TALLIES, np.int64)
    stages, seen = np.zeros((KINDS, STAGE), np.int64), np.empty((4, SEEN, 9 + TALLIES), np.int64)
    key, tile = np.empty(KEY, np.int64), np.empty(3, np.int64)
    count = tally[HELD]
    near = np.flatnonzero(keys[:count, BOUND] * 50 <= tally[LOWEST] * 51)
    guesses = _least(keys, near)
    for at in range(guesses.size + count):
        row = guesses[at] if at < guesses.size else at - guesses.size
        if not _before(keys[row], best):
            continue
        split = plans[row, SPLIT]
        tile[:] = plans[row, TILE_M : TILE_K + 1]
        tally[TIMED] += 1
        cycles = run_nest(
            units[split],
            operands[split],
            shapes[split],
            tile,
            ORDERS[plans[row, ORDER]],
            ways[split, plans[row, WAY]],
            best[BOUND] - plans[row, FLOOR],
            state,
            counts,
            stages,
            seen,
        )
        if cycles < 0:
            continue
        key[:] = keys[row]
        key[BOUND] = cycles
        if _before(key, best):
            best[:] = key
            chosen[:] = plans[row]


@kernel(error_model="numpy")
def _legal_ways(rows: Any, cols: Any, ir: Any, ic: Any, long_enough: bool) -> Any:
    """Ways to lay the arrays in which each has one tile of a block; 0 unless its chain is long enough."""
    count = 0
    if long_enough:
        for w in range(rows.shape[0]):
            if rows[w, ir, _FULL] * cols[w, ic, _FULL] == 1:
                count += 1
    return count


@kernel(error_model="numpy")
def _write(plan: Any, split: Any, tile: Any, order: Any, way: Any, floor: Any) -> None:
    plan[SPLIT], plan[TILE_M], plan[TILE_N], plan[TILE_K] = split, tile[M], tile[N], tile[K]
    plan[ORDER], plan[WAY], plan[FLOOR] = order, way, floor


@kernel(error_model="numpy")
def _fill_pairs(
    unit: Any, operands: Any, shares: Any, sides: Any, lengths: Any, pairs: Any, moved: Any
) -> None:
    """What depends on two sides of a block: an operand's."""
    shape = shares[0]
    for name in range(4):
        by_row = K if name == RHS else M
        by_col = K if name == LHS else N
        for i in range(lengths[by_row]):
            row = sides[by_row, i]
            for j in range(lengths[by_col]):
                col = sides[by_col, j]
                for s in range(shares.shape[0]):
                    found = _kinds(operands, name, shares[s, by_row], shares[s, by_col], row, col)
                    moved[s, name, i, j] = found[0]
                    if s == 0:
                        for figure in range(6):
                            pairs[name, i, j, figure] = found[figure]
                blocks = up(shape[by_row], row) * up(shape[by_col], col) * shape[BATCH]
                if operands[name, PLACED] or name == PSUM:
                    packed = (row * col * operands[name, BITS] + 7) // 8
                    pairs[name, i, j, _ROOM] = packed * (unit[BUFFERS] if blocks > 1 else 1)


@kernel(error_model="numpy")
def _fill_fits(unit: Any, sides: Any, lengths: Any, pairs: Any, fits: Any) -> Any:
    """Twin of the limits in ``space.fitting_tiles``: which blocks fit, and how many do."""
    onchip, acc, tiles = unit[ONCHIP], unit[ACC], unit[BLOCK_TILES]
    limited = tiles >= 0 and not unit[OUTPUT_STATIONARY]
    at, count = np.empty(3, np.int64), 0
    for i in range(lengths[0]):
        for j in range(lengths[1]):
            out, psum = pairs[OUT, i, j, _ROOM], pairs[PSUM, i, j, _ROOM]
            if acc >= 0 and psum > acc:
                continue
            for c in range(lengths[2]):
                total = pairs[LHS, i, c, _ROOM] + pairs[RHS, c, j, _ROOM] + (psum if acc < 0 else out)
                at[M], at[N], at[K] = i, j, c
                if total > onchip:
                    continue
                if limited:
                    rows = up(sides[unit[ON_ROWS], at[unit[ON_ROWS]]], unit[ROWS])
                    cols = up(sides[unit[ON_COLS], at[unit[ON_COLS]]], unit[COLS])
                    if rows * cols > tiles:
                        continue
                fits[i, j, c] = True
                count += 1
    return count


@kernel(error_model="numpy")
def _fill_lines(
    unit: Any,
    operands: Any,
    shares: Any,
    sides: Any,
    lengths: Any,
    ways: Any,
    rows: Any,
    cols: Any,
    stream: Any,
    folds: Any,
    parts: Any,
) -> None:
    """What depends on one side of a block: array tiles along rows and columns, cycles along the stream."""
    shape = shares[0]
    on_rows, on_cols, on_stream = unit[ON_ROWS], unit[ON_COLS], unit[STREAM]
    for w in range(ways.shape[0]):
        across, along = ways[w]
        for i in range(lengths[on_rows]):
            for which in range(2):
                times, part = _part(shape[on_rows], sides[on_rows, i], which)
                tiles = up(part, unit[ROWS])
                tiles = up(tiles, along) if unit[OUTPUT_STATIONARY] else unit[PASSES] * tiles
                rows[w, i, _SUM] += times * tiles
                rows[w, i, _END if which else _FULL] = tiles
            if not _part(shape[on_rows], sides[on_rows, i], 1)[0]:
                rows[w, i, _END] = rows[w, i, _FULL]
        for i in range(lengths[on_cols]):
            for which in range(2):
                times, part = _part(shape[on_cols], sides[on_cols, i], which)
                tiles = up(up(part, unit[COLS]), across)
                cols[w, i, _SUM] += times * tiles
                cols[w, i, _END if which else _FULL] = tiles
        for i in range(lengths[on_stream]):
            _fill_stream(unit, operands, shape[on_stream], sides[on_stream, i], across, along, stream[w, i])
            for s in range(shares.shape[0]):
                for which in range(2):
                    times, part = _part(shares[s, on_stream], sides[on_stream, i], which)
                    if times > 0:
                        parts[s, w, i] += times * up(part, up(part, along))
    for s in range(shares.shape[0]):
        for i in range(lengths[on_rows]):
            folds[s, 0, i] = _covering(shares[s, on_rows], sides[on_rows, i], unit[ROWS])
        for i in range(lengths[on_cols]):
            folds[s, 1, i] = _covering(shares[s, on_cols], sides[on_cols, i], unit[COLS])


@kernel(error_model="numpy")
def _fill_stream(
    unit: Any, operands: Any, length: Any, side: Any, across: Any, along: Any, found: Any
) -> None:
    apart = max(unit[LOAD], unit[SHIFT_OUT])
    drain = unit[SKEW] + unit[SHIFT_OUT]
    one_chain = side >= length
    last = length - (up(length, side) - 1) * side
    for which in range(2):
        times, _ = _part(length, side, which)
        part = last if which else side
        _, streamed, port = array_work(unit, operands, across, along, part, part, part)
        if unit[SERIAL]:
            pace = max(_alone(unit, streamed), port)
        elif unit[OUTPUT_STATIONARY]:
            pace = max(max(streamed, unit[SHIFT_OUT] if one_chain else 0), port)
        else:
            pace = max(max(streamed, unit[LOAD]), port)
        found[_PACE] += times * pace
        if not unit[SERIAL]:
            found[_WIDEST] = max(found[_WIDEST], pace - streamed)
        found[_GAP] = max(found[_GAP], max(apart, port) - streamed)
        if which:
            found[_FINAL] = max(_alone(unit, streamed), port) if unit[SERIAL] else streamed + drain
        elif unit[SERIAL]:
            found[_BUSY] = max(_alone(unit, streamed), port)
        else:
            small = min(side, last)
            _, shortest, _ = array_work(unit, operands, across, along, small, small, small)
            found[_BUSY] = max(streamed, max(apart, port))
            found[_EXTRA] = max(max(apart, port) - shortest, 0)


@kernel(error_model="numpy")
def _onchip(
    unit: Any, operands: Any, shares: Any, folds: Any, parts: Any, s: Any, w: Any, ir: Any, ic: Any, it: Any
) -> Any:
    """Twin of ``traffic.onchip_bytes``, all of share `s` together."""
    across, down = unit[PASSES] * folds[s, 1, ic], unit[PASSES] * folds[s, 0, ir]
    lhs_times, rhs_times, rounds = across, down, np.int64(1)
    if not unit[OUTPUT_STATIONARY]:
        loads, rounds = unit[PASSES] * parts[s, w, it], down
        if unit[ON_COLS] == M:
            lhs_times, rhs_times = loads, across
        else:
            rhs_times = loads
    m, n, k = shares[s, M], shares[s, N], shares[s, K]
    total = (lhs_times * m * k * operands[LHS, BITS] + 7) // 8
    total += (rhs_times * k * n * operands[RHS, BITS] + 7) // 8
    total += (m * n * operands[OUT, BITS] + 7) // 8
    total += 2 * ((rounds * m * n * operands[PSUM, BITS] + 7) // 8)
    return shares[s, CORES] * shares[s, BATCH] * total


@kernel(error_model="numpy")
def _kinds(operands: Any, name: Any, full_rows: Any, full_cols: Any, row: Any, col: Any) -> Any:
    """What `pairs` holds of an operand but the room: twin of ``traffic.once`` and of what the bounds ask."""
    rows, cols = up(full_rows, row) - 1, up(full_cols, col) - 1
    last_row, last_col = full_rows - rows * row, full_cols - cols * col
    size_a = moved_bytes(operands, name, row, col, full_rows, full_cols)
    a = moved_cycles(operands, name, size_a)
    size_b, b, size_c, c, size_d, d = size_a, a, size_a, a, size_a, a
    if last_col != col:
        size_b = moved_bytes(operands, name, row, last_col, full_rows, full_cols)
        b = moved_cycles(operands, name, size_b)
        size_d, d = size_b, b
    if last_row != row:
        size_c = moved_bytes(operands, name, last_row, col, full_rows, full_cols)
        c = moved_cycles(operands, name, size_c)
        size_d, d = size_c, c
        if last_col != col:
            size_d = moved_bytes(operands, name, last_row, last_col, full_rows, full_cols)
            d = moved_cycles(operands, name, size_d)
    return (
        rows * cols * size_a + rows * size_b + cols * size_c + size_d,
        rows * cols * a + rows * b + cols * c + d,
        min(min(a, b), min(c, d)),
        max(max(a, b), max(c, d)),
        d,
        a,
    )


@kernel(inline="always", error_model="numpy")
def _alone(unit: Any, streamed: Any) -> Any:
    """Twin of ``Timing.tile``."""
    return unit[LOAD] + streamed + unit[SKEW] + unit[SHIFT_OUT]


@kernel(inline="always", error_model="numpy")
def _part(length: Any, tile: Any, which: Any) -> Any:
    """(how many, side) of the full blocks along a dimension, or of the last one where it is another."""
    count = up(length, tile)
    last = length - (count - 1) * tile
    if which:
        return (1 if last != tile else 0), last
    return (count if last == tile else count - 1), tile


@kernel(error_model="numpy")
def _covering(length: Any, tile: Any, side: Any) -> Any:
    total = np.int64(0)
    for which in range(2):
        count, part = _part(length, tile, which)
        total += count * up(part, side)
    return total


@kernel(error_model="numpy")
def _before(a: Any, b: Any) -> Any:
    """Whether key `a` comes before key `b`."""
    for i in range(KEY):
        if a[i] != b[i]:
            return bool(a[i] < b[i])
    return False


@kernel(error_model="numpy")
def _least(keys: Any, rows: Any) -> Any:
    """Up to GUESSES of `rows` that move the fewest DRAM bytes, then have the lowest bound."""
    found = np.full(GUESSES, -1, np.int64)
    held = 0
    for row in rows:
        at = held
        while at > 0 and (
            keys[row, DRAM] < keys[found[at - 1], DRAM]
            or (
                keys[row, DRAM] == keys[found[at - 1], DRAM] and keys[row, BOUND] < keys[found[at - 1], BOUND]
            )
        ):
            at -= 1
        if at == GUESSES:
            continue
        held = min(held + 1, GUESSES)
        for i in range(held - 1, at, -1):
            found[i] = found[i - 1]
        found[at] = row
    return found[:held]
