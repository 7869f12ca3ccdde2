"""Simulated over measured time of one group of rows: the scatter, what is left, and by what it is bound."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ..measured.comparison import Group
from ..measured.points import Errors, Point, Prediction, error, roofline, simulated
from ..quantity import format_seconds
from .palette import BLUE, GREY, LIGHT, ORANGE
from .style import Plot, house_style, new_figure, settle

MOST_POINTS = 400
"""Points that a figure shows of a group, evenly spaced in the order of their times."""

_DRAWN = {"roofline": ("x", GREY), "systolic": ("o", BLUE)}


def comparison_figure(group: Group) -> Plot:
    """One group: simulated over measured time, the error of each row by its time, and MAPE by bound."""
    points = _spaced(group.points)
    with house_style():
        figure = new_figure(group.title, f"{len(points):,} of {len(group.points):,} rows drawn", 4.2)
        left, middle, right = figure.subplots(1, 3, width_ratios=(4, 4, 2.4))
        _scatter(left, points)
        _residuals(middle, points)
        _by_bound(right, group)
        settle(figure)
    figures = group.figures(group.points)
    told = (
        f"{figures['rows']:,} rows of {group.device} beside {group.chip.name}: MAPE {figures['mape']:.1f}% "
        f"for systolic, {figures['roofline_mape']:.1f}% for a roofline with the same chip numbers."
    )
    caption = (
        "Left: predicted over measured time, on the line where they agree. Middle: error of each row; the "
        f"shaded band is within 10%. Right: MAPE of the rows that a roofline calls bound by each. {told}"
    )
    return Plot("measured", figure, caption, told)


def _spaced(points: Sequence[Point]) -> list[Point]:
    ordered = sorted(points, key=lambda point: point.measured)
    return ordered[:: -(-len(ordered) // MOST_POINTS)]


def _times(axis: Axes, points: Sequence[Point], also: str = "") -> None:
    """Log axes of time, with units at the ticks."""
    for name in ("x", *also):
        getattr(axis, f"set_{name}scale")("log")
        scale = getattr(axis, f"{name}axis")
        scale.set_major_locator(LogLocator(subs=(1,), numticks=6))
        scale.set_minor_formatter(NullFormatter())
        scale.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value)))
    axis.set_xlabel("measured")
    axis.grid(True, axis="both")
    low, high = min(p.measured for p in points), max(p.measured for p in points)
    axis.set_xlim(low / 1.6, high * 1.6)


def _scatter(axis: Axes, points: Sequence[Point]) -> None:
    _times(axis, points, "y")
    ends = axis.get_xlim()
    axis.plot(ends, ends, color=LIGHT["ink"], linewidth=1)
    measured = [point.measured for point in points]
    for name, by in (("roofline", roofline), ("systolic", simulated)):
        marker, colour = _DRAWN[name]
        axis.plot(measured, [by(p) for p in points], marker, color=colour, markersize=4, label=name)
    axis.set_ylabel("predicted")
    axis.set_title("time")
    axis.legend(loc="upper left")


def _residuals(axis: Axes, points: Sequence[Point]) -> None:
    _times(axis, points)
    axis.axhspan(-10, 10, color=LIGHT["line"], alpha=0.6, linewidth=0)
    axis.axhline(0, color=LIGHT["ink"], linewidth=1)
    measured = [point.measured for point in points]
    for name, by in (("roofline", roofline), ("systolic", simulated)):
        marker, colour = _DRAWN[name]
        errors = [error(p.measured, by(p)) for p in points]
        axis.plot(measured, errors, marker, color=colour, markersize=4)
    axis.set_ylabel("error, %")
    axis.set_title("error by time")


def _by_bound(axis: Axes, group: Group) -> None:
    bounds = {
        name: [p for p in group.points if p.work.compute_bound == bound]
        for name, bound in (("compute", True), ("memory", False))
    }
    shown = {name: points for name, points in bounds.items() if points}
    series: list[tuple[str, str, Prediction]] = [("systolic", BLUE, simulated), ("roofline", GREY, roofline)]
    if group.fit is not None:
        series.append((f"{group.fit.constants} constants", ORANGE, group.fit))
    width = 0.8 / len(series)
    for at, (name, colour, by) in enumerate(series):
        heights = [Errors.of(points, by).mape for points in shown.values()]
        places = [index - 0.4 + (at + 0.5) * width for index in range(len(shown))]
        axis.bar(places, heights, width, color=colour, edgecolor=LIGHT["ink"], linewidth=0.5, label=name)
    axis.set_xticks(range(len(shown)), [f"{name}\n{len(points):,} rows" for name, points in shown.items()])
    axis.grid(True, axis="y")
    axis.grid(False, axis="x")
    axis.set_ylabel("MAPE, %")
    axis.set_title("by bound")
    axis.margins(y=0.35)
    axis.legend(loc="upper left")
