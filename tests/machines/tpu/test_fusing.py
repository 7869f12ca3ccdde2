"""What becomes of softmax and norms under each fusion policy."""

from __future__ import annotations

from dataclasses import replace

import pytest

import systolic
from systolic.chips.tpu import FUSIONS
from systolic.engine.report import ChipReport
from systolic.models import vector_ops as vec
from systolic.workload import Gemm, Op, VectorOp, Workload

HEADS, ROWS, WIDTH = 3, 64, 32
SCORES = HEADS * ROWS * ROWS


def attention(dtype: str = "fp32", count: int = 1) -> Workload:
    """Scores, softmax, weighted sum of `HEADS` heads of `WIDTH`, a query for each of `ROWS` keys."""
    qk = Gemm(name="qk", batch=HEADS, m=ROWS, n=ROWS, k=WIDTH, rhs_kind="activation", layout="nt")
    pv = Gemm(name="pv", batch=HEADS, m=ROWS, n=WIDTH, k=ROWS, rhs_kind="activation")
    ops = (qk, vec.softmax("softmax", HEADS * ROWS, ROWS), pv)
    work = Workload(name="attention", ops=tuple(replace(op, count=count) for op in ops))
    return work.with_dtype(dtype)


def alone(op: VectorOp) -> Workload:
    return Workload(name=op.name, ops=(op,)).with_dtype("fp32")


def run(work: Workload, fusion: str, chip: str = "tpu-v3") -> ChipReport:
    overrides = {"policy.fusion": fusion, "policy.activations": "dram"}
    return systolic.simulate(work, on=chip, overrides=overrides).chips[0]


def dram(work: Workload, fusion: str) -> int:
    """Bytes of main memory that the work moves."""
    return sum(traffic.total for traffic in run(work, fusion).totals.bytes["dram"].values())


def test_softmax_of_xla_moves_16_bytes_per_element() -> None:
    """A core of TPU v3, 83% of 450 GB/s, took 2873.4 us for 8192 x 8192 float32 (PyTorchSim artifact)."""
    rows, keys = 256, 1024
    measured = 2873.4e-6 * 0.83 * 450e9 / 8192**2
    assert dram(alone(vec.softmax("softmax", rows, keys)), "xla") / (rows * keys) == pytest.approx(
        measured, rel=0.001
    )


def test_softmax_that_holds_its_rows_is_read_once_and_written_once() -> None:
    assert dram(alone(vec.softmax("softmax", 256, 1024)), "none") == 8 * 256 * 1024


@pytest.mark.parametrize(("formula", "passes"), [("layernorm", 4), ("rmsnorm", 3)])
def test_norms_of_xla_pass_once_per_statistic(formula: str, passes: int) -> None:
    norm = vec.norm("norm", formula, 128, 256)
    assert dram(alone(norm), "xla") == 4 * (passes * 128 * 256 + norm.parameters)


def test_attention_of_xla_passes_over_its_scores_three_times() -> None:
    operands = 4 * 4 * HEADS * ROWS * WIDTH
    assert dram(attention(), "xla") == operands + 3 * 4 * SCORES
    assert dram(attention(), "none") == operands + 4 * 4 * SCORES


def test_flash_attention_moves_only_its_operands_and_its_result() -> None:
    report = run(attention(), "flash")
    assert dram(attention(), "flash") == 4 * 4 * HEADS * ROWS * WIDTH
    assert sum(row.macs for row in report.matmuls) == attention().macs
    assert [row.name for row in report.rows] == ["qk", "softmax", "pv"]


def test_softmax_of_flash_hides_behind_both_matmuls() -> None:
    """It costs elapsed time only beyond the time of both; a slow vector unit shows all the rest."""
    for lanes in (1, 1024):
        overrides = {"policy.fusion": "flash", "vector.lanes": lanes, "vector.alus": 1, "cores": 1}
        rows = systolic.simulate(attention(), on="tpu-v3", overrides=overrides).chips[0].rows
        qk, softmax, pv = rows
        assert softmax.busy_cycles == -(-7 * SCORES // lanes)
        assert softmax.cycles == max(0, softmax.busy_cycles - qk.cycles - pv.cycles)


def test_scores_that_could_never_lie_on_chip_stream_through() -> None:
    """32 heads of 8192 x 8192 bf16 scores are 4 GiB; VMEM has 128 MiB."""
    qk = Gemm(name="qk", batch=32, m=8192, n=8192, k=128, rhs_kind="kv_cache", layout="nt")
    pv = Gemm(name="pv", batch=32, m=8192, n=128, k=8192, rhs_kind="kv_cache")
    work = Workload(name="long", ops=(qk, vec.softmax("softmax", 32 * 8192, 8192), pv))
    moved = systolic.simulate(work, on="tpu-v6e").chips[0].totals.bytes["dram"]
    assert moved["out"].total == pv.out_bytes
    assert "other" not in moved


def test_values_are_the_same_whatever_is_fused() -> None:
    """Only time and traffic depend on the policy."""
    reports = [run(attention(count=2), fusion) for fusion in FUSIONS]
    assert len({tuple((row.name, row.op.count, row.macs) for row in r.rows) for r in reports}) == 1
    assert len({r.matmuls[0].precision for r in reports}) == 1


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param((vec.softmax("s", 64, 64), Gemm(m=64, n=32, k=64)), id="no maker"),
        pytest.param((Gemm(name="g", m=64, n=64, k=32), vec.softmax("s", 64, 64)), id="no taker"),
        pytest.param(
            (Gemm(name="g", m=64, n=64, k=32), vec.softmax("s", 32, 64), Gemm(m=32, n=8, k=64)),
            id="half of it",
        ),
        pytest.param(
            (Gemm(name="g", m=64, n=64, k=8, count=2), vec.softmax("s", 64, 64), Gemm(m=64, n=8, k=64)),
            id="other count",
        ),
    ],
)
def test_only_a_softmax_between_its_own_matmuls_streams(ops: tuple[Op, ...]) -> None:
    work = Workload(name="w", ops=ops).with_dtype("bf16")
    assert dram(work, "flash") == dram(work, "xla")


def test_elementwise_work_on_the_scores_does_not_part_them() -> None:
    """A soft cap is fused into q K^T and stands between it and the softmax."""
    qk, softmax, pv = attention().ops
    assert isinstance(qk, Gemm)
    capped = Workload(name="capped", ops=(qk, vec.activation("cap", "softcap", qk), softmax, pv))
    assert dram(capped.with_dtype("fp32"), "flash") == dram(attention(), "flash")
