"""What stepping every access would take."""

from __future__ import annotations

from collections.abc import Sequence

from ...chips.cpu import CpuChip
from ...quantity import format_count
from ...result import Result, Total
from ...workload import Gemm
from ..base import Stepping
from .steps import LOOPS
from .traffic import accesses_of

ACCESSES_PER_SECOND = 5 * 10**7
"""Accesses per second of host time that estimates assume: the least that the caches are built for."""


def stepping(rows: Sequence[Result], chip: CpuChip) -> Stepping:
    """What stepping would take: every load and store of one occurrence of each loop nest."""
    accesses = 0
    for row in rows:
        kernel = (row.mapping or {}).get("kernel")
        if isinstance(row.op, Gemm) and kernel in LOOPS:
            accesses += accesses_of(row.op, kernel)
    total = Total(rows=tuple(rows))
    return Stepping(
        work=f"{format_count(accesses)} accesses through the caches of {chip.name}",
        seconds=accesses / ACCESSES_PER_SECOND,
        cheaper=f"mode tiled steps two rows of each nest and gives {total.cycles:,} cycles at once",
    )
