"""Stills and films: what stands on them comes from the registers, and every parameter is printed."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from systolic.engine.recording import Recording, record
from systolic.errors import SystolicError
from systolic.kernels.stationary import TOKEN
from systolic.viz import film
from systolic.viz.scene import Label, scene_of
from systolic.viz.svg import to_svg
from systolic.workload import Gemm


@pytest.fixture(scope="module")
def digits() -> Recording:
    return record(Gemm(m=4, n=4, k=4, dtype="fp32"), dataflows=("ws", "os"), seed=3)


def texts_of(recording: Recording, cycle: int) -> Counter[str]:
    return Counter(shape.text for shape in scene_of(recording, cycle).shapes if isinstance(shape, Label))


@pytest.mark.parametrize("cycle", [0, 3, 7, 10, 14])
def test_a_still_holds_the_words_of_the_registers(digits: Recording, cycle: int) -> None:
    """Each number of a PE is on the picture; what else is there stands at the edges."""
    expected = Counter[str]()
    for run in digits.runs:
        held = {
            name: register[min(cycle, run.array.cycles)] for name, register in run.array.registers.items()
        }
        moving = held["flags"] & TOKEN != 0
        expected.update(str(int(v)) for v in held["act"][moving])
        if run.array.dataflow == "os":
            expected.update(str(int(v)) for v in held["weight"][held["weight_flags"] & TOKEN != 0])
            expected.update(str(int(v)) for v in held["psum"].ravel())
            expected.update(str(int(v)) for v in held["shadow"][held["shadow_state"] != 0])
        else:
            expected.update(str(int(v)) for v in held["weight"][held["weight_real"] != 0])
            expected.update(f"({int(v)})" for v in held["shadow"][held["shadow_real"] != 0])
            expected.update(str(int(v)) for v in held["moving"][held["moving_flags"] & TOKEN != 0])
            expected.update(str(int(v)) for v in held["psum"][moving])
    assert expected <= texts_of(digits, cycle)


def test_every_parameter_is_printed(digits: Recording) -> None:
    printed = "\n".join(texts_of(digits, 5))
    for text in (
        "A 4×4, B 4×4",
        "4×4 systolic array",
        "teaching-4x4",
        "1 GHz",
        "fp32",
        "digits 1 to 9, seed 3",
    ):
        assert text in printed
    assert "weight stationary" in printed and "output stationary" in printed and "cycle 5 of 14" in printed


def test_svg_is_well_formed_whatever_the_names() -> None:
    evil = '</title><script>alert("x")</script>&'
    pair = [Gemm(m=4, n=4, k=4, dtype="fp32", name=evil), Gemm(m=1, n=1, k=1, dtype="fp32")]
    root = ElementTree.fromstring(to_svg(scene_of(record(pair, matmul=evil), 6)))
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {"svg", "title", "rect", "text"}
    assert any(evil in (element.text or "") for element in root.iter())


def test_gif_has_a_frame_for_each_cycle(digits: Recording) -> None:
    content = film.to_gif((scene_of(digits, cycle) for cycle in range(15)), fps=4)
    picture = Image.open(io.BytesIO(content))
    assert (picture.n_frames, picture.info["duration"], picture.info["loop"]) == (15, 250, 0)
    size = scene_of(digits, 0)
    assert picture.size == (size.width, size.height)
    frames = []
    for cycle in range(15):
        picture.seek(cycle)
        frames.append(np.asarray(picture.convert("RGB"), np.int16))
    assert all((a != b).any() for a, b in pairwise(frames))
    # The shared palette holds the colours of the picture, up to the blending of the edges of letters.
    whole = np.asarray(film.to_image(scene_of(digits, 14)), np.int16)
    assert np.abs(frames[14] - whole).mean() < 2


def test_png_shows_one_cycle_at_twice_the_size(digits: Recording) -> None:
    still = scene_of(digits, 9)
    picture = Image.open(io.BytesIO(film.to_png(still)))
    assert picture.size == (2 * still.width, 2 * still.height)


@pytest.mark.tool("ffmpeg")
def test_mp4_plays(digits: Recording, tmp_path: Path) -> None:
    file = tmp_path / "film.mp4"
    file.write_bytes(film.to_mp4((scene_of(digits, cycle) for cycle in range(15)), fps=5))
    probe = ["ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=codec_name,nb_read_frames"]
    found = subprocess.run([*probe, "-of", "csv=p=0", str(file)], capture_output=True, text=True, check=True)
    codec, frames = found.stdout.strip().split(",")
    assert codec == "h264"
    assert int(frames) == 15 + 5 * film.LAST_FRAME_SECONDS  # it rests on the last one


def test_without_ffmpeg_the_remedy_is_named(digits: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert shutil.which("ffmpeg") is None
    with pytest.raises(
        SystolicError, match=r"needs ffmpeg, which is not installed; install it .* or write a"
    ):
        film.to_mp4((scene_of(digits, cycle) for cycle in range(2)), fps=5)


def test_an_array_by_cells_is_drawn_by_cells() -> None:
    wide = {"array.rows": 64, "array.cols": 64}
    recording = record(Gemm(m=64, n=64, k=64, dtype="fp32"), overrides=wide)
    assert "64×64 PEs, 4×4 in a cell: green multiply, orange wait" in texts_of(recording, 100)


def test_the_picture_of_the_readme_is_what_the_command_draws() -> None:
    """`systolic animate 4,4,4 --fps 2`: the same size, frames and pace, and the same picture."""
    file = Path(__file__).parents[2] / "docs" / "pictures" / "matmul-4x4.gif"
    assert file.stat().st_size < 500_000
    recording = record(Gemm(m=4, n=4, k=4, dtype="fp32"))
    with Image.open(file) as kept:
        assert (kept.n_frames, kept.info["duration"]) == (15, 500)
        for cycle in (0, 9, 14):
            kept.seek(cycle)
            shown = np.asarray(kept.convert("RGB"), np.int16)
            drawn = np.asarray(film.to_image(scene_of(recording, cycle)), np.int16)
            assert shown.shape == drawn.shape
            assert np.abs(shown - drawn).mean() < 2
