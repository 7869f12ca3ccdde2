"""The documentation builds without a warning, and its tables hold what the package knows."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

from systolic.chips import catalogue, describe, load_chip
from systolic.metrics import METRICS

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built with warnings as errors."""
    folder = tmp_path_factory.mktemp("docs")
    command = (sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(folder))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def text_of(page: Path) -> str:
    """What a reader sees: no tags, single spaces, quotes as they are typed."""
    seen = html.unescape(re.sub(r"<[^>]+>", " ", page.read_text()))
    return " ".join(seen.replace("“", '"').replace("”", '"').replace("’", "'").split())


def test_every_metric_is_on_its_page(pages: Path) -> None:
    seen = text_of(pages / "reference" / "metrics.html")
    assert not [metric.name for metric in METRICS.values() if metric.name not in seen]


def test_every_number_of_every_chip_is_on_its_page(pages: Path) -> None:
    seen = text_of(pages / "reference" / "chips.html")
    for name in catalogue():
        fields = describe(load_chip(name))
        assert not [f.field for f in fields if f"{f.field} {f.value}" not in seen]


def test_pages_fetch_nothing(pages: Path) -> None:
    for page in pages.glob("**/*.html"):
        assert not re.findall(
            r"""(?:src|rel="stylesheet"[^>]*href)=["'](?:https?:)?//[^"']+""", page.read_text()
        )
