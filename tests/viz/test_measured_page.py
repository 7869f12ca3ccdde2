"""The comparison page in a browser: nothing fetched, tables that sort, texts that stay texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from systolic.measured.compare_rows import compare
from systolic.measured.rows import Row, csv_text
from systolic.viz.measured_page import comparison_html

HOSTILE = "<script>document.title='taken'</script>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve rows of a device with a hostile name, on two clocks."""
    folder = tmp_path_factory.mktemp("page")
    rows = [
        Row(
            device=HOSTILE, dtype="int8", op="matmul", m=4 * at, n=4, k=4, clock=clock,
            measured_us=0.02 * at, peers={HOSTILE: 0.02},
        )
        for at in range(1, 7) for clock in ("kernel", "host")
    ]  # fmt: skip
    (folder / "rows.csv").write_text(csv_text(rows))
    file = folder / "page.html"
    file.write_text(comparison_html(compare(folder / "rows.csv", on="teaching-4x4")))
    return file


@pytest.mark.tool("chromium")
@pytest.mark.parametrize("width", [1280, 390])
def test_it_opens_from_disk_and_fetches_nothing(page: Path, width: int) -> None:
    from .browsing import chromium, opened

    with chromium() as browser, opened(browser, page, width=width) as shown:
        assert shown.title() == "Simulated beside measured"
        assert shown.locator("svg").count() == 2
        assert HOSTILE in shown.inner_text("main")
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        described = shown.locator("svg").first.get_attribute("aria-labelledby")
        assert "MAPE" in shown.locator(f"#{described}").inner_text()


@pytest.mark.tool("chromium")
def test_rows_sort_by_their_values(page: Path) -> None:
    from .browsing import chromium, opened

    with chromium() as browser, opened(browser, page) as shown:
        table = shown.locator("table", has_text="Rows, largest error first").first
        head = table.locator("thead th", has_text="measured")
        head.locator("button").press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
        column = table.locator("tbody tr td:nth-child(4)")
        assert [float(text) for text in column.all_inner_texts()] == [0.12, 0.10, 0.08, 0.06, 0.04, 0.02]


def test_the_same_comparison_gives_the_same_page(page: Path) -> None:
    text = page.read_text()
    assert text == comparison_html(compare(page.parent / "rows.csv", on="teaching-4x4"))
    assert "<script>document.title" not in text
    assert not re.search(r'(?:src|href)="(?!#)', text)
