"""fp32 on a bf16 array in one, three and six passes: values, error, bound, cycles, traffic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from systolic import Gemm, load_chip, simulate
from systolic.check import check_matmul
from systolic.chips.tpu import DATAFLOWS, TpuChip
from systolic.errors import SystolicError
from systolic.machines import tpu
from systolic.machines.base import Options, Values
from systolic.numerics.parts import PASSES, PRODUCTS
from systolic.workload import PRECISIONS, Workload

SMALL = {"array.rows": 4, "array.cols": 4, "array.weight_rows": 1, "cores": 1, "mxus_per_core": 1}


def lowered(gemm: Gemm, chip: TpuChip, dataflow: str, mode: str = "tiled") -> tpu.GemmStep:
    options = Options(dataflow=dataflow, mode=mode)  # type: ignore[arg-type]
    (step,) = tpu.lower(Workload(name="one", ops=(gemm,)), chip, options)
    assert isinstance(step, tpu.GemmStep)
    return step


def bf16(x: np.ndarray) -> np.ndarray:
    """Round to nearest, ties to even, by integer arithmetic on the encoding."""
    words = x.view(np.uint32)
    return ((words + 0x7FFF + ((words >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def by_the_book(lhs: np.ndarray, rhs: np.ndarray, passes: int, rows: int | None) -> np.ndarray:
    """The stated order: in each tile of k (output stationary: each k) one pass after the other."""
    parts = []
    for x in (lhs, rhs):
        high = bf16(x)
        middle = bf16(x - high)
        parts.append((high, middle, bf16(x - high - middle)))
    total = np.zeros((lhs.shape[0], rhs.shape[1]), np.float32)
    depth = lhs.shape[1]
    for start in range(0, depth, rows or 1):
        for i, j in PRODUCTS[passes]:
            chain = total.copy() if rows is None else np.zeros_like(total)
            for k in range(start, min(start + (rows or 1), depth)):
                chain += parts[0][i][:, k, None] * parts[1][j][k]
            total = chain if rows is None else total + chain
    return total


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_values_in_the_stated_order(precision: str, dataflow: str) -> None:
    chip = load_chip("tpu-v4", SMALL)
    gemm = Gemm(m=5, n=6, k=11, dtype="fp32", precision=precision)
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((1, 5, 11), np.float32), rng.standard_normal((1, 11, 6), np.float32)
    want = by_the_book(a[0], b[0], PASSES[precision], None if dataflow == "os" else 4)
    for mode in ("tiled", "stepped"):
        got = tpu.values(lowered(gemm, chip, dataflow, mode), chip, a, b).out[0]
        np.testing.assert_array_equal(got, want)


def test_error_shrinks_and_each_precision_keeps_its_bound() -> None:
    rows = {
        precision: simulate(
            Gemm(m=40, n=30, k=200, dtype="fp32", precision=precision, name="op"), on="tpu-v4", check="full"
        )
        .chips[0]
        .rows[0]
        for precision in PRECISIONS
    }
    checks = [rows[p].check for p in PRECISIONS]
    assert all(check is not None and check.passed for check in checks)
    errors = [check.error_vs_float64 for check in checks if check is not None]
    assert errors[0] > 50 * errors[1] > 50 * errors[2]
    assert rows["default"].precision == "bf16 -> fp32 -> fp32 (fp32 operands rounded to bf16, one pass)"
    assert rows["high"].precision == "bf16 -> fp32 -> fp32 (fp32 operands as 2 bf16 parts, 3 passes)"
    assert rows["highest"].precision == "bf16 -> fp32 -> fp32 (fp32 operands as 3 bf16 parts, 6 passes)"


@pytest.mark.parametrize(("asked", "given"), [("high", "default"), ("highest", "high")])
def test_the_check_fails_when_a_pass_is_missing(asked: str, given: str) -> None:
    """Few terms, so that the bound is near what the precision promises."""
    chip = load_chip("tpu-v4")
    gemm = Gemm(m=20, n=20, k=2, dtype="fp32", precision=asked)
    step, worse = (lowered(replace(gemm, precision=p), chip, "ws") for p in (asked, given))

    def compute(lhs: np.ndarray, rhs: np.ndarray) -> Values:
        return tpu.values(worse, chip, lhs, rhs)

    precision = tpu.precision(step, chip)
    assert not check_matmul(gemm, precision, compute, mode="full").passed
    assert check_matmul(gemm, precision, lambda a, b: tpu.values(step, chip, a, b), mode="full").passed


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_each_pass_streams_again_and_memory_moves_once(dataflow: str) -> None:
    """Tiles of 4 x 4; weight stationary 3 x 2 tiles of 9 rows, output stationary chains of 10 elements."""
    chip = load_chip("tpu-v4", {**SMALL, "memory.dram.latency_ns": 0, "memory.dram.bytes_per_s": "unlimited"})
    costs = {}
    for precision in PRECISIONS:
        step = lowered(Gemm(m=9, n=8, k=10, dtype="fp32", precision=precision), chip, dataflow)
        costs[precision] = tpu.cost(step, chip)
    one = costs["default"]
    for precision, passes in PASSES.items():
        row = costs[precision]
        assert row.array_macs == passes * 9 * 8 * 10
        assert row.cycles_by_cause["compute"] == passes * one.cycles_by_cause["compute"]
        assert row.bytes["dram"] == one.bytes["dram"]
        assert row.bytes["vmem"]["lhs"].read == passes * one.bytes["vmem"]["lhs"].read
        assert row.utilization is not None
        assert row.utilization <= 1


@pytest.mark.parametrize(
    ("chip", "dtype"), [("teaching-4x4", "fp32"), ("tpu-v4", "bf16"), ("tpu-v4", "int8")]
)
def test_precision_is_about_fp32_that_an_array_lacks(chip: str, dtype: str) -> None:
    """jax.lax.Precision: "This only has an effect on float32 computations"."""
    gemm = Gemm(m=3, n=4, k=5, dtype=dtype)
    rows = [simulate(replace(gemm, precision=p), on=chip).chips[0].rows[0] for p in PRECISIONS]
    assert len({(row.cycles, row.array_macs, row.precision) for row in rows}) == 1


def test_highest_takes_six_times_the_multiplications_that_xla_counts_on_a_tpu_v4() -> None:
    """A published listing of a TPU v4 kernel for 16 x 128 x 128 in fp32: 12 vmatmul instead of 2."""
    rows = [
        simulate(Gemm(m=16, n=128, k=128, dtype="fp32", precision=p), on="tpu-v4").chips[0].rows[0]
        for p in ("default", "highest")
    ]
    assert rows[1].array_macs == rows[0].array_macs * 12 // 2


def test_s56_the_default_on_a_tpu_is_one_pass_of_bf16() -> None:
    """jax-ml/jax #9973, #1856, #7010: a float32 product that looked plain wrong."""
    a = np.array([[[0.3744, 0.1656], [0.4707, 0.1663]]], np.float32)
    b = np.array([[[0.3946, 0.1186], [0.1569, 0.3145]]], np.float32)
    one_pass = [[0.17405128, 0.09669876], [0.21180916, 0.10805416]]
    in_fp32 = [[0.17372088, 0.09648504], [0.21183069, 0.10812637]]
    gemm = Gemm(m=2, n=2, k=2, dtype="fp32")
    for chip, precision, want in (
        ("tpu-v4", "default", one_pass),
        ("tpu-v4", "highest", in_fp32),
        ("teaching-4x4", "default", in_fp32),
    ):
        of = load_chip(chip)
        step = lowered(replace(gemm, precision=precision), of, "ws")
        np.testing.assert_allclose(
            tpu.values(step, of, a, b).out[0], want, rtol=1.2e-7
        )  # one unit in the last place
    row = simulate(gemm, on="tpu-v4", check="full").chips[0].rows[0]
    assert row.check is not None
    assert row.check.passed
    assert "rounded to bf16, one pass" in str(row.precision)


