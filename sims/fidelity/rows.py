"""The measured rows that the studies judge: those that ship, or those of another folder."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from systolic.measured.originals import read_original
from systolic.measured.rows import Row
from systolic.measured.sources import SHIPPED, shipped_rows


def rows_of(source: str, folder: Path | None) -> tuple[Row, ...]:
    """The rows of a source, none where the folder has no such file; those that ship without a folder."""
    if folder is None:
        return shipped_rows(source)
    path = folder / f"{source}.csv"
    if not path.exists():
        return ()
    read = read_original(path)
    for note in read.notes:
        print(f"note: {note}", file=sys.stderr)
    return read.rows


def table_of(name: str, folder: Path | None) -> list[dict[str, str]]:
    """A table that holds no times, as texts by column; empty where the folder has none."""
    path = (folder or SHIPPED) / name
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
