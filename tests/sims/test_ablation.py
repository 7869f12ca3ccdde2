"""The ablation switches off what it says, and shows what that costs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import systolic
from systolic.chips.kinds import values_of
from systolic.measured.sources import SHIPPED

from .test_sims import SIMS, study

CHIPS = ("tpu-v1", "tpu-v3", "tpu-v6e")


@pytest.fixture(scope="module")
def ablation() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SIMS)
        yield importlib.import_module("ablation")


@pytest.mark.parametrize("chip", CHIPS)
def test_each_line_changes_one_thing_or_says_that_there_is_none(ablation: Any, chip: str) -> None:
    """`-` stands exactly where the catalogue's chip has the mechanism off already."""
    catalogue = values_of(systolic.load_chip(chip))
    for overrides in ablation.MECHANISMS.values():
        given = ablation.on(chip, overrides)
        changed = values_of(systolic.load_chip(chip, {} if given is None else given))
        different = [path for path in changed if changed[path] != catalogue[path]]
        assert different == ([] if given is None else list(overrides))


def test_table(ablation: Any, tmp_path: Path) -> None:
    """One TPU v1 application and one TPU v3 matmul: what they say with all mechanisms, and with some off."""
    (tmp_path / "tpu_v1_workloads.csv").write_text((SHIPPED / "tpu_v1_workloads.csv").read_text())
    counters = (SHIPPED / "tpu_v1_counters.csv").read_text().splitlines()
    (tmp_path / "tpu_v1_counters.csv").write_text("\n".join(counters[:2]) + "\n")
    (tmp_path / "pytorchsim_tpuv3.csv").write_text(
        "device,workload,op,batch,M,N,K,measured_cycles,clock_mhz,scalesim3_cycles\n"
        "TPUv3,gemm_512x512x512,matmul,1,512,512,512,9490,940,6128.0\n"
    )
    head, *lines = study("ablation", "--data", str(tmp_path)).splitlines()
    width = max(map(len, ablation.MECHANISMS))
    table = {line[:width].strip(): line[width:].split() for line in lines}
    assert list(table) == list(ablation.MECHANISMS)
    assert head.split()[:3] == ["without", "v1", "stall"]
    assert all(len(figures) == len(ablation.COLUMNS) for figures in table.values())
    everything, without_overlap = table["all of them"], table["loads behind the running block"]
    assert float(everything[0]) == pytest.approx(3.9, abs=0.5)  # MLP1, 64.8% of its cycles measured
    assert float(without_overlap[1]) > 4 * float(everything[1])
    assert table["what the compiler fuses"][0] == "-"
    assert table["weights come tile by tile"][1] == "-"
    assert everything[2] == "-"  # no attention row in this folder
