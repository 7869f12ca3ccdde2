"""The array of a recorded matmul: what each PE did."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import MaxNLocator

from ..engine.recording import Recording, Run
from ..kernels.stationary import REAL
from ..recorded import ArrayRecord
from .style import Plot, new_figure, stated_matmul
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
        f"Busy PEs: {_what(recording)}", stated_matmul(recording, "stepped"), (5.6, 4.9, 4.0)[len(runs) - 1]
    )
    panels = np.atleast_1d(figure.subplots(1, len(runs)))
    listed = []
    for axes, run in zip(panels, runs, strict=True):
        array, share = run.array, busy_share(run.array)
        # Rectangles rather than an image, which a page that may fetch nothing would not show.
        side = array.grid.side if array.grid else 1
        edges = [
            np.minimum(side * np.arange(cells + 1), pes)
            for cells, pes in zip(share.shape, (array.rows, array.cols), strict=True)
        ]
        image = axes.pcolormesh(edges[1], edges[0], share, cmap=_SHADES, vmin=0, vmax=1)
        axes.set(aspect="equal", ylim=(array.rows, 0))
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
    scale = figure.colorbar(
        image, ax=list(panels), format=lambda value, _: f"{value:.0%}", shrink=0.9, label="busy"
    )
    if scale.solids is not None:
        scale.solids.set(rasterized=False, edgecolor="face")
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


def _what(recording: Recording) -> str:
    gemm = recording.gemm
    batch = f"{gemm.batch}×" if gemm.batch > 1 else ""
    return f"{gemm.name} {batch}{gemm.m}×{gemm.n}×{gemm.k} on {recording.chip.name}"
