"""The roofline of a report: what each matmul reaches, under what the chip could reach.

S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore
architectures", CACM 52(4), 2009.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from matplotlib.transforms import Bbox

from ..chips import Chip
from ..engine.report import ChipReport, Report
from ..quantity import format_count, format_rate
from ..result import Result
from ..workload import Gemm
from .palette import BLUE, LIGHT, ORANGE, PURPLE
from .style import Plot, new_figure, settle, stated

MARKERS = {"weight": ("o", BLUE), "activation": ("s", PURPLE), "kv_cache": ("D", ORANGE)}
"""Kind of the rhs -> marker and colour."""
_PLACES = ((8, 0), (-8, 0), (0, 10), (0, -10), (8, 9), (8, -9), (-8, 9), (-8, -9), (16, 18), (16, -18))

_GROUND = {"boxstyle": "square,pad=0.05", "facecolor": LIGHT["card"], "edgecolor": "none", "alpha": 0.8}


class Point(NamedTuple):
    """A matmul on the roofline: FLOP per byte of main memory, FLOP/s, and the share of the time."""

    name: str
    rhs_kind: str
    intensity: float
    rate: float
    share: float


def points_of(chip: ChipReport) -> tuple[Point, ...]:
    """The matmuls that take time and touch main memory."""
    points = []
    for row in chip.matmuls:
        moved = row.level_bytes("dram")
        if row.cycles and moved:
            assert isinstance(row.op, Gemm)
            share = row.cycles / chip.totals.cycles
            flop = 2 * row.macs
            points.append(Point(row.name, row.op.rhs_kind, flop / moved, flop / row.seconds, share))
    return tuple(points)


def roofline_figure(report: Report, chip: ChipReport) -> Plot:
    """Matmuls by arithmetic intensity and rate, below the chip's roofs."""
    spec, points = chip.chip, points_of(chip)
    figure = new_figure(f"Roofline of {spec.name}", stated(report.workload, [chip]), 5.4)
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log")
    axes.grid(True, which="major", axis="both")
    peak = 2 * spec.peak_macs_per_s(spec.native_dtype)
    ridges = _roofs(axes, spec, points)
    for point in points:
        marker, colour = MARKERS[point.rhs_kind]
        size = 40 + 700 * point.share
        axes.scatter(
            point.intensity, point.rate, size, color=colour, marker=marker, alpha=0.85, zorder=3,
            edgecolors=LIGHT["ink"], linewidths=0.6,
        )  # fmt: skip
    axes.set_xlabel("arithmetic intensity as run, FLOP per byte of main memory")
    axes.set_ylabel("FLOP/s")
    for axis, text in ((axes.xaxis, "{:g}".format), (axes.yaxis, format_count)):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _, text=text: text(value)))
    _legend(axes, points)
    _label(figure, axes, points)
    left_out = _left_out(chip.matmuls)
    caption = (
        f"Each matmul of {report.workload.name} on {spec.name}, under its peak of {format_count(peak)}FLOP/s "
        f"in {spec.native_dtype}{ridges}. The larger a marker, the more of the time it takes.{left_out}"
    )
    listed = "; ".join(f"{p.name} {p.intensity:.4g} FLOP/B, {format_count(p.rate)}FLOP/s" for p in points)
    return Plot("roofline", figure, caption, f"{caption} {listed}." if listed else caption)


