"""Files appear whole or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from systolic import SystolicError
from systolic.cli.files import check_target, write_whole


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """A lone surrogate has no UTF-8, so writing fails half-way."""
    target = tmp_path / "out.json"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(target, "new" * 100_000 + "\ud800")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_links_are_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_devices_stay_devices() -> None:
    null = Path("/dev/null")
    check_target(null, "--json")
    write_whole(null, "text")
    assert stat.S_ISCHR(null.stat().st_mode)


def test_a_folder_that_went_away_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(SystolicError, match=r"gone/out.json: cannot be written: No such file or directory"):
        write_whole(tmp_path / "gone" / "out.json", "text")
