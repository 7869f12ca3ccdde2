"""The study of GPUs: figures that follow from the rows it prints, on rows that ship and on others."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import systolic
from systolic.chips.kinds import values_of
from systolic.measured.sources import SHIPPED

from .test_sims import SIMS, study


@pytest.fixture(scope="module")
def modules() -> Iterator[tuple[Any, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SIMS)
        yield importlib.import_module("fidelity.gpu"), importlib.import_module("ablation")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the public name with a dozen of its rows."""
    found = tmp_path_factory.mktemp("rows")
    head, *rows = (SHIPPED / "aiconfigurator_gemm.csv").read_text().splitlines()
    a100 = [row for row in rows if row.startswith("A100-SXM-80GB")]
    (found / "aiconfigurator_gemm.csv").write_text("\n".join([head, *a100[:: len(a100) // 12]]) + "\n")
    return found


def test_the_figures_are_the_means_of_the_rows(folder: Path) -> None:
    out = study(
        "gpu_validation", "--data", str(folder), "--only", "aiconfigurator_gemm", "--sample", "all", "--rows"
    )
    assert out.count("no rows") == 8  # four devices without any
    errors = []
    for block in out.split("\n\n"):
        lines = block.splitlines()
        if "no rows" in block or not lines:
            continue
        (whole,) = [line.split() for line in lines if line.startswith("all ")]
        measured = [line.split() for line in lines if line[:1].isdigit() and "x" in line.split()[0]]
        own = [abs(float(row[2]) / float(row[1]) - 1) * 100 for row in measured]
        assert int(whole[1]) == len(own)
        assert float(whole[2]) == pytest.approx(statistics.fmean(own), abs=0.2)
        kept = "kept" if float(whole[2]) <= float(lines[0].split("bar ")[1].split("%")[0]) else "missed"
        assert lines[0].endswith(kept)
        errors += own
    assert len(errors) in (12, 13)


def test_a_sample_spans_all_times(modules: tuple[Any, Any]) -> None:
    gpu, _ = modules
    part = gpu.PARTS[0]
    rows = [row for row in gpu._rows(part.source, None) if part.holds(row)]
    chosen = gpu.spaced(rows, 10)
    times = sorted(row.measured_us for row in rows)
    assert len(chosen) == 10
    assert [row.measured_us for row in chosen] == sorted(row.measured_us for row in chosen)
    assert chosen[0].measured_us < times[len(times) // 10]
    assert chosen[-1].measured_us > times[-len(times) // 10]
    assert len(gpu.spaced(rows[:4], 10)) == 4


def test_each_mechanism_changes_what_it_says(modules: tuple[Any, Any]) -> None:
    _, ablation = modules
    catalogue = values_of(systolic.load_chip("a100"))
    for name, changed in ablation.GPU_MECHANISMS.items():
        values = values_of(systolic.load_chip("a100", dict(changed)))
        assert [path for path in values if values[path] != catalogue[path]] == list(changed), name
