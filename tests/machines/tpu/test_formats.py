"""Which formats a chip multiplies, sums and returns; what it upcasts by name, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from systolic import Gemm, load_chip, load_model, simulate
from systolic.chips.tpu import DATAFLOWS, TpuChip
from systolic.errors import SystolicError
from systolic.machines import tpu
from systolic.machines.base import Options
from systolic.machines.tpu.formats import formats_of
from systolic.workload import Workload


def described(chip: str, **gemm: str) -> str:
    """What the report says of a matmul's formats."""
    of = load_chip(chip)
    formats = formats_of(Gemm(m=1, n=1, k=1, name="op", **gemm), of)  # type: ignore[arg-type]
    return str(formats.precision(1))


# What each generation multiplies without a cast: JAX's tpu_info.py, is_matmul_supported; TPU v1: Jouppi et
# al., ISCA 2017. Casts: OpenXLA, error code E2001, compatibility mode; lax.Precision for fp32.
@pytest.mark.parametrize(
    ("chip", "lhs", "rhs", "text"),
    [
        ("tpu-v1", "int8", "int8", "int8 -> int32 -> int32"),
        ("tpu-v1", "int8", "int4", "int8 x int4 -> int32 -> int32 (int4 rhs upcast to int8)"),
        ("tpu-v3", "fp32", "fp32", "bf16 -> fp32 -> fp32 (fp32 operands rounded to bf16, one pass)"),
        ("tpu-v4", "bf16", "int8", "bf16 x int8 -> fp32 -> bf16 (int8 rhs upcast to bf16)"),
        ("tpu-v4", "bf16", "int4", "bf16 x int4 -> fp32 -> bf16 (int4 rhs upcast to bf16)"),
        ("tpu-v4", "int4", "int4", "int4 -> int32 -> int32 (int4 operands upcast to int8)"),
        ("tpu-v4", "fp8_e4m3", "fp8_e4m3", "fp8_e4m3 -> fp32 -> fp8_e4m3 (fp8_e4m3 operands upcast to bf16)"),
        (
            "tpu-v4",
            "fp32",
            "int8",
            "bf16 x int8 -> fp32 -> fp32 (fp32 lhs rounded to bf16, one pass, int8 rhs",
        ),
        ("tpu-v6e", "int8", "int4", "int8 x int4 -> int32 -> int32 (int4 rhs upcast to int8)"),
        ("tpu-v6e", "int4", "int4", "int4 -> int32 -> int32"),
        ("tpu-v7", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3 x fp8_e5m2 -> fp32 -> fp8_e4m3"),
        ("tpu-v7", "bf16", "fp8_e4m3", "bf16 x fp8_e4m3 -> fp32 -> bf16 (fp8_e4m3 rhs upcast to bf16)"),
        (
            "tpu-v7",
            "int8",
            "int8",
            "int8 -> fp32 -> int32 (int8 operands upcast to bf16, integer sums in fp32, exact up to 2^24)",
        ),
        ("teaching-4x4", "fp16", "bf16", "fp16 x bf16 -> fp32 -> fp16 (fp16 lhs upcast to fp32, bf16 rhs"),
    ],
)
def test_formats_by_name(chip: str, lhs: str, rhs: str, text: str) -> None:
    assert described(chip, dtype=lhs, rhs_dtype=rhs).startswith(text)


@pytest.mark.parametrize(
    ("chip", "gemm", "line"),
    [
        (
            "tpu-v4",
            {"dtype": "fp16"},
            "dtype fp16 must be one that the chip multiplies, .*multiplies bf16, int8",
        ),
        ("tpu-v4", {"dtype": "bf16", "rhs_dtype": "fp16"}, "dtype bf16 with rhs_dtype fp16 must be one that"),
        ("tpu-v1", {"dtype": "bf16"}, "dtype bf16 must be one that the chip multiplies, .*multiplies int8"),
        ("tpu-v1", {"dtype": "int8", "rhs_dtype": "fp32"}, "dtype int8 with rhs_dtype fp32"),
        ("teaching-4x4", {"dtype": "int32"}, "dtype int32 must be one that the chip multiplies"),
        ("teaching-4x4", {"dtype": "int16"}, "dtype int16 must be one that the chip multiplies"),
        ("tpu-v4", {"acc_dtype": "fp22"}, "acc_dtype must be fp32 on tpu-v4, got fp22"),
        ("tpu-v4", {"dtype": "int8", "out_dtype": "int8"}, "out_dtype int8 of a int8 matmul is not modelled"),
        ("tpu-v7", {"dtype": "int8", "out_dtype": "bf16"}, "out_dtype bf16 of a int8 matmul is not modelled"),
    ],
)
def test_what_a_chip_lacks_is_refused(chip: str, gemm: dict[str, str], line: str) -> None:
    with pytest.raises(SystolicError, match=f"op: {line}"):
        formats_of(Gemm(m=1, n=1, k=1, name="op", **gemm), load_chip(chip))  # type: ignore[arg-type]


def values(chip: TpuChip, gemm: Gemm, lhs: np.ndarray, rhs: np.ndarray, dataflow: str = "ws") -> np.ndarray:
    """The values of both engines, which must agree."""
    found = []
    for mode in ("tiled", "stepped"):
        (step,) = tpu.lower(Workload(name="one", ops=(gemm,)), chip, Options(mode=mode, dataflow=dataflow))  # type: ignore[arg-type]
        found.append(tpu.values(step, chip, lhs, rhs))
    np.testing.assert_array_equal(found[0].out, found[1].out)
    assert found[0].overflows == found[1].overflows
    return found[0].out


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize(("lhs", "rhs"), [("bf16", "int4"), ("bf16", "fp8_e4m3"), ("fp8_e5m2", "fp8_e4m3")])
def test_stored_formats_decide_the_numbers(lhs: str, rhs: str, dataflow: str) -> None:
    """An upcast changes nothing: the product is that of the stored numbers, exact in fp32 for few terms."""
    encoded = {
        "bf16": ml_dtypes.bfloat16,
        "fp8_e4m3": ml_dtypes.float8_e4m3fn,
        "fp8_e5m2": ml_dtypes.float8_e5m2,
    }
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((1, 3, 1), np.float32), rng.standard_normal((1, 1, 2), np.float32)
    b = np.rint(4 * b).astype(np.int8) if rhs == "int4" else b
    stored = [x.astype(encoded[d]).astype(np.float32) if d in encoded else x for x, d in ((a, lhs), (b, rhs))]
    gemm = Gemm(m=3, n=2, k=1, dtype=lhs, rhs_dtype=rhs, out_dtype="fp32")
    for chip in ("tpu-v4", "tpu-v7"):
        got = values(
            load_chip(chip, {"array.rows": 4, "array.cols": 4, "array.weight_rows": 1}), gemm, a, b, dataflow
        )
        np.testing.assert_array_equal(got, stored[0] * stored[1])


@pytest.mark.parametrize("chip", ["tpu-v4", "tpu-v7", "tpu-v3"])
def test_integers_upcast_to_bf16_are_exact_and_checked_as_equal(chip: str) -> None:
    """TPU v3 and v7 have no int8: fp32 holds all sums of up to 1,024 products of int8."""
    gemm = Gemm(m=5, n=7, k=1024, dtype="int8", name="op")
    (row,) = simulate(gemm, on=chip, check="full").chips[0].rows
    assert row.check is not None
    assert row.check.passed and row.check.exact
    (row,) = simulate(replace(gemm, k=1025), on=chip, check="full").chips[0].rows
    assert row.check is not None
    assert row.check.passed
    assert row.check.exact == (chip == "tpu-v4")


def test_w4a16_moves_a_quarter_and_an_fp8_cache_half() -> None:
    """Llama-3-8B, one token at 4,096 keys: 8 x 128 x 4,096 keys and values of 1 byte in each of 32 layers."""
    model = load_model("llama-3-8b", phase="decode", kv_len=4096)
    plain, small = (
        simulate(model, on="tpu-v5p", **more).chips[0]  # type: ignore[arg-type]
        for more in ({}, {"weight_dtype": "int4", "kv_dtype": "fp8"})
    )
    for before, after in zip(plain.matmuls, small.matmuls, strict=True):
        part = 4 if before.op.rhs_kind == "weight" else 2
        assert before.bytes["dram"]["rhs"].read == part * after.bytes["dram"]["rhs"].read
        assert after.cycles < before.cycles
    assert small.fits.kv_cache_bytes == 32 * 2 * 8 * 128 * 4096 == plain.fits.kv_cache_bytes // 2
    assert small.fits.weight_bytes < 0.3 * plain.fits.weight_bytes  # the embedding table stays in bf16
    caches = [next(row for row in chip.rows if row.name == "attn.cache") for chip in (plain, small)]
    written = [sum(level["other"].write for level in row.bytes.values()) for row in caches]
    assert written == [32 * 2 * 8 * 128 * 2, 32 * 2 * 8 * 128]


@pytest.mark.parametrize("acc", ["fp22", "tf32", "bf16"])
@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_narrow_float_accumulators_cost_precision_within_their_bound(acc: str, dataflow: str) -> None:
    gemm = Gemm(m=6, n=5, k=40, dtype="bf16", out_dtype="fp32", name="op")
    wide, narrow = (
        simulate(gemm, on="teaching-4x4", overrides=changes, check="full", dataflow=dataflow).chips[0].rows[0]
        for changes in ({}, {"array.acc.bf16": acc})
    )
    assert wide.check is not None and narrow.check is not None
    assert wide.check.passed and narrow.check.passed
    assert narrow.check.tolerance > 2 * wide.check.tolerance
    assert str(narrow.precision) == f"bf16 -> {acc} -> fp32"
    assert narrow.cycles == wide.cycles
    if acc == "bf16":
        assert narrow.check.error_vs_float64 > 2 * wide.check.error_vs_float64


def test_int16_sums_wrap_are_counted_and_equal_what_wraps_in_any_order() -> None:
    gemm = Gemm(m=4, n=4, k=1024, dtype="int8", name="op")
    report = simulate(gemm, on="teaching-4x4", overrides={"array.acc.int8": "int16"}, check="full")
    check = report.chips[0].rows[0].check
    assert check is not None
    assert check.passed and check.exact
    assert check.overflows > 0
    assert check.error_vs_float64 >= 2**16 - 1
    chip = load_chip("teaching-4x4", {"array.acc.int8": "int16"})
    ones = np.full((1, 1, 3), 127, np.int8)
    three = Gemm(m=1, n=1, k=3, dtype="int8")
    for dataflow in DATAFLOWS:
        out = values(chip, three, ones, ones.transpose(0, 2, 1), dataflow)
        assert out.item() == 3 * 127 * 127 - 2**16
