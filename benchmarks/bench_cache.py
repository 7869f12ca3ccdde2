"""Accesses per second through the caches of one core, prefetcher off and on."""

from __future__ import annotations

from typing import Any

import pytest

from systolic.blocks.cache import CacheHierarchy
from systolic.blocks.nest import LoopNest, Matrices, blocked, naive, reordered
from systolic.chips.caches import Cache

from .conftest import Promise

PROMISED = 50e6
SIDE = 200
MATRICES = Matrices.row_major(SIDE, SIDE, SIDE, 4)
NESTS = {"naive": naive(MATRICES), "reordered": reordered(MATRICES), "blocked": blocked(MATRICES, 64, 64, 64)}


def cache(size: int, ways: int) -> Cache:
    """A level as the catalogue's chips have it."""
    return Cache(bytes=size, ways=ways, line_bytes=64, bytes_per_cycle=None, latency_cycles=0)


@pytest.mark.parametrize("name", NESTS)
def test_cache(benchmark: Any, promise: Promise, name: str) -> None:
    """Three levels, fed with the addresses of a matmul that are made on the way."""
    nest: LoopNest = NESTS[name]

    def run() -> CacheHierarchy:
        caches = CacheHierarchy([cache(1 << 15, 8), cache(1 << 20, 16), cache(1 << 25, 16)])
        for chunk in nest.chunks():
            caches.access(*chunk)
        return caches

    counts = benchmark.pedantic(run, warmup_rounds=1, rounds=5).counts
    rate = (counts.reads + counts.writes) / benchmark.stats.stats.min
    promise(f"caches, {name}", rate, "accesses/s", at_least=PROMISED)
