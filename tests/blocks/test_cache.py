"""Caches of more than two levels: laws, known cases, and wrong input."""

from __future__ import annotations

import numpy as np
import pytest

from systolic.blocks.cache import CacheCounts, CacheHierarchy
from systolic.blocks.nest import LoopNest, Matrices, blocked, naive, reordered
from systolic.chips.caches import Cache
from systolic.errors import SystolicError


def cache(size: int, ways: int, line: int = 64) -> Cache:
    return Cache(bytes=size, ways=ways, line_bytes=line, bytes_per_cycle=None, latency_cycles=0)


def counts_of(nest: LoopNest, *levels: Cache, **options: object) -> CacheCounts:
    caches = CacheHierarchy(levels, **options)  # type: ignore[arg-type]
    for chunk in nest.chunks():
        caches.access(*chunk)
    return caches.counts


def walk(count: int, stride: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    addresses = np.arange(count, dtype=np.int64) * stride
    return addresses, np.full(count, 4, np.int32), np.ones(count, np.uint8)


def test_a_large_cache_misses_each_line_once() -> None:
    where = Matrices.row_major(48, 48, 48, 4)
    lines = 3 * 48 * 48 * 4 // 64
    for nest in (naive(where), reordered(where), blocked(where, 16, 16, 16)):
        counts = counts_of(nest, cache(1 << 20, 16))
        assert counts.read_misses[0] + counts.write_misses[0] == lines
        assert counts.bytes_read == (lines * 64,)


def test_columns_a_power_of_two_apart_fall_into_one_set() -> None:
    """64 rows of 4 KiB: a column is 64 lines of one set, more than 8 ways hold; 64 bytes on, it fits."""
    for ld, missed in ((4096, 64 * 16), (4160, 64)):
        caches = CacheHierarchy([cache(1 << 15, 8)])
        for column in range(16):
            addresses, sizes, kinds = walk(64, ld)
            caches.access(addresses + 4 * column, sizes, kinds)
        assert caches.counts.read_misses == (missed,)


@pytest.mark.parametrize("make", [naive, reordered])
def test_more_ways_never_miss_more(make: object) -> None:
    """True LRU holds whatever fewer ways of the same sets held (Mattson et al., IBM Syst. J. 9, 1970)."""
    nest = make(Matrices.row_major(30, 40, 50, 4))  # type: ignore[operator]
    misses = [counts_of(nest, cache(64 * 8 * ways, ways)).read_misses[0] for ways in (1, 2, 3, 4, 8, 16)]
    assert misses == sorted(misses, reverse=True)


def test_the_prefetcher_hides_a_walk_through_memory() -> None:
    levels = [cache(1 << 12, 4), cache(1 << 15, 8), cache(1 << 18, 16)]
    last, brought = {}, {}
    for prefetch in ("none", "next-line", "stream"):
        caches = CacheHierarchy(levels, prefetch=prefetch)  # type: ignore[arg-type]
        caches.access(*walk(1 << 14, 16))
        last[prefetch], brought[prefetch] = caches.counts.read_misses[-1], caches.counts.bytes_read[-1]
    lines, pages = (1 << 14) * 16 // 64, (1 << 14) * 16 // 4096
    # A stream is trusted after the first three lines of each page.
    assert last == {"none": lines, "next-line": lines // 2, "stream": 3 * pages}
    assert set(brought.values()) == {lines * 64}


def test_what_was_written_goes_back_once() -> None:
    addresses, sizes, kinds = walk(1024, 64)
    for inclusive in (False, True):
        caches = CacheHierarchy([cache(1 << 12, 4), cache(1 << 13, 8)], inclusive=inclusive)
        caches.access(addresses, sizes, kinds + 1)
        lines_of_l2 = (1 << 13) // 64  # the last ones written are still in L2, or dirty above it
        assert caches.counts.bytes_written[-1] == (1024 - lines_of_l2) * 64


def test_wrong_levels_are_named() -> None:
    with pytest.raises(SystolicError) as found:
        CacheHierarchy([cache(1 << 12, 4), cache(5000, 4), cache(1 << 12, 4, 32)], prefetch="all")  # type: ignore[arg-type]
    assert found.value.problems == (
        "prefetch must be one of none, next-line, stream, got 'all'",
        "data[1].bytes must be a multiple of line_bytes * ways (256), got 5000",
        "data[2].line_bytes must be that of data[0] (64), got 32",
    )
    with pytest.raises(SystolicError, match="give the hierarchy an instruction cache"):
        addresses, sizes, kinds = walk(2, 4)
        CacheHierarchy([cache(1 << 12, 4)]).access(addresses, sizes, kinds * 0)
