"""``systolic animate``: files by suffix, and the lines that refuse what cannot be drawn."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_commands import status_of


@pytest.mark.parametrize(
    ("suffix", "begins"),
    [(".html", b"<!DOCTYPE html>"), (".gif", b"GIF89a"), (".png", b"\x89PNG\r\n"), (".svg", b"<svg ")],
)
def test_the_suffix_says_what_is_written(
    suffix: str, begins: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / f"picture{suffix}"
    assert status_of("animate", "3,2,4", "-o", str(target)) == 0
    assert target.read_bytes().startswith(begins)
    assert list(tmp_path.iterdir()) == [target]
    assert capsys.readouterr() == ("", f"systolic: wrote {target}\n")


def data_of(page: Path) -> dict[str, object]:
    found = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL
    )
    assert found is not None
    return json.loads(found[1])  # type: ignore[no-any-return]


def test_every_option_reaches_the_page(tmp_path: Path) -> None:
    target, left, right = tmp_path / "p.html", tmp_path / "a.csv", tmp_path / "b.npy"
    left.write_text("1,2\n3,4\n5,6\n")
    np.save(right, np.array([[1, 0, -1], [2, 1, 0]]))
    line = "animate 3,3,2 --dataflow is,os --dtype int8 --set array.rows=3 --cycle 5"
    files = ["--lhs", str(left), "--rhs", str(right)]
    assert status_of(*line.split(), *files, "-o", str(target)) == 0
    data = data_of(target)
    assert data["cycle"] == 5
    runs = data["runs"]
    assert isinstance(runs, list)
    assert [(run["dataflow"], run["rows"], run["cols"]) for run in runs] == [("is", 3, 4), ("os", 3, 4)]
    # is: 3 preload + n + R + C - 2 = 3 + 3 + 5; os: k + R + C - 2 + R = 2 + 5 + 3 (DESIGN section 5).
    assert [run["cycles"] for run in runs] == [11, 10]
    assert "int8 operands, int32 sums" in str(data["facts"]) and "given" in str(data["facts"])


def test_a_layer_of_a_model(tmp_path: Path) -> None:
    target = tmp_path / "layer.html"
    line = f"animate gpt2 --seq 8 --layer 3 --matmul attn.qk -o {target}"
    assert status_of(*line.split()) == 0
    data = data_of(target)
    assert str(data["title"]).startswith("gpt2 · attn.qk · layer 3 · C = A × B on a 128×128")
    model = data["model"]
    assert isinstance(model, dict)
    assert [row["name"] for row in model["rows"] if row["chosen"]] == ["attn.qk"]
    assert {"attn.norm", "mlp.down"} <= {row["name"] for row in model["rows"]}
    assert "lm_head" not in {row["name"] for row in model["rows"]}  # no part of a layer


def test_warps_and_lines(tmp_path: Path) -> None:
    target = tmp_path / "p.html"
    line = "animate gpt2 --seq 64 --layer 2 --matmul mlp.up --on a100 --kernel register --dtype fp32"
    assert status_of(*line.split(), "-o", str(target)) == 0
    assert "mlp.up of gpt2 on a100: 64 × 3072 × 768" in str(data_of(target)["title"])
    assert "kernel register" in str(data_of(target)["subtitle"])
    line = "animate 8,16,4 --loop blocked --cycle 7"
    assert status_of(*line.split(), "-o", str(target)) == 0
    assert data_of(target)["title"] == "blocked loops over 8 × 16 × 4, line by line"
    assert data_of(target)["at"] == 7


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("4,4,4 -o x.txt", "--output must end in one of .html, .gif, .mp4, .png, .svg, got 'x.txt'"),
        ("4,4,4 -o /no/such/x.html", "--output: there is no folder '/no/such'; create it first"),
        ("4,4,4 -o x.png --cycle -1", "--cycle must be >= 0, got -1"),
        ("4,4,4 -o x.png --cycle 15", "--cycle must be 0 to 14, the cycles recorded, got 15"),
        ("4,4,4 -o x.gif --cycle 3", "--cycle applies to a page or a still, not to .gif"),
        ("4,4,4 -o x.gif --fps 0", "--fps must be > 0 and <= 50, got 0"),
        ("4,4,4 -o x.gif --seed -1", "--seed must be >= 0, got -1"),
        ("20,20,20 -o x.gif", "a .gif must have at most 600 frames, got 751 cycles to show; write a .html"),
        ("4,4,4 -o x.html --dataflow ws,xs", "dataflow must be one of ws, os, is, got 'xs'"),
        ("4,4,4 -o x.html --lhs none.csv", "--lhs: none.csv: cannot be read: No such file or directory"),
        ("4,4,4 -o x.html --lhs a.txt", "--lhs must be a .csv or .npy file, got 'a.txt'"),
        (
            "4,4,4 -o x.html --lhs words.csv",
            "--lhs: words.csv must hold rows of equally many numbers: could not",
        ),
        ("4,4,4 -o x.html --rhs nan.csv", "--rhs: nan.csv must hold finite numbers, got nan"),
        ("4,4,4 -o x.html --rhs one.csv", "rhs must be 4 x 4, got 1 x 2"),
        ("gpt2 -o x.html", "matmul must name one of the workload's matmuls, got none; there are attn.qkv,"),
        ("4,4,4", "Missing option '--output' / '-o'"),
        (
            "64,64,64 -o x.gif --on a100",
            "--output must end in .html for a100, whose warps are drawn on a page; got '.gif'",
        ),
        (
            "64,64,64 -o x.html --on a100 --dataflow os",
            "--dataflow must be left out for a100, whose warps are drawn on a page; got 'os'",
        ),
        (
            "64,64,64 -o x.html --on a100 --kernel fast",
            "kernel must be one of naive, shared, register, tensor",
        ),
        ("4,4,4 -o x.html --kernel tensor", "--kernel is no choice of teaching-4x4, which has no warps; got"),
        ("gpt2 -o x.html --loop naive", "--loop takes one matmul such as 24,24,24, got the model gpt2"),
        (
            "4,4,4 -o x.html --loop naive --on a100",
            "--on must be left out with --loop, which draws the caches of a core on a page; got 'a100'",
        ),
        ("4,4,4 -o x.html --loop wild", "loop must be one of naive, reordered, blocked, got 'wild'"),
        (
            "4,4,4 -o x.html --loop naive --cycle 999",
            "--cycle must be 0 to 144, the accesses recorded, got 999",
        ),
    ],
)
def test_wrong_input_is_one_line_and_writes_nothing(
    line: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"words.csv": "one,two\n", "nan.csv": "1,nan\n", "one.csv": "1,2\n"}
    for name, content in files.items():
        Path(name).write_text(content)
    assert status_of("animate", *line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"systolic: {text}")
    assert err.count("\n") == 1
    assert {file.name for file in tmp_path.iterdir()} == set(files)
