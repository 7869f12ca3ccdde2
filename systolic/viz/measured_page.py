"""Simulated beside measured time as one page that opens from disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..measured.comparison import Comparison, Group, Skipped
from ..measured.points import Point, best_peer, error, roofline
from ..measured.rows import CLOCKS
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
    page_html,
)

MOST_ROWS = 200
"""Rows of a group that its table holds, those with the largest error; the JSON holds all."""

_MAPE = Definition("MAPE", "Mean of |simulated - measured| / measured over the rows, in percent.")
_MEAN = Definition(
    "mean error", "Mean of the signed errors, in percent: negative where simulated is too fast."
)
_ROOFLINE = Definition(
    "roofline",
    "Each op at the slower of its arithmetic at the chip's peak and its operands' bytes at the sustained "
    "bandwidth: the same chip numbers, nothing fitted.",
)
_FITTED = Definition(
    "fitted roofline",
    "The same with the peak and the bandwidth, and on chips with launches the launch, that suit these very "
    "rows best: two or three fitted constants.",
)
_PEER = Definition(
    "best peer", "The other tool with the least MAPE on the same rows, where the source prints predictions."
)
_NOISE = Definition(
    "noise floor", "How far two measurements of the same thing lie apart, where the source lets us tell."
)


def comparison_html(comparison: Comparison) -> str:
    """The comparison as one self-contained HTML document: overview, and each group with figure and rows."""
    rows = sum(len(group.points) for group in comparison.groups)
    subtitle = f"{rows:,} measured rows in {len(comparison.groups)} groups; an error never spans two groups"
    return page_html("Simulated beside measured", subtitle, tuple(_parts(comparison)))


def _parts(comparison: Comparison) -> Iterator[Part]:
    if comparison.notes:
        yield Notes(comparison.notes)
    yield Heading("All groups")
    yield _overview(comparison.groups)
    for group in comparison.groups:
        yield from _group_parts(group)
    if comparison.skipped:
        yield Heading("Not compared")
        yield _skipped(comparison.skipped)


def _number(value: float | None, digits: int = 1, sign: str = "") -> Cell:
    return Cell("", None) if value is None else Cell(f"{value:{sign},.{digits}f}", value)


_ERRORS = (
    Column(head="rows"),
    Column(head="systolic", unit="MAPE, %", about=_MAPE),
    Column(head="mean", unit="%", about=_MEAN),
    Column(head="roofline", unit="MAPE, %", about=_ROOFLINE),
    Column(head="fitted roofline", unit="MAPE, %", about=_FITTED),
    Column(head="best peer", unit="MAPE, %", about=_PEER),
)


def _error_cells(group: Group, points: Sequence[Point]) -> tuple[Cell | str, ...]:
    figures = group.figures(points)
    names = ("mape", "mean", "roofline_mape", "fitted_roofline_mape")
    cells = (_number(figures[name], sign="+" if name == "mean" else "") for name in names)
    value, tool = figures["best_peer_mape"], figures["best_peer"]
    peer = Cell("") if tool is None else Cell(f"{tool} {value:.1f}", value)
    return (Cell(f"{len(points):,}", len(points)), *cells, peer)


def _overview(groups: Sequence[Group]) -> DataTable:
    texts = ("device", "format", "clock", "what")
    heads = tuple(Column(head=name, is_text=True) for name in texts)
    rows = []
    for group in groups:
        for kind in dict.fromkeys(point.kind for point in group.points):
            points = [point for point in group.points if point.kind == kind]
            named = (group.device, group.dtype, group.clock, kind)
            rows.append((*named, *_error_cells(group, points), _number(group.noise)))
    noise = Column(head="noise", unit="%", about=_NOISE)
    caption = "Errors of each group by kind of row"
    return DataTable(caption=caption, columns=(*heads, *_ERRORS, noise), rows=tuple(rows))


def _group_parts(group: Group) -> Iterator[Part]:
    from .comparison_figures import comparison_figure

    yield Heading(group.title)
    facts = [Fact(name="clock", value=f"{group.clock}: {CLOCKS.get(group.clock, group.clock)}")]
    if group.fit is not None:
        facts.append(Fact(name=f"roofline with {group.fit.constants} constants", value=str(group.fit)))
    yield Facts(tuple(facts))
    if group.labels:
        yield Notes(group.labels)
    plot = comparison_figure(group)
    yield Picture(svg=plot.svg, caption=plot.caption, alt=plot.alt)
    parts = tuple((name, *_error_cells(group, points)) for name, points in group.parts.items())
    columns = (Column(head="part", is_text=True), *_ERRORS)
    yield DataTable(caption="Errors by kind, bound, size and phase", columns=columns, rows=parts)
    if group.tiny:
        yield Paragraph(
            f"Rows under five times the {group.floor_us:g} us that the clock adds are in no other line.",
            "soft",
        )
    yield _rows(group)


def _rows(group: Group) -> DataTable:
    peer = best_peer(group.points)
    columns = [
        Column(head="row", is_text=True),
        Column(head="kind", is_text=True),
        Column(head="bound by", is_text=True),
        Column(head="measured", unit="us"),
        Column(head="simulated", unit="us"),
        Column(head="error", unit="%"),
        Column(head="roofline", unit="error, %", about=_ROOFLINE),
        *([] if peer is None else [Column(head=peer[0], unit="error, %", about=_PEER)]),
    ]
    rows: list[tuple[Cell | str, ...]] = []
    for point in group.worst(MOST_ROWS):
        off = error(point.measured, point.simulated)
        rows.append(
            (
                *(point.name, point.kind, point.bound_by),
                *(_number(1e6 * time, 2) for time in (point.measured, point.simulated)),
                Cell(f"{off:+.1f}", off, fraction=abs(off) / 100),
                _number(error(point.measured, roofline(point)), sign="+"),
                *([] if peer is None else [_number(error(point.measured, peer[1](point)), sign="+")]),
            )
        )
    left = len(group.points) - len(rows)
    caption = "Rows, largest error first" + (f"; {left:,} more are in the JSON" if left else "")
    return DataTable(caption=caption, columns=tuple(columns), rows=tuple(rows))


def _skipped(skipped: Sequence[Skipped]) -> DataTable:
    columns = (
        *(Column(head=name, is_text=True) for name in ("device", "source", "reason")),
        Column(head="rows"),
    )
    rows = tuple((e.device, e.source, e.reason, Cell(f"{e.rows:,}", e.rows)) for e in skipped)
    return DataTable(caption="Rows that are not compared, and why", columns=columns, rows=rows)
