"""The page of a report: the figures that ``systolic run`` prints, sortable, drawn and explained.

Nothing here computes a figure that the report lacks.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import __version__
from ..chips.tpu import TpuChip
from ..engine.recording import record
from ..engine.render import limits_of
from ..engine.report import ChipReport, Report
from ..engine.unrolled import unroll
from ..errors import SystolicError
from ..quantity import format_bytes, format_count, format_hz, format_rate, format_seconds
from ..workload import Gemm
from .figures import plot
from .page import (
    Cell,
    Column,
    DataTable,
    Fact,
    Facts,
    Heading,
    Notes,
    Paragraph,
    Part,
    Picture,
    Tone,
    page_html,
)
from .report_tables import (
    about,
    advice_table,
    bytes_table,
    cause_table,
    check_table,
    figure,
    mapping_table,
    number,
    ops_table,
    percent,
    profile_table,
    stall_table,
)


def report_html(report: Report) -> str:
    """A report as one self-contained HTML page.

    Returns
    -------
    str
        HTML; the same input gives the same text, the section ``host`` at its end excepted.
    """
    work = report.workload
    names = ", ".join(chip.chip.name for chip in report.chips)
    keys = f", KV length {work.kv_len:,}" if work.kv_len else ""
    run = f"{work.phase}, batch {work.batch:,}, seq {work.seq:,}{keys}, {work.parameters:,} parameters"
    parts: list[Part] = []
    if len(report.chips) > 1:
        parts += _comparison(report)
    for chip in report.chips:
        parts += _chip(report, chip)
    parts += _host(report)
    return page_html(f"{work.name} on {names}", f"{run} · systolic {__version__}", parts)


def _comparison(report: Report) -> Iterator[Part]:
    first = report.chips[0]
    yield Heading("Chips compared")
    yield _picture(report, "comparison")
    columns = (
        Column(head="chip", is_text=True),
        Column(head="bound by", is_text=True, about=about("bound_by")),
        Column(head="clock", unit="MHz", about=about("clock_hz")),
        Column(head="time", unit="cycles", about=about("cycles")),
        Column(head="time", unit="us", about=about("seconds")),
        Column(head="speed", unit=f"× {first.chip.name}", about=about("speed")),
        Column(head="utilization", unit="%", about=about("utilization")),
        Column(head="dram", unit="MiB", about=about("dram")),
        Column(head="chips needed", about=about("chips_needed")),
    )
    rows = []
    for chip in report.chips:
        seconds, dram = chip.seconds, _dram(chip)
        rows.append(
            (
                chip.chip.name,
                chip.totals.bound_by,
                figure(chip.chip.clock_hz, 10**6),
                number(chip.totals.cycles),
                figure(seconds, 1e-6),
                Cell(f"{first.seconds / seconds:.3g}", first.seconds / seconds) if seconds else Cell(""),
                percent(chip.utilization),
                figure(dram, 2**20),
                number(chip.fits.chips_needed),
            )
        )
    yield DataTable(caption=f"{report.workload.name} on each chip", columns=columns, rows=tuple(rows))


def _chip(report: Report, chip: ChipReport) -> Iterator[Part]:
    yield Heading(chip.chip.name)
    yield Facts(_key_figures(chip), are_large=True)
    yield Facts(_facts(chip))
    if chip.matmuls:
        yield Heading("What bounds each matmul, and what would help", 3)
        yield advice_table(chip)
    yield Heading("Time", 3)
    if chip.totals.cycles:
        yield _picture(report, "causes", chip)
    yield ops_table(chip)
    yield cause_table(chip)
    yield from _timeline(report, chip)
    yield from _heat(chip)
    yield Heading("Bytes", 3)
    if chip.totals.bytes:
        yield _picture(report, "traffic", chip)
    yield bytes_table(chip)
    if any(row.cycles for row in chip.matmuls):
        yield Heading("Roofline", 3)
        yield _picture(report, "roofline", chip)
    yield from _details(chip)


def _details(chip: ChipReport) -> Iterator[Part]:
    if chip.totals.stalls:
        yield Heading("In a profiler's words", 3)
        yield stall_table(chip)
        yield profile_table(chip)
    if any(row.mapping for row in chip.rows):
        yield Heading("Mapping picked", 3)
        yield mapping_table(chip)
    if any(row.check for row in chip.rows):
        yield Heading("Check of the values", 3)
        yield check_table(chip)
    if chip.notes:
        yield Heading("Notes", 3)
        yield Notes(chip.notes)
    if chip.not_covered:
        yield Heading("Not covered", 3)
        yield Notes(tuple(f"{m.op}, {_share(m.share)} of the work" for m in chip.not_covered))


def _share(share: float | None) -> str:
    return "an unknown share" if share is None else f"{100 * share:.3g}%"


def _key_figures(chip: ChipReport) -> tuple[Fact, ...]:
    flop, dram = 2 * sum(row.macs for row in chip.rows), _dram(chip)
    facts = [
        Fact(name="time", value=format_seconds(chip.seconds), about=about("seconds")),
        Fact(name="cycles", value=f"{chip.totals.cycles:,}", about=about("cycles")),
        Fact(name="bound by", value=chip.totals.bound_by, about=about("bound_by")),
        Fact(name="utilization", value=_percent(chip.utilization), about=about("utilization")),
        Fact(
            name="mapped utilization",
            value=_percent(chip.mapped_utilization),
            about=about("mapped_utilization"),
        ),
    ]
    if chip.seconds:
        rate = f"{format_count(flop / chip.seconds)}FLOP/s"
        facts.append(Fact(name="rate", value=rate, about=about("flop_per_s")))
    facts.append(Fact(name="dram", value=format_bytes(dram), about=about("dram")))
    if chip.seconds:
        facts.append(
            Fact(name="dram rate", value=format_rate(dram / chip.seconds), about=about("dram_bytes_per_s"))
        )
    if dram:
        facts.append(Fact(name="intensity", value=f"{flop / dram:.4g} FLOP/B", about=about("flop_per_byte")))
    if any(row.check for row in chip.rows):
        tone: Tone = "good" if chip.passed else "bad"
        verdict = "passed" if chip.passed else "FAILED"
        facts.append(Fact(name="check", value=verdict, about=about("passed"), tone=tone))
    return tuple(facts)


def _facts(chip: ChipReport) -> tuple[Fact, ...]:
    return (
        Fact(name="made of", value=chip.chip.units),
        Fact(name="clock", value=format_hz(chip.chip.clock_hz), about=about("clock_hz")),
        Fact(name="limits", value=limits_of(chip).removeprefix("limits: ")),
        Fact(name="memory", value=str(chip.fits), about=about("fits")),
        Fact(name="work", value=f"{sum(row.macs for row in chip.rows):,} MAC", about=about("macs")),
        Fact(name="source", value=chip.totals.source, about=about("source")),
    )


def _percent(value: float | None) -> str:
    return "not known" if value is None else f"{100 * value:.3g} %"


def _dram(chip: ChipReport) -> int:
    return sum(traffic.total for traffic in chip.totals.bytes.get("dram", {}).values())


def _picture(report: Report, kind: str, chip: ChipReport | None = None) -> Picture:
    index = 0 if chip is None else report.chips.index(chip)
    drawn = plot(report, kind, chip=None if chip is None else report.chips[index].chip.name)
    return Picture(svg=drawn.svg, caption=drawn.caption, alt=drawn.alt)


def _timeline(report: Report, chip: ChipReport) -> Iterator[Part]:
    """The schedule that made the rows; nothing where a choice of the run (a pinned tile) made others."""
    if not isinstance(chip.chip, TpuChip) or not chip.matmuls:
        return
    mapping = chip.matmuls[0].mapping or {}
    run = unroll(report.workload, on=chip.chip, dataflow=mapping.get("dataflow"))
    if [(row.op, row.cycles) for row in run.rows] != [(row.op, row.cycles) for row in chip.rows]:
        return
    drawn = plot(run, "timeline")
    yield Heading("Timeline", 3)
    yield Picture(svg=drawn.svg, caption=drawn.caption, alt=drawn.alt)


def _heat(chip: ChipReport) -> Iterator[Part]:
    """How busy the PEs of an array are in the matmul that takes most cycles, stepped once more for it.

    Nothing where a choice of the run (a pinned tile) made another plan.
    """
    if not isinstance(chip.chip, TpuChip) or not chip.matmuls:
        return
    row = max(chip.matmuls, key=lambda row: row.cycles)
    assert isinstance(row.op, Gemm)
    try:
        recording = record(row.op, on=chip.chip, dataflows=((row.mapping or {})["dataflow"],))
    except SystolicError as error:
        yield Heading("Busy PEs", 3)
        yield Paragraph(f"The array is not drawn: {error}.", "soft")
        return
    if recording.runs[0].row.mapping != row.mapping:
        return
    yield Heading("Busy PEs", 3)
    drawn = plot(recording, "array")
    yield Picture(svg=drawn.svg, caption=drawn.caption, alt=drawn.alt)


def _host(report: Report) -> Iterator[Part]:
    host = report.host
    yield Heading("Host")
    yield Paragraph("What the simulating host contributed: the only part that differs between runs.", "soft")
    facts = [
        Fact(name="in all", value=format_seconds(host.wall_seconds), about=about("wall_seconds")),
        Fact(
            name="simulation",
            value=format_seconds(host.simulation_seconds),
            about=about("simulation_seconds"),
        ),
        Fact(
            name="speed of the simulator",
            value=f"{format_count(host.simulated_cycles_per_second)} cycles/s",
            about=about("simulated_cycles_per_second"),
        ),
    ]
    if host.check_seconds is not None:
        facts.append(
            Fact(name="checks", value=format_seconds(host.check_seconds), about=about("check_seconds"))
        )
    yield Facts(tuple(facts))
