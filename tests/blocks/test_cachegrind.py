"""Our caches against ``valgrind --tool=cachegrind`` on the same programs, all nine counters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from systolic.blocks.cache import CacheHierarchy
from systolic.blocks.lackey import read_lackey
from systolic.chips.caches import Cache
from tests.blocks.programs import cachegrind, compiled, lackey

pytestmark = [pytest.mark.tool("valgrind"), pytest.mark.tool("gcc")]

PROGRAMS = [
    ("naive", {}),
    ("reordered", {}),
    ("columns", {}),
    ("transposed", {"N": 20, "LD": 23}),
    ("blocked", {"N": 26}),
    ("naive", {"N": 20, "LD": 64}),
    ("stencil", {"N": 70}),
    ("chase", {}),
    ("copy", {}),
    ("strided", {}),
    ("straddling", {}),
    ("scattered", {}),
]
"""Each with leading dimensions that are odd, and a power of two whose columns fall into one set."""

GEOMETRIES = [
    {"I1": (32768, 8, 64), "D1": (32768, 8, 64), "LL": (1 << 20, 16, 64)},
    {"I1": (128, 1, 64), "D1": (1024, 2, 64), "LL": (4096, 4, 64)},
    {"I1": (96, 3, 32), "D1": (512, 4, 32), "LL": (8192, 1, 32)},
]
"""Bytes, ways, bytes of a line: one as chips have it, and two so small that everything gets in the way."""


def simulated(program: Path, geometry: dict[str, tuple[int, int, int]]) -> dict[str, int]:
    i1, d1, ll = (
        Cache(
            bytes=size, ways=ways, line_bytes=line, sector_bytes=line, bytes_per_cycle=None, latency_cycles=0
        )
        for size, ways, line in geometry.values()
    )
    caches = CacheHierarchy([d1, ll], i1)
    with lackey(program) as stream:
        for addresses, sizes, kinds in read_lackey(stream):
            caches.access(addresses, sizes, kinds)
    counts = caches.counts
    found = (
        *(counts.fetches, *counts.fetch_misses),
        *(counts.reads, *counts.read_misses),
        *(counts.writes, *counts.write_misses),
    )
    events = ("Ir", "I1mr", "ILmr", "Dr", "D1mr", "DLmr", "Dw", "D1mw", "DLmw")
    return dict(zip(events, found, strict=True))


@pytest.mark.parametrize(("name", "macros"), PROGRAMS)
def test_all_nine_counters_equal_cachegrinds(name: str, macros: dict[str, int], tmp_path: Path) -> None:
    program = compiled(tmp_path, name, **macros)
    for geometry in GEOMETRIES:
        assert simulated(program, geometry) == cachegrind(program, tmp_path, **geometry)


def test_a_trace_reads_the_same_in_pieces_of_any_size(tmp_path: Path) -> None:
    with lackey(compiled(tmp_path, "naive", N=4)) as stream:
        text = stream.read()
    trace = tmp_path / "trace"
    trace.write_bytes(text)
    wanted = [line.split() for line in text.decode().splitlines() if line[2:3] == " " and line[0] in " I"]
    for chunk_bytes in (300, 1 << 20):
        with trace.open("rb") as stream:
            pieces = [tuple(array.copy() for array in piece) for piece in read_lackey(stream, chunk_bytes)]
        addresses, sizes, kinds = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
        found = [
            ["ILSM"[kind], address, size] for address, size, kind in zip(addresses, sizes, kinds, strict=True)
        ]
        assert found == [
            [kind, int(place.split(",")[0], 16), int(place.split(",")[1])] for kind, place in wanted
        ]
