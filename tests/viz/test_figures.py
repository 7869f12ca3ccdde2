"""The figures: what is drawn is what the report says, and each states its parameters."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

import systolic
from systolic.engine.recording import Recording, record
from systolic.engine.report import Report
from systolic.engine.unrolled import unroll
from systolic.errors import SystolicError
from systolic.machines.base import Options
from systolic.metrics import CAUSES
from systolic.viz.array_figures import busy_share
from systolic.viz.bars import ROWS
from systolic.viz.figures import RECORDING_KINDS, REPORT_KINDS, plot
from systolic.viz.roofline import points_of
from systolic.viz.style import Plot
from systolic.workload import Gemm

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def report() -> Report:
    return systolic.simulate(systolic.load_model("gpt2", seq=128), on=["tpu-v4", "tpu-v6e"])


@pytest.fixture(scope="module")
def recording() -> Recording:
    """m, n and k that fill a 4x4 array once and half."""
    return record(Gemm(m=10, n=6, k=6, dtype="fp32"), dataflows=("ws", "os", "is"))


def drawn(report: Report, recording: Recording, kind: str) -> Plot:
    if kind in RECORDING_KINDS:
        return plot(recording, kind)
    return plot(report, kind, chip=None if kind == "comparison" else "tpu-v4")


def widths(axes: Axes) -> list[tuple[int, float, float]]:
    """Row, start and width of each bar."""
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return [(round(b.get_y() + b.get_height() / 2), b.get_x(), b.get_width()) for b in bars]


def row_sums(axes: Axes) -> dict[int, float]:
    sums: dict[int, float] = {}
    for row, _, width in widths(axes):
        sums[row] = sums.get(row, 0) + width
    return sums


@pytest.mark.parametrize("kind", [*REPORT_KINDS, *RECORDING_KINDS])
def test_a_figure_is_the_same_text_each_time(report: Report, recording: Recording, kind: str) -> None:
    one = drawn(report, recording, kind)
    assert one.svg == one.svg == drawn(report, recording, kind).svg
    assert not re.search(r"<dc:date>|\d{4}-\d\d-\d\d", one.svg)


@pytest.mark.parametrize("kind", [*REPORT_KINDS, *RECORDING_KINDS])
def test_a_figure_states_its_parameters_as_text(report: Report, recording: Recording, kind: str) -> None:
    texts = " ".join(
        "".join(e.itertext()) for e in ET.fromstring(drawn(report, recording, kind).svg).iter(f"{SVG}text")
    )
    expected = ["prefill", "batch 1", f"systolic {systolic.__version__}", "GHz"]
    if kind in RECORDING_KINDS:
        expected += ["10,6,6", "fp32", "4×4 PEs", "teaching-4x4"]
    else:
        expected += ["gpt2", "seq 128", "KV length 128", "bf16", "tpu-v4 at 1.05 GHz", "tiled"]
    assert [text for text in expected if text not in texts] == []


def test_bars_of_causes_are_the_cycles_of_the_report(report: Report) -> None:
    chip = report.chips[0]
    axes = plot(report, "causes", chip="tpu-v4").figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [row.name for row in chip.rows]
    assert row_sums(axes) == {i: row.cycles for i, row in enumerate(chip.rows) if row.cycles}
    for index, row in enumerate(chip.rows):
        shown = [width for at, _, width in widths(axes) if at == index]
        assert shown == [row.cycles_by_cause[cause] for cause in CAUSES if row.cycles_by_cause.get(cause)]


def test_rows_beyond_what_a_figure_holds_are_one_row() -> None:
    matmuls = [Gemm(m=8 * (i + 1), n=128, k=128, dtype="bf16", name=f"op{i}") for i in range(ROWS + 6)]
    report = systolic.simulate(matmuls, on="tpu-v4")
    axes = plot(report, "causes").figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()][-1] == "7 others"
    assert sum(row_sums(axes).values()) == report.chips[0].totals.cycles


def test_bars_of_traffic_are_the_bytes_of_the_report(report: Report) -> None:
    chip = report.chips[0]
    levels, ops = plot(report, "traffic", chip="tpu-v4").figure.axes
    moved = chip.totals.bytes
    expected = {i: sum(t.total for t in moved[level].values()) for i, level in enumerate(moved)}
    assert row_sums(levels) == expected
    dram = {i: row.level_bytes("dram") for i, row in enumerate(chip.rows) if row.level_bytes("dram")}
    assert row_sums(ops) == dram


def test_bars_of_chips_are_their_times(report: Report) -> None:
    times, used = plot(report, "comparison").figure.axes
    assert row_sums(times) == pytest.approx({i: chip.seconds for i, chip in enumerate(report.chips)})
    assert row_sums(used) == pytest.approx(
        {i: 100 * (c.utilization or 0) for i, c in enumerate(report.chips)}
    )


def test_points_lie_where_flop_bytes_and_seconds_say(report: Report) -> None:
    chip = report.chips[0]
    points = {point.name: point for point in points_of(chip)}
    row = next(row for row in chip.matmuls if row.name == "mlp.up")
    flop = 2 * 128 * 3072 * 768 * 12  # m, n, k and the layers of GPT-2 small
    assert points["mlp.up"].rate == pytest.approx(flop * chip.chip.clock_hz / row.cycles)
    assert points["mlp.up"].intensity == pytest.approx(flop / row.level_bytes("dram"))
    axes = plot(report, "roofline", chip="tpu-v4").figure.axes[0]
    centres = [tuple(scatter.get_offsets()[0]) for scatter in axes.collections]
    assert centres == [(point.intensity, point.rate) for point in points_of(chip)]


def test_no_point_lies_above_the_roofs(report: Report) -> None:
    for chip in report.chips:
        peak, memory = 2 * chip.chip.peak_macs_per_s("bf16"), chip.chip.memory["dram"].bytes_per_s
        assert memory is not None
        for point in points_of(chip):
            assert point.rate <= min(peak, memory * point.intensity) * (1 + 1e-12)


def test_the_ridges_of_a_tpu_v4_are_named(report: Report) -> None:
    # 275 TFLOP/s and 1200 GB/s (Jouppi et al., ISCA 2023) meet at 229 FLOP/B.
    assert "229.4 FLOP/B (peak)" in plot(report, "roofline", chip="tpu-v4").caption


def test_a_chip_with_unlimited_memory_has_one_roof() -> None:
    report = systolic.simulate(Gemm(m=4, n=4, k=4, dtype="fp32"), on="teaching-4x4")
    assert "unlimited main memory" in plot(report, "roofline").caption


def test_busy_pes_are_those_of_the_recorded_registers(recording: Recording) -> None:
    for run in recording.runs:
        share = busy_share(run.array)
        # Each of m·n·k MACs keeps one PE busy for one cycle.
        assert share.sum() * run.array.cycles == pytest.approx(10 * 6 * 6)
        assert share.mean() == pytest.approx(run.array.busy[1:].mean() / 16)


def test_cells_of_pes_count_like_single_ones() -> None:
    from systolic.engine.hook import MatmulHook
    from systolic.machines.tpu.recording import record_array

    gemm = Gemm(m=20, n=40, k=40, dtype="fp32")
    chip = systolic.load_chip("teaching-4x4", {"array.rows": 40, "array.cols": 40})
    step = MatmulHook(chip, Options()).step(gemm)
    operands = (np.ones((1, 20, 40), np.float32), np.ones((1, 40, 40), np.float32))
    whole, cells = (
        record_array(step, chip, *operands, cycles=step.mapped.cost.cycles, by_cell=by_cell)
        for by_cell in (False, True)
    )
    assert cells.grid is not None
    side = cells.grid.side
    fine, coarse = busy_share(whole), busy_share(cells)
    for (row, col), share in np.ndenumerate(coarse):
        part = fine[row * side : (row + 1) * side, col * side : (col + 1) * side]
        assert share == pytest.approx(part.mean())


def test_the_timeline_covers_every_cycle_of_the_array(recording: Recording) -> None:
    run = recording.runs[0]
    axes = plot(recording, "timeline").figure.axes[0]
    units = [label.get_text() for label in axes.get_yticklabels()]
    assert row_sums(axes)[units.index("array")] == run.row.cycles


def test_the_timeline_of_a_run_is_its_first_layer() -> None:
    run = unroll(systolic.load_model("gpt2", seq=64), on="tpu-v4")
    axes = plot(run, "timeline").figure.axes[0]
    units = [label.get_text() for label in axes.get_yticklabels()]
    # Each cycle belongs to the array or the vector unit: the two add up to one of each op of a layer.
    sums = row_sums(axes)
    once = [
        row.cycles // row.op.count for row in run.rows if row.name != "lm_head" and "final" not in row.name
    ]
    assert units == ["dram", "vector", "array"]
    assert sums[units.index("array")] + sums[units.index("vector")] == axes.get_xlim()[1] == sum(once)


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_a_figure_is_saved_by_its_ending(report: Report, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"figure{suffix}"
    plot(report, "comparison").save(path)
    assert path.read_bytes().startswith({".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}[suffix])


REPORT_ERRORS = [
    (
        "rooflin",
        None,
        "kind must be one of causes, roofline, traffic, comparison for a report, got 'rooflin'; did you mean "
        "'roofline'?",
    ),
    (
        "causes",
        None,
        "chip must name one of the report's chips, got none; there are tpu-v4, tpu-v6e",
    ),
    ("causes", "tpu-v5", "chip must be one of tpu-v4, tpu-v6e, got 'tpu-v5'"),
]


@pytest.mark.parametrize(("kind", "chip", "text"), REPORT_ERRORS)
def test_wrong_input_is_named(report: Report, kind: str, chip: str | None, text: str) -> None:
    with pytest.raises(SystolicError) as error:
        plot(report, kind, chip=chip)
    assert str(error.value).startswith(text)


def test_wrong_input_beside_a_recording_is_named(recording: Recording) -> None:
    with pytest.raises(
        SystolicError, match="kind must be one of array, timeline for a recording, got 'causes'"
    ):
        plot(recording, "causes")
    with pytest.raises(SystolicError, match="chip applies to a report, and a recording has one; got 'a'"):
        plot(recording, "array", chip="a")


def test_an_ending_that_no_figure_has_is_refused(report: Report, tmp_path: Path) -> None:
    with pytest.raises(SystolicError, match=r"a figure is saved as \.svg, \.png, \.pdf, got '.*a\.bmp'"):
        plot(report, "comparison").save(tmp_path / "a.bmp")
    assert list(tmp_path.iterdir()) == []


def test_the_picture_of_the_readme_is_what_its_program_draws() -> None:
    root = Path(__file__).parent.parent.parent
    report = systolic.simulate(systolic.load_model("gpt2", seq=1024), on=["tpu-v4", "tpu-v6e"])
    drawn = plot(report, "causes", chip="tpu-v4").svg
    shown = (root / "docs/pictures/gpt2-causes.svg").read_text(encoding="utf-8")
    # Texts hold every share; where a line lies to the last digit is matplotlib's affair.
    texts = [["".join(e.itertext()) for e in ET.fromstring(svg).iter(f"{SVG}text")] for svg in (shown, drawn)]
    assert texts[0] == texts[1], "run the program of README.md and copy its figure to docs/pictures"
