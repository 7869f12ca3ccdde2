"""``systolic run --html``: one page beside the tables, and targets that are refused before the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_commands import status_of


def test_a_page_is_written_beside_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    assert status_of(*f"run 64,64,64 --on tpu-v4,tpu-v6e --check off --html {target}".split()) == 0
    out, err = capsys.readouterr()
    assert "cycles by cause" in out
    assert err.splitlines()[-1] == f"systolic: wrote {target}"
    assert "64,64,64 on tpu-v4, tpu-v6e" in target.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [target]


def test_a_page_goes_with_json_on_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    assert status_of(*f"run 4,4,4 --on teaching-4x4 --check off --json - --html {target}".split()) == 0
    assert capsys.readouterr().out.startswith('{\n  "schema": 1,')
    assert target.is_file()


def test_a_folder_is_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("run", "4,4,4", "--on", "teaching-4x4", "--html", str(tmp_path)) == 2
    assert capsys.readouterr().err == (
        f"systolic: --html must name a file, got the folder {str(tmp_path)!r}\n"
    )
