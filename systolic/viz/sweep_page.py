"""The page of a sweep: front, map and sensitivity, in the style of the report's page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import __version__
from ..metrics import METRICS
from .page import (
    Cell,
    Column,
    DataTable,
    Definition,
    Fact,
    Facts,
    Heading,
    Notes,
    Paragraph,
    Part,
    Picture,
    metric_definition,
    page_html,
)
from .style import Plot
from .sweep_figures import front_figure, heat_figure, sensitivity_figure

MOST_ROWS = 200
"""Rows of the front in the page's table; the whole table is what an export writes."""

_ENOUGH = Definition(
    "enough from",
    "The value from which on no further step of this axis changes the mean by 1%, all else equal.",
)
_RATIO = Definition(
    "worst / best",
    "How many times the figure changes between the worst and the best value of the axis, all else equal: a "
    "geometric mean over the points that differ in that axis alone.",
)


def sweep_html(shown: Any) -> str:
    """A sweep as one self-contained HTML page.

    Parameters
    ----------
    shown
        What :meth:`systolic.explore.views.View.shown` gives.

    Returns
    -------
    str
        HTML; the same sweep gives the same text.
    """
    failed = sum(count for _, count in shown.failures)
    subtitle = f"{shown.done:,} points over {', '.join(shown.axes)} · systolic {__version__}"
    parts: list[Part] = [
        Facts(
            (
                Fact(name="points", value=f"{shown.done:,}"),
                Fact(name="failed", value=f"{failed:,}", tone="bad" if failed else ""),
                Fact(name="on the front", value=f"{len(shown.front):,}"),
            ),
            are_large=True,
        ),
        *_front(shown),
        *_heat(shown),
        *_sensitivity(shown),
        *_failures(shown),
    ]
    return page_html(shown.name, subtitle, parts)


def _picture(plot: Plot) -> Picture:
    return Picture(svg=plot.svg, caption=plot.caption, alt=plot.alt)


def _front(shown: Any) -> Iterator[Part]:
    yield Heading("Pareto front")
    if not shown.front:
        yield Paragraph("No point that is done has both figures.")
        return
    first, second = shown.aims
    yield _picture(front_figure(shown))
    names = list(dict.fromkeys([*shown.axes, first.column, second.column]))
    columns = tuple(_column(name, shown.front) for name in names)
    rows = tuple(tuple(_cell(row[name]) for name in names) for row in shown.front[:MOST_ROWS])
    yield DataTable(caption=f"Front of {first} and {second}", columns=columns, rows=rows)


def _heat(shown: Any) -> Iterator[Part]:
    if shown.heat is None or not shown.cells:
        return
    yield Heading("Map")
    yield _picture(heat_figure(shown))


def _sensitivity(shown: Any) -> Iterator[Part]:
    if not shown.influences:
        return
    yield Heading("What matters")
    yield _picture(sensitivity_figure(shown))
    columns = (
        Column(head="axis", is_text=True),
        Column(head="worst / best", unit="×", about=_RATIO),
        Column(head="enough from", is_text=True, about=_ENOUGH),
    )
    rows = tuple(
        (i.axis, Cell(f"{i.ratio:.3g}", i.ratio), "" if i.enough is None else _text(i.enough))
        for i in shown.influences
    )
    yield DataTable(caption=f"What each axis does to {shown.figure}", columns=columns, rows=rows)


def _failures(shown: Any) -> Iterator[Part]:
    if shown.failures:
        yield Heading("Points that failed")
        yield Notes(tuple(f"{count:,} × {reason}" for reason, count in shown.failures[:50]))


def _column(name: str, rows: Any) -> Column:
    numbers = all(isinstance(row[name], (int, float)) for row in rows)
    metric = METRICS.get(name)
    about = None if metric is None else metric_definition(name)
    return Column(head=name, unit=metric.unit if metric else "", about=about, is_text=not numbers)


def _cell(value: Any) -> Cell | str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return Cell(_text(value), float(value)) if number else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
