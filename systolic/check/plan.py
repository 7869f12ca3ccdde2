"""Which values a check compares, in blocks of bounded memory, and whether to compare all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..numerics.inputs import OPERAND_ELEMENTS, RESULT_ELEMENTS, column_strips, generator, split
from ..quantity import format_count, format_seconds
from ..workload import Gemm

CheckMode = Literal["full", "sample"]
CHECK_MODES = ("full", "sample")

SECONDS_PER_MAC = 1.5e-10
"""What checking a MAC takes where an array computes it: its values and two reference products. GPT-2 small
at 1024 tokens, 1.46e11 MACs, took 22 s on two cores; to choose by and to announce, not a measurement of
this host."""

SECONDS_PER_ELEMENT = 1e-8
"""What drawing and rounding one element of an operand takes on one core; decides decode steps."""

FULL_SECONDS = 3.0
"""A full check is the default up to this estimate: 2e10 MACs."""

_SEEDED_ROWS = 8


@dataclass(frozen=True)
class Block:
    """Rows times a strip of columns of one part of the batch of one occurrence."""

    occurrence: int
    batch: range
    rows: np.ndarray
    strip: int


def estimate_seconds(gemms: Iterable[Gemm], seconds_per_mac: float = SECONDS_PER_MAC) -> float:
    """Rough duration of a full check of all occurrences of `gemms`, s, at so much for each MAC."""
    return sum(
        g.macs * seconds_per_mac + g.count * g.batch * g.k * (g.m + g.n) * SECONDS_PER_ELEMENT for g in gemms
    )


def choose_mode(
    gemms: Iterable[Gemm], limit_seconds: float = FULL_SECONDS, seconds_per_mac: float = SECONDS_PER_MAC
) -> tuple[CheckMode, str]:
    """Decide by cost between comparing every value and a sample of rows.

    Parameters
    ----------
    gemms
        Everything to be checked, such as ``workload.gemms``.
    limit_seconds
        Largest estimate at which all values are compared, s.
    seconds_per_mac
        What checking a MAC takes, the machine's values included.

    Returns
    -------
    mode, reason
        ``"full"`` or ``"sample"``, and one line for the reader.
    """
    gemms = tuple(gemms)
    seconds = estimate_seconds(gemms, seconds_per_mac)
    work = f"all values of {format_count(sum(g.macs for g in gemms))}MAC, about {format_seconds(seconds)}"
    if seconds <= limit_seconds:
        return "full", f"check full: {work}"
    return "sample", f"check sample: some rows of each matmul; --check full compares {work}"


def sampled_rows(gemm: Gemm, tile_edges: Sequence[int], seed: int) -> np.ndarray:
    """The first, last, tile-edge and eight seeded rows of the result, ascending."""
    seeded = generator(seed, gemm.m, gemm.n, gemm.k).integers(gemm.m, size=_SEEDED_ROWS)
    edges = [row for row in tile_edges if 0 <= row < gemm.m]
    return np.unique(np.array([0, gemm.m - 1, *edges, *seeded.tolist()], np.int64))


def blocks(gemm: Gemm, rows: np.ndarray, occurrences: int) -> Iterator[Block]:
    """All blocks that cover `rows` of `occurrences` occurrences, blocks of one lhs side by side."""
    strips = column_strips(gemm)
    widest = len(strips[0])
    most_rows = max(1, min(RESULT_ELEMENTS // widest, OPERAND_ELEMENTS // gemm.k))
    parts = [rows[p.start : p.stop] for p in split(rows.size, most_rows)]
    tallest = max(part.size for part in parts)
    most_batch = min(
        RESULT_ELEMENTS // (tallest * widest), OPERAND_ELEMENTS // (max(tallest, widest) * gemm.k)
    )
    for occurrence in range(occurrences):
        for batch in split(gemm.batch, max(1, most_batch)):
            for part in parts:
                for strip in range(len(strips)):
                    yield Block(occurrence, batch, part, strip)


def describe(rows: np.ndarray, gemm: Gemm, occurrences: int) -> str:
    """Name the compared rows and occurrences."""
    if rows.size == gemm.m:
        text = "all rows" if gemm.m > 1 else "the only row"
    else:
        runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
        names = [str(r[0]) if r.size == 1 else f"{r[0]}-{r[-1]}" for r in runs]
        text = f"rows {', '.join(names)} of {gemm.m}"
    if gemm.count == 1:
        return text
    which = "the first" if occurrences == 1 else f"the first {occurrences}"
    return f"{text}, {'all' if occurrences == gemm.count else f'{which} of'} {gemm.count} occurrences"
