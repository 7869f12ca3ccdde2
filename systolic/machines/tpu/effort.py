"""What stepping the arrays would take."""

from __future__ import annotations

from collections.abc import Sequence

from ...chips.tpu import TpuChip
from ...quantity import format_count
from ...result import Result, Total, is_matmul
from ..base import Stepping

PE_UPDATES_PER_SECOND = 5 * 10**8
"""Stepped PEs per second of host time that estimates assume; benchmarks/ measures the real speed."""

SLOW_PE_UPDATES_PER_SECOND = 5 * 10**7
"""The same for an array whose MAC takes several cycles, or whose sums are narrower than fp32."""


def stepping(rows: Sequence[Result], chip: TpuChip) -> Stepping:
    """What stepping would take: every PE of the busiest core, in every cycle of one occurrence."""
    cycles = sum(row.busy_cycles // row.op.count for row in rows if is_matmul(row))
    pes = chip.pes // chip.cores
    updates = cycles * pes
    plain = chip.array.mac_latency == 1 and not {*chip.array.acc.values()} - {"fp32", "int32", "int16"}
    total = Total(rows=tuple(rows)).cycles
    return Stepping(
        work=f"{cycles:,} cycles of {pes:,} PEs on {chip.name} ({format_count(updates)} PE updates)",
        seconds=updates / (PE_UPDATES_PER_SECOND if plain else SLOW_PE_UPDATES_PER_SECOND),
        cheaper=f"mode tiled gives the same {total:,} cycles at once",
    )
