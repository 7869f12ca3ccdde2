"""Bank conflicts of the words that stream from on-chip memory into an array.

On-chip memory is cut into words that lie in turn in the banks; a bank hands over one word per cycle. In one
step of the stream an array takes, for each of its lanes, one element per row (output stationary: one per
column as well), and the words in which they lie arrive together once the fullest bank has handed over its
own. The stream keeps one pace, that of its slowest step.

A block lies in on-chip memory row by row or column by column; each such line begins with a word, and is as
long as the plan's full block. Arrays read banks of their own, and so do the two operands of an
output-stationary array: only words of one operand for one array meet in a bank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from ..blocks.array import AXES


@dataclass(frozen=True, kw_only=True)
class Banks:
    """Banks of an on-chip memory: how many, bytes of a word, and how blocks lie in it."""

    count: int
    word_bytes: int
    layout: Literal["row", "column"]


@dataclass(frozen=True, kw_only=True)
class Stream:
    """How an operand enters an array.

    Attributes
    ----------
    bits
        Of an element.
    along
        Whether its lines run along the stream; else they run across it.
    side
        Elements that the array takes across the stream: its rows, or its columns.
    lanes, passes
        Steps of the stream that enter in one cycle; how often each element of it enters.
    """

    bits: int
    along: bool
    side: int
    lanes: int
    passes: int


@lru_cache(maxsize=1 << 16)
def slowest_step(banks: Banks, stream: Stream, length: int, width: int) -> int:
    """Most words that one bank has to give for a step.

    Parameters
    ----------
    banks, stream
        See there.
    length
        Elements of the block along the stream, for one array.
    width
        Elements of the block across the stream.
    """
    word, bits = 8 * banks.word_bytes, stream.bits
    # Elements [first, last] of the stream in each step; alignments to words repeat.
    steps = np.arange(min(-(-length * stream.passes // stream.lanes), word * stream.passes))
    first = steps * stream.lanes // stream.passes
    last = np.minimum((steps + 1) * stream.lanes, length * stream.passes) - 1
    last //= stream.passes
    tiles = np.arange(-(-width // stream.side)) * stream.side
    if stream.along:
        lines, line = min(stream.side, width), length
        begin, end = first, last
    else:
        lines, line = int((last - first).max()) + 1, width
        begin, end = tiles, np.minimum(tiles + stream.side, width) - 1
    words = ((end + 1) * bits - 1) // word - begin * bits // word + 1
    return fullest_bank(lines, int(words.max()), -(-line * bits // word) % banks.count, banks.count)


@lru_cache(maxsize=1 << 16)
def fullest_bank(lines: int, words: int, stride: int, banks: int) -> int:
    """Most words in one bank when each of `lines`, `stride` words apart, holds `words` in a row.

    Lines return to a bank after banks / gcd(stride, banks) of them, and words after all banks.
    """
    period = banks // int(np.gcd(stride, banks))
    rounds, rest = divmod(lines, period)
    every = np.arange(banks)
    gap = banks // period
    counts = rounds * (words // gap + (every % gap < words % gap))
    starts = np.arange(rest) * stride % banks
    behind = (every[None, :] - starts[:, None]) % banks
    counts = counts + (words // banks + (behind < words % banks)).sum(axis=0)
    return int(counts.max())


def streams(
    dataflow: str, banks: Banks, bits: Mapping[str, int], rows: int, cols: int, lanes: int, passes: int
) -> list[tuple[Stream, str]]:
    """The operands that stream into an array, each with the dimension across its stream."""
    axes = AXES[dataflow]
    entering = {"ws": ["lhs"], "is": ["rhs"], "os": ["lhs", "rhs"]}[dataflow]
    found = []
    for name in entering:
        across, side = (axes.rows, rows) if name == entering[0] else (axes.cols, cols)
        by_row = {"lhs": "k", "rhs": "n"}[name]  # the dimension along which a row runs
        by_column = {"lhs": "m", "rhs": "k"}[name]
        runs = by_row if banks.layout == "row" else by_column
        repeats = passes if dataflow == "os" else 1
        stream = Stream(bits=bits[name], along=runs == axes.stream, side=side, lanes=lanes, passes=repeats)
        found.append((stream, across))
    return found


def cycles_of_step(
    dataflow: str, banks: Banks, entering: list[tuple[Stream, str]], tile: Mapping[str, Any], arrays: int
) -> Any:
    """Cycles that on-chip memory needs for a step of the stream, for one plan or for arrays of plans.

    Parameters
    ----------
    dataflow, banks
        See there.
    entering
        From :func:`streams`.
    tile
        Dimension -> sides of the plans' blocks.
    arrays
        How many arrays share the stream of a block.
    """
    length = -(-tile[AXES[dataflow].stream] // (1 if dataflow == "os" else arrays))
    slowest: Any = 1
    for stream, across in entering:
        pairs = np.stack(np.broadcast_arrays(length, tile[across]), axis=-1).reshape(-1, 2)
        distinct, place = np.unique(pairs, axis=0, return_inverse=True)
        cycles = np.array([slowest_step(banks, stream, int(a), int(b)) for a, b in distinct])[place.ravel()]
        slowest = np.maximum(slowest, cycles)
    return slowest if np.ndim(length) else int(np.max(slowest))
