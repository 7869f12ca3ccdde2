"""README.md and docs/: the examples run and print what is shown, and what is said about them holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import systolic

from . import readme

ROOT = Path(__file__).parent.parent
DOCUMENT = (ROOT / "README.md").read_text()


EXAMPLES = [
    pytest.param(path, example, id=f"{path.stem}: {example.title}")
    for path in readme.DOCUMENTS
    for example in readme.examples(path.read_text())
]


@pytest.mark.parametrize(("path", "example"), EXAMPLES)
def test_example_prints_what_is_shown(path: Path, example: readme.Example, tmp_path: Path) -> None:
    for name, content in readme.files(path.read_text()).items():
        (tmp_path / name).write_text(content)
    printed = readme.run(example, tmp_path)
    places = readme.place(example.shown, printed)
    assert not isinstance(places, str), "\n".join([places, "", "all that was printed:", *printed])


def test_a_changed_figure_or_a_missing_line_is_noticed() -> None:
    printed = ["op      cycles", "qkv    218,784", "qk      9", "", "total  218,793"]
    assert readme.place(printed, printed) == [0, 1, 2, None, 4]
    assert readme.place(["op cycles", "...", "total  218,793"], printed) == [0, None, 4]
    assert "218,785" in readme.place(["op cycles", "qkv 218,785", "...", "total  218,793"], printed)
    assert "not shown" in readme.place(["op cycles", "qkv 218,784"], printed)
    assert "qkv" in readme.place(["op cycles", "total 218,793"], printed)
    assert "the end" in readme.place([*printed, "more"], printed)


@pytest.mark.parametrize("path", readme.DOCUMENTS, ids=lambda path: path.stem)
def test_links_lead_to_files(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", path.read_text())
    files = [target for target in targets if "://" not in target]
    assert not [target for target in files if not (path.parent / target).exists()]


def test_what_is_said_about_gpt2_holds() -> None:
    chip = systolic.simulate(systolic.load_model("gpt2", seq=1024), on="tpu-v4").chips[0]
    total, causes = chip.totals.cycles, dict(chip.totals.cycles_by_cause)
    assert 0.4 < causes.pop("compute") / total < 0.6
    assert causes["stall_dram"] > sum(causes.values()) / 2
    waits = {row.name: row.cycles_by_cause.get("stall_dram", 0) for row in chip.rows}
    assert waits["attn.qk"] + waits["attn.softmax"] + waits["attn.pv"] > causes["stall_dram"] / 2
    fullest = max(chip.matmuls, key=lambda row: row.utilization or 0)
    assert fullest.name == "lm_head"
    assert fullest.cycles > total / 10


def test_version_to_cite_is_this_one() -> None:
    assert f"systolic {systolic.__version__}," in DOCUMENT
    assert f"version: {systolic.__version__}\n" in (ROOT / "CITATION.cff").read_text()
