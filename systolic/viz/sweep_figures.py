"""Figures of a sweep: the front of two columns, a map over two axes, and what each axis does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.colors import LogNorm

from .palette import BLUE, GREY, LIGHT, ORANGE
from .style import Plot, house_style, new_figure, settle

SPREAD_FOR_LOG = 20
"""An axis whose largest value is so many times its least is drawn on a log scale."""


def front_figure(shown: Any) -> Plot:
    """All points, and the front among them, over both aims."""
    first, second = shown.aims
    with house_style():
        figure = new_figure(
            f"{shown.name}: {first.column} and {second.column}", "each point is a design", 4.2
        )
        axis = figure.subplots()
        clouds = [(_sign(first) * x, _sign(second) * y) for x, y in shown.cloud]
        axis.plot(*_columns(clouds), "o", color=GREY, markersize=2.5, label="all points")
        front = [(row[first.column], row[second.column]) for row in shown.front]
        axis.plot(*_columns(front), "-o", color=BLUE, markersize=5, label="Pareto front")
        for name, values in (("x", _columns(clouds)[0]), ("y", _columns(clouds)[1])):
            if _is_wide(values):
                getattr(axis, f"set_{name}scale")("log")
        axis.set_xlabel(str(first))
        axis.set_ylabel(str(second))
        axis.grid(True, axis="both")
        axis.legend()
        settle(figure)
    told = f"{len(shown.front):,} of {shown.done:,} points lie on the front."
    caption = (
        f"Points that no other beats in {first.column} without losing in {second.column}, or the other way "
        f"round. {told}"
    )
    return Plot("front", figure, caption, told)


def heat_figure(shown: Any) -> Plot:
    """The least figure over all other axes, for each pair of values of two axes."""
    across, down = shown.heat
    xs, ys = _ordered([x for x, _, _ in shown.cells]), _ordered([y for _, y, _ in shown.cells])
    table = [[float("nan")] * len(xs) for _ in ys]
    for x, y, value in shown.cells:
        table[ys.index(y)][xs.index(x)] = value
    values = [value for _, _, value in shown.cells]
    with house_style():
        figure = new_figure(
            f"{shown.name}: {shown.figure}", f"least over all other axes, by {across} and {down}", 4.6
        )
        axis = figure.subplots()
        norm = LogNorm() if _is_wide(values) else None
        drawn = axis.imshow(table, origin="lower", aspect="auto", cmap="cividis", norm=norm)
        axis.set_xticks(range(len(xs)), [_word(x) for x in xs], rotation=45 if len(xs) > 6 else 0)
        axis.set_yticks(range(len(ys)), [_word(y) for y in ys])
        axis.set_xlabel(across)
        axis.set_ylabel(down)
        axis.grid(False)
        figure.colorbar(drawn, ax=axis, label=shown.figure)
        settle(figure)
    told = f"{shown.figure} goes from {_word(min(values))} to {_word(max(values))}."
    caption = f"Least {shown.figure} over all other axes; a blank has no point that is done. {told}"
    return Plot("heat", figure, caption, told)


def sensitivity_figure(shown: Any) -> Plot:
    """Mean figure by value of each axis, all else equal, relative to the best value of that axis."""
    axes = shown.influences[:6]
    with house_style():
        figure = new_figure(f"{shown.name}: what matters for {shown.figure}", "all else equal", 3.4)
        plots = figure.subplots(1, len(axes), sharey=True, squeeze=False)[0]
        for axis, influence in zip(plots, axes, strict=True):
            best = min(mean for _, mean in influence.means)
            heights = [mean / best for _, mean in influence.means]
            axis.plot(range(len(heights)), heights, "-o", color=ORANGE, markersize=4)
            axis.axhline(1, color=LIGHT["ink"], linewidth=1)
            ticks = range(0, len(heights), -(-len(heights) // 5))
            axis.set_xticks(ticks, [_word(influence.means[i][0]) for i in ticks], rotation=45)
            axis.set_title(influence.axis)
            axis.grid(True, axis="y")
        plots[0].set_ylabel(f"{shown.figure}, × that of the best value")
        settle(figure)
    strongest = axes[0]
    told = f"{strongest.axis} matters most: {strongest.ratio:.3g} times between its worst and its best value."
    caption = (
        f"Geometric mean of {shown.figure} by value of each axis, over the points that differ in that axis "
        f"alone. {told}"
    )
    return Plot("sensitivity", figure, caption, told)


def _sign(aim: Any) -> int:
    return -1 if aim.large else 1


def _columns(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _is_wide(values: Sequence[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) >= SPREAD_FOR_LOG * min(values)


def _ordered(values: Sequence[Any]) -> list[Any]:
    """Each value once: numbers rising, all else as they come."""
    once = list(dict.fromkeys(values))
    return sorted(once) if all(isinstance(v, (int, float)) for v in once) else once


def _word(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "×".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"{value:.3g}" if isinstance(value, float) or abs(value) >= 10**6 else str(value)
