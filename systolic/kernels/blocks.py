"""Blocks through one memory port and one array: the compiled twin of :mod:`systolic.blocks.pipeline`.

A nest has four loops (batch, then the plan's three), and a block depends on each index only through whether
it is the first, the last, or neither; its stage is computed once for each of these kinds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compile import kernel

LOAD, SKEW, SHIFT_OUT, SERIAL, ROWS, COLS, HOP, LANES, PASSES, BUFFERS = range(10)
ON_ROWS, ON_COLS, STREAM, OUTPUT_STATIONARY, PORT_NUM, PORT_DEN, MXUS = range(10, 17)
ONCHIP, ACC, BLOCK_TILES = range(17, 20)
UNIT = 20
"""Columns of `unit`: constants of the array, which dimension (m, n, k: 0, 1, 2) lies on its rows, on its
columns and streams, its port to the on-chip memory, and the limits of a block: FOREVER where the on-chip
memory sets none, -1 where the others do not."""

PLACED, NUM, DEN, LATENCY, BURST, BITS, TRANSPOSED, IN_DRAM = range(8)
"""Columns of `operands`, whose rows are lhs, rhs, out, psum: see :class:`systolic.mapping.plan.Operand`."""
LHS, RHS, OUT, PSUM = range(4)

M, N, K, BATCH = range(4)
"""Entries of `shape`; the first three those of `tile`, and what `order` holds."""

PORT, START, END, CLEAR, BEFORE, READY, PENDING = range(7)
"""Entries of `state`: see :class:`systolic.blocks.pipeline.State`."""
_PRELOAD, _COMPUTE, _WAIT, _ONCHIP, _STALL, LATE, _SERIAL_TILES, _PORT_BLOCKS, _BANK = range(9)
"""Entries of `counts`, as in the twin."""
TALLIES = 9
_FIRST, _SECOND, _THIRD, _LATE_1, _LATE_2, _LATE_3, _STORE, _TILES, _STREAMED, _FEED, _JOINS, _KNOWN = range(
    12
)
STAGE = 12
"""Entries of a stage, -1 where nothing is loaded."""
KINDS = 256
"""Two bits for each of four loops: the first iteration, the last one."""
SEEN = 24
"""Views of the state that a loop remembers; one that repeats itself later is run on."""
FOREVER = 2**62


@kernel(inline="always", error_model="numpy")
def up(a: Any, b: Any) -> Any:
    """a / b, rounded up; a >= 0, b > 0."""
    return (a + b - 1) // b


@kernel(error_model="numpy")
def moved_bytes(operands: Any, name: Any, rows: Any, cols: Any, full_rows: Any, full_cols: Any) -> Any:
    """Twin of ``Operand.moved_bytes``."""
    if operands[name, TRANSPOSED]:
        rows, cols, full_cols = cols, rows, full_rows
    burst, bits = operands[name, BURST], operands[name, BITS]
    if cols == full_cols:
        size = (rows * cols * bits + 7) // 8
        return size if burst == 1 else up(size, burst) * burst
    line = (cols * bits + 7) // 8
    return rows * (line if burst == 1 else up(line, burst) * burst)


@kernel(error_model="numpy")
def moved_cycles(operands: Any, name: Any, num_bytes: Any) -> Any:
    """Cycles of the port for so many bytes; 0 where nothing has to move."""
    if not operands[name, PLACED]:
        return 0
    return up(num_bytes * operands[name, NUM], operands[name, DEN])


@kernel(error_model="numpy")
def block_cycles(operands: Any, name: Any, shape: Any, rows: Any, cols: Any) -> Any:
    """Port cycles of a (rows, cols) block of an operand."""
    full_rows = shape[K] if name == RHS else shape[M]
    full_cols = shape[K] if name == LHS else shape[N]
    return moved_cycles(operands, name, moved_bytes(operands, name, rows, cols, full_rows, full_cols))


@kernel(error_model="numpy")
def array_work(unit: Any, operands: Any, across: Any, along: Any, m: Any, n: Any, k: Any) -> Any:
    """Twin of :func:`systolic.mapping.plan.array_work`: (tiles, cycles streamed, cycles of the port)."""
    on_rows, on_cols, stream = unit[ON_ROWS], unit[ON_COLS], unit[STREAM]
    rows = m if on_rows == M else (n if on_rows == N else k)
    cols = m if on_cols == M else (n if on_cols == N else k)
    length = m if stream == M else (n if stream == N else k)
    row_tiles = up(rows, unit[ROWS])
    col_tiles = up(up(cols, unit[COLS]), across)
    # The lhs of an input-stationary array stays in it, and the rhs streams; else it is the other way round.
    swapped = on_cols == M
    left = operands[RHS, BITS] if swapped else operands[LHS, BITS]
    top = operands[LHS, BITS] if swapped else operands[RHS, BITS]
    if unit[OUTPUT_STATIONARY]:
        row_tiles = up(row_tiles, along)
        streamed_rows = unit[PASSES] * length
        bits = streamed_rows * (unit[ROWS] * left + unit[COLS] * top)
    else:
        row_tiles = unit[PASSES] * row_tiles
        streamed_rows = up(length, along)
        bits = streamed_rows * unit[ROWS] * left + unit[ROWS] * unit[COLS] * top
    streamed = unit[HOP] * up(streamed_rows, unit[LANES])
    fed = across * along * ((bits + 7) // 8)
    return row_tiles * col_tiles, streamed, up(fed * unit[PORT_NUM], unit[PORT_DEN])


@kernel(error_model="numpy")
def gap(unit: Any, fed: Any, next_fed: Any) -> Any:
    """Twin of ``Timing.gap``."""
    return max(0, unit[LOAD] - fed, unit[SHIFT_OUT] - next_fed)


@kernel(error_model="numpy")
def stage_of(
    unit: Any, operands: Any, shape: Any, tile: Any, order: Any, way: Any, kind: Any, stage: Any
) -> None:
    """Fill the stage of the blocks of one kind: twin of ``schedule.block_at`` and ``stage_of``."""
    size = np.empty(3, np.int64)
    for d in range(3):
        blocks = up(shape[d], tile[d])
        size[d] = min(tile[d], shape[d])
        for level in range(3):
            if order[level] == d and kind >> (2 * (level + 1)) & 2:
                size[d] = shape[d] - (blocks - 1) * tile[d]
    k_first = k_last = False
    for level in range(3):
        if order[level] == K:
            k_first = (kind >> (2 * (level + 1)) & 1) != 0
            k_last = (kind >> (2 * (level + 1)) & 2) != 0
    entered, left = _changed(shape, tile, order, kind, 1), _changed(shape, tile, order, kind, 2)
    swapped = unit[ON_COLS] == M
    stage[:] = 0
    for slot in range(2):
        name = LHS if (slot == 0) == swapped else RHS
        own = (1 << M | 1 << K) if name == LHS else (1 << K | 1 << N)
        stage[_FIRST + slot] = -1
        if entered & (own | 1 << BATCH) and operands[name, PLACED]:
            rows = size[M] if name == LHS else size[K]
            cols = size[K] if name == LHS else size[N]
            stage[_FIRST + slot] = block_cycles(operands, name, shape, rows, cols)
            stage[_LATE_1 + slot] = operands[name, LATENCY]
    result = 1 << M | 1 << N | 1 << BATCH
    stage[_THIRD] = -1
    if entered & result and not k_first and operands[PSUM, PLACED]:
        stage[_THIRD] = block_cycles(operands, PSUM, shape, size[M], size[N])
        stage[_LATE_3] = operands[PSUM, LATENCY]
    if left & result:
        name = OUT if k_last else PSUM
        if operands[name, PLACED]:
            stage[_STORE] = block_cycles(operands, name, shape, size[M], size[N])
    tiles, streamed, port = array_work(unit, operands, way[0], way[1], size[M], size[N], size[K])
    stage[_TILES], stage[_STREAMED], stage[_FEED] = tiles, streamed, port
    stage[_JOINS] = 1 if unit[OUTPUT_STATIONARY] and not k_first else 0
    stage[_KNOWN] = 1


@kernel(error_model="numpy")
def _changed(shape: Any, tile: Any, order: Any, kind: Any, end: Any) -> Any:
    """Twin of ``schedule._changed``, as bits: `end` 1 asks about the block before, 2 about the one after."""
    changed = 0
    for level in range(2, -1, -1):
        dim = order[level]
        if up(shape[dim], tile[dim]) > 1:
            changed |= 1 << dim
        if not kind >> (2 * (level + 1)) & end:
            return changed
    return changed | 1 << BATCH


@kernel(error_model="numpy")
def run_nest(
    unit: Any,
    operands: Any,
    shape: Any,
    tile: Any,
    order: Any,
    way: Any,
    limit: Any,
    state: Any,
    counts: Any,
    stages: Any,
    seen: Any,
) -> Any:
    """Cycles of a plan; -1 once the unit has waited for memory longer than `limit`.

    Parameters
    ----------
    unit, operands, shape, tile, order, way
        int64: the array and its memories, the problem, and the plan.
    limit
        Cycles.
    state, counts
        int64 (7,), (9,): where the schedule ends, and what its cycles were, as the twin has them.
    stages, seen
        int64 (KINDS, STAGE), (4, SEEN, 7 + 2 + TALLIES): room to work in.
    """
    state[:] = 0
    state[START] = -1
    counts[:] = 0
    stages[:, _KNOWN] = 0
    loops = np.empty(4, np.int64)
    loops[0] = shape[BATCH]
    for level in range(3):
        loops[level + 1] = up(shape[order[level]], tile[order[level]])
    if not _run_loops(loops, unit, operands, shape, tile, order, way, limit, state, counts, stages, seen):
        return -1
    drained = state[END]
    if not unit[SERIAL]:
        drained += unit[SKEW] + unit[SHIFT_OUT]
    array_end = drained if unit[SERIAL] else max(drained, state[CLEAR])
    total = array_end
    if state[PENDING]:
        total = max(total, max(state[PORT], state[READY]) + state[PENDING])
    return total if counts[LATE] + total - array_end <= limit else -1


_ENTERED, _INSIDE, _LEAVING = range(3)


@kernel(error_model="numpy")
def _run_loops(
    loops: Any,
    unit: Any,
    operands: Any,
    shape: Any,
    tile: Any,
    order: Any,
    way: Any,
    limit: Any,
    state: Any,
    counts: Any,
    stages: Any,
    seen: Any,
) -> Any:
    """Run all loops: twin of ``pipeline._sweep``; False where the limit is passed.

    A machine with a state for each loop, since Numba cannot keep a function that calls itself on disk.
    """
    phase, kinds = np.zeros(5, np.int64), np.zeros(5, np.int64)
    done, held, skipped = np.zeros(4, np.int64), np.zeros(4, np.int64), np.zeros(4, np.bool_)
    view = np.empty(7, np.int64)
    depth = 0
    while depth >= 0:
        kind = kinds[depth]
        if depth == 4:
            if not stages[kind, _KNOWN]:
                stage_of(unit, operands, shape, tile, order, way, kind, stages[kind])
            _advance(unit, stages[kind], state, counts)
            if counts[LATE] > limit:
                return False
            depth -= 1
            continue
        count, shift = loops[depth], 2 * depth
        if phase[depth] == _ENTERED:
            phase[depth] = _LEAVING if count == 1 else _INSIDE
            done[depth] = held[depth] = 0
            skipped[depth] = False
            within = kind | (3 if count == 1 else 1) << shift
        elif phase[depth] == _LEAVING:
            depth -= 1
            continue
        elif done[depth] == count - 2:
            phase[depth] = _LEAVING
            within = kind | 2 << shift
        else:
            if not skipped[depth]:
                _relative(state, view)
                at = _find(seen, depth, min(held[depth], SEEN), view)
                if at >= 0:
                    period = done[depth] - seen[depth, at, 7]
                    rounds = (count - 2 - done[depth]) // period
                    _repeat(state, counts, seen, depth, at, rounds)
                    done[depth] += rounds * period
                    skipped[depth] = True
                    continue
                slot = held[depth] % SEEN
                held[depth] += 1
                for i in range(7):
                    seen[depth, slot, i] = view[i]
                seen[depth, slot, 7], seen[depth, slot, 8] = done[depth], state[END]
                for i in range(TALLIES):
                    seen[depth, slot, 9 + i] = counts[i]
            done[depth] += 1
            within = kind
        depth += 1
        kinds[depth] = within
        phase[depth] = _ENTERED
    return True


@kernel(error_model="numpy")
def _relative(state: Any, view: Any) -> None:
    """Twin of ``State.relative``."""
    now = state[END]
    view[PORT] = max(state[PORT], state[BEFORE]) - now
    view[START] = state[START] - now
    view[END] = 0
    view[CLEAR] = max(0, state[CLEAR] - now)
    view[BEFORE] = state[BEFORE] - now
    view[READY] = state[READY] - now if state[PENDING] else 0
    view[PENDING] = state[PENDING]


@kernel(error_model="numpy")
def _find(seen: Any, depth: Any, held: Any, view: Any) -> Any:
    for at in range(held):
        same = True
        for i in range(7):
            if seen[depth, at, i] != view[i]:
                same = False
                break
        if same:
            return at
    return -1


@kernel(error_model="numpy")
def _repeat(state: Any, counts: Any, seen: Any, depth: Any, at: Any, rounds: Any) -> None:
    """Skip `rounds` repetitions of what has happened since the view at `at`."""
    port_stands = counts[_PORT_BLOCKS] == seen[depth, at, 9 + _PORT_BLOCKS]
    for cause in range(TALLIES):
        counts[cause] += rounds * (counts[cause] - seen[depth, at, 9 + cause])
    later, port = rounds * (state[END] - seen[depth, at, 8]), state[PORT]
    for i in range(PENDING):
        state[i] += later
    if port_stands:
        state[PORT] = port


@kernel(error_model="numpy")
def _advance(unit: Any, stage: Any, state: Any, counts: Any) -> None:
    """Run one block: twin of ``pipeline._advance``."""
    loads = stage[_FIRST] >= 0 or stage[_SECOND] >= 0 or stage[_THIRD] >= 0
    if state[PENDING] > 0 or loads:
        counts[_PORT_BLOCKS] += 1
    arrive_first = arrive_rest = np.int64(0)
    port, double = state[PORT], unit[BUFFERS] > 1
    if not double and state[PENDING]:
        port = max(state[READY], port) + state[PENDING]
    free = max(port, state[BEFORE] if double else state[END])
    if stage[_FIRST] >= 0:
        port = free = free + stage[_FIRST]
        arrive_first = port + stage[_LATE_1]
    if stage[_SECOND] >= 0:
        port = free = free + stage[_SECOND]
        arrive_rest = port + stage[_LATE_2]
    if stage[_THIRD] >= 0:
        port = free = free + stage[_THIRD]
        arrive_rest = max(arrive_rest, port + stage[_LATE_3])
    if double and state[PENDING]:
        port = max(state[READY], port) + state[PENDING]
    ended = state[END]
    if unit[SERIAL]:
        _serial(unit, stage, arrive_first, arrive_rest, state, counts)
    else:
        _back_to_back(unit, stage, arrive_first, arrive_rest, state, counts)
    state[PORT], state[BEFORE], state[PENDING] = port, ended, stage[_STORE]


@kernel(error_model="numpy")
def _serial(unit: Any, stage: Any, arrive_first: Any, arrive_rest: Any, state: Any, counts: Any) -> None:
    """Twin of ``pipeline._one_tile_at_a_time``."""
    tiles, end = stage[_TILES], state[END]
    alone = unit[LOAD] + stage[_STREAMED] + unit[SKEW] + unit[SHIFT_OUT]
    pace = max(alone, stage[_FEED])
    begin = max(end, arrive_first, arrive_rest)
    counts[_COMPUTE] += tiles * stage[_STREAMED]
    counts[_PRELOAD] += tiles * unit[LOAD]
    counts[_SERIAL_TILES] += tiles
    counts[_ONCHIP] += tiles * (pace - alone)
    counts[_STALL] += begin - end
    counts[LATE] += begin - end
    state[START] = begin + (tiles - 1) * pace
    state[END] = state[CLEAR] = state[READY] = begin + tiles * pace


@kernel(error_model="numpy")
def _back_to_back(
    unit: Any, stage: Any, arrive_first: Any, arrive_rest: Any, state: Any, counts: Any
) -> None:
    """Twin of ``pipeline._back_to_back``."""
    tiles, streamed, end, load = stage[_TILES], stage[_STREAMED], state[END], unit[LOAD]
    fresh = state[START] < 0
    shift = max(state[START], arrive_first, 0)
    own = np.int64(0) if stage[_JOINS] else gap(unit, end - state[START], streamed)
    wait = load if fresh else own
    least = max(end + wait, state[CLEAR])
    begin = max(least, shift + load, arrive_rest)
    shifted = wait if fresh else max(wait, min(begin, shift + load) - max(end, shift))
    onchip = max(0, min(begin, state[CLEAR]) - end - shifted)
    counts[_PRELOAD if fresh else _WAIT] += shifted
    counts[_ONCHIP] += onchip
    counts[_STALL] += begin - end - shifted - onchip
    counts[LATE] += begin - least
    between = gap(unit, streamed, streamed)
    pace = max(streamed + between, stage[_FEED])
    counts[_COMPUTE] += tiles * streamed
    counts[_WAIT] += (tiles - 1) * between
    counts[_ONCHIP] += (tiles - 1) * (pace - streamed - between)
    start = begin + (tiles - 1) * pace
    state[START], state[END], state[CLEAR] = start, start + streamed, start + stage[_FEED]
    state[READY] = start + streamed + unit[SKEW] + unit[SHIFT_OUT]
