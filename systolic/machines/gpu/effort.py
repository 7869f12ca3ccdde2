"""What stepping every thread block would take."""

from __future__ import annotations

from collections.abc import Sequence

from ...chips.gpu import GpuChip
from ...quantity import format_count
from ...result import Result, Total
from ..base import Stepping

INSTRUCTIONS_PER_SECOND = 10**7
"""Warp instructions per second of host time that estimates assume; benchmarks/ measures the real speed."""


def stepping(rows: Sequence[Result], chip: GpuChip) -> Stepping:
    """What stepping would take: every instruction of every warp of one occurrence of each kernel."""
    total = Total(rows=tuple(rows))
    instructions = sum(row.counters.get("instructions", 0) // row.op.count for row in rows if row.stalls)
    return Stepping(
        work=f"{format_count(instructions)} warp instructions on {chip.name}",
        seconds=instructions / INSTRUCTIONS_PER_SECOND,
        cheaper=f"mode tiled steps representative thread blocks and gives {total.cycles:,} cycles at once",
    )
