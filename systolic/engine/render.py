"""A report as tables that a person reads. Nothing here computes a figure that the report lacks."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ..metrics import CAUSES, METRICS, RATIOS, STALLS, ratios_of
from ..quantity import format_bytes, format_count, format_hz, format_rate, format_seconds
from ..result import OPERANDS, Bytes, Check, Result, Traffic
from ..workload import Gemm

if TYPE_CHECKING:
    from .report import ChipReport, Report

NARROWEST = 100  # columns that text which is not for a terminal may fill before it wraps


def to_text(report: Report) -> str:
    """The report as plain text, as wide as its widest table."""
    out = io.StringIO()
    show(report, Console(file=out, width=NARROWEST, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def show(report: Report, console: Console) -> None:
    """Print the report; a console too narrow for a table is widened, so that no figure is cut."""
    parts = _parts(report)
    width = max(
        Measurement.get(console, console.options.update(width=10_000), part).maximum
        for part in parts
        if isinstance(part, Table)
    )
    console.width = max(console.width, width)
    for part in parts:
        console.print(part)


def renderable(report: Report) -> Group:
    """The report as one object that rich can print."""
    return Group(*_parts(report))


def _parts(report: Report) -> list[RenderableType]:
    work = report.workload
    keys = f", KV length {work.kv_len:,}" if work.kv_len else ""
    parts: list[RenderableType] = [
        Text(
            f"{work.name}: {work.phase}, batch {work.batch:,}, seq {work.seq:,}{keys}, "
            f"{work.parameters:,} parameters",
            style="bold",
        )
    ]
    for chip in report.chips:
        parts += _chip_parts(chip)
    if len(report.chips) > 1:
        parts += [Text("\ncomparison", style="bold"), _comparison(report.chips)]
    host = report.host
    parts.append(
        Text(
            f"host: {format_seconds(host.wall_seconds)} in all, {format_seconds(host.simulation_seconds)} of "
            f"simulation, {format_count(host.simulated_cycles_per_second)} simulated cycles/s; "
            "systolic explain METRIC says what a figure means",
            style="dim",
        )
    )
    return parts


def _chip_parts(chip: ChipReport) -> list[RenderableType]:
    totals = chip.totals
    parts: list[RenderableType] = [
        Text(f"\n{chip.chip.name}: clock {format_hz(chip.chip.clock_hz)}", style="bold"),
        _ops_table(chip),
        Text("cycles by cause", style="bold"),
        _cause_table(chip),
        Text("bytes by level and operand", style="bold"),
        _bytes_table(chip),
    ]
    if chip.totals.stalls:
        parts += [Text("what resident warps do", style="bold"), _stalls_table(chip)]
    if chip.totals.counters:
        parts += [Text("in a profiler's words", style="bold"), _profile_table(chip)]
    if any(row.mapping for row in chip.rows):
        parts += [Text("mapping picked", style="bold"), _mapping_table(chip)]
    if any(row.check for row in chip.rows):
        parts += [Text("check against jnp.matmul", style="bold"), _check_table(chip)]
    parts.append(Text(_summary(chip, totals.cycles)))
    parts += [Text(f"note: {note}") for note in chip.notes]
    for missing in chip.not_covered:
        share = "an unknown share" if missing.share is None else f"{100 * missing.share:.3g}%"
        parts.append(Text(f"not covered: {missing.op}, {share} of the work"))
    return parts


def _summary(chip: ChipReport, cycles: int) -> str:
    lines = []
    if cycles:
        flop = 2 * sum(row.macs for row in chip.rows)
        moved = sum(t.total for t in chip.totals.bytes.get("dram", {}).values())
        lines.append(
            f"rates: {format_count(flop / chip.seconds)}FLOP/s, dram {format_rate(moved / chip.seconds)}"
            + (f", {flop / moved:.4g} FLOP/B" if moved else "")
        )
        lines.append(limits_of(chip))
    lines.append(f"memory: {chip.fits}")
    return "\n".join(lines)


def limits_of(chip: ChipReport) -> str:
    """What the chip can do at most in its native format: multipliers, main memory, what else may bound it."""
    spec = chip.chip
    dtype = spec.native_dtype
    memory = spec.memory["dram"]
    dram = "unlimited"
    if memory.bytes_per_s is not None:
        dram = f"{format_rate(memory.bytes_per_s)}, {memory.sustained_percent}% sustained"
    if memory.model == "timing":
        dram = f"{memory.channels} channels of {memory.part}, stepped"
    others = (f", {name} {format_rate(rate)}" for name, rate in spec.other_limits.items())
    peak = format_count(2 * spec.peak_macs_per_s(dtype))
    return f"limits: {peak}FLOP/s in {dtype}, dram {dram}{''.join(others)}"


def _table(headers: Iterable[str], left: int = 1) -> Table:
    """An empty table: the first `left` columns are texts, the others numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for index, header in enumerate(headers):
        table.add_column(header, justify="left" if index < left else "right", no_wrap=True, vertical="bottom")
    return table


