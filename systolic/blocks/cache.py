"""The caches of one core, fed with the accesses that a program or a loop nest makes.

With the prefetcher off, the counts are those of ``valgrind --tool=cachegrind --cache-sim=yes`` for two levels
of the same geometry and the same accesses. Beyond cachegrind there may be more levels, dirty lines are
written back (which is no use of the line at the level below, so that misses stay what they are), levels may
be inclusive, and a prefetcher may run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..chips.caches import Cache
from ..chips.rules import choice_problem
from ..errors import raise_if_any

PREFETCHERS = ("none", "next-line", "stream")


@dataclass(frozen=True, kw_only=True)
class CacheCounts:
    """What the caches saw.

    Attributes
    ----------
    fetches, reads, writes
        Accesses of the program: instructions, loads (a load and store of one instruction is one load) and
        stores.
    fetch_misses, read_misses, write_misses
        Accesses that missed, at most one per access and level: (instruction cache, level 2, …) for fetches,
        (level 1, level 2, …) for reads and writes.
    filled, prefetched, written_back
        Lines that each data level received on demand and by the prefetcher, and dirty lines that it passed on
        toward memory.
    line_bytes
        Bytes of a line.
    """

    fetches: int
    reads: int
    writes: int
    fetch_misses: tuple[int, ...]
    read_misses: tuple[int, ...]
    write_misses: tuple[int, ...]
    filled: tuple[int, ...]
    prefetched: tuple[int, ...]
    written_back: tuple[int, ...]
    line_bytes: int

    @property
    def bytes_read(self) -> tuple[int, ...]:
        """Bytes that each data level received from the one below it, the last from main memory."""
        return tuple(
            (fills + early) * self.line_bytes
            for fills, early in zip(self.filled, self.prefetched, strict=True)
        )

    @property
    def bytes_written(self) -> tuple[int, ...]:
        """Bytes that each data level sent to the one below it, the last to main memory."""
        return tuple(lines * self.line_bytes for lines in self.written_back)


class CacheHierarchy:
    """Data caches from L1 toward memory, and an instruction cache where one is given; cold at first.

    Parameters
    ----------
    data
        L1, L2, … of one core; fetches that miss in the instruction cache go to the second of them.
    instructions
        The instruction cache; None where no fetches are simulated.
    inclusive
        Whether a line that leaves a lower level leaves those above it too.
    prefetch
        ``none``; ``next-line`` (a miss in L1 brings the next line of the page into every level); or
        ``stream`` (misses that move one way through a page bring the lines ahead into L2 and below).

    Raises
    ------
    SystolicError
        Where lines of two levels differ in size or are no power of two, or a level has no whole sets.
    """

    def __init__(
        self,
        data: Sequence[Cache],
        instructions: Cache | None = None,
        *,
        inclusive: bool = False,
        prefetch: Literal["none", "next-line", "stream"] = "none",
    ) -> None:
        from ..kernels import cache as kernels

        caches = [*data, *([instructions] if instructions else [])]
        raise_if_any(_problems(caches, len(data), prefetch))
        self._levels, self._fetches = len(data), instructions is not None
        self._inclusive, self._prefetch = inclusive, PREFETCHERS.index(prefetch)
        self._line_bytes = caches[0].line_bytes
        self._shape = _shape(caches)
        self._words = np.full(sum(cache.bytes // cache.line_bytes for cache in caches), -1, np.int64)
        self._refs = np.zeros(3, np.int64)
        self._counts = np.zeros((len(caches), 6), np.int64)
        self._streams = np.zeros((kernels.STREAMS, kernels.STREAM_FIELDS), np.int64)
        self._run = kernels.run_trace

    def access(self, addresses: Any, sizes: Any, kinds: Any) -> None:
        """Send accesses through the caches, in order.

        Parameters
        ----------
        addresses, sizes, kinds
            int64 bytes, int32 bytes and uint8 (0 fetch, 1 read, 2 write, 3 read and write in one
            instruction), equally long.

        Raises
        ------
        SystolicError
            Where a fetch comes and there is no instruction cache.
        """
        if not self._fetches and kinds.size and kinds.min() == 0:
            raise_if_any(
                ["kinds holds fetches (0): give the hierarchy an instruction cache, or leave them out"]
            )
        self._run(
            *(addresses, sizes, kinds, self._shape, self._words, self._refs, self._counts, self._streams),
            self._line_bytes.bit_length() - 1,
            *(self._levels, self._inclusive, self._prefetch),
        )

    def lines(self, level: int) -> np.ndarray:
        """Lines that a data level (0 is L1) holds, in rising order: address over bytes of a line."""
        first = int(self._shape[level, 3])
        words = self._words[first : first + int(self._shape[level, 0] * self._shape[level, 2])]
        return np.asarray(np.sort(words[words >= 0] >> 1))

    @property
    def counts(self) -> CacheCounts:
        """What has been counted so far."""
        rows = [tuple(int(count) for count in row) for row in self._counts.T]
        fetch_misses, read_misses, write_misses, *lines = rows
        fetched = (fetch_misses[-1], *fetch_misses[1 : self._levels]) if self._fetches else ()
        return CacheCounts(
            fetches=int(self._refs[0]),
            reads=int(self._refs[1]),
            writes=int(self._refs[2]),
            fetch_misses=fetched,
            read_misses=read_misses[: self._levels],
            write_misses=write_misses[: self._levels],
            filled=lines[0][: self._levels],
            prefetched=lines[1][: self._levels],
            written_back=lines[2][: self._levels],
            line_bytes=self._line_bytes,
        )


def _problems(caches: Sequence[Cache], data: int, prefetch: str) -> list[str]:
    if not data:
        return ["data must hold at least one cache, got none"]
    lines = choice_problem("prefetch", prefetch, PREFETCHERS)
    first = caches[0].line_bytes
    for at, cache in enumerate(caches):
        name = f"data[{at}]" if at < data else "instructions"
        broken = cache.problems(name)
        if not broken and cache.line_bytes & (cache.line_bytes - 1):
            broken = [f"{name}.line_bytes must be a power of two, got {cache.line_bytes}"]
        if not broken and cache.line_bytes != first:
            broken = [f"{name}.line_bytes must be that of data[0] ({first}), got {cache.line_bytes}"]
        if not broken and cache.bytes % (cache.line_bytes * cache.ways):
            broken = [
                f"{name}.bytes must be a multiple of line_bytes * ways ({cache.line_bytes * cache.ways}), "
                f"got {cache.bytes}"
            ]
        lines += broken
    return lines


def _shape(caches: Sequence[Cache]) -> Any:
    """The rows that :mod:`systolic.kernels.cache` reads."""
    rows, first = [], 0
    for cache in caches:
        sets = cache.bytes // (cache.line_bytes * cache.ways)
        rows.append((sets, sets - 1 if sets & (sets - 1) == 0 else -1, cache.ways, first))
        first += sets * cache.ways
    return np.array(rows, np.int64)
