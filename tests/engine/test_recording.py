"""One matmul of a workload: which one, which operands, and what is too much."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import systolic
from systolic.engine import recording
from systolic.engine.recording import record
from systolic.errors import SystolicError
from systolic.workload import Gemm

SMALL = Gemm(m=3, n=4, k=5, dtype="fp32")


class Heard:
    """Takes what is announced."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def announce(self, line: str) -> None:
        self.lines.append(line)

    def start(self, label: str, total: int) -> None:
        raise AssertionError("nothing here takes long")

    def advance(self, units: int) -> None:
        raise AssertionError("nothing here takes long")


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_given_operands_are_multiplied(dataflow: str) -> None:
    lhs, rhs = np.arange(15.0).reshape(3, 5), np.arange(20.0).reshape(5, 4) - 7
    (run,) = record(SMALL, dataflows=(dataflow,), lhs=lhs, rhs=rhs).runs
    out = np.zeros((3, 4))
    for event in run.array.leaving:
        out[event.row, event.col] = event.sum
    np.testing.assert_array_equal(out, lhs @ rhs)
    assert run.array.total_cycles == run.row.cycles
    assert int(run.array.macs[-1]) == run.row.array_macs == 60


def test_drawn_digits_depend_on_the_seed_alone() -> None:
    first, again, other = (record(SMALL, seed=seed).runs[0].array for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.lhs, again.lhs)
    assert (first.lhs != other.lhs).any()
    assert set(np.unique(first.lhs)) <= set(range(1, 10))


def test_a_matmul_of_a_layer_of_a_model() -> None:
    """GPT-2: 12 heads of 64 (Radford et al. 2019); qk of 16 tokens is 12 products of 16 x 16 x 64."""
    work = systolic.load_model("gpt2", seq=16)
    seen = record(work, on="tpu-v4", matmul="attn.qk", layer=3)
    assert (seen.gemm.name, seen.gemm.batch, seen.gemm.m, seen.gemm.n, seen.gemm.k) == (
        "attn.qk",
        12,
        16,
        16,
        64,
    )
    assert (seen.layer, seen.gemm.layers) == (3, 12)
    assert [row.name for row in seen.rows] == [
        row.name for row in systolic.simulate(work, on="tpu-v4").chips[0].rows
    ]
    (run,) = seen.runs
    assert run.slices_end == run.row.cycles // run.row.op.count


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            {"matmul": "mlp.upp"},
            r"matmul must be one of the workload's, got 'mlp.upp'; did you mean 'mlp.up'\?",
        ),
        ({}, "matmul must name one of the workload's matmuls, got none; there are attn.qkv, attn.qk"),
        ({"matmul": "mlp.up", "layer": 12}, "layer must be 0 to 11, the layers that have mlp.up, got 12"),
        ({"matmul": "mlp.up", "values": "ones"}, "values must be one of digits, normal, got 'ones'"),
        ({"matmul": "mlp.up", "dataflows": ("ws", "ws")}, "dataflows must differ, got ws,ws"),
        ({"matmul": "mlp.up", "dataflows": ("xs",)}, "dataflow must be one of ws, os, is, got 'xs'"),
        ({"matmul": "mlp.up", "lhs": np.ones((2, 2))}, "lhs must be 8 x 768, got 2 x 2"),
        ({"matmul": "mlp.up", "on": "a100"}, r"a100 \(kind gpu\) has no systolic array to animate"),
    ],
)
def test_what_is_refused(options: dict[str, object], line: str) -> None:
    work = systolic.load_model("gpt2", seq=8)
    with pytest.raises(SystolicError, match=line):
        record(work, **{"on": "tpu-v4"} | options)  # type: ignore[arg-type]


def test_operands_too_large_to_draw_are_refused_before_they_are_drawn() -> None:
    with pytest.raises(
        SystolicError, match=r"rhs must have at most 67,108,864 elements .* got 1,000,000,000 "
    ):
        record(Gemm(m=8, n=10**5, k=10**4), on="tpu-v4")


def test_more_tiles_than_can_be_laid_out_are_refused() -> None:
    """2048^3 on 4x4 PEs: 512 x 512 tiles."""
    with pytest.raises(
        SystolicError, match=r"at most 100,000 tiles of the array to be recorded, got 262,144;"
    ):
        record(Gemm(m=2048, n=2048, k=2048, dtype="fp32"))


def test_what_is_cut_short_is_said_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "PE_CLOCKS", 16 * 300)
    heard = Heard()
    (run,) = record(Gemm(m=30, n=20, k=20, dtype="fp32"), progress=heard).runs
    assert run.array.cycles == 300 < run.array.total_cycles
    assert not run.array.is_whole
    assert heard.lines == [
        f"matmul takes {run.row.cycles:,} cycles of 16 PEs; the array is shown in the first 300 in which it "
        "works, its schedule as a whole; for all registers take a smaller M,N,K"
    ]


def test_a_long_schedule_is_kept_up_to_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "SLICES", 50)
    (run,) = record(Gemm(m=8, n=40, k=20, dtype="fp32")).runs
    on_array = [part for part in run.slices if part.unit == "array"]
    assert len(on_array) <= 50
    assert on_array[0].start == 0 and on_array[-1].stop == run.slices_end < run.row.cycles
    assert all(a.stop == b.start for a, b in pairwise(on_array))
