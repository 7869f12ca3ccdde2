"""Set-associative caches with true LRU, access by access, over plain arrays.

A level is one row of `shape`: its sets, their number less one where it is a power of two (else -1), its ways,
and the index in `words` of its first line. The lines of a set stand in `words` from the one used last to the
one used longest ago; a word is twice the line's number, plus one where the line is dirty, and -1 where
nothing is held. The data levels come first, toward memory; a last row may be the instruction cache.
"""

from __future__ import annotations

from typing import Any

from .compile import kernel

FETCH, READ, WRITE, MODIFY = range(4)
"""Kinds of access. A modify counts as a read, as cachegrind counts it, and leaves its line dirty."""
SETS, MASK, WAYS, FIRST = range(4)
FILLS, PREFETCHED, WRITTEN_BACK = 3, 4, 5
"""Columns of `counts` behind the misses of fetches, reads and writes."""
NO_PREFETCH, NEXT_LINE, STREAM = range(3)
STREAMS, PAGE_BYTES, AHEAD, CONFIDENT = 16, 4096, 4, 2
"""The stream prefetcher: pages it follows, their size, lines it runs ahead, steps before it trusts one."""
PAGE, LAST, STEP, TRUST, USED = range(5)
STREAM_FIELDS = 5


@kernel
def run_trace(
    addresses: Any,
    sizes: Any,
    kinds: Any,
    shape: Any,
    words: Any,
    refs: Any,
    counts: Any,
    streams: Any,
    line_shift: int,
    levels: int,
    inclusive: bool,
    prefetch: int,
) -> None:
    """Send accesses through the caches; contents and counts go on from where they stand.

    Parameters
    ----------
    addresses, sizes, kinds
        int64, int32 (bytes, > 0) and uint8 of equal length, in program order. An access of more than one line
        is taken as one line long; one that straddles two lines looks up both at every level that it reaches,
        misses at most once, and goes on whole where either line missed.
    shape, words
        See the module.
    refs
        int64 (3,): fetches, reads, writes.
    counts
        int64, a row per row of `shape`: misses of fetches, reads and writes, lines filled on demand and by
        the prefetcher, dirty lines written to the next level.
    streams
        int64 (STREAMS, STREAM_FIELDS): what the stream prefetcher remembers; zeros at first.
    line_shift, levels, inclusive, prefetch
        log2 of the bytes of a line; data levels; whether what leaves a lower level leaves the upper ones;
        NO_PREFETCH, NEXT_LINE or STREAM.
    """
    line_bytes = 1 << line_shift
    mask, ways, first_word = shape[0, MASK], shape[0, WAYS], shape[0, FIRST]
    for i in range(addresses.size):
        address, kind = addresses[i], kinds[i]
        size = min(sizes[i], line_bytes)
        line, last = address >> line_shift, (address + size - 1) >> line_shift
        column = 1 if kind == MODIFY else kind
        refs[column] += 1
        dirty = 1 if kind >= WRITE else 0
        if line == last and kind != FETCH and mask >= 0:
            front = first_word + (line & mask) * ways
            if words[front] >> 1 == line:  # most accesses: the line of the set that was used last
                words[front] |= dirty
                continue
        row = levels if kind == FETCH else 0
        level = row
        while True:
            missed = _look_up(line, dirty, level, shape, words, counts, levels, inclusive, FILLS)
            if last != line:
                missed |= _look_up(last, dirty, level, shape, words, counts, levels, inclusive, FILLS)
            if not missed:
                break
            counts[level, column] += 1
            level = 1 if level == row else level + 1
            dirty = 0
            if level >= levels:
                break
        if prefetch != NO_PREFETCH and kind != FETCH and level > 0:
            _prefetch(last, shape, words, counts, streams, line_shift, levels, inclusive, prefetch)


@kernel
def _look_up(
    line: int,
    dirty: int,
    level: int,
    shape: Any,
    words: Any,
    counts: Any,
    levels: int,
    inclusive: bool,
    reason: int,
) -> bool:
    """Make `line` the one used last of its set; return whether it had to be brought in, for `reason`."""
    ways, front = shape[level, WAYS], _first_of(line, level, shape)
    moved = words[front]
    if moved >> 1 == line:
        words[front] = moved | dirty
        return False
    for w in range(front + 1, front + ways):
        word = words[w]
        words[w] = moved
        moved = word
        if word >> 1 == line:
            words[front] = word | dirty
            return False
    words[front] = (line << 1) | dirty
    counts[level, reason] += 1
    if moved >= 0:
        _evict(moved, level, shape, words, counts, levels, inclusive)
    return True