def test_s57_the_precision_is_stated_for_each_matmul_and_m_does_not_change_it() -> None:
    """jax-ml/jax #16349: matrix times vector was exact, matrix times matrix was not."""
    chip = load_chip("tpu-v4")
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((1, 2, 50), np.float32), rng.standard_normal((1, 50, 7), np.float32)
    both = tpu.values(lowered(Gemm(m=2, n=7, k=50, dtype="fp32"), chip, "ws"), chip, a, b).out
    alone = tpu.values(lowered(Gemm(m=1, n=7, k=50, dtype="fp32"), chip, "ws"), chip, a[:, :1], b).out
    np.testing.assert_array_equal(alone, both[:, :1])
    ops = [Gemm(m=m, n=7, k=50, dtype="fp32", precision=p) for m, p in ((1, "default"), (2, "highest"))]
    first, second = simulate(ops, on="tpu-v4").chips[0].rows
    assert "one pass" in str(first.precision)
    assert "6 passes" in str(second.precision)


@pytest.mark.parametrize("mode", ["tiled", "stepped"])
def test_s61_int8_sums_are_int32(mode: str) -> None:
    """jax-ml/jax #4465, triton-lang/triton #2296; [[-12, -56], [42, -116]] is the bug."""
    a = np.array([[[-44, -20], [-126, 6]]], np.int8)
    b = np.array([[[24, -75], [127, -101]]], np.int8)
    for chip in ("tpu-v1", "tpu-v4", "tpu-v7"):  # TPU v7 by way of bf16
        of = load_chip(chip, SMALL)
        out = tpu.values(lowered(Gemm(m=2, n=2, k=2, dtype="int8"), of, "ws", mode), of, a, b).out
        np.testing.assert_array_equal(out[0], [[-3596, 5320], [-2262, 8844]])
        assert out.dtype == np.int32


