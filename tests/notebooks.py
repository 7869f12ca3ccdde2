"""The notebooks: each is written as ``notebooks/NAME.py``, and kept executed as ``notebooks/NAME.ipynb``.

``python -m tests.notebooks`` executes them and writes the ``.ipynb``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "notebooks").glob("*.py"))


def executed(source: Path) -> Any:
    """The notebook that a ``.py`` describes, with the outputs of today."""
    notebook = jupytext.read(source)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # else random, and another text each time
    client = NotebookClient(notebook, timeout=60, kernel_name="python3", record_timing=False)
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT)})
    notebook.metadata.pop("language_info", None)  # the interpreter that happened to run it
    return notebook


def stored(source: Path) -> Any:
    """The ``.ipynb`` beside a ``.py``."""
    return nbformat.read(source.with_suffix(".ipynb"), as_version=4)


def seen(notebook: Any) -> list[tuple[str, str, list[str]]]:
    """Kind, text and printed outputs of each cell."""
    return [(cell.cell_type, cell.source, _texts(cell)) for cell in notebook.cells]


def _texts(cell: Any) -> list[str]:
    outputs = cell.get("outputs", [])
    return [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]


if __name__ == "__main__":
    for path in SOURCES:
        nbformat.write(executed(path), path.with_suffix(".ipynb"))
