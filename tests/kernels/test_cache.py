"""The cache, trace and loop-nest kernels against their twins."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from systolic.kernels import cache, lackey, nest
from tests.kernels import plain_cache
from tests.strategies import seeds

LINE_SHIFT = 5
GEOMETRIES = st.tuples(st.integers(1, 8), st.integers(1, 4))


def shape_of(levels: list[tuple[int, int]]) -> np.ndarray:
    """Rows of (sets, mask or -1, ways, first word)."""
    rows, first = [], 0
    for sets, ways in levels:
        rows.append((sets, sets - 1 if sets & (sets - 1) == 0 else -1, ways, first))
        first += sets * ways
    return np.array(rows, np.int64)


def accesses(seed: int, span: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Walks up and down, and jumps, over `span` bytes, of every kind and of sizes beyond a line."""
    rng = np.random.default_rng(seed)
    strides = rng.choice([0, 4, 8, 32, 64, -32, 500], 400)
    addresses = np.abs(np.cumsum(strides) + rng.integers(0, 3, 400) * 1000) % span
    return addresses, rng.integers(1, 40, 400).astype(np.int32), rng.integers(0, 4, 400).astype(np.uint8)


@given(
    st.lists(GEOMETRIES, min_size=1, max_size=3),
    GEOMETRIES,
    st.booleans(),
    st.integers(0, 2),
    seeds(),
    st.sampled_from((600, 5000, 30000)),
)
def test_counts_and_contents_are_the_twins(
    data: list[tuple[int, int]],
    instructions: tuple[int, int],
    inclusive: bool,
    prefetch: int,
    seed: int,
    span: int,
) -> None:
    shape = shape_of([*data, instructions])
    *levels, fetched = plain_cache.levels_of(shape)
    twin = plain_cache.Caches(levels, fetched, 1 << LINE_SHIFT, inclusive, prefetch)
    trace = accesses(seed, span)
    for address, size, kind in zip(*(array.tolist() for array in trace), strict=True):
        twin.access(address, size, kind)

    words = np.full((shape[:, 0] * shape[:, 2]).sum(), -1, np.int64)
    refs, counts = np.zeros(3, np.int64), np.zeros((len(shape), 6), np.int64)
    streams = np.zeros((cache.STREAMS, cache.STREAM_FIELDS), np.int64)
    cache.run_trace(*trace, shape, words, refs, counts, streams, LINE_SHIFT, len(data), inclusive, prefetch)

    assert refs.tolist() == twin.refs
    assert counts.tolist() == [
        [*level.misses, level.filled, level.prefetched, level.written_back] for level in (*levels, fetched)
    ]
    for row, level in zip(shape, (*levels, fetched), strict=True):
        held = words[row[3] : row[3] + row[0] * row[2]].reshape(row[0], row[2])
        assert [[int(word) >> 1 for word in words_of if word >= 0] for words_of in held] == level.sets
        assert {int(word) >> 1 for word in held.ravel() if word >= 0 and word & 1} == level.dirty


def nests(draw: Any) -> tuple[np.ndarray, np.ndarray]:
    """Up to two plain loops, or blocks of a loop around that loop, with accesses anywhere."""
    loops = [(draw(st.integers(1, 6)), 1, -1) for _ in range(draw(st.integers(1, 2)))]
    if draw(st.booleans()):
        total, step = draw(st.integers(1, 9)), draw(st.integers(1, 4))
        loops = [(total, step, -1), *loops, (total, step, 0)]
    count = draw(st.integers(1, 4))
    rows = []
    for _ in range(count):
        body = draw(st.integers(1, len(loops)))
        late = draw(st.booleans()) and body < len(loops)
        strides = [draw(st.integers(-64, 64)) for _ in loops[:body]] + [0] * (len(loops) - body)
        rows.append((draw(st.integers(0, 1 << 40)), 8, 1, body, int(late), *strides))
    return np.array(loops, np.int64), np.array(rows, np.int64)


@given(st.composite(nests)())
def test_a_nest_touches_what_its_loops_say(made: tuple[np.ndarray, np.ndarray]) -> None:
    loops, accesses = made
    inner = int(loops[-1, 0])
    room = (inner + 2) * len(accesses)  # the least that is allowed, so that it goes on many times
    addresses, sizes, kinds = np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.uint8)
    at, found = np.zeros(len(loops), np.int64), []
    while at[0] >= 0:
        written = nest.fill(loops, accesses, at, addresses, sizes, kinds)
        arrays = (addresses[:written], sizes[:written], kinds[:written])
        found += list(zip(*(array.tolist() for array in arrays), strict=True))
    assert found == list(plain_cache.nest(loops, accesses))


@given(
    st.lists(
        st.one_of(
            st.tuples(
                st.sampled_from(("I  ", " L ", " S ", " M ")),
                st.integers(0, 2**62),
                st.integers(1, 512),
            ).map(lambda part: f"{part[0]}{part[1]:07x},{part[2]}"),
            st.sampled_from(("", "==1== Lackey", "I", " L", "Hello, world", " X 10,4", "==1==   L 5,6")),
        )
    )
)
def test_lines_read_as_the_twin_reads_them(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines).encode()
    arrays = np.empty(len(lines), np.int64), np.empty(len(lines), np.int32), np.empty(len(lines), np.uint8)
    found = lackey.parse_lines(np.frombuffer(text, np.uint8), *arrays)
    assert list(zip(*(array[:found].tolist() for array in arrays), strict=True)) == plain_cache.lines(text)