def _ops_table(chip: ChipReport) -> Table:
    table = _table(
        (
            *("op", "kind", "bound by", "source", "batch×m×n×k", "count", "work\nMAC"),
            *("time\ncycles", "time", "share\n%", "util\n%", "mapped\nutil %"),
        ),
        left=4,
    )
    total = chip.totals.cycles
    for row in chip.rows:
        table.add_row(
            row.name,
            row.kind,
            row.bound_by,
            row.source,
            shape_of(row),
            f"{row.op.count:,}",
            format_count(row.macs) if row.macs else "",
            *_time_cells(row.cycles, row.seconds, total),
            _percent(row.utilization),
            _percent(row.mapped_utilization),
        )
    table.add_section()
    table.add_row(
        *("total", "", chip.totals.bound_by, chip.totals.source, "", ""),
        format_count(sum(row.macs for row in chip.rows)),
        *_time_cells(total, chip.seconds, total),
        _percent(chip.utilization),
        _percent(chip.mapped_utilization),
        style="bold",
    )
    return table


def _time_cells(cycles: int, seconds: float, total: int) -> tuple[str, str, str]:
    share = f"{100 * cycles / total:.1f}" if total else ""
    return f"{cycles:,}", format_seconds(seconds) if cycles else "0 s", share


def shape_of(row: Result) -> str:
    """Sides of a matmul, its batch in front where there is one; elements of a vector op."""
    gemm = row.op
    if not isinstance(gemm, Gemm):
        return f"{gemm.elements:,} elements"
    sides = (gemm.m, gemm.n, gemm.k)
    return "×".join(str(side) for side in ((gemm.batch, *sides) if gemm.batch > 1 else sides))


def _cause_table(chip: ChipReport) -> Table:
    totals = chip.totals.cycles_by_cause
    causes = [cause for cause in CAUSES if totals.get(cause)]
    table = _table(("op", *(f"{cause}\ncycles" for cause in causes), "busy\ncycles"))
    for row in chip.rows:
        cells = (row.cycles_by_cause.get(cause, 0) for cause in causes)
        table.add_row(row.name, *(_blank(cell, "{:,}".format) for cell in cells), f"{row.busy_cycles:,}")
    table.add_section()
    busy = sum(row.busy_cycles for row in chip.rows)
    table.add_row("total", *(f"{totals[cause]:,}" for cause in causes), f"{busy:,}", style="bold")
    cycles = chip.totals.cycles
    table.add_row("share %", *(f"{100 * totals[cause] / cycles:.1f}" for cause in causes), "")
    return table


def _stalls_table(chip: ChipReport) -> Table:
    totals = chip.totals.stalls
    stalls = [name for name in STALLS if totals.get(name)]
    table = _table(("op", *(name.replace("_", "\n") + "\n%" for name in stalls), "warp\ncycles"))
    for name, row in (*((row.name, row.stalls) for row in chip.rows if row.stalls), ("total", totals)):
        every = sum(row.values())
        cells = (f"{100 * row.get(stall, 0) / every:.1f}" if row.get(stall) else "·" for stall in stalls)
        table.add_row(name, *cells, format_count(every), style="bold" if row is totals else None)
    return table


