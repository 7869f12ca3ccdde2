"""Loop nests over arrays in memory, and the addresses that they touch, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

READ, WRITE, MODIFY = 1, 2, 3
CHUNK = 1 << 18
"""Accesses that are in memory at once, where the innermost loop is no longer."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """One loop of a nest.

    Attributes
    ----------
    name
        What accesses call it.
    total, step
        Iterations of the whole range; how many of them one iteration of this loop stands for.
    inside
        Name of the loop over blocks whose current block this loop walks (`step` is then the block's length);
        None for a loop over the whole range.
    """

    name: str
    total: int
    step: int = 1
    inside: str | None = None


@dataclass(frozen=True, kw_only=True)
class Access:
    """One load or store in the body of a loop.

    Attributes
    ----------
    base, size
        Address in the first iteration of every loop, and length, bytes.
    kind
        READ, WRITE, or MODIFY (load and store of one instruction).
    strides
        Loop -> bytes from one of its iterations to the next.
    body
        The loop in whose body it stands.
    after
        Whether it follows the loop inside that body, rather than precedes it.
    """

    base: int
    size: int
    kind: int
    strides: Mapping[str, int]
    body: str
    after: bool = False


@dataclass(frozen=True, kw_only=True)
class LoopNest:
    """Perfectly nested loops, the outermost first, and the accesses in their bodies, in program order."""

    loops: tuple[Loop, ...]
    accesses: tuple[Access, ...]

    def chunks(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yield (addresses int64, sizes int32, kinds uint8), together every access in program order.

        The arrays are overwritten by the next chunk.
        """
        from ..kernels.nest import fill

        names = [loop.name for loop in self.loops]
        loops = np.array(
            [(loop.total, loop.step, names.index(loop.inside) if loop.inside else -1) for loop in self.loops],
            np.int64,
        )
        accesses = np.array([self._row(access, names) for access in self.accesses], np.int64)
        room = max(CHUNK, 2 * len(self.accesses) * (self.loops[-1].total + 2))
        addresses = np.empty(room, np.int64)
        sizes, kinds = np.empty(room, np.int32), np.empty(room, np.uint8)
        at = np.zeros(len(loops), np.int64)
        while at[0] >= 0:
            found = fill(loops, accesses, at, addresses, sizes, kinds)
            yield addresses[:found], sizes[:found], kinds[:found]

    @staticmethod
    def _row(access: Access, names: list[str]) -> tuple[int, ...]:
        strides = (access.strides.get(name, 0) for name in names)
        depth = names.index(access.body) + 1
        return (access.base, access.size, access.kind, depth, int(access.after), *strides)


@dataclass(frozen=True, kw_only=True)
class Matrices:
    """Where C[m,n] = A[m,k] B[k,n] lies: addresses, and bytes from one row and one column to the next.

    Attributes
    ----------
    m, n, k
        The shape.
    size
        Bytes of an element.
    lhs, rhs, out
        (address, bytes per row, bytes per column) of A, B and C.
    """

    m: int
    n: int
    k: int
    size: int
    lhs: tuple[int, int, int]
    rhs: tuple[int, int, int]
    out: tuple[int, int, int]

    @classmethod
    def row_major(cls, m: int, n: int, k: int, size: int, base: int = 1 << 20) -> Matrices:
        """A, B and C one after another from address `base`, rows side by side, each on a page of its own."""
        starts = [base]
        for rows, cols in ((m, k), (k, n)):
            starts.append(-(-(starts[-1] + rows * cols * size) // 4096) * 4096)
        strides = ((k * size, size), (n * size, size), (n * size, size))
        lhs, rhs, out = ((start, *both) for start, both in zip(starts, strides, strict=True))
        return cls(m=m, n=n, k=k, size=size, lhs=lhs, rhs=rhs, out=out)

    def access(
        self, operand: str, loops: Mapping[str, tuple[str, int]], kind: int, body: str, **at: bool
    ) -> Access:
        """An access to one element: `loops` gives, for each loop, the axis (m, n or k) and its step on it."""
        base, per_row, per_col = {"lhs": self.lhs, "rhs": self.rhs, "out": self.out}[operand]
        axes = {"lhs": ("m", "k"), "rhs": ("k", "n"), "out": ("m", "n")}[operand]
        per = dict(zip(axes, (per_row, per_col), strict=True))
        strides = {loop: per.get(axis, 0) * step for loop, (axis, step) in loops.items()}
        return Access(base=base, size=self.size, kind=kind, strides=strides, body=body, **at)


def naive(where: Matrices) -> LoopNest:
    """The textbook triple loop i, j, k: the sum is in a register and stored once."""
    loops = {"i": ("m", 1), "j": ("n", 1), "k": ("k", 1)}
    return LoopNest(
        loops=_plain(where, "i", "j", "k"),
        accesses=(
            where.access("lhs", loops, READ, "k"),
            where.access("rhs", loops, READ, "k"),
            where.access("out", loops, WRITE, "j", after=True),
        ),
    )


def reordered(where: Matrices) -> LoopNest:
    """Loops i, k, j: rows of B and C are walked along, an element of A stays in a register."""
    loops = {"i": ("m", 1), "k": ("k", 1), "j": ("n", 1)}
    return LoopNest(
        loops=_plain(where, "i", "k", "j"),
        accesses=(
            where.access("lhs", loops, READ, "k"),
            where.access("rhs", loops, READ, "j"),
            where.access("out", loops, READ, "j"),
            where.access("out", loops, WRITE, "j"),
        ),
    )


def blocked(where: Matrices, tile_m: int, tile_n: int, tile_k: int) -> LoopNest:
    """Blocks of i, k and j around the loops i, k, j inside a block."""
    tiles = {"i": ("m", tile_m), "k": ("k", tile_k), "j": ("n", tile_n)}
    loops = {f"{name}_block": each for name, each in tiles.items()}
    loops |= {name: (axis, 1) for name, (axis, _) in tiles.items()}
    extents = {"m": where.m, "n": where.n, "k": where.k}
    outer = tuple(
        Loop(name=f"{x}_block", total=extents[axis], step=step) for x, (axis, step) in tiles.items()
    )
    inner = tuple(
        Loop(name=x, total=extents[axis], step=step, inside=f"{x}_block") for x, (axis, step) in tiles.items()
    )
    return LoopNest(
        loops=outer + inner,
        accesses=(
            where.access("lhs", loops, READ, "k"),
            where.access("rhs", loops, READ, "j"),
            where.access("out", loops, READ, "j"),
            where.access("out", loops, WRITE, "j"),
        ),
    )


def _plain(where: Matrices, *order: str) -> tuple[Loop, ...]:
    extents = {"i": where.m, "j": where.n, "k": where.k}
    return tuple(Loop(name=name, total=extents[name]) for name in order)
