"""Pictures of a 16×16 array: a GIF of 60 frames, and a step of the player in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from systolic.engine.recording import Recording, record
from systolic.viz import film
from systolic.viz.player_page import player_html
from systolic.viz.scene import scene_of
from systolic.workload import Gemm
from tests.viz.browsing import chromium, opened

from .conftest import Promise

FRAMES = 60
STEPS = 30
STEP = """() => new Promise((done) => {
    const begun = performance.now();
    document.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)));
})"""
"""Milliseconds from the key to the frame that shows its step."""


@pytest.fixture(scope="module")
def recording() -> Recording:
    gemm = Gemm(m=32, n=16, k=16, dtype="fp32")
    return record(gemm, overrides={"array.rows": 16, "array.cols": 16})


def test_gif(benchmark: Any, promise: Promise, recording: Recording) -> None:
    def draw() -> bytes:
        return film.to_gif((scene_of(recording, cycle) for cycle in range(FRAMES)), fps=10)

    benchmark.pedantic(draw, warmup_rounds=1, rounds=3)
    promise("GIF of 60 frames", benchmark.stats.stats.min, "s", at_most=2)


def test_step_of_the_player(benchmark: Any, promise: Promise, recording: Recording, tmp_path: Path) -> None:
    file = tmp_path / "player.html"
    file.write_text(player_html(recording), encoding="utf-8")
    with chromium() as browser, opened(browser, file, ready="html[data-ready]") as page:
        times = benchmark.pedantic(
            lambda: sorted(page.evaluate(STEP) for _ in range(STEPS)), warmup_rounds=1, rounds=1
        )
        promise("step of the player", times[STEPS // 2] / 1000, "s", at_most=0.1)
