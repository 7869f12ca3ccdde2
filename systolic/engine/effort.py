"""Says before long work begins what it would take, and the cheaper way."""

from __future__ import annotations

from ..chips import Chip
from ..quantity import format_count, format_seconds
from ..result import Total, is_matmul
from .knobs import Rows
from .progress import Progress

PE_UPDATES_PER_SECOND = 5 * 10**8
"""Stepped PEs per second of host time that estimates assume; benchmarks/ measures the real speed."""

SLOW_PE_UPDATES_PER_SECOND = 5 * 10**7
"""The same for an array whose MAC takes several cycles, or whose sums are narrower than fp32."""

WORTH_ANNOUNCING_SECONDS = 10


def announce_stepping(chip: Chip, tiled: Rows, progress: Progress) -> None:
    """Announce a stepped run that takes long.

    Parameters
    ----------
    chip
        Where it runs: every PE of the busiest core is stepped in every cycle of one occurrence.
    tiled
        The same run in tiled mode, which has the same cycles.
    progress
        Receives the line.
    """
    cycles = sum(row.busy_cycles // row.op.count for row in tiled if is_matmul(row))
    pes = chip.pes // chip.cores
    updates = cycles * pes
    plain = chip.array.mac_latency == 1 and not {*chip.array.acc.values()} - {"fp32", "int32", "int16"}
    seconds = updates / (PE_UPDATES_PER_SECOND if plain else SLOW_PE_UPDATES_PER_SECOND)
    if seconds >= WORTH_ANNOUNCING_SECONDS:
        progress.announce(
            f"stepping {cycles:,} cycles of {pes:,} PEs on {chip.name} ({format_count(updates)} PE "
            f"updates) takes about {format_seconds(seconds)}; mode tiled gives the same "
            f"{Total(rows=tiled).cycles:,} cycles at once"
        )
