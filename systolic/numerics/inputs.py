"""Seeded operands: the same numbers for the same product, whatever is drawn of them and in which order.

Floats are N(0, 1) in float32, not yet rounded to the product's format. Integers are N(0, 1) scaled so
that four standard deviations reach the end of the format's range, rounded and saturated.

An operand is cut into strips (lhs: rows, rhs: columns) of a size that fits a computation in
bounded memory, and each strip into blocks of rows with a random stream of their own. The stream
depends on the op's name and shape, the seed, the occurrence and the place of the block, never on
the number format, so that several formats can be compared on the same numbers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np

from ..dtypes import DTYPES
from ..workload import Gemm
from .rounding import quantize

RESULT_ELEMENTS = 1 << 22
"""Most elements of a block of the result: 16 MiB, which allocators still serve from memory at hand
(larger ones get fresh pages from the system each time, and took twice as long per element)."""

OPERAND_ELEMENTS = 1 << 24
"""Most elements of a strip of an operand, unless one row or column is longer."""

_NARROWEST = 512  # columns: below, a strip is drawn for too little arithmetic
_BLOCK = 1 << 16  # elements that one random stream yields


def split(length: int, most: int) -> list[range]:
    """Cut `length` into the fewest ranges of at most `most`, sizes equal within one."""
    parts = -(-length // most)
    edges = [i * length // parts for i in range(parts + 1)]
    return [range(a, b) for a, b in pairwise(edges)]


def column_strips(gemm: Gemm) -> list[range]:
    """The strips of columns in which the rhs of `gemm` is drawn."""
    widest = max(_NARROWEST, RESULT_ELEMENTS // gemm.m)
    return split(gemm.n, max(1, min(widest, OPERAND_ELEMENTS // gemm.k)))


def draw_lhs(gemm: Gemm, seed: int, occurrence: int, batch: range, rows: np.ndarray) -> np.ndarray:
    """Some rows of the lhs.

    Parameters
    ----------
    gemm, seed, occurrence
        Which product; `occurrence` counts from 0 to gemm.count - 1.
    batch
        Which of its batch.
    rows
        Which rows, ascending integers.

    Returns
    -------
    ndarray
        (len(batch), len(rows), k), float32, int8 or int32.
    """
    streams = [_stream(gemm, "lhs", seed, occurrence, b, 0) for b in batch]
    return _draw(streams, rows, gemm.k, gemm.dtype)


def draw_rhs(gemm: Gemm, seed: int, occurrence: int, batch: range, strip: int) -> np.ndarray:
    """One strip of columns of the rhs.

    Parameters
    ----------
    gemm, seed, occurrence, batch
        As for :func:`draw_lhs`.
    strip
        Its place in :func:`column_strips`.

    Returns
    -------
    ndarray
        (len(batch), k, columns of the strip), float32, int8 or int32.
    """
    streams = [_stream(gemm, "rhs", seed, occurrence, b, strip) for b in batch]
    return _draw(streams, np.arange(gemm.k), len(column_strips(gemm)[strip]), str(gemm.rhs_dtype))


def seeded_inputs(gemm: Gemm, seed: int = 0, occurrence: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Both operands of one occurrence as a whole: lhs (batch, m, k) and rhs (batch, k, n)."""
    batch = range(gemm.batch)
    strips = [draw_rhs(gemm, seed, occurrence, batch, i) for i in range(len(column_strips(gemm)))]
    rhs = strips[0] if len(strips) == 1 else np.concatenate(strips, axis=2)
    return draw_lhs(gemm, seed, occurrence, batch, np.arange(gemm.m)), rhs


def generator(*key: int) -> np.random.Generator:
    """A random stream for a key of integers >= 0; SFC64 is NumPy's fastest at float32 normals."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(key)))


def _stream(gemm: Gemm, operand: str, seed: int, occurrence: int, batch: int, strip: int) -> tuple[int, ...]:
    text = f"{gemm.name}|{gemm.batch}x{gemm.m}x{gemm.k}x{gemm.n}|{operand}"
    digest = hashlib.sha256(text.encode()).digest()
    return (int.from_bytes(digest[:8], "little"), seed, occurrence, batch, strip)


def _draw(streams: list[tuple[int, ...]], rows: np.ndarray, width: int, dtype: str) -> np.ndarray:
    """For each stream, the given rows of its endless array of `width` columns."""
    kind = DTYPES[dtype]
    element = np.float32 if kind.kind == "float" else np.int8 if kind.bits <= 8 else np.int32
    out = np.empty((len(streams), rows.size, width), element)
    tasks = [
        _block_task(out[i], stream, block, part, local, dtype)
        for block, part, local in _blocks(rows, max(1, _BLOCK // width))
        for i, stream in enumerate(streams)
    ]
    if len(tasks) == 1:
        tasks[0]()
    else:
        list(_pool().map(lambda task: task(), tasks))
    return out


def _blocks(rows: np.ndarray, height: int) -> Iterator[tuple[int, slice, np.ndarray]]:
    """Blocks of `height` rows that hold some of `rows`: index, place in the output, rows within it."""
    owners = rows // height
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], rows.size], strict=True):
        block = int(owners[start])
        yield block, slice(int(start), int(stop)), rows[start:stop] - block * height


def _block_task(
    out: np.ndarray, stream: tuple[int, ...], block: int, part: slice, local: np.ndarray, dtype: str
) -> Callable[[], None]:
    def fill() -> None:
        random = generator(*stream, block)
        whole = local[-1] + 1 == local.size
        if whole and out.dtype == np.float32:
            random.standard_normal(dtype=np.float32, out=out[part])
            return
        normals = random.standard_normal((local[-1] + 1, out.shape[1]), np.float32)
        normals = normals if whole else normals[local]
        # Integers: four standard deviations at the end of the range; at most int8's, lest sums wrap.
        bits = min(DTYPES[dtype].bits, 8)
        out[part] = normals if out.dtype == np.float32 else quantize(normals, dtype, 2.0 ** (bits - 3))

    return fill


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads that draw; NumPy lets go of the interpreter lock meanwhile."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="draw")
