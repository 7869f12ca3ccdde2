"""Timelines: when memory ports, arrays and vector unit work, and what they wait for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from .. import __version__
from ..engine.recording import Recording
from ..engine.unrolled import Unrolled
from ..quantity import format_hz
from ..recorded import Slice
from .palette import CAUSE_FILLS, LIGHT, OPERAND_FILLS, Fill
from .style import Plot, legend_above, new_figure, stated_matmul

MOST_SLICES = 1500
"""Slices of a run that a figure holds; what comes later is left out, and the caption says so."""
_COMPUTING = ("array", "vector")
_NAMED = 0.035
"""Part of the width that an op takes whose name stands above it."""


def matmul_timeline(recording: Recording) -> Plot:
    """One occurrence of a recorded matmul on the busiest core, under its first dataflow."""
    run, gemm = recording.runs[0], recording.gemm
    title = f"Timeline: {gemm.name} on {recording.chip.name}"
    return _figure(
        title,
        stated_matmul(recording, "tiled"),
        run.slices,
        run.slices_end,
        [],
        "one occurrence, busiest core",
    )


def run_timeline(unrolled: Unrolled) -> Plot:
    """A run from its start until an op comes a second time: with a model, its first layer."""
    slices: list[Slice] = []
    ops: list[tuple[str, int, int]] = []
    end = 0
    for occurrence in unrolled.occurrences:
        here = [part.later(occurrence.start) for part in occurrence.slices]
        if occurrence.number or len(slices) + len(here) > MOST_SLICES:
            break
        end = occurrence.start + occurrence.cycles
        slices += here
        ops.append((occurrence.row.name, occurrence.start, end))
    work, chip = unrolled.workload, unrolled.chip
    keys = f" · KV length {work.kv_len:,}" if work.kv_len else ""
    parameters = (
        f"{work.name} · {work.phase} · batch {work.batch:,} · seq {work.seq:,}{keys} · {work.dtype} · "
        f"{chip.name} at {format_hz(chip.clock_hz)} · tiled · systolic {__version__}"
    )
    total = sum(row.cycles for row in unrolled.rows)
    where = f"of {total:,} in all; one core, until an op comes a second time"
    return _figure(f"Timeline: {work.name} on {chip.name}", parameters, slices, end, ops, where)


def _figure(
    title: str,
    parameters: str,
    slices: Sequence[Slice],
    end: int,
    ops: Sequence[tuple[str, int, int]],
    where: str,
) -> Plot:
    units = list(dict.fromkeys(p.unit for p in sorted(slices, key=lambda p: p.unit in _COMPUTING)))
    figure = new_figure(title, parameters, 1.9 + 0.62 * len(units) + (0.7 if ops else 0))
    axes = figure.subplots()
    fills: dict[str, Fill] = {}
    merged = _merged(slices)
    # The edges of many thin slices would hide them.
    edge = 0.5 if len(merged) < 400 else 0.0
    for part in merged:
        name, fill = _look(part)
        fills.setdefault(name, fill)
        axes.barh(
            units.index(part.unit), part.stop - part.start, 0.7, left=part.start, color=fill.colour,
            hatch=fill.hatch or None, edgecolor=LIGHT["ink"], linewidth=edge,
        )  # fmt: skip
    axes.set_yticks(range(len(units)), units)
    axes.set_ylim(len(units) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, max(end, 1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("elapsed cycles")
    _name_ops(axes, ops, end)
    legend_above(figure, sorted(fills.items()))
    caption = (
        f"What memory ports, array and vector unit do in {end:,} cycles ({where}). Cycles of the units that "
        "compute carry their cause, transfers their operand."
    )
    spent = {unit: sum(p.stop - p.start for p in slices if p.unit == unit) for unit in units}
    listed = ", ".join(f"{unit} {cycles:,} cycles" for unit, cycles in spent.items())
    return Plot("timeline", figure, caption, f"{caption} In slices: {listed}.")


def _look(part: Slice) -> tuple[str, Fill]:
    """How a slice is called in the legend, and drawn."""
    if part.cause:
        return part.cause, CAUSE_FILLS[part.cause]
    fill, way = OPERAND_FILLS[part.operand], "written" if part.write else "read"
    name = f"{part.unit}: {part.operand} {way}"
    return name, Fill(fill.colour, "////") if part.write else fill


def _merged(slices: Iterable[Slice]) -> list[Slice]:
    """Slices that touch and look alike as one: fewer shapes, the same picture."""
    merged: list[Slice] = []
    last: dict[str, int] = {}
    for part in sorted(slices, key=lambda p: p.start):
        at = last.get(part.unit)
        if at is not None and merged[at].stop == part.start and _look(merged[at]) == _look(part):
            merged[at] = replace(merged[at], stop=part.stop)
        else:
            last[part.unit] = len(merged)
            merged.append(part)
    return merged


def _name_ops(axes: Axes, ops: Sequence[tuple[str, int, int]], end: int) -> None:
    """Where each op begins, and the names of those that are wide enough."""
    for name, start, stop in ops:
        if stop > start:
            axes.axvline(start, color=LIGHT["soft"], linewidth=0.6, linestyle=(0, (1, 2)))
        if stop - start > _NAMED * end:
            axes.annotate(
                name, ((start + stop) / 2, 1), (0, 4), xycoords=("data", "axes fraction"),
                textcoords="offset points", ha="center", va="bottom", rotation=35, fontsize=8,
            )  # fmt: skip