@kernel
def _evict(
    victim: int, level: int, shape: Any, words: Any, counts: Any, levels: int, inclusive: bool
) -> None:
    """Send a dirty line on to the next level that holds it, else to memory; that is no use of it there."""
    line, dirty = victim >> 1, victim & 1
    if inclusive and 0 < level < levels:
        for upper in range(shape.shape[0]):
            if upper < level or upper == levels:
                dirty |= _drop(line, upper, shape, words)
    if dirty == 0:
        return
    counts[level, WRITTEN_BACK] += 1
    for below in range(level + 1, levels):
        ways, front = shape[below, WAYS], _first_of(line, below, shape)
        for w in range(front, front + ways):
            if words[w] >> 1 == line:
                words[w] |= 1
                return
        counts[below, WRITTEN_BACK] += 1


@kernel
def _drop(line: int, level: int, shape: Any, words: Any) -> int:
    """Take `line` out of a level that may hold it; return 1 where it was dirty."""
    ways, front = shape[level, WAYS], _first_of(line, level, shape)
    for w in range(front, front + ways):
        if words[w] >> 1 == line:
            dirty = words[w] & 1
            for later in range(w, front + ways - 1):
                words[later] = words[later + 1]
            words[front + ways - 1] = -1
            return int(dirty)
    return 0


@kernel
def _first_of(line: int, level: int, shape: Any) -> int:
    """Index of the first word of the set of `line`."""
    mask = shape[level, MASK]
    which = line & mask if mask >= 0 else line % shape[level, SETS]
    return int(shape[level, FIRST] + which * shape[level, WAYS])


@kernel
def _prefetch(
    line: int,
    shape: Any,
    words: Any,
    counts: Any,
    streams: Any,
    line_shift: int,
    levels: int,
    inclusive: bool,
    prefetch: int,
) -> None:
    """What follows a miss in L1: the next line into every level, or the lines ahead of a stream below L1."""
    per_page = PAGE_BYTES >> line_shift
    if prefetch == NEXT_LINE:
        if (line + 1) // per_page == line // per_page:
            _bring(line + 1, 0, shape, words, counts, levels, inclusive)
        return
    step = _step_of_stream(line, line // per_page, streams)
    if step != 0:
        for ahead in range(1, AHEAD + 1):
            wanted = line + step * ahead
            if wanted // per_page == line // per_page:
                _bring(wanted, min(1, levels - 1), shape, words, counts, levels, inclusive)


@kernel
def _bring(line: int, level: int, shape: Any, words: Any, counts: Any, levels: int, inclusive: bool) -> None:
    """Prefetch `line` into `level` and whatever lies below it as far as it is not held."""
    while level < levels and _look_up(line, 0, level, shape, words, counts, levels, inclusive, PREFETCHED):
        level += 1


@kernel
def _step_of_stream(line: int, page: int, streams: Any) -> int:
    """Note a miss; return +1 or -1 once the misses of its page have moved that way often enough, else 0."""
    oldest, newest, found = 0, 0, -1
    for s in range(streams.shape[0]):
        newest = max(newest, streams[s, USED])
        if streams[s, USED] < streams[oldest, USED]:
            oldest = s
        if streams[s, USED] > 0 and streams[s, PAGE] == page:
            found = s
    if found < 0:
        streams[oldest, PAGE], streams[oldest, LAST] = page, line
        streams[oldest, STEP], streams[oldest, TRUST], streams[oldest, USED] = 0, 0, newest + 1
        return 0
    moved = line - streams[found, LAST]
    step = 1 if moved > 0 else -1 if moved < 0 else 0
    streams[found, USED] = newest + 1
    if step != 0:
        streams[found, TRUST] = streams[found, TRUST] + 1 if step == streams[found, STEP] else 1
        streams[found, LAST], streams[found, STEP] = line, step
    return int(step) if step != 0 and streams[found, TRUST] >= CONFIDENT else 0
