"""What each choice of the user changed, and why it changed nothing where it did not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ..chips import Chip, load_chip
from ..errors import SystolicError
from ..machines.base import Options
from ..metrics import CAUSES
from ..quantity import format_seconds
from ..result import Result, Total
from ..workload import Workload

Rows = tuple[Result, ...]


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One workload on one chip with the user's choices.

    Attributes
    ----------
    workload
        In the formats that it has on the chip.
    on
        The chip before `overrides`: a name, a path, or a chip.
    overrides
        Field path -> value that the user gave.
    options
        Mode, dataflow and pins.
    """

    workload: Workload
    on: str | os.PathLike[str] | Chip
    overrides: Mapping[str, object] = field(default_factory=dict)
    options: Options = field(default_factory=Options)

    @property
    def chip(self) -> Chip:
        """The chip with `overrides` applied."""
        return load_chip(self.on, self.overrides)


def knob_notes(setup: Setup, rows: Rows, simulate_rows: Callable[[Setup], Rows]) -> tuple[str, ...]:
    """One line for each choice of the user: what the run would be without it.

    Parameters
    ----------
    setup, rows
        The run, and its result.
    simulate_rows
        Simulates a setup. It is called once per choice, in tiled mode where the run was stepped (both
        give the same cycles).
    """
    return tuple(_note(label, without, rows, simulate_rows) for label, without in _turned_back(setup))


def _turned_back(setup: Setup) -> Iterator[tuple[str, Setup]]:
    """Each choice by name, and the setup with this one choice taken back."""
    options = setup.options
    fast = replace(options, mode="tiled" if options.mode == "stepped" else options.mode)
    for path, value in setup.overrides.items():
        others = {p: v for p, v in setup.overrides.items() if p != path}
        yield f"{path} = {value}", replace(setup, overrides=others, options=fast)
    if options.dataflow is not None:
        yield f"dataflow {options.dataflow}", replace(setup, options=replace(fast, dataflow=None))
    if options.tile is not None:
        tile = ",".join(map(str, options.tile))
        yield f"pinned tile {tile}", replace(setup, options=replace(fast, tile=None))
    if options.kernel is not None:
        yield f"pinned kernel {options.kernel}", replace(setup, options=replace(fast, kernel=None))
    if options.order is not None:
        yield f"pinned order {options.order}", replace(setup, options=replace(fast, order=None))


def _note(label: str, without: Setup, rows: Rows, simulate_rows: Callable[[Setup], Rows]) -> str:
    try:
        before = simulate_rows(without)
    except SystolicError as error:
        return f"{label}: nothing to compare with, as without it: {error.problems[0]}"
    was, now = Total(rows=before), Total(rows=rows)
    moved = _bytes_change(was, now)
    replanned = sum(_plan(a) != _plan(b) for a, b in zip(before, rows, strict=True))
    plans = f"; other tiles, order or split for {replanned} of {len(rows)} ops" if replanned else ""
    clock = _clock_change(before, rows)
    if was.cycles == now.cycles:
        return f"{label} changed no cycles: {_reason(label, now)}; {moved}{clock}{plans}"
    causes = ", ".join(
        f"{cause} {change:+,}"
        for cause in CAUSES
        if (change := now.cycles_by_cause.get(cause, 0) - was.cycles_by_cause.get(cause, 0))
    )
    return (
        f"{label}: cycles went from {was.cycles:,} to {now.cycles:,} "
        f"({100 * (now.cycles / was.cycles - 1):+.3g}%: {causes}); {moved}{clock}{plans}"
    )


def _reason(label: str, total: Total) -> str:
    """What the cycles are spent on, so that the reader sees why a knob does not matter."""
    if label.startswith("memory.dram.bytes "):
        return "how much main memory there is decides only what fits"
    if not total.cycles:
        return "there are none"
    largest = sorted(total.cycles_by_cause.items(), key=lambda item: -item[1])[:3]
    parts = ", ".join(f"{100 * cycles / total.cycles:.3g}% {cause}" for cause, cycles in largest)
    return f"the run is {total.bound_by}-bound ({parts})"


def _bytes_change(was: Total, now: Total) -> str:
    changes = []
    for level in dict.fromkeys((*was.bytes, *now.bytes)):
        before, after = (sum(t.total for t in side.bytes.get(level, {}).values()) for side in (was, now))
        if before != after:
            changes.append(f"{level} bytes went from {before:,} to {after:,}")
    return ", ".join(changes) or "no bytes changed"


def _clock_change(before: Rows, rows: Rows) -> str:
    was, now = (sum(row.seconds for row in side) for side in (before, rows))
    clocks = {row.clock_hz for row in (*before, *rows)}
    return "" if len(clocks) == 1 else f"; time went from {format_seconds(was)} to {format_seconds(now)}"


def _plan(row: Result) -> object:
    """What the mapper picked, the number of plans it had to pick from left out."""
    return {key: value for key, value in (row.mapping or {}).items() if key != "plans_that_fit"}
