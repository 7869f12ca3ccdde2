"""``systolic.plot``: which figure shows what, and how one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.recording import Recording
from ..engine.report import ChipReport, Report
from ..engine.unrolled import Unrolled
from ..errors import SystolicError, did_you_mean, shown

if TYPE_CHECKING:
    from .style import Plot

REPORT_KINDS = ("causes", "roofline", "traffic", "comparison")
RECORDING_KINDS = ("array", "timeline")
UNROLLED_KINDS = ("timeline",)

_KINDS: dict[type, tuple[str, tuple[str, ...]]] = {
    Report: ("a report", REPORT_KINDS),
    Recording: ("a recording", RECORDING_KINDS),
    Unrolled: ("a run", UNROLLED_KINDS),
}


def plot(source: Report | Recording | Unrolled, kind: str, *, chip: str | None = None) -> Plot:
    """A figure in the house style: colour-blind safe, every parameter of the run stated on it.

    Parameters
    ----------
    source
        A report; or a recording of one matmul (:func:`systolic.engine.recording.record`); or a run as slices
        (:func:`systolic.engine.unrolled.unroll`), which can be drawn once.
    kind
        Of a report: ``causes`` (cycles of each op by cause), ``roofline``, ``traffic`` (bytes by level and
        operand), ``comparison`` (the chips beside one another). Of a recording: ``array`` (how busy each PE
        is), ``timeline`` (who works and waits when). Of a run as slices: ``timeline``, until an op comes a
        second time.
    chip
        Which chip of the report, by name; needed where it has several, except by ``comparison``.

    Returns
    -------
    Plot
        It shows itself in a notebook, and has ``svg``, ``save(path)``, ``figure``, ``caption`` and ``alt``.

    Raises
    ------
    SystolicError
        For a kind that `source` has not, a chip that is not in the report, or none where it has several.
    """
    of, kinds = _KINDS[type(source)]
    if kind not in kinds:
        raise SystolicError(
            f"kind must be one of {', '.join(kinds)} for {of}, got {shown(kind)}{did_you_mean(kind, kinds)}"
        )
    if not isinstance(source, Report) and chip is not None:
        raise SystolicError(f"chip applies to a report, and {of} has one; got {shown(chip)}")
    from .style import house_style, settle

    with house_style():
        drawn = _of_report(source, kind, chip) if isinstance(source, Report) else _of_run(source, kind)
        settle(drawn.figure)
    return drawn


def _of_report(report: Report, kind: str, name: str | None) -> Plot:
    from . import bars, roofline

    if kind == "comparison":
        return bars.comparison_figure(report)
    chip = _chosen(report, name)
    draw = {
        "causes": bars.cause_figure,
        "roofline": roofline.roofline_figure,
        "traffic": bars.traffic_figure,
    }
    return draw[kind](report, chip)


def _of_run(source: Recording | Unrolled, kind: str) -> Plot:
    from . import array_figures, timeline

    if isinstance(source, Unrolled):
        return timeline.run_timeline(source)
    draw = {"array": array_figures.heat_figure, "timeline": timeline.matmul_timeline}
    return draw[kind](source)


def _chosen(report: Report, name: str | None) -> ChipReport:
    names = [chip.chip.name for chip in report.chips]
    if name is None and len(names) == 1:
        return report.chips[0]
    if name is None:
        raise SystolicError(
            f"chip must name one of the report's chips, got none; there are {', '.join(names)}"
        )
    if name not in names:
        raise SystolicError(
            f"chip must be one of {', '.join(names)}, got {shown(name)}{did_you_mean(name, names)}"
        )
    return report.chips[names.index(name)]