def _profile_table(chip: ChipReport) -> Table:
    totals = ratios_of(chip.totals.counters)
    names = [name for name in RATIOS if name in totals]
    heads = (name.replace("_", "\n") + ("\n%" if METRICS[name].unit == "0..1" else "") for name in names)
    table = _table(("op", "instructions", *heads))
    rows = [(row.name, row.counters) for row in chip.rows if row.counters]
    for name, counters in (*rows, ("total", chip.totals.counters)):
        ratios = ratios_of(counters)
        cells = (_ratio(ratios.get(ratio), METRICS[ratio].unit) for ratio in names)
        count = format_count(counters.get("instructions", 0))
        table.add_row(name, count, *cells, style="bold" if name == "total" else None)
    return table


def _ratio(value: float | None, unit: str) -> str:
    if value is None:
        return "·"
    return _percent(value) if unit == "0..1" else f"{value:.3g}"


def _bytes_table(chip: ChipReport) -> Table:
    total = chip.totals.bytes
    columns = [
        (level, operand, way)
        for level, operands in total.items()
        for operand in OPERANDS
        for way in ("read", "write")
        if operand in operands and getattr(operands[operand], way)
    ]
    table = _table(("op", *("\n".join(column) for column in columns)))
    for row in chip.rows:
        table.add_row(row.name, *_bytes_cells(row.bytes, columns))
    table.add_section()
    table.add_row("total", *_bytes_cells(total, columns), style="bold")
    return table


def _bytes_cells(traffic: Bytes, columns: Sequence[tuple[str, str, str]]) -> list[str]:
    cells = []
    for level, operand, way in columns:
        moved = getattr(traffic.get(level, {}).get(operand, Traffic()), way)
        cells.append(_blank(moved, format_bytes))
    return cells


def _mapping_table(chip: ChipReport) -> Table:
    rows = [row for row in chip.matmuls if row.mapping]
    keys = list(dict.fromkeys(key for row in rows for key in row.mapping or ()))
    first = rows[0].mapping or {}
    heads = (key.replace("_", "\n") + _sides(first.get(key)) for key in keys)
    table = _table(("op", *heads, "precision"), left=2 + len(keys))
    for row in rows:
        mapping = row.mapping or {}
        table.add_row(row.name, *(_plain_cell(mapping.get(key)) for key in keys), row.precision or "")
    return table


def _check_table(chip: ChipReport) -> Table:
    numbers = ("compared\nelements", "max error", "tolerance", "error vs\nfloat64")
    table = _table(("op", "result", "mode", "device", *numbers, "rows"), left=4)
    table.columns[-1].justify = "left"
    for row in chip.matmuls:
        if (check := row.check) is None:
            continue
        table.add_row(
            row.name,
            ", ".join(["passed" if check.passed else "FAILED", *exceptions_of(check)]),
            check.mode,
            check.device,
            f"{check.compared:,}",
            f"{check.max_error:.3g}",
            "equality" if check.exact else f"{check.tolerance:.3g}",
            f"{check.error_vs_float64:.3g}",
            check.rows,
            style=None if check.passed else "bold red",
        )
    return table


def exceptions_of(check: Check) -> list[str]:
    """What a check met besides differences, in words."""
    counts = ((check.overflows, "sums wrapped"), (check.out_of_range, "results out of range"))
    return [f"{count:,} {what}" for count, what in counts if count]


def _comparison(chips: Sequence[ChipReport]) -> Table:
    table = _table(
        (
            *("chip", "bound by", "clock", "time\ncycles", "time", f"speed\n× {chips[0].chip.name}"),
            *("util\n%", "dram", "chips\nneeded"),
        ),
        left=2,
    )
    for chip in chips:
        moved = sum(t.total for t in chip.totals.bytes.get("dram", {}).values())
        table.add_row(
            chip.chip.name,
            chip.totals.bound_by,
            format_hz(chip.chip.clock_hz),
            f"{chip.totals.cycles:,}",
            format_seconds(chip.seconds),
            f"{chips[0].seconds / chip.seconds:.3g}" if chip.seconds else "",
            _percent(chip.utilization),
            format_bytes(moved),
            f"{chip.fits.chips_needed:,}",
        )
    return table


def _blank(value: int, text: Callable[[int], str]) -> str:
    return text(value) if value else "·"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.3g}"


def _sides(value: Any) -> str:
    """What a cell of several numbers lists, for the head of its column."""
    return "\n" + "×".join(value) if isinstance(value, Mapping) else ""


def _plain_cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return "×".join(f"{item:,}" for item in value.values())
    return f"{value:,}" if isinstance(value, int) else str(value or "")
