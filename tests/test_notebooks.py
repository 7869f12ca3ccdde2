"""The notebooks run, and show what they print today."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import notebooks


@pytest.mark.parametrize("source", notebooks.SOURCES, ids=lambda path: path.stem)
def test_notebook_runs_and_shows_its_outputs(source: Path) -> None:
    today = notebooks.executed(source)
    assert notebooks.seen(notebooks.stored(source)) == notebooks.seen(today)


def test_every_notebook_has_its_pair() -> None:
    folder = notebooks.ROOT / "notebooks"
    assert notebooks.SOURCES
    assert {path.stem for path in folder.glob("*.ipynb")} == {path.stem for path in notebooks.SOURCES}
