"""Figures of one recorded matmul: what each PE did, and who waited for what."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .. import __version__
from ..engine.recording import Recording, Run
from ..kernels.stationary import REAL
from ..quantity import format_hz
from ..recorded import ArrayRecord
from .palette import CAUSE_FILLS, LIGHT, OPERAND_FILLS, Fill
from .style import Plot, legend_above, new_figure
from .words import FLOW_NAMES

_SHADES = LinearSegmentedColormap.from_list("systolic", ("#f2f5f8", "#9ccbe8", "#0072b2", "#00263f"))
"""Light to dark in one hue: its lightness alone orders it, for every kind of colour vision."""


def busy_share(array: ArrayRecord) -> np.ndarray:
    """Part of the recorded cycles in which each PE multiplied, 0..1.

    Returns
    -------
    (rows, cols), or one mean per cell of PEs where the record counts by cells.
    """
    if array.grid is None:
        state = array.registers
        if array.dataflow == "os":
            held = state["weight_flags"] & REAL != 0
        else:
            held = state["weight_real"][:, None] != 0
        multiplies = (state["valid"] & held).any(axis=1)
        return np.asarray(multiplies[1:].mean(axis=0), np.float64)
    busy, side = array.grid.busy[1:], array.grid.side
    down = np.minimum(side, array.rows - side * np.arange(busy.shape[1]))
    across = np.minimum(side, array.cols - side * np.arange(busy.shape[2]))
    return np.asarray(busy.mean(axis=0) / np.outer(down, across), np.float64)


def heat_figure(recording: Recording) -> Plot:
    """How much of the time each PE multiplies, for each dataflow that was recorded."""
    runs = recording.runs
    figure = new_figure(
        f"Busy PEs: {_what(recording)}", _stated(recording, "stepped"), (5.6, 4.9, 4.0)[len(runs) - 1]
    )
    panels = np.atleast_1d(figure.subplots(1, len(runs)))
    listed = []
    for axes, run in zip(panels, runs, strict=True):
        array, share = run.array, busy_share(run.array)
        image = axes.imshow(
            share,
            cmap=_SHADES,
            vmin=0,
            vmax=1,
            extent=(0, array.cols, array.rows, 0),
            interpolation="nearest",
        )
        axes.set_title(f"{FLOW_NAMES[array.dataflow]}\n{100 * _mean(run):.3g}% on average")
        for axis, pes in ((axes.xaxis, array.cols), (axes.yaxis, array.rows)):
            axis.set_major_locator(MaxNLocator(min(pes, 8), integer=True))
        axes.set(xlabel="column of the array", ylabel="row" if axes is panels[0] else "")
        axes.grid(False)
        if share.size <= 256 and array.grid is None:
            for (row, col), value in np.ndenumerate(share):
                axes.text(
                    col + 0.5, row + 0.5, f"{100 * value:.0f}", ha="center", va="center", fontsize=8,
                    color="#ffffff" if value > 0.45 else "#1b2027",
                )  # fmt: skip
        listed.append(
            f"{array.dataflow} {100 * _mean(run):.3g}%, from {share.min():.0%} to {share.max():.0%}"
        )
    figure.colorbar(image, ax=list(panels), format=lambda value, _: f"{value:.0%}", shrink=0.9, label="busy")
    cut = (
        ""
        if all(run.array.is_whole for run in runs)
        else f" Shown: the first {runs[0].array.cycles:,} cycles."
    )
    caption = (
        "Part of the cycles in which each PE multiplies, counted from the stepped array's own registers."
    )
    caption += cut
    return Plot("array", figure, caption, f"{caption} On average {'; '.join(listed)}.")


def _mean(run: Run) -> float:
    array = run.array
    return float(array.busy[1:].mean()) / (array.rows * array.cols)


def timeline_figure(recording: Recording) -> Plot:
    """When each memory port and the array work and wait, for the first dataflow."""
    run = recording.runs[0]
    units = list(dict.fromkeys(part.unit for part in sorted(run.slices, key=lambda s: s.unit == "array")))
    figure = new_figure(f"Timeline: {_what(recording)}", _stated(recording, "tiled"), 1.9 + 0.62 * len(units))
    axes = figure.subplots()
    fills: dict[str, Fill] = {}
    line = 0.5 if len(run.slices) < 400 else 0.0  # the edges of many thin slices would hide them
    for part in run.slices:
        way = "written" if part.write else "read"
        name = f"array: {part.cause}" if part.cause else f"{part.operand} {way}"
        fill = CAUSE_FILLS[part.cause] if part.cause else OPERAND_FILLS[part.operand]
        fills.setdefault(name, Fill(fill.colour, "////") if part.write else fill)
        axes.barh(
            units.index(part.unit), part.stop - part.start, 0.7, left=part.start, color=fills[name].colour,
            hatch=fills[name].hatch or None, edgecolor=LIGHT["ink"], linewidth=line,
        )  # fmt: skip
    axes.set_yticks(range(len(units)), units)
    axes.set_ylim(len(units) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, run.slices_end)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("elapsed cycles of one occurrence")
    legend_above(figure, sorted(fills.items()))
    busy = {unit: sum(p.stop - p.start for p in run.slices if p.unit == unit) for unit in units}
    caption = (
        f"What the ports of the memories and the array do in {run.slices_end:,} cycles, on the busiest core; "
        "array cycles carry their cause, transfers their operand."
    )
    listed = ", ".join(f"{unit} {cycles:,} cycles" for unit, cycles in busy.items())
    return Plot("timeline", figure, caption, f"{caption} In slices: {listed}.")


def _what(recording: Recording) -> str:
    gemm = recording.gemm
    batch = f"{gemm.batch}×" if gemm.batch > 1 else ""
    return f"{gemm.name} {batch}{gemm.m}×{gemm.n}×{gemm.k} on {recording.chip.name}"


def _stated(recording: Recording, source: str) -> str:
    work, array = recording.workload, recording.runs[0].array
    parts = [work.name, work.phase, f"batch {work.batch:,}", f"seq {work.seq:,}"]
    parts += [f"KV length {work.kv_len:,}"] if work.kv_len else []
    parts += [] if recording.layer is None else [f"layer {recording.layer}"]
    parts += [array.dtype, f"{array.rows}×{array.cols} PEs at {format_hz(recording.chip.clock_hz)}"]
    return " · ".join([*parts, source, f"systolic {__version__}"])
