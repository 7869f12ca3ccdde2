"""Twins of the cache, trace and loop-nest kernels: lists, dicts and Python's own loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

FETCH, READ, WRITE, MODIFY = range(4)


class Level:
    """Sets as lists of lines, the one used last in front; `dirty` lines beside them."""

    def __init__(self, sets: int, ways: int) -> None:
        self.sets: list[list[int]] = [[] for _ in range(sets)]
        self.ways, self.dirty = ways, set[int]()
        self.misses, self.filled, self.prefetched, self.written_back = [0, 0, 0], 0, 0, 0

    def lines(self, line: int) -> list[int]:
        return self.sets[line % len(self.sets)]


class Caches:
    """The whole hierarchy, after the words of :mod:`systolic.kernels.cache`."""

    def __init__(
        self, data: list[Level], instructions: Level, line_bytes: int, inclusive: bool, prefetch: int
    ) -> None:
        self.data, self.instructions, self.line_bytes = data, instructions, line_bytes
        self.inclusive, self.prefetch = inclusive, prefetch
        self.refs = [0, 0, 0]
        self.pages: dict[int, tuple[int, int, int]] = {}

    def access(self, address: int, size: int, kind: int) -> None:
        size = min(size, self.line_bytes)
        lines = sorted({address // self.line_bytes, (address + size - 1) // self.line_bytes})
        column = {FETCH: 0, READ: 1, WRITE: 2, MODIFY: 1}[kind]
        self.refs[column] += 1
        path = [self.instructions, *self.data[1:]] if kind == FETCH else self.data
        for depth, level in enumerate(path):
            missed = [self.look_up(level, line, kind in (WRITE, MODIFY) and depth == 0) for line in lines]
            if not any(missed):
                break
            level.filled += sum(missed)
            level.misses[column] += 1
        else:
            depth += 1
        if kind != FETCH and depth > 0:
            self.run_ahead(lines[-1])

    def look_up(self, level: Level, line: int, dirty: bool) -> bool:
        lines = level.lines(line)
        missed = line not in lines
        if not missed:
            lines.remove(line)
        lines.insert(0, line)
        if dirty:
            level.dirty.add(line)
        if len(lines) > level.ways:
            self.evict(level, lines.pop())
        return missed

    def evict(self, level: Level, line: int) -> None:
        dirty = line in level.dirty
        level.dirty.discard(line)
        if self.inclusive and level in self.data[1:]:
            for upper in [*self.data[: self.data.index(level)], self.instructions]:
                if line in upper.lines(line):
                    upper.lines(line).remove(line)
                    dirty |= line in upper.dirty
                    upper.dirty.discard(line)
        if not dirty:
            return
        level.written_back += 1
        below = self.data[self.data.index(level) + 1 :] if level in self.data else []
        for lower in below:
            if line in lower.lines(line):
                lower.dirty.add(line)
                return
            lower.written_back += 1

    def run_ahead(self, line: int) -> None:
        page = line * self.line_bytes // 4096
        ahead: list[int] = []
        if self.prefetch == 1:
            ahead = [line + 1]
        elif self.prefetch == 2:
            step = self.step(line, page)
            ahead = [line + step * i for i in range(1, 5)] if step else []
        for wanted in ahead:
            if wanted * self.line_bytes // 4096 == page:
                for level in self.data[self.prefetch - 1 :] if len(self.data) > 1 else self.data:
                    if not self.look_up(level, wanted, False):
                        break
                    level.prefetched += 1

    def step(self, line: int, page: int) -> int:
        if page not in self.pages:
            if len(self.pages) == 16:
                del self.pages[next(iter(self.pages))]
            self.pages[page] = (line, 0, 0)
            return 0
        last, way, trust = self.pages.pop(page)
        step = (line > last) - (line < last)
        if step:
            last, way, trust = line, step, trust + 1 if step == way else 1
        self.pages[page] = (last, way, trust)
        return step if step and trust >= 2 else 0


def nest(loops: Any, accesses: Any) -> Iterator[tuple[int, int, int]]:
    """Every access of a loop nest in order, twin of :func:`systolic.kernels.nest.fill`."""
    yield from _walk(loops.tolist(), accesses.tolist(), [])


def _walk(loops: list[list[int]], accesses: list[list[int]], at: list[int]) -> Iterator[tuple[int, int, int]]:
    depth = len(at)
    if depth == len(loops):
        return
    total, step, outer = loops[depth]
    extent = -(-total // step) if outer < 0 else len(range(total)[at[outer] * step : (at[outer] + 1) * step])
    for i in range(extent):
        here = [*at, i]
        for after in (0, 1):
            for base, size, kind, body, late, *strides in accesses:
                if body == depth + 1 and late == after:
                    offset = sum(s * x for s, x in zip(strides, here, strict=False))
                    yield base + offset, size, kind
            if not after:
                yield from _walk(loops, accesses, here)


def lines(text: bytes) -> list[tuple[int, int, int]]:
    """Twin of :func:`systolic.kernels.lackey.parse_lines`."""
    marks = {b"I  ": FETCH, b" L ": READ, b" S ": WRITE, b" M ": MODIFY}
    found = []
    for line in text.split(b"\n"):
        if line[:3] in marks:
            address, size = line[3:].split(b",")
            found.append((int(address, 16), int(size), marks[line[:3]]))
    return found


def levels_of(shape: Any) -> list[Level]:
    """Empty levels of the geometry that the kernel is given."""
    return [Level(int(sets), int(ways)) for sets, _, ways, _ in np.asarray(shape)]
