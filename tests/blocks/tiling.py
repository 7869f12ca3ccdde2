"""Work for an array, cut and placed by the rules of DESIGN section 5 and by nothing of the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from systolic.blocks.edges import Tile
from systolic.blocks.stepping import Stepped, SteppedArray
from systolic.chips.tpu import Array
from tests.strategies import arrays, seeds, sides


def up(length: int, side: int) -> int:
    """ceil(length / side)."""
    return -(-length // side)


def tile_cycles(array: Array, dataflow: str, streamed: int) -> int:
    """Serial cycles of one tile: the table of DESIGN section 5."""
    r, c = array.rows, array.cols
    if dataflow == "os":
        return (streamed + r + c - 2) + r
    return up(r, array.weight_rows) + (streamed + r + c - 2)


def run_cycles(array: Array, dataflow: str, streamed: Sequence[int]) -> int:
    """Cycles of a run of tiles: the table when serial, the sums of DESIGN section 5 when overlapped.

    DESIGN's sum for output stationary holds for equal k. For any k, a column of finished sums needs R
    cycles to leave before the next may finish, so that it is the *later* tile of each pair that may not be
    shorter than R.
    """
    r, c = array.rows, array.cols
    if array.convention == "serial":
        return sum(tile_cycles(array, dataflow, s) for s in streamed)
    if dataflow == "os":
        return streamed[0] + sum(max(k, r) for k in streamed[1:]) + (r + c - 2) + r
    load = up(r, array.weight_rows)
    return load + sum(max(s, load) for s in streamed[:-1]) + streamed[-1] + r + c - 2


def clocks(
    array: Array, dataflow: str, streamed: Sequence[int], waits: Sequence[int] | None = None
) -> list[tuple[int, int]]:
    """(clock at which a tile's first weights enter, clock at which its words begin to stream), tile by tile.

    A tile of `waits` > 0 streams that many clocks later than it could.
    """
    load = 0 if dataflow == "os" else up(array.rows, array.weight_rows)
    placed: list[tuple[int, int]] = []
    clock = 1
    for i, (length, wait) in enumerate(zip(streamed, waits or [0] * len(streamed), strict=True)):
        if array.convention == "serial":
            placed.append((clock, clock + load + wait))
            clock += tile_cycles(array, dataflow, length) + wait
        elif i == 0:
            placed.append((1, 1 + load + wait))
        else:
            start, before = placed[-1][1], streamed[i - 1]
            pace = before + max(0, array.rows - length) if dataflow == "os" else max(before, load)
            placed.append((start, start + pace + wait))
    return placed


def cuts(length: int, side: int) -> list[slice]:
    return [slice(i, min(i + side, length)) for i in range(0, length, side)]


def matmul_array(
    array: Array, dataflow: str, lanes: int, a: np.ndarray, b: np.ndarray
) -> tuple[SteppedArray, list[tuple[slice, slice]]]:
    """The array with all tiles of A @ B, and the place of each in the result; k rises within a place."""
    (m, k), n = a.shape, b.shape[1]
    if dataflow == "os":
        parts = [(i, j, slice(0, k)) for j in cuts(n, array.cols) for i in cuts(m, array.rows)]
        edges = [(a[i].T, b[:, j]) for i, j, _ in parts]
    elif dataflow == "ws":
        parts = [(slice(0, m), j, p) for j in cuts(n, array.cols) for p in cuts(k, array.rows)]
        edges = [(a[:, p], b[p, j]) for _, j, p in parts]
    else:
        parts = [(i, slice(0, n), p) for i in cuts(m, array.cols) for p in cuts(k, array.rows)]
        edges = [(b[p].T, a[i, p].T) for i, _, p in parts]
    placed = clocks(array, dataflow, [up(len(left), lanes) for left, _ in edges])
    tiles = [
        Tile(start=start, load_at=load, left=np.ascontiguousarray(left), top=np.ascontiguousarray(top))
        for (left, top), (load, start) in zip(edges, placed, strict=True)
    ]
    return SteppedArray(array, lanes, dataflow == "os", tiles), [(i, j) for i, j, _ in parts]


def multiply(
    array: Array, dataflow: str, a: np.ndarray, b: np.ndarray, lanes: int = 1, engine: str = "stored"
) -> tuple[Stepped, np.ndarray]:
    """A @ B out of the registers; the accumulators add chains in rising k."""
    stepped, places = matmul_array(array, dataflow, lanes, a, b)
    seen = stepped.run(engine)
    out = np.zeros((a.shape[0], b.shape[1]), seen.results[0].dtype)
    for place, block in zip(places, seen.results, strict=True):
        out[place] += block.T if dataflow == "is" else block
    return seen, out


def chained(a: np.ndarray, b: np.ndarray, chain: int) -> np.ndarray:
    """A @ B as chains over k of `chain` products, added in rising k; products and sums rounded."""
    out = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for k0 in range(0, a.shape[1], chain):
        part = np.zeros_like(out)
        for k in range(k0, min(k0 + chain, a.shape[1])):
            part = part + a[:, k : k + 1] * b[k]
        out = out + part
    return out


@dataclass(frozen=True)
class Drawn:
    """A run of tiles, what each gives, the cycles of the run, and how long its tiles stream."""

    stepped: SteppedArray
    wanted: list[np.ndarray]
    cycles: int
    fed: list[int]

    @property
    def dataflow(self) -> str:
        return "os" if self.stepped.output_stationary else "ws"


@st.composite
def runs(draw: st.DrawFn, waiting: bool = False) -> Drawn:
    """Tiles of different lengths and sides on any array, weight or output stationary.

    With `waiting` some tiles come later than they could, and some sums are given in two parts.
    """
    array, dataflow, lanes = draw(arrays()), draw(st.sampled_from(("ws", "os"))), draw(st.integers(1, 3))
    streamed = draw(st.lists(sides(15), min_size=1, max_size=5))
    waits = draw(st.lists(st.integers(0, 9), min_size=len(streamed), max_size=len(streamed)))
    if not waiting:
        waits = [0] * len(streamed)
    rng = np.random.default_rng(draw(seeds()))
    is_float = draw(st.booleans())

    def words(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32) if is_float else rng.integers(-128, 128, shape)

    fed = [up(s, lanes) for s in streamed]
    tiles: list[Tile] = []
    wanted = []
    for (load, start), length in zip(clocks(array, dataflow, fed, waits), streamed, strict=True):
        rows, cols = draw(sides(array.rows)), draw(sides(array.cols))
        left = words(length, rows)
        top = words(length, cols) if dataflow == "os" else words(rows, cols)
        tile = Tile(start=start, load_at=load, left=left, top=top)
        parted = waiting and dataflow == "os" and length > lanes
        tiles += _in_two_parts(tile, lanes) if parted else [tile]
        a = np.ascontiguousarray(left.T) if dataflow == "os" else left
        wanted.append(chained(a, top, a.shape[1]))
    stepped = SteppedArray(array, lanes, dataflow == "os", tiles)
    return Drawn(stepped, wanted, run_cycles(array, dataflow, fed) + sum(waits), fed)


def _in_two_parts(tile: Tile, lanes: int) -> list[Tile]:
    """The same sums over the same k, given as two tiles."""
    parts = slice(0, lanes), slice(lanes, None)
    first, last = (replace(tile, left=tile.left[part], top=tile.top[part]) for part in parts)
    return [replace(first, last=False), replace(last, first=False, start=tile.start + 1)]
