"""The tables of a report's page: the same figures as the printed ones, with units, values and definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..engine.advice import advise
from ..engine.render import exceptions_of, shape_of
from ..engine.report import ChipReport
from ..metrics import CAUSES, METRICS, RATIOS, STALLS, ratios_of
from ..quantity import format_bytes, format_count
from ..result import OPERANDS, Bytes, Result, Traffic
from .page import Cell, Column, DataTable, Definition, Row, Tone, metric_definition

OP = Column(head="op", is_text=True)
BLANK = Cell("·", None, "soft")
"""A cell that stands for 0 where 0 is the rule."""


def about(name: str) -> Definition | None:
    """Definition of a metric; None for what the registry does not name, as a chip's own memory level."""
    return metric_definition(name) if name in METRICS else None


def number(value: int) -> Cell:
    """A count, exact."""
    return Cell(f"{value:,}", value)


def figure(value: float, unit: float) -> Cell:
    """A figure in units of `unit`, four digits and never an exponent."""
    shown = value / unit
    return Cell(f"{shown:,.0f}" if shown >= 1e4 else f"{shown:.4g}", value)


def _row(*cells: Cell | str) -> Row:
    return cells


def percent(value: float | None, bar: bool = False) -> Cell:
    """A part, 0..1, as percent."""
    if value is None:
        return Cell("")
    return Cell(f"{100 * value:.3g}", value, fraction=value if bar else None)


def _count(value: int) -> Cell:
    return number(value) if value else BLANK


def advice_table(chip: ChipReport) -> DataTable:
    """What bounds each matmul and what would help, by the rule of :mod:`systolic.engine.advice`."""
    columns = (
        OP,
        Column(head="bound by", is_text=True, about=about("bound_by")),
        Column(head="of the total", unit="%", about=about("share")),
        Column(head="of its cycles", unit="%", about=Definition("of its cycles", _OF_ITS_CYCLES)),
        Column(head="at most faster", unit="×", about=Definition("at most faster", _AT_MOST)),
        Column(head="what would help", is_text=True, about=Definition("what would help", _WHAT_HELPS)),
    )
    total = chip.totals.cycles
    rows = []
    for row in chip.matmuls:
        advice = advise(row, chip.chip)
        faster = advice.most_speedup
        rows.append(
            (
                row.name,
                row.bound_by,
                percent(row.cycles / total if total else None, bar=True),
                percent(advice.share),
                Cell("") if faster is None else Cell(f"{faster:.3g}", faster),
                advice.text,
            )
        )
    return DataTable(caption="Derived from the rows below by a fixed rule", columns=columns, rows=tuple(rows))


_OF_ITS_CYCLES = "Part of the matmul's cycles that go to what bounds it."
_AT_MOST = (
    "How many times faster the matmul could become if these cycles were gone and nothing else changed: its "
    "cycles / the other ones (Amdahl's bound)."
)
_WHAT_HELPS = (
    "Follows from bound_by by a fixed table. A bandwidth is the matmul's bytes over the time in which it "
    "does not wait for memory: with less it must wait, with more it may still wait for first and last blocks."
)


def ops_table(chip: ChipReport) -> DataTable:
    """Everything that takes time, in order."""
    columns = (
        OP,
        Column(head="kind", is_text=True, about=about("kind")),
        Column(head="bound by", is_text=True, about=about("bound_by")),
        Column(head="source", is_text=True, about=about("source")),
        Column(head="batch×m×n×k", is_text=True),
        Column(head="count", about=about("count")),
        Column(head="work", unit="MAC", about=about("macs")),
        Column(head="time", unit="cycles", about=about("cycles")),
        Column(head="time", unit="us", about=about("seconds")),
        Column(head="share", unit="%", about=about("share")),
        Column(head="utilization", unit="%", about=about("utilization")),
        Column(head="mapped utilization", unit="%", about=about("mapped_utilization")),
    )
    total = chip.totals.cycles
    rows = tuple(
        (
            row.name,
            row.kind,
            row.bound_by,
            row.source,
            shape_of(row),
            number(row.op.count),
            _macs(row.macs),
            *_time(row.cycles, row.seconds, total),
            percent(row.utilization),
            percent(row.mapped_utilization),
        )
        for row in chip.rows
    )
    footer = (
        *("total", "", chip.totals.bound_by, chip.totals.source, "", ""),
        _macs(sum(row.macs for row in chip.rows)),
        *_time(total, chip.seconds, total),
        percent(chip.utilization),
        percent(chip.mapped_utilization),
    )
    caption = "Ops in order; all figures of a row are for all its occurrences"
    return DataTable(caption=caption, columns=columns, rows=rows, footer=(footer,))


