"""The player in a browser: at every cycle it shows the registers of the stepped engine, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from systolic.engine.recording import Recording, record
from systolic.kernels.stationary import REAL, TOKEN
from systolic.recorded import ArrayRecord
from systolic.viz.player_page import player_html
from systolic.workload import Gemm
from tests.viz.browsing import chromium, opened

pytestmark = pytest.mark.tool("chromium")

READY = "html[data-ready]"
WORDS = """() => Object.fromEntries([...document.querySelectorAll('[data-word]')].map((text) => [
    text.closest('figure').dataset.run + ' ' + text.dataset.word,
    text.closest('[display=none]') ? '' : text.textContent]))"""
"""All words that can be seen: "dataflow register row,column" -> text."""

UNNAMED = """() => [...document.querySelectorAll('button, input, select')]
    .filter((e) => !(e.ariaLabel || e.labels?.length || e.textContent.trim())).length"""
"""Controls that a screen reader could not name."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def three() -> Recording:
    """A 4x4 matmul of digits in all dataflows."""
    gemm = Gemm(m=4, n=4, k=4, dtype="fp32")
    return record(gemm, dataflows=("ws", "os", "is"), seed=7)


@pytest.fixture(scope="module")
def page_of_three(three: Recording, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(three, tmp_path_factory.mktemp("player"))


def written(recording: Recording, folder: Path, name: str = "player.html") -> Path:
    file = folder / name
    file.write_text(player_html(recording), encoding="utf-8")
    return file


def number(value: object) -> str:
    return str(int(value))  # type: ignore[call-overload]


def expected_words(array: ArrayRecord, t: int) -> dict[str, str]:
    """What stands in each PE after clock t: the words that its registers hold, lane by lane."""
    held = {name: register[t] for name, register in array.registers.items()}
    words = {}
    for r, c in np.ndindex(array.rows, array.cols):
        at = f"{r},{c}"

        def lanes(name: str, flags: str, r: int = r, c: int = c) -> str:
            there = held[flags][:, r, c] & TOKEN != 0
            return " ".join(number(value) for value in held[name][:, r, c][there])

        shown = {"act": lanes("act", "flags")}
        if array.dataflow == "os":
            shown |= {"weight": lanes("weight", "weight_flags"), "psum": number(held["psum"][r, c])}
            shown["shadow"] = number(held["shadow"][r, c]) if held["shadow_state"][r, c] else ""
        else:
            shown |= {"moving": lanes("moving", "moving_flags"), "psum": lanes("psum", "flags")}
            shown["weight"] = number(held["weight"][r, c]) if held["weight_real"][r, c] else ""
            shown["shadow"] = f"({number(held['shadow'][r, c])})" if held["shadow_real"][r, c] else ""
        words |= {f"{array.dataflow} {name} {at}": text for name, text in shown.items()}
    return words


def expected_stairs(array: ArrayRecord, t: int, ahead: int) -> dict[str, str]:
    """The words that wait at the edges after clock t, the nearest one first."""
    words = {}
    for side, layer in (("left", "leftEdge"), ("top", "topEdge")):
        values, flags = getattr(array, side), getattr(array, f"{side}_flags")
        for place, i in np.ndindex(values.shape[2], min(ahead, flags.any(axis=(1, 2)).nonzero()[0][-1] + 1)):
            there = t + i < array.cycles and flags[t + i, 0, place] & TOKEN
            words[f"{array.dataflow} {layer} {place},{i}"] = number(values[t + i, 0, place]) if there else ""
    return words


def test_at_every_cycle_the_page_shows_the_registers(
    browser: Browser, three: Recording, page_of_three: Path
) -> None:
    last = max(run.array.cycles for run in three.runs)
    with opened(browser, page_of_three, ready=READY) as page:
        for t in range(last + 1):
            assert page.locator("#cycle").inner_text() == str(t)
            shown = page.evaluate(WORDS)
            for run in three.runs:
                array, at = run.array, min(t, run.array.cycles)
                expected = expected_words(array, at) | expected_stairs(array, at, 5)
                assert {name: shown[name] for name in expected} == expected
            assert_figures(page, three, t)
            page.keyboard.press("ArrowRight")
        assert page.locator("#cycle").inner_text() == str(last)  # the clock stops there


def assert_figures(page: Page, recording: Recording, t: int) -> None:
    """MACs, busy PEs and bytes on the frame."""

    def shown(name: str) -> list[int]:
        text = page.locator(f"[data-meter='{name}'] dd").inner_text()
        return [int(part) for part in re.findall(r"\d+", text.split(" of ")[0])]

    arrays = [run.array for run in recording.runs]
    at = [min(t, array.cycles) for array in arrays]
    assert shown("MACs") == [int(a.macs[c]) for a, c in zip(arrays, at, strict=True)]
    assert shown("busy PEs") == [int(a.busy[c]) for a, c in zip(arrays, at, strict=True)]
    entered = [int(a.entered["lhs"][c] + a.entered["rhs"][c]) for a, c in zip(arrays, at, strict=True)]
    assert shown("into the array") == entered
    assert shown("sums out") == [int(a.entered["psum"][c]) for a, c in zip(arrays, at, strict=True)]


@pytest.mark.parametrize("flow", ["ws", "os", "is"])
def test_the_product_is_checked_on_the_page(
    browser: Browser, three: Recording, page_of_three: Path, flow: str
) -> None:
    array = next(run.array for run in three.runs if run.array.dataflow == flow)
    product = array.lhs[0].astype(int) @ array.rhs[0].astype(int)
    with opened(browser, page_of_three, f"#c={array.cycles}&d={flow}", ready=READY) as page:
        assert page.locator("#check").inner_text() == "✓ C equals A × B in all 16 elements."
        assert "good" in (page.locator("#check").get_attribute("class") or "")
        cells = page.locator(".matrix.C td").all_inner_texts()
        assert cells == [number(value) for value in product.ravel()]
        page.keyboard.press("Home")
        assert page.locator("#check").inner_text() == "C = A × B: nothing has left the array yet."


def test_a_wrong_sum_is_called_wrong(browser: Browser, three: Recording, tmp_path: Path) -> None:
    """One bit of the record flipped: the page compares, and does not only say so."""
    run = three.runs[0]
    events = list(run.array.leaving)
    events[5] = replace(events[5], sum=events[5].sum + 1)
    wrong = replace(three, runs=(replace(run, array=replace(run.array, leaving=tuple(events))),))
    file = written(wrong, tmp_path)
    with opened(browser, file, "#c=14", ready=READY) as page:
        assert page.locator("#check").inner_text() == "16 of 16 elements of C are there; 1 differ from A × B!"
        assert page.locator(".matrix.C td.wrong").count() == 1


@pytest.mark.parametrize("flow", ["ws", "os"])
def test_a_pe_is_written_out(browser: Browser, three: Recording, page_of_three: Path, flow: str) -> None:
    array = next(run.array for run in three.runs if run.array.dataflow == flow)
    held = array.registers
    seen = 0
    with opened(browser, page_of_three, f"#d={flow}", ready=READY) as page:
        for t in range(array.cycles + 1):
            r, c = t % 4, (t * 3 + 1) % 4
            page.locator(f"[data-pe='{r},{c}']").hover()
            assert page.locator("#pe-name").inner_text() == f"PE in row {r}, column {c}"
            psum = held["psum"][t, r, c] if flow == "os" else held["psum"][t, 0, r, c]
            assert page.locator("[data-register=psum]").inner_text() == number(psum)
            math = page.locator("#pe-math").inner_text()
            if (match := re.fullmatch(r"(\d+) = (\d+) \+ (\d+) × (\d+)", math)) is not None:
                total, before, a, b = map(int, match.groups())
                assert total == before + a * b == int(psum)
                assert a == int(held["act"][t, 0, r, c])
                seen += 1
            else:
                assert math == "does not multiply in this cycle"
                assert not (held["valid"][t, 0, r, c] and (flow == "os" or held["weight_real"][t, r, c]))
            page.keyboard.press("ArrowRight")
    assert seen >= 4


def test_keys_scrubber_speed_and_link(browser: Browser, page_of_three: Path) -> None:
    with opened(browser, page_of_three, "#c=3&z=array&d=os&pe=1,2", ready=READY) as page:
        cycle = page.locator("#cycle")
        assert cycle.inner_text() == "3"
        assert page.locator("figure.pane").count() == 1
        assert page.locator("#pe-name").inner_text() == "PE in row 1, column 2"
        for key, there in (("End", "14"), ("ArrowLeft", "13"), ("Home", "0"), ("ArrowRight", "1")):
            page.keyboard.press(key)
            assert cycle.inner_text() == there
        page.keyboard.press("Shift+ArrowRight")
        assert cycle.inner_text() == "11"
        page.keyboard.press("Shift+KeyD")
        assert page.locator("#pe-name").inner_text() == "PE in row 1, column 3"
        page.locator("#scrub").fill("6")
        assert cycle.inner_text() == "6"
        assert page.evaluate("location.hash") == "#c=6&z=array&d=os&pe=1,3"
        page.keyboard.press("d")
        assert page.locator("figure.pane").get_attribute("data-run") == "is"
        page.keyboard.press("1")
        assert page.locator(".big-pe").count() == 1
        page.keyboard.press("3")
        assert page.locator(".gantt").count() == 1
        page.keyboard.press("2")
        for _ in range(9):
            page.keyboard.press("+")
        assert page.locator("#speed").input_value() == "32"
        page.keyboard.press("-")
        assert page.locator("#speed").input_value() == "16"
        page.keyboard.press("Home")
        page.keyboard.press("Space")
        expect(cycle).to_have_text("14", timeout=5000)
        assert page.locator("#play").get_attribute("aria-label") == "Play"  # it stops at the end


def test_texts_of_the_user_stay_texts(browser: Browser, tmp_path: Path) -> None:
    evil = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>"
    gemms = [Gemm(m=4, n=4, k=4, dtype="fp32", name=evil, origin=evil), Gemm(m=2, n=2, k=2, dtype="fp32")]
    recording = record(gemms, matmul=evil)
    file = written(recording, tmp_path, "<b>&amp;.html")
    with opened(browser, file, ready=READY) as page:
        assert evil in page.locator("h1").inner_text()
        assert evil in page.title()
        page.keyboard.press("4")
        assert page.locator("tr.chosen td").first.inner_text() == evil
        assert page.evaluate("window.hacked") is None
        assert page.locator("img").count() == 0


def test_ragged_tiles_and_padding(browser: Browser, tmp_path: Path) -> None:
    """5 x 6 x 7 on 4x4: several tiles, padding in most of them, partial sums that the accumulators add."""
    recording = record(Gemm(m=5, n=6, k=7, dtype="int8"), dataflows=("ws", "os"))
    file = written(recording, tmp_path)
    with opened(browser, file, ready=READY) as page:
        for t in (0, 9, 17, 26, 40):
            page.locator("#scrub").fill(str(t))
            shown = page.evaluate(WORDS)
            for run in recording.runs:
                expected = expected_words(run.array, min(t, run.array.cycles))
                assert {name: shown[name] for name in expected} == expected
        page.keyboard.press("End")
        assert page.locator("#check").inner_text() == "✓ C equals A × B in all 30 elements."
    padded = recording.runs[0].array
    assert ((padded.left_flags & TOKEN != 0) & (padded.left_flags & REAL == 0)).any()


@pytest.mark.parametrize(
    "changed",
    [
        {"array.lanes.int8": 2, "array.weight_rows": 2, "array.convention": "overlapped"},
        {"array.mac_latency": 3, "array.mac_interval": 2},
        {"memory.dram.bytes_per_s": "2 GB/s", "memory.dram.latency_ns": 9},
    ],
    ids=["lanes", "slow MAC", "slow memory"],
)
def test_other_arrays(browser: Browser, tmp_path: Path, changed: dict[str, object]) -> None:
    recording = record(Gemm(m=6, n=5, k=6, dtype="int8"), dataflows=("ws", "os"), overrides=changed)
    last = max(run.array.cycles for run in recording.runs)
    file = written(recording, tmp_path)
    with opened(browser, file, ready=READY) as page:
        for t in range(0, last, 7):
            page.locator("#scrub").fill(str(t))
            shown = page.evaluate(WORDS)
            for run in recording.runs:
                expected = expected_words(run.array, min(t, run.array.cycles))
                assert {name: shown[name] for name in expected} == expected
        for flow in ("ws", "os"):
            page.locator("#flow").select_option(flow)
            page.keyboard.press("End")
            page.locator("#scrub").fill(str(last))
            assert page.locator("#check").inner_text() == "✓ C equals A × B in all 30 elements."


def test_phone_and_dark(browser: Browser, page_of_three: Path) -> None:
    with opened(browser, page_of_three, ready=READY, width=390) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.locator("#theme").click()
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.locator("#theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
        assert page.evaluate(UNNAMED) == 0


def test_sizes(tmp_path: Path, browser: Browser) -> None:
    """A 16x16 array with 32x16x16 under 300 kB; one of 128x128 in its aggregate view under 5 MB."""
    small = record(
        Gemm(m=32, n=16, k=16, dtype="fp32"), overrides={"array.rows": 16, "array.cols": 16}, values="normal"
    )
    assert len(player_html(small).encode()) < 300_000
    large = record(
        Gemm(m=256, n=256, k=128, dtype="bf16"),
        overrides={"array.rows": 128, "array.cols": 128},
        values="normal",
    )
    file = written(large, tmp_path)
    assert file.stat().st_size < 5_000_000
    with opened(browser, file, "#c=300", ready=READY) as page:
        cells = page.locator(".heat rect")
        assert cells.count() == 16 * 16
        grid = large.runs[0].array.grid
        assert grid is not None
        text = page.locator(".heat rect title").nth(5 * 16 + 3).text_content()
        assert text is not None and text.startswith(f"{grid.busy[300, 5, 3]} PEs multiply")
