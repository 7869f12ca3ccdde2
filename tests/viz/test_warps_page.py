"""The page of a GPU's warps in a browser: at every cycle it shows what the stepped SM did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from systolic.engine.hook import MatmulHook
from systolic.engine.warp_recording import WarpRecording, record_gpu
from systolic.errors import SystolicError
from systolic.machines.gpu.lowering import problem_of
from systolic.machines.gpu.regime import TRIPS, pace
from systolic.machines.gpu.timing import waves
from systolic.metrics import STALLS
from systolic.viz.warps_page import warps_html
from systolic.workload import Gemm
from tests.viz.browsing import chromium, opened

READY = "html[data-ready]"
ROWS = """() => Object.fromEntries([...document.querySelectorAll('#table tbody tr')].map((row) => [
    row.cells[0].textContent, [...row.cells].slice(3).map((cell) => cell.textContent)]))"""
SUMS = """() => Object.fromEntries([...document.querySelectorAll('#sums tbody tr')].map((row) => [
    row.dataset.reason, Number(row.cells[1].textContent.replaceAll(',', ''))]))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def recorded(chip: str, **fields: int) -> WarpRecording:
    return record_gpu(Gemm(**{"m": 512, "n": 1024, "k": 512, "dtype": "bf16", **fields}), on=chip)


def written(recording: WarpRecording, folder: Path) -> Path:
    file = folder / "warps.html"
    file.write_text(warps_html(recording), encoding="utf-8")
    return file


@pytest.mark.parametrize("chip", ["a100", "h100", "b200", "v100"])
def test_the_record_is_the_stepping_that_times_the_kernel(chip: str) -> None:
    """No gaps in the life of a block; as many cycles as the pace says; the waves add up."""
    recording = recorded(chip)
    record = recording.warps
    for warp, block in {*zip(record.warp.tolist(), record.block.tolist(), strict=True)}:
        own = (record.warp == warp) & (record.block == block)
        assert (record.start[own][1:] == record.stop[own][:-1]).all()
    assert record.resident * record.warps == len(np.unique(record.warp))
    step = MatmulHook(recording.chip).step(recording.gemm)
    problem = problem_of(step.op, step.formats)
    at = pace(problem, step.plan, recording.chip, waves(problem, step.plan, recording.chip)[0].regime, TRIPS)
    if record.trips == at.trips:
        assert record.cycles == at.short.cycles + at.trips * at.trip + at.again
    composed = sum(wave.rounds * wave.cycles for wave in recording.waves)
    assert composed <= recording.row.cycles + 1
    assert (
        sum(w.rounds * w.sms * w.resident for w in recording.waves) >= (recording.row.mapping or {})["ctas"]
    )


@pytest.mark.tool("chromium")
@pytest.mark.parametrize("chip", ["a100", "h100"])
def test_at_every_cycle_the_page_shows_what_the_warps_do(chip: str, browser: Browser, tmp_path: Path) -> None:
    recording = recorded(chip)
    record = recording.warps
    cycles = np.unique(
        np.concatenate([np.arange(1, 60), np.linspace(60, int(record.stop.max()), 40, dtype=int)])
    )
    with opened(browser, written(recording, tmp_path), ready=READY) as page:
        for t in cycles.tolist():
            page.evaluate(
                f"() => {{ const s = document.getElementById('scrub'); s.value = {t}; s.oninput(); }}"
            )
            now = (record.start < t) & (record.stop >= t)
            expected = {
                f"warp {record.warp[e]}": [
                    STALLS[record.reason[e]].replace("_", " "),
                    record.instructions[record.instruction[e]],
                    f"{record.start[e] + 1:,}",
                    f"{record.stop[e]:,}",
                ]
                for e in np.flatnonzero(now)
            }
            shown = page.evaluate(ROWS)
            assert {name: cells for name, cells in shown.items() if cells[0]} == expected
            took = np.minimum(record.stop, t) - np.minimum(record.start, t)
            sums = np.bincount(record.reason, took, len(STALLS))
            assert page.evaluate(SUMS) == {
                name: int(sums[i]) for i, name in enumerate(STALLS) if (record.reason == i).any()
            }


@pytest.mark.tool("chromium")
def test_keys_link_phone_and_texts(browser: Browser, tmp_path: Path) -> None:
    named = record_gpu(
        Gemm(m=256, n=256, k=128, dtype="bf16", name="<img src=x onerror=alert(1)>"), on="a100"
    )
    file = written(named, tmp_path)
    with opened(browser, file, "#c=7&z=warps", ready=READY) as page:
        expect(page.locator("#cycle")).to_have_text("7")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#cycle")).to_have_text("8")
        page.keyboard.press("Home")
        expect(page.locator("#caption")).to_contain_text("Before cycle 1")
        page.keyboard.press("2")
        expect(page.locator("#blocks")).to_be_visible()
        assert page.url.endswith("#c=0&z=blocks")
        expect(page.locator("h1")).to_contain_text("<img src=x onerror=alert(1)>")
        page.keyboard.press("1")
        page.keyboard.press(" ")
        expect(page.locator("#play-text")).to_have_text("pause")
        page.keyboard.press(" ")
        page.keyboard.press("End")
        expect(page.locator("#cycle")).to_have_text(f"{int(named.warps.stop.max()):,}")
    with opened(browser, file, width=390, ready=READY) as page:
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


def test_a_chip_without_warps_is_refused() -> None:
    with pytest.raises(SystolicError, match=r"tpu-v4 \(kind tpu\) has no warps to record; take a GPU"):
        record_gpu(Gemm(m=8, n=8, k=8), on="tpu-v4")
