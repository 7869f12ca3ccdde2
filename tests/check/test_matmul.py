"""The check passes what is right, fails what is wrong by little, and looks where it says."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.check import check_matmul
from systolic.errors import SystolicError
from systolic.machines.base import Precision, Values
from systolic.numerics.inputs import seeded_inputs
from systolic.result import Check
from systolic.workload import Gemm
from tests.check.chip import Chip, rounded

FORMATS = [
    {"dtype": "fp32"},
    {"dtype": "bf16"},
    {"dtype": "bf16", "out_dtype": "fp32"},
    {"dtype": "fp16"},
    {"dtype": "fp8_e4m3"},
    {"dtype": "fp8_e5m2"},
    {"dtype": "fp8_e4m3", "rhs_dtype": "fp8_e5m2", "out_dtype": "bf16"},
    {"dtype": "bf16", "rhs_dtype": "int8"},
    {"dtype": "fp32", "rhs_dtype": "bf16", "out_dtype": "fp16"},
    {"dtype": "int8"},
    {"dtype": "int4"},
]
# Few shapes: the device's compiler takes far longer over each than the check does.
SHAPES = [(1, 3, 4, 1), (1, 3, 4, 100), (2, 17, 40, 31)]
formats = pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: "-".join(kind.values()))


def check(chip: Chip, mode: str = "full", **more: object) -> Check:
    return check_matmul(chip.gemm, chip.precision, chip.values, mode=mode, **more)


@dataclass
class Bumped(Chip):
    """One element, of the first block, is off by `part` of (norm of its row x norm of its column)."""

    part: float = 0.01
    again: bool = False

    def spoil(self, out: np.ndarray, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        if self.gave:
            return out
        at = out.shape[0] - 1, out.shape[1] - 1, out.shape[2] // 2
        a, b = lhs[at[0], at[1]].astype(np.float64), rhs[at[0], :, at[2]].astype(np.float64)
        bump = self.part * np.linalg.norm(a) * np.linalg.norm(b)
        if out.dtype == np.int32:
            bump = np.copysign(max(1, round(abs(bump))), bump)
        out = out.copy()
        out[at] += out.dtype.type(bump)
        return rounded(out, str(self.gemm.out_dtype)) if self.again else out


@formats
@settings(max_examples=8)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 1000))
def test_honest_sums_pass(kind: dict[str, str], shape: tuple[int, int, int, int], seed: int) -> None:
    batch, m, n, k = shape
    gemm = Gemm(m=m, n=n, k=k, batch=batch, count=2, name="op", **kind)
    result = check(Chip(gemm), seed=seed)
    assert result.passed
    assert result.max_error <= result.tolerance
    assert result.compared == 2 * batch * m * n
    assert result.exact == gemm.dtype.startswith("int")


@formats
@pytest.mark.parametrize("k", [1, 3, 100, 4096])
def test_one_percent_on_one_element_fails(kind: dict[str, str], k: int) -> None:
    """The bar: 1% of (row norm x column norm); jax-ml/jax issue 18123 and chainer/chainer PR 5369."""
    for part in (0.01, -0.01):
        result = check(Bumped(Gemm(m=3, n=4, k=k, **kind), part=part))
        assert not result.passed
        assert result.max_error > result.tolerance


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("k", [1, 100, 4096])
def test_a_bump_that_fits_the_format_fails_too(dtype: str, k: int) -> None:
    assert not check(Bumped(Gemm(m=3, n=4, k=k, dtype=dtype), again=True)).passed


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_512_cubed(dtype: str) -> None:
    gemm = Gemm(m=512, n=512, k=512, dtype=dtype)
    assert check(Chip(gemm), "sample").passed
    assert not check(Bumped(gemm), "sample").passed


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp8_e4m3"])
def test_nan_and_inf_fail(dtype: str, wrong: float) -> None:
    @dataclass
    class Broken(Chip):
        def spoil(self, out: np.ndarray, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
            return np.where(np.arange(out.shape[2]) == 1, np.float32(wrong), out)

    assert not check(Broken(Gemm(m=3, n=4, k=100, dtype=dtype))).passed


@pytest.mark.parametrize("dtype", ["bf16", "int8"])
def test_patching_jnp_matmul_changes_the_check_and_not_the_values(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jax.numpy as jnp

    gemm = Gemm(m=3, n=4, k=100, dtype=dtype)
    before, after = Chip(gemm), Chip(gemm)
    assert check(before).passed
    real = jnp.matmul
    monkeypatch.setattr(jnp, "matmul", lambda *args, **more: np.asarray(real(*args, **more)) + 1)
    assert not check(after).passed
    np.testing.assert_array_equal(before.gave[0], after.gave[0])


def test_full_compares_every_occurrence_on_operands_of_its_own() -> None:
    gemm = Gemm(m=6, n=5, k=4, batch=2, count=3, name="attn.qk", rhs_kind="kv_cache")
    chip = Chip(gemm)
    done: list[int] = []
    result = check(chip, seed=8, progress=done.append)
    assert (result.compared, result.mode) == (3 * 2 * 6 * 5, "full")
    assert result.rows == "all rows, all 3 occurrences"
    assert sum(done) == gemm.macs
    for occurrence, asked in enumerate(chip.asked):
        for got, want in zip(asked, seeded_inputs(gemm, 8, occurrence), strict=True):
            np.testing.assert_array_equal(got, want)
    assert len(chip.asked) == 3


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_fault_in_any_occurrence_is_found(place: int) -> None:
    @dataclass
    class Late(Chip):
        def spoil(self, out: np.ndarray, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
            return out * np.float32(1.25 if len(self.gave) == place else 1)

    gemm = Gemm(m=3, n=4, k=100, count=3)
    assert not check(Late(gemm)).passed
    assert check(Late(gemm), occurrences=place or None).passed == (place > 0)


def test_sample_asks_for_the_named_rows_alone() -> None:
    gemm = Gemm(m=1000, n=5, k=4, count=3)
    chip = Chip(gemm)
    result = check(chip, "sample", tile_edges=(127, 128, 1000))
    (lhs, rhs), whole = chip.asked[0], seeded_inputs(gemm)
    named = [
        row
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", result.rows.split(" of ")[0])
        for row in range(int(first), int(last or first) + 1)
    ]
    assert {0, 127, 128, 999} < set(named)
    assert len(named) == 12
    np.testing.assert_array_equal(lhs, whole[0][:, named])
    np.testing.assert_array_equal(rhs, whole[1])
    assert result.compared == 12 * 5
    assert result.rows.endswith("of 1000, the first of 3 occurrences")


def test_error_against_float64_is_what_the_precision_costs() -> None:
    gemm = Gemm(m=10, n=30, k=20, dtype="bf16", out_dtype="fp32")
    chip = Chip(gemm)
    result = check(chip)
    lhs, rhs = (x.astype(np.float64) for x in seeded_inputs(gemm))
    assert result.error_vs_float64 == pytest.approx(float(np.abs(chip.gave[0] - lhs @ rhs).max()), rel=1e-12)
    fp32 = check(Chip(replace(gemm, dtype="fp32", rhs_dtype="fp32")))
    assert 100 * fp32.error_vs_float64 < result.error_vs_float64 < 1
    assert check(Chip(Gemm(m=10, n=30, k=20, dtype="int8"))).error_vs_float64 == 0


def test_same_check_twice_and_its_device() -> None:
    import jax

    gemm = Gemm(m=3, n=4, k=100)
    assert check(Chip(gemm)) == check(Chip(gemm))
    assert check(Chip(gemm)).device.split()[0] == jax.devices()[0].platform


@pytest.mark.parametrize(("passes", "parts"), [(3, 2), (6, 3)])
def test_several_passes_are_held_to_their_own_bound(passes: int, parts: int) -> None:
    """XLA's bf16_3x and bf16_6x: operands as sums of bf16 parts, without the smallest products."""
    gemm = Gemm(m=4, n=5, k=2, dtype="fp32")
    precision = Precision(
        lhs_dtype="bf16",
        rhs_dtype="bf16",
        acc_dtype="fp32",
        out_dtype="fp32",
        roundings=passes * 2,
        passes=passes,
    )

    def cut(x: np.ndarray) -> list[np.ndarray]:
        out = []
        for _ in range(parts):
            out.append((x - sum(out, np.float32(0))).astype(ml_dtypes.bfloat16).astype(np.float32))
        return out

    def compute(lhs: np.ndarray, rhs: np.ndarray, kept: int = parts) -> Values:
        a, b = cut(lhs), cut(rhs)
        return Values(sum(a[i] @ b[j] for i in range(parts) for j in range(parts) if i + j < kept))

    assert check_matmul(gemm, precision, compute, mode="full").passed
    assert not check_matmul(gemm, precision, lambda a, b: compute(a, b, parts - 1), mode="full").passed


@pytest.mark.parametrize(
    ("more", "kind", "message"),
    [
        ({"mode": "all"}, {}, "check must be one of full, sample, off, got 'all'"),
        ({"occurrences": 3}, {}, "occurrences must be from 1 to count \\(1\\), got 3"),
        ({}, {"dtype": "int8", "out_dtype": "int8"}, "integer sums are checked as int32"),
        ({}, {"k": 2048, "acc_dtype": "fp16"}, "no error bound exists for 2048 roundings"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    more: dict[str, object], kind: dict[str, object], message: str
) -> None:
    gemm = Gemm(**({"m": 2, "n": 2, "k": 2} | kind))
    with pytest.raises(SystolicError, match=message):
        check(Chip(gemm), **({"mode": "full"} | more))
