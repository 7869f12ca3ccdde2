"""Calibration finds the constants that rows were made with, and refuses what it cannot trust."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import systolic
from systolic import Gemm, SystolicError
from systolic.cli import main
from systolic.measured.calibration import calibrate
from systolic.measured.rows import Row, csv_text

BASE = 'schema = 1\nname = "base"\nbase = "teaching-4x4"\nmemory.dram.bytes_per_s = "4 GB/s"\n'
SHAPES = [(m, n, 64) for m in (4, 32, 256) for n in (4, 16, 64, 128)] + [(8, 8, 8 * at) for at in range(1, 5)]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.toml"
    path.write_text(BASE)
    return path


def rows_on(base: Path, overrides: dict[str, object]) -> list[Row]:
    """Rows as a chip with these fields would be measured."""
    chip = systolic.load_chip(base, overrides)
    found = []
    for m, n, k in SHAPES:
        seconds = systolic.simulate(Gemm(m=m, n=n, k=k, dtype="int8"), on=chip).chips[0].seconds
        told = {"device": "bench", "dtype": "int8", "op": "matmul", "clock": "kernel"}
        found.append(Row(m=m, n=n, k=k, measured_us=1e6 * seconds, **told))
    return found


def file_of(folder: Path, rows: list[Row]) -> Path:
    path = folder / "measured.csv"
    path.write_text(csv_text(rows))
    return path


def test_it_finds_the_constants_that_rows_were_made_with(base: Path, tmp_path: Path) -> None:
    made = {"clock_hz": "800 MHz", "memory.dram.sustained_percent": 70}
    found = calibrate(file_of(tmp_path, rows_on(base, made)), base)
    assert found.chip.clock_hz == pytest.approx(800e6, rel=0.03)
    assert found.chip.memory["dram"].sustained_percent == pytest.approx(70, abs=3)
    assert found.after.mape < 2 < 20 < found.before.mape
    assert found.after.mape < found.fitted_roofline.mape
    assert (found.fitted, found.judged) == (8, 8)
    assert [c.path for c in found.constants] == ["clock_hz", "memory.dram.sustained_percent"]


def test_rows_of_the_chip_itself_change_nothing(base: Path, tmp_path: Path) -> None:
    found = calibrate(file_of(tmp_path, rows_on(base, {})), base)
    assert found.chip.clock_hz == 10**9
    assert found.chip.memory["dram"].sustained_percent == 100
    assert found.after.mape == pytest.approx(0, abs=1e-9)


def test_a_rate_above_the_peak_is_refused_by_name(base: Path, tmp_path: Path) -> None:
    rows = [replace(row, measured_us=row.measured_us / 1.5) for row in rows_on(base, {})]
    with pytest.raises(SystolicError) as refused:
        calibrate(file_of(tmp_path, rows), base)
    assert {line.split()[0] for line in refused.value.problems} == {
        "clock_hz",
        "memory.dram.sustained_percent",
    }
    assert "must be fitted at or below the peak of base, and 110% of it suit" in refused.value.problems[0]


def test_too_few_or_mixed_rows_are_refused(base: Path, tmp_path: Path) -> None:
    rows = rows_on(base, {})
    with pytest.raises(SystolicError, match="at least 6 rows to fit and 6 to judge must be there"):
        calibrate(file_of(tmp_path, rows[:8]), base)
    mixed = [replace(rows[0], clock="host"), *rows[1:]]
    with pytest.raises(SystolicError, match="rows must be of one clock to fit on, got host, kernel"):
        calibrate(file_of(tmp_path, mixed), base)
    with pytest.raises(SystolicError, match=r"fit must be a share between 0 and 1, got 1\.5"):
        calibrate(file_of(tmp_path, rows), base, fit=1.5)


def test_the_command_writes_a_chip_file_that_says_what_it_is(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = file_of(tmp_path, rows_on(base, {"clock_hz": "800 MHz"}))
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "mine.toml"
    with pytest.raises(SystemExit) as ended:
        main(["calibrate", str(measured), "--chip", str(base), "--out", str(target)])
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert "fitted on 8 rows of measured.csv" in out
    assert err == f"systolic: wrote {target}\n"
    content = tomllib.loads(target.read_text())
    assert content["base"] == "../base.toml"
    assert content["source"]["clock_hz"].startswith(
        "fitted on 8 rows of measured.csv (bench, clock: kernel), 2"
    )
    assert list(target.parent.iterdir()) == [target]
    chip = systolic.load_chip(target)
    assert chip.name == "mine"
    assert chip.clock_hz == pytest.approx(800e6, rel=0.03)
    (group,) = systolic.compare(measured, on=target).groups
    assert any(label.startswith("mine holds fitted constants: clock_hz") for label in group.labels)
