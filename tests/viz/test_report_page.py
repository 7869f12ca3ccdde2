"""The page of a report: its figures are the report's, and it stands alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import systolic
from systolic.engine.report import Report
from systolic.metrics import METRICS
from systolic.viz.report_page import report_html
from tests.viz.browsing import chromium, opened
from tests.viz.test_page import HOSTILE

CELLS = """(caption) => [...document.querySelectorAll('table')]
    .filter((table) => table.caption.textContent === caption)
    .map((table) => [...table.tBodies[0].rows].map((row) => [...row.cells].map(
        (cell) => cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value))))"""
"""The rows of each table with a caption: values where there are values, texts elsewhere."""
OPS = "Ops in order; all figures of a row are for all its occurrences"


@pytest.fixture(scope="module")
def report() -> Report:
    return systolic.simulate(systolic.load_model("gpt2", seq=128), on=["tpu-v4", "h100"])


@pytest.fixture(scope="module")
def file(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report_html(report), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def cells(page: Page, caption: str) -> list[list[list[str | float]]]:
    found: list[list[list[str | float]]] = page.evaluate(CELLS, caption)
    return found


@pytest.mark.tool("chromium")
def test_ops_and_causes_are_those_of_the_report(report: Report, browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        tables = cells(page, OPS)
        causes = cells(page, "Cycles by cause: each cycle has exactly one")
    assert len(tables) == len(causes) == len(report.chips)
    for chip, ops, by_cause in zip(report.to_dict()["chips"], tables, causes, strict=True):
        for op, shown, parts in zip(chip["ops"], ops, by_cause, strict=True):
            assert shown[:4] == [op["name"], op["kind"], op["bound_by"], op["source"]]
            assert shown[5] == op["count"]
            assert shown[7] == op["cycles"]
            assert shown[8] == pytest.approx(op["seconds"], rel=1e-15)
            numbers = [value for value in parts[1:-1] if not isinstance(value, str)]
            assert numbers == list(op["cycles_by_cause"].values())
            assert parts[-1] == op["busy_cycles"]


@pytest.mark.tool("chromium")
def test_bytes_are_those_of_the_report(report: Report, browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        tables = cells(page, "Bytes that cross each memory's port, by operand")
    for chip, rows in zip(report.to_dict()["chips"], tables, strict=True):
        for op, shown in zip(chip["ops"], rows, strict=True):
            numbers = sorted(value for value in shown[1:] if not isinstance(value, str))
            moved = [t[way] for lv in op["bytes"].values() for t in lv.values() for way in ("read", "write")]
            assert numbers == sorted(filter(None, moved))


@pytest.mark.tool("chromium")
def test_each_matmul_is_advised(report: Report, browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        advised = cells(page, "Derived from the rows below by a fixed rule")
    for chip, rows in zip(report.chips, advised, strict=True):
        assert [(row[0], row[1]) for row in rows] == [(row.name, row.bound_by) for row in chip.matmuls]
        assert all(row[5] for row in rows)


@pytest.mark.tool("chromium")
def test_checks_are_those_of_the_report(browser: Browser, tmp_path: Path) -> None:
    gemm = systolic.Gemm(m=5, n=6, k=7, dtype="fp32")
    passed = systolic.simulate(gemm, on="teaching-4x4", check="full")
    row = passed.chips[0].matmuls[0]
    assert row.check is not None
    failed_row = replace(row, check=replace(row.check, passed=False))
    failed = replace(passed, chips=(replace(passed.chips[0], rows=(failed_row,)),))
    for report, verdict in ((passed, "passed"), (failed, "FAILED")):
        path = tmp_path / f"{verdict}.html"
        path.write_text(report_html(report), encoding="utf-8")
        with opened(browser, path) as page:
            (shown,) = cells(page, "Values that the simulated chip computes, against jnp.matmul")[0]
            assert page.locator("dd.good, dd.bad").all_inner_texts() == [verdict]
        assert shown[:2] == ["matmul", verdict]
        assert shown[4:8] == [30, row.check.max_error, row.check.tolerance, row.check.error_vs_float64]


@pytest.mark.tool("chromium")
def test_it_opens_from_a_file_at_every_width(report: Report, browser: Browser, file: Path) -> None:
    for width in (390, 1280):
        with opened(browser, file, width=width) as page:
            expect(page.get_by_role("heading", level=1)).to_have_text("gpt2 on tpu-v4, h100")
            # The comparison, three for each chip, and timeline and busy PEs of the chip that has an array.
            assert page.locator("figure svg").count() == 1 + 3 * len(report.chips) + 2
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.tool("chromium")
def test_definitions_are_those_of_the_registry(browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        head = page.locator("button[aria-describedby=means-utilization]").first
        head.focus()
        expect(page.get_by_role("tooltip")).to_contain_text(METRICS["utilization"].meaning)
        undefined = page.locator("thead .number button:not([aria-describedby])").all_inner_texts()
    assert undefined == []  # every column of numbers says what it means


@pytest.mark.tool("chromium")
def test_names_of_users_stay_text(report: Report, browser: Browser, tmp_path: Path) -> None:
    chip = report.chips[0]
    rows = tuple(replace(row, op=replace(row.op, name=HOSTILE)) for row in chip.rows)
    spec = replace(chip.chip, notes=())
    object.__setattr__(spec, "name", HOSTILE)  # a chip file may not say so, as its own rule forbids it
    hostile = replace(chip, rows=rows, chip=spec, notes=(HOSTILE,))
    named = replace(report, chips=(hostile,), workload=replace(report.workload, name=HOSTILE))
    path = tmp_path / "hostile.html"
    path.write_text(report_html(named), encoding="utf-8")
    with opened(browser, path) as page:
        assert page.locator("img").count() == 0
        assert page.title() == f"{HOSTILE} on {HOSTILE}"
        assert {row[0] for row in cells(page, OPS)[0]} == {HOSTILE}


def test_the_same_input_gives_the_same_page_but_for_the_host() -> None:
    def page() -> str:
        report = systolic.simulate(systolic.Gemm(m=64, n=64, k=64, dtype="bf16"), on=["tpu-v4", "tpu-v6e"])
        return re.sub(r"<h2[^>]*>Host</h2>.*?(?=<h2)", "", report_html(report), count=1, flags=re.DOTALL)

    assert page() == page()


def test_a_timeline_is_shown_of_the_schedule_that_made_the_rows_only() -> None:
    gemm = systolic.Gemm(m=512, n=512, k=512, dtype="bf16")
    free, pinned = (systolic.simulate(gemm, on="tpu-v4", tile=tile) for tile in (None, (128, 128, 128)))
    assert free.chips[0].totals.cycles != pinned.chips[0].totals.cycles
    assert "Timeline: 512,512,512 on tpu-v4" in report_html(free)
    assert "Timeline: " not in report_html(pinned)
    assert "Busy PEs: " in report_html(free)
    assert "Busy PEs: " not in report_html(pinned)


def test_a_report_without_matmuls_has_a_page() -> None:
    work = systolic.load_model("gpt2", seq=8)
    vectors = replace(work, ops=tuple(op for op in work.ops if isinstance(op, systolic.VectorOp)))
    html = report_html(systolic.simulate(vectors, on="tpu-v4"))
    assert "gpt2 on tpu-v4" in html
    assert "What bounds each matmul" not in html
