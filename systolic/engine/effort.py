"""Says before long work begins what it would take, and the cheaper way."""

from __future__ import annotations

from ..chips import Chip
from ..quantity import format_seconds
from .hook import machine_of
from .knobs import Rows
from .progress import Progress

WORTH_ANNOUNCING_SECONDS = 10


def announce_stepping(chip: Chip, tiled: Rows, progress: Progress) -> None:
    """Announce a stepped run that takes long.

    Parameters
    ----------
    chip
        Where it runs.
    tiled
        The same run in tiled mode.
    progress
        Receives the line.
    """
    effort = machine_of(chip).stepping(tiled, chip)
    if effort.seconds >= WORTH_ANNOUNCING_SECONDS:
        progress.announce(
            f"stepping {effort.work} takes about {format_seconds(effort.seconds)}; {effort.cheaper}"
        )