def _roofs(axes: Axes, spec: Chip, points: tuple[Point, ...]) -> str:
    """Draw the roofs over all points, and say where they meet."""
    peak = 2 * spec.peak_macs_per_s(spec.native_dtype)
    memory = spec.memory["dram"]
    rates = {"peak": memory.bytes_per_s} if memory.bytes_per_s is not None else {}
    if memory.bytes_per_s is not None and memory.sustained_percent < 100:
        rates["sustained"] = memory.bytes_per_s * memory.sustained_percent // 100
    ridges = {word: peak / rate for word, rate in rates.items()}
    xs = [p.intensity for p in points] + list(ridges.values()) or [1.0]
    low, high = min(xs) / 4, max(xs) * 6
    axes.set_xlim(low, high)
    floor = min([p.rate for p in points] + [rate * low * 2 for rate in rates.values()] or [peak / 100]) / 2
    axes.set_ylim(floor, peak * 2.2)
    axes.plot((low, high), (peak, peak), color=LIGHT["ink"], linewidth=1.6)
    axes.annotate(
        f"{format_count(peak)}FLOP/s, {spec.native_dtype}", (high, peak), (-4, 4), textcoords="offset points",
        ha="right", fontsize=8.5,
    )  # fmt: skip
    for word, rate in rates.items():
        ridge = ridges[word]
        style = "-" if len(rates) == 1 or word == "sustained" else (0, (5, 3))
        axes.plot((low, ridge), (rate * low, peak), color=LIGHT["ink"], linewidth=1.6, linestyle=style)
        axes.plot((ridge, ridge), (floor, peak), color=LIGHT["soft"], linewidth=0.8, linestyle=(0, (1, 2)))
    texts = [f"{format_rate(rate)} {word}: ridge {ridges[word]:.4g} FLOP/B" for word, rate in rates.items()]
    if not texts:
        return ", with unlimited main memory"
    axes.text(0.012, 0.985, "dram " + "\ndram ".join(texts), transform=axes.transAxes, va="top", fontsize=8.5)
    return (
        "; it takes "
        + " or ".join(f"{ridge:.4g} FLOP/B ({word})" for word, ridge in ridges.items())
        + (" to be bound by compute")
    )


def _legend(axes: Axes, points: tuple[Point, ...]) -> None:
    met = [kind for kind in MARKERS if any(point.rhs_kind == kind for point in points)]
    handles = [
        Line2D([], [], marker=MARKERS[kind][0], color=MARKERS[kind][1], linestyle="", label=f"rhs: {kind}",
               markeredgecolor=LIGHT["ink"], markeredgewidth=0.6)
        for kind in met
    ]  # fmt: skip
    if handles:
        axes.legend(handles=handles, loc="lower right")


def _label(figure: Figure, axes: Axes, points: tuple[Point, ...]) -> None:
    """Names beside the points, the ones that take most time first, where nothing else stands yet."""
    settle(figure)
    taken = [_around(axes, point) for point in points]
    for point in sorted(points, key=lambda p: -p.share):
        for dx, dy in _PLACES:
            # A marker's radius keeps the text off it.
            away = 4 + 11 * point.share**0.5
            offset = (dx + np.sign(dx) * away, dy + np.sign(dy) * away)
            side = "left" if dx > 0 else "right" if dx < 0 else "center"
            text = axes.annotate(
                point.name, (point.intensity, point.rate), offset, textcoords="offset points", ha=side,
                va="center", fontsize=8.5, zorder=4,
                bbox=_GROUND,
            )  # fmt: skip
            box = text.get_window_extent().padded(1)
            inside = axes.bbox.x0 < box.x0 and box.x1 < axes.bbox.x1 and box.y0 > axes.bbox.y0
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()


def _around(axes: Axes, point: Point) -> Bbox:
    x, y = axes.transData.transform((point.intensity, point.rate))
    radius = (40 + 700 * point.share) ** 0.5 / 2
    return Bbox.from_extents(x - radius, y - radius, x + radius, y + radius)


def _left_out(rows: tuple[Result, ...]) -> str:
    hidden = [row.name for row in rows if not row.cycles]
    on_chip = [row.name for row in rows if row.cycles and not row.level_bytes("dram")]
    text = f" Hidden behind others: {', '.join(hidden)}." if hidden else ""
    return text + (f" Without a byte of main memory: {', '.join(on_chip)}." if on_chip else "")
