"""Figures made of bars: cycles by cause, traffic by level and operand, chips side by side."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from ..engine.report import ChipReport, Report
from ..metrics import CAUSES
from ..quantity import format_bytes, format_count, format_hz, format_seconds
from ..result import OPERANDS, Result, Traffic, add_bytes, add_counts
from .palette import CAUSE_FILLS, LIGHT, OPERAND_FILLS, Fill
from .style import Plot, byte_axis, end_label, label_rows, legend_above, new_figure, stacked_bars, stated

ROWS = 24
"""Rows of a figure; what takes least is one row beyond that."""


def cause_figure(report: Report, chip: ChipReport) -> Plot:
    """Cycles of each op by cause, stacked; the longest bar takes most of the time."""
    totals = chip.totals.cycles_by_cause
    bars = [(name, add_counts(*(r.cycles_by_cause for r in rows))) for name, rows in _rows(chip)]
    figure = new_figure(
        f"Where the cycles go on {chip.chip.name}", stated(report.workload, [chip]), 1.7 + 0.26 * len(bars)
    )
    axes = figure.subplots()
    every = chip.totals.cycles
    for row, (_, causes) in enumerate(bars):
        end = stacked_bars(axes, row, [(causes.get(cause, 0), CAUSE_FILLS[cause]) for cause in CAUSES])
        share = f"{100 * end / every:.1f}%" if end else "hidden"
        end_label(axes, share, end, row)
    label_rows(axes, [name for name, _ in bars])
    axes.margins(x=0.08)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_count(value)))
    axes.set_xlabel("cycles on the critical path, all occurrences (% of the total)")
    shares = [(f"{c} {100 * totals[c] / every:.1f}%", CAUSE_FILLS[c]) for c in CAUSES if totals.get(c)]
    legend_above(figure, shares)
    largest = max(totals, key=totals.__getitem__, default="")
    caption = (
        f"Cycles of each op by cause on {chip.chip.name}: {every:,} in all"
        + (f", most of them {largest} ({100 * totals[largest] / every:.1f}%)." if largest else ".")
        + " An op without a bar is hidden behind others."
    )
    listed = "; ".join(f"{name} {sum(causes.values()):,}" for name, causes in bars)
    return Plot("causes", figure, caption, f"{caption} Cycles per op: {listed}.")


def traffic_figure(report: Report, chip: ChipReport) -> Plot:
    """Bytes through each memory's port by operand, and what each op moves through main memory."""
    moved = chip.totals.bytes
    bars = [(name, add_bytes(*(r.bytes for r in rows)).get("dram", {})) for name, rows in _rows(chip)]
    height = 1.9 + 0.26 * (len(bars) + 1.4 * len(moved))
    figure = new_figure(f"Bytes moved on {chip.chip.name}", stated(report.workload, [chip]), height)
    above, below = figure.subplots(2, 1, height_ratios=(max(1.4 * len(moved), 2), len(bars)))
    ends = {level: _traffic_bar(above, row, moved[level]) for row, level in enumerate(moved)}
    label_rows(above, list(moved))
    above.set_title("through each memory's port, by operand")
    for row, (_, operands) in enumerate(bars):
        _traffic_bar(below, row, operands)
    label_rows(below, [name for name, _ in bars])
    below.set_title("through main memory (dram), by op")
    for axes in (above, below):
        axes.margins(x=0.12)
        byte_axis(axes)
    shown = [operand for operand in OPERANDS if any(operand in operands for operands in moved.values())]
    ways = [("read", Fill(LIGHT["card"])), ("written", Fill(LIGHT["card"], "////"))]
    legend_above(figure, [(operand, OPERAND_FILLS[operand]) for operand in shown] + ways)
    listed = ", ".join(f"{level} {format_bytes(int(end))}" for level, end in ends.items())
    caption = f"Bytes on {chip.chip.name} by level and operand, read and written: {listed}."
    ops = "; ".join(f"{name} {format_bytes(_total(operands))}" for name, operands in bars)
    return Plot("traffic", figure, caption, f"{caption} Main memory per op: {ops}.")


def comparison_figure(report: Report) -> Plot:
    """Elapsed time of each chip by cause, and how well its multipliers are used."""
    chips = report.chips
    title = f"{report.workload.name} on {len(chips)} chip{'s' if len(chips) > 1 else ''}"
    figure = new_figure(title, stated(report.workload, chips), 1.8 + 0.34 * len(chips))
    left, right = figure.subplots(1, 2, width_ratios=(3, 1), sharey=True)
    first = chips[0].seconds
    for row, chip in enumerate(chips):
        causes = chip.totals.cycles_by_cause
        parts = [(causes.get(cause, 0) / chip.chip.clock_hz, CAUSE_FILLS[cause]) for cause in CAUSES]
        end = stacked_bars(left, row, parts)
        speed = f", {first / chip.seconds:.3g}×" if row and chip.seconds else ""
        end_label(left, f"{format_seconds(chip.seconds)}{speed}", end, row)
        used = 100 * (chip.utilization or 0.0)
        stacked_bars(right, row, [(used, Fill(LIGHT["soft"]))])
        end_label(right, f"{used:.3g}%", used, row)
    label_rows(left, [f"{chip.chip.name}, {format_hz(chip.chip.clock_hz)}" for chip in chips])
    left.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value)))
    left.margins(x=0.2)
    left.set_title(f"elapsed time by cause (× {chips[0].chip.name})")
    right.tick_params(axis="y", length=0)
    right.set_xlim(0, 118)
    right.set_xticks((0, 50, 100), ("0", "50", "100%"))
    right.set_title("utilization")
    met = [cause for cause in CAUSES if any(chip.totals.cycles_by_cause.get(cause) for chip in chips)]
    legend_above(figure, [(cause, CAUSE_FILLS[cause]) for cause in met])
    times = ", ".join(f"{chip.chip.name} {format_seconds(chip.seconds)}" for chip in chips)
    used_ = ", ".join(f"{chip.chip.name} {100 * (chip.utilization or 0):.3g}%" for chip in chips)
    caption = f"Elapsed time of {report.workload.name} by cause: {times}."
    return Plot("comparison", figure, caption, f"{caption} Utilization: {used_}.")


def _rows(chip: ChipReport) -> list[tuple[str, list[Result]]]:
    """The rows that take most time, in their order, and one of all others."""
    rows = list(chip.rows)
    if len(rows) <= ROWS:
        return [(row.name, [row]) for row in rows]
    ranked = sorted(range(len(rows)), key=lambda index: -rows[index].cycles)
    kept = sorted(ranked[: ROWS - 1])
    others = [rows[index] for index in sorted(ranked[ROWS - 1 :])]
    return [(rows[index].name, [rows[index]]) for index in kept] + [(f"{len(others):,} others", others)]


def _traffic_bar(axes: Axes, row: int, operands: Mapping[str, Traffic]) -> int:
    parts = []
    for operand in OPERANDS:
        traffic = operands.get(operand, Traffic())
        fill = OPERAND_FILLS[operand]
        parts += [(traffic.read, fill), (traffic.write, Fill(fill.colour, "////"))]
    moved = _total(operands)
    stacked_bars(axes, row, parts)
    end_label(axes, format_bytes(moved), moved, row)
    return moved


def _total(operands: Mapping[str, Traffic]) -> int:
    return sum(traffic.total for traffic in operands.values())
