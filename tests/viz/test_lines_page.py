"""The page of a core's cache lines in a browser: after each access it shows what the caches hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from systolic.blocks.cache import CacheHierarchy
from systolic.blocks.nest import Matrices, naive
from systolic.engine.line_recording import TEACHING, record_lines
from systolic.viz.lines_page import lines_html
from systolic.workload import Gemm
from tests.viz.browsing import chromium, opened

pytestmark = pytest.mark.tool("chromium")
READY = "html[data-ready]"
HELD = """() => [...document.querySelectorAll('#held tbody tr')].map((row) =>
    [...row.cells].slice(1, 4).map((cell) => Number(cell.textContent)))"""
FOUND = """() => [...document.querySelectorAll('#sums tbody tr')].map((row) =>
    Number(row.cells[1].textContent.replaceAll(',', '')))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_after_each_access_the_page_shows_the_caches(browser: Browser, tmp_path: Path) -> None:
    """Against caches that are fed anew: lines of A, B and C in each level, and where accesses were found."""
    gemm = Gemm(m=9, n=20, k=33, dtype="fp32")
    recording = record_lines(gemm, "naive")
    file = tmp_path / "lines.html"
    file.write_text(lines_html(recording), encoding="utf-8")
    where = Matrices.row_major(9, 20, 33, size=4)
    (chunk,) = [tuple(part.copy() for part in parts) for parts in naive(where).chunks()]
    caches = CacheHierarchy(TEACHING)
    starts = np.array([where.lhs[0], where.rhs[0], where.out[0]]) // 64
    times = [*range(40), *range(40, len(chunk[0]), 311), len(chunk[0])]
    fed = 0
    with opened(browser, file, ready=READY) as page:
        for t in times:
            caches.access(*(part[fed:t] for part in chunk))
            fed = t
            page.evaluate(
                f"() => {{ const s = document.getElementById('scrub'); s.value = {t}; s.oninput(); }}"
            )
            held = [np.searchsorted(starts, caches.lines(at), side="right") - 1 for at in range(2)]
            assert page.evaluate(HELD) == [np.bincount(each, minlength=3).tolist() for each in held]
            counts = caches.counts
            missed = [
                reads + writes for reads, writes in zip(counts.read_misses, counts.write_misses, strict=True)
            ]
            assert page.evaluate(FOUND) == [t - missed[0], missed[0] - missed[1], missed[1]]


def test_words_keys_and_phone(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "lines.html"
    file.write_text(lines_html(record_lines(Gemm(m=4, n=16, k=4, dtype="fp32"), "blocked")), encoding="utf-8")
    with opened(browser, file, "#c=1", width=390, ready=READY) as page:
        expect(page.locator("#caption")).to_have_text("The loop loads A[0, 0], whose line was in memory.")
        expect(page.locator("#code b")).to_have_text("A[i, k]")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#caption")).to_contain_text("loads B[0, 0]")
        page.keyboard.press("Home")
        expect(page.locator("#caption")).to_contain_text("the caches are empty")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