@pytest.mark.parametrize("mode", ["tiled", "stepped"])
def test_s62_sums_in_bf16_get_stuck_and_only_there(mode: str) -> None:
    """jax-ml/ml_dtypes #63: 257 ones; fp32 sums give 257, and a result in bf16 is 256."""
    ones = np.ones((1, 1, 257), np.float32)
    chip = load_chip("tpu-v4", SMALL)
    stuck = load_chip("tpu-v4", {**SMALL, "array.acc.bf16": "bf16"})
    for of, out_dtype, want in ((chip, "fp32", 257), (chip, "bf16", 256), (stuck, "fp32", 256)):
        gemm = Gemm(m=1, n=1, k=257, dtype="bf16", out_dtype=out_dtype)
        step = lowered(gemm, of, "os", mode)
        assert tpu.values(step, of, ones, ones.transpose(0, 2, 1)).out.item() == want
        assert str(tpu.precision(step, of)) == f"bf16 -> {of.array.acc_dtype('bf16')} -> {out_dtype}"


def test_s63_a_result_beyond_fp16_is_inf() -> None:
    """cupy/cupy #6566: eight products of 100 by 100."""
    chip = load_chip("teaching-4x4", {"array.lanes.fp16": 1})
    hundred = np.full((1, 1, 8), 100, np.float32)
    for out_dtype, want in (("fp32", 80_000), ("fp16", np.inf)):
        step = lowered(Gemm(m=1, n=1, k=8, dtype="fp16", out_dtype=out_dtype), chip, "ws")
        assert tpu.values(step, chip, hundred, hundred.transpose(0, 2, 1)).out.item() == want


def test_s64_integers_never_take_the_float_path() -> None:
    """stonne-simulator/stonne #27: int8 holds them and is exact; int32 has no multiplier and is refused."""
    column, row = np.array([[[3], [0], [1], [2]]], np.int8), np.array([[[0, 2, 2, 3]]], np.int8)
    chip = load_chip("teaching-4x4")
    out = tpu.values(lowered(Gemm(m=4, n=4, k=1, dtype="int8"), chip, "ws"), chip, column, row).out
    np.testing.assert_array_equal(out[0], [[0, 6, 6, 9], [0, 0, 0, 0], [0, 2, 2, 3], [0, 4, 4, 6]])
    with pytest.raises(SystolicError, match="dtype int32 must be one that the chip multiplies"):
        lowered(Gemm(m=4, n=4, k=1, dtype="int32"), chip, "ws")