def _macs(macs: int) -> Cell:
    return Cell(format_count(macs), macs) if macs else Cell("")


def _time(cycles: int, seconds: float, total: int) -> tuple[Cell, Cell, Cell]:
    share = cycles / total if total else None
    return number(cycles), figure(seconds, 1e-6), _one_digit(share, bar=True)


def _one_digit(value: float | None, bar: bool = False) -> Cell:
    if value is None:
        return Cell("")
    return Cell(f"{100 * value:.1f}", value, fraction=value if bar else None)


def cause_table(chip: ChipReport) -> DataTable:
    """Each row's cycles by cause."""
    totals, every = chip.totals.cycles_by_cause, chip.totals.cycles
    causes = [cause for cause in CAUSES if totals.get(cause)]
    columns = (
        OP,
        *(Column(head=cause, unit="cycles", about=about(cause)) for cause in causes),
        Column(head="busy", unit="cycles", about=about("busy_cycles")),
    )
    rows = tuple(
        _row(
            row.name,
            *(_count(row.cycles_by_cause.get(cause, 0)) for cause in causes),
            number(row.busy_cycles),
        )
        for row in chip.rows
    )
    footer = (
        _row(
            "total", *(number(totals[c]) for c in causes), number(sum(row.busy_cycles for row in chip.rows))
        ),
        _row("share, %", *(_one_digit(totals[cause] / every) for cause in causes), ""),
    )
    return DataTable(
        caption="Cycles by cause: each cycle has exactly one", columns=columns, rows=rows, footer=footer
    )


def bytes_table(chip: ChipReport) -> DataTable:
    """Bytes by level, operand and direction."""
    total = chip.totals.bytes
    places = [
        (level, operand, way)
        for level, operands in total.items()
        for operand in OPERANDS
        for way in ("read", "write")
        if operand in operands and getattr(operands[operand], way)
    ]
    columns = (
        OP,
        *(Column(head=f"{place[0]} {place[1]}", unit=place[2], about=about(place[0])) for place in places),
    )
    rows = tuple(_row(row.name, *_moved(row.bytes, places)) for row in chip.rows)
    footer = (_row("total", *_moved(total, places)),)
    return DataTable(
        caption="Bytes that cross each memory's port, by operand", columns=columns, rows=rows, footer=footer
    )


def _moved(traffic: Bytes, places: Sequence[tuple[str, str, str]]) -> list[Cell]:
    moved = (getattr(traffic.get(lv, {}).get(operand, Traffic()), way) for lv, operand, way in places)
    return [Cell(format_bytes(count), count) if count else BLANK for count in moved]


def stall_table(chip: ChipReport) -> DataTable:
    """What resident warps, or micro-operations in flight, do."""
    totals = chip.totals.stalls
    stalls = [name for name in STALLS if totals.get(name)]
    columns = (OP, *(Column(head=name, unit="%", about=about(f"stalls.{name}")) for name in stalls))
    rows = tuple(_row(row.name, *_parts(row.stalls, stalls)) for row in chip.rows if row.stalls)
    footer = (_row("total", *_parts(totals, stalls)),)
    return DataTable(caption="What resident warps do", columns=columns, rows=rows, footer=footer)


