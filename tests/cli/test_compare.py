"""``systolic compare`` on the command line: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from systolic.cli import main
from systolic.measured.rows import Row, csv_text


def status_of(*arguments: str) -> int:
    """Exit status of the command line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture
def measured(tmp_path: Path) -> str:
    """One row: 14 cycles at 1 GHz, measured as 20 ns."""
    row = Row(device="bench", dtype="int8", op="matmul", m=4, n=4, k=4, clock="kernel", measured_us=0.02)
    path = tmp_path / "measured.csv"
    path.write_text(csv_text([row]))
    return str(path)


def test_tables(measured: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("compare", measured, "--on", "teaching-4x4", "--rows") == 0
    out = capsys.readouterr().out
    assert "measured.csv: bench on teaching-4x4, int8, clock: kernel" in out
    assert "4x4x4          0.02          0.01         -30.0" in out
    assert status_of("compare", measured, "--on", "teaching-4x4", "--overview") == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:6] == [
        *("bench", "int8", "kernel", "matmul", "1", "30.0")
    ]


def test_json_and_page(measured: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("compare", measured, "--on", "teaching-4x4", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["groups"][0]["points"][0]["error_pct"] == pytest.approx(-30)
    page, data = tmp_path / "c.html", tmp_path / "c.json"
    line = ("compare", measured, "--on", "teaching-4x4", "--html", str(page), "--json", str(data))
    assert status_of(*line) == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert json.loads(data.read_text())["schema"] == 1
    assert {path.name for path in tmp_path.iterdir()} == {"measured.csv", "c.html", "c.json"}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("compare", "compare needs a file of measurements, or --shipped"),
        ("compare none.csv", "none.csv: cannot be read: No such file or directory"),
        ("compare --shipped nothing", "no measurements called 'nothing' ship with systolic"),
        ("compare {} --on x", "chip 'x' is not in the catalogue"),
        ("compare {} --sample few", "--sample must be a whole number > 0, or all, got 'few'"),
        ("compare {} --html /no/such/x.html", "--html: there is no folder '/no/such'; create it first"),
        ("calibrate {} --chip tpu-v4 --out mine", "--out must name a .toml file, got 'mine'"),
        (
            "calibrate {} --chip teaching-4x4 --out m.toml",
            "measured.csv: at least 6 rows to fit",
        ),
    ],
)
def test_refusals(line: str, text: str, measured: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(*line.format(measured).split()) == 2
    assert capsys.readouterr().err.startswith(f"systolic: {text}")
