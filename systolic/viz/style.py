"""The house style of figures: how they look, what each of them states about itself, how they are written.

matplotlib loads with this module, so it is imported when a figure is asked for and not before.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil, log2
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MultipleLocator

from .. import __version__
from ..engine.recording import Recording
from ..engine.report import ChipReport
from ..errors import SystolicError, shown
from ..quantity import format_bytes, format_hz
from ..workload import Gemm, Workload
from .palette import LIGHT, Fill

WIDTH = 9.6
"""Width of every figure, inches: 922 px on a page."""
TITLE_HEIGHT, LEGEND_LINE_HEIGHT = 0.34, 0.21
"""Heights of a figure's title and of a line of its legend, inches."""
LEGEND_COLUMNS = 6
SUFFIXES = (".svg", ".png", ".pdf")
_RULES: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "systolic",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.edgecolor": LIGHT["soft"],
    "axes.facecolor": LIGHT["card"],
    "axes.labelcolor": LIGHT["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "grid.color": LIGHT["line"],
    "grid.linewidth": 0.8,
    "text.color": LIGHT["ink"],
    "xtick.color": LIGHT["soft"],
    "xtick.labelcolor": LIGHT["ink"],
    "ytick.color": LIGHT["soft"],
    "ytick.labelcolor": LIGHT["ink"],
    "figure.facecolor": LIGHT["card"],
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handlelength": 1.3,
}
EDGE: dict[str, Any] = {"edgecolor": LIGHT["ink"], "linewidth": 0.5}
"""The thin line round every area: it shows light colours on light paper."""


@dataclass(frozen=True)
class Plot:
    """A finished figure.

    Attributes
    ----------
    kind
        What it shows, as :func:`systolic.plot` takes it.
    figure
        The matplotlib figure.
    caption
        What a reader should see in it.
    alt
        The same for one who does not see it.
    """

    kind: str
    figure: Figure = field(repr=False)
    caption: str
    alt: str = field(repr=False)

    @property
    def svg(self) -> str:
        """As SVG text: fonts as text, and the same bytes for the same report."""
        out = io.StringIO()
        self._write(out, "svg")
        return out.getvalue()

    def save(self, path: str | Path) -> None:
        """Write it as ``.svg``, ``.png`` (200 dots per inch) or ``.pdf``, by the name's ending.

        Raises
        ------
        SystolicError
            For another ending.
        """
        path = Path(path)
        if path.suffix not in SUFFIXES:
            raise SystolicError(f"a figure is saved as {', '.join(SUFFIXES)}, got {shown(str(path))}")
        self._write(path, path.suffix[1:])

    def _write(self, out: io.StringIO | Path, form: str) -> None:
        undated = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}, "png": None}
        with mpl.rc_context(_RULES):
            self.figure.savefig(out, format=form, dpi=200, metadata=undated[form])

    def _repr_svg_(self) -> str:
        return self.svg


@contextmanager
def house_style() -> Iterator[None]:
    """Figures that are built inside look like all others."""
    with mpl.rc_context({**mpl.rcParamsDefault, "backend": "agg", **_RULES}):
        yield


def new_figure(title: str, stated: str, height: float) -> Figure:
    """An empty figure with its title above and what was run below.

    Parameters
    ----------
    title
        One line.
    stated
        All parameters of the run: see :func:`stated`.
    height
        Inches.
    """
    figure = Figure(figsize=(WIDTH, height))
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", rect=(0, 0, 1, 1 - TITLE_HEIGHT / height))
    figure.text(0.008, 1 - 0.08 / height, title, va="top", fontsize=12, fontweight="bold")
    figure.supxlabel(stated, x=0.008, ha="left", fontsize=8, color=LIGHT["soft"])
    return figure


def settle(figure: Figure) -> None:
    """Lay the figure out once and for all: each later drawing would move things by a hair."""
    figure.draw_without_rendering()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def stated(work: Workload, chips: Sequence[ChipReport]) -> str:
    """Every parameter of a run on one line: workload, chips with their clocks, source, version."""
    # The rows know the format in which each chip ran; the workload may leave it to the chip.
    ops = [row.op for chip in chips for row in chip.matmuls]
    formats = dict.fromkeys(op.dtype for op in ops if isinstance(op, Gemm))
    parts = [work.name, work.phase, f"batch {work.batch:,}", f"seq {work.seq:,}"]
    parts += [f"KV length {work.kv_len:,}"] if work.kv_len else []
    parts += ["+".join(formats)] if formats else []
    if len(chips) <= 3:
        parts += [f"{chip.chip.name} at {format_hz(chip.chip.clock_hz)}" for chip in chips]
    parts += ["+".join(dict.fromkeys(chip.totals.source for chip in chips)), f"systolic {__version__}"]
    return " · ".join(parts)


def stated_matmul(recording: Recording, source: str) -> str:
    """The same of a recorded matmul; `source` says what produced the figures."""
    work, array = recording.workload, recording.runs[0].array
    parts = [work.name, work.phase, f"batch {work.batch:,}", f"seq {work.seq:,}"]
    parts += [f"KV length {work.kv_len:,}"] if work.kv_len else []
    parts += [] if recording.layer is None else [f"layer {recording.layer}"]
    parts += [array.dtype, f"{array.rows}×{array.cols} PEs at {format_hz(recording.chip.clock_hz)}"]
    return " · ".join([*parts, source, f"systolic {__version__}"])


def stacked_bars(axes: Axes, row: float, parts: Sequence[tuple[float, Fill]], height: float = 0.72) -> float:
    """Draw parts behind one another along a row, and return where they end."""
    at = 0.0
    for size, fill in parts:
        if size:
            axes.barh(row, size, height, left=at, color=fill.colour, hatch=fill.hatch or None, **EDGE)
            at += size
    return at


def end_label(axes: Axes, text: str, end: float, row: float) -> None:
    """A text behind the end of a bar."""
    axes.annotate(
        text, (end, row), (4, 0), textcoords="offset points", va="center", fontsize=8, color=LIGHT["soft"]
    )


def legend_above(figure: Figure, fills: Sequence[tuple[str, Fill]]) -> None:
    """What each fill means, between title and axes."""
    handles = [Patch(facecolor=f.colour, hatch=f.hatch or None, label=name, **EDGE) for name, f in fills]
    height, lines = figure.get_figheight(), -(-len(fills) // LEGEND_COLUMNS)
    legend = figure.legend(
        handles=handles, ncols=LEGEND_COLUMNS, loc="upper left", borderaxespad=0.0,
        bbox_to_anchor=(0.0, 1 - TITLE_HEIGHT / height),
    )  # fmt: skip
    legend.set_in_layout(False)
    top = 1 - (TITLE_HEIGHT + lines * LEGEND_LINE_HEIGHT) / height
    figure.set_layout_engine("constrained", rect=(0, 0, 1, top))


def byte_axis(axes: Axes) -> None:
    """Ticks at whole steps of binary units."""
    end = axes.get_xlim()[1]
    axes.xaxis.set_major_locator(MultipleLocator(2.0 ** max(ceil(log2(end / 7)), 0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(int(value))))


def label_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names at the rows of a horizontal bar chart, the first on top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(left=0)