def _parts(counts: Mapping[str, int], names: Sequence[str]) -> list[Cell]:
    every = sum(counts.values())
    return [_one_digit(counts[name] / every) if counts.get(name) else BLANK for name in names]


def profile_table(chip: ChipReport) -> DataTable:
    """Instructions, and the ratios of what was counted."""
    totals = ratios_of(chip.totals.counters)
    names = [name for name in RATIOS if name in totals]
    units = {name: METRICS[name].unit for name in names}
    columns = (
        OP,
        Column(head="instructions", about=about("instructions")),
        *(
            Column(head=name, unit="%" if unit == "0..1" else unit, about=about(name))
            for name, unit in units.items()
        ),
    )

    def cells(counters: Mapping[str, int]) -> list[Cell]:
        ratios = ratios_of(counters)
        return [number(counters.get("instructions", 0)), *(_ratio(ratios.get(n), units[n]) for n in names)]

    rows = tuple(_row(row.name, *cells(row.counters)) for row in chip.rows if row.counters)
    footer = (_row("total", *cells(chip.totals.counters)),)
    return DataTable(caption="Counted while it ran", columns=columns, rows=rows, footer=footer)


def _ratio(value: float | None, unit: str) -> Cell:
    if value is None:
        return BLANK
    return percent(value) if unit == "0..1" else Cell(f"{value:.3g}", value)


def mapping_table(chip: ChipReport) -> DataTable:
    """What the mapper, or the choice of a kernel, picked."""
    rows = [row for row in chip.matmuls if row.mapping]
    keys = list(dict.fromkeys(key for row in rows for key in row.mapping or ()))
    columns = (
        OP,
        *(
            Column(head=key.replace("_", " "), unit=_sides(rows, key), about=about(key), is_text=True)
            for key in keys
        ),
        Column(head="precision", is_text=True, about=about("precision")),
    )
    cells = tuple(
        (row.name, *(_plain((row.mapping or {}).get(key)) for key in keys), row.precision or "")
        for row in rows
    )
    return DataTable(caption="What was picked for each matmul", columns=columns, rows=cells)


def _sides(rows: Sequence[Result], key: str) -> str:
    """What a cell of several numbers lists."""
    value = (rows[0].mapping or {}).get(key)
    return "×".join(value) if isinstance(value, Mapping) else ""


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return "×".join(f"{item:,}" for item in value.values())
    return f"{value:,}" if isinstance(value, int) else str(value or "")


def check_table(chip: ChipReport) -> DataTable:
    """The machine's values against ``jnp.matmul``."""
    columns = (
        OP,
        Column(head="result", is_text=True, about=about("passed")),
        Column(head="mode", is_text=True, about=about("mode")),
        Column(head="device", is_text=True, about=about("device")),
        Column(head="compared", unit="elements", about=about("compared")),
        Column(head="max error", about=about("max_error")),
        Column(head="tolerance", about=about("tolerance")),
        Column(head="error vs float64", about=about("error_vs_float64")),
        Column(head="rows", is_text=True, about=about("rows")),
    )
    rows = []
    for row in chip.matmuls:
        if (check := row.check) is None:
            continue
        tone: Tone = "good" if check.passed else "bad"
        verdict = ", ".join(["passed" if check.passed else "FAILED", *exceptions_of(check)])
        rows.append(
            (
                row.name,
                Cell(verdict, None, tone),
                check.mode,
                check.device,
                number(check.compared),
                _float(check.max_error),
                Cell("equality", 0.0) if check.exact else _float(check.tolerance),
                _float(check.error_vs_float64),
                check.rows,
            )
        )
    return DataTable(
        caption="Values that the simulated chip computes, against jnp.matmul",
        columns=columns,
        rows=tuple(rows),
    )


def _float(value: float) -> Cell:
    return Cell(f"{value:.3g}", value)
