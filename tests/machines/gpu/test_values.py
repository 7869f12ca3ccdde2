"""The values that kernels compute, through the check against jnp.matmul and against exact sums."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic import Gemm, SystolicError, load_chip
from systolic.check import check_matmul
from systolic.chips.gpu import GpuChip
from systolic.machines.gpu.arithmetic import products
from systolic.machines.gpu.formats import Formats, formats_of, precision_of
from systolic.numerics.rounding import round_to
from tests.strategies import exact_operands, seeds, shapes


def gpu(name: str) -> GpuChip:
    chip = load_chip(name)
    assert isinstance(chip, GpuChip)
    return chip


def computed(
    gemm: Gemm, chip: GpuChip, formats: Formats, slices: int, lhs: np.ndarray, rhs: np.ndarray
) -> np.ndarray:
    return products(formats, chip, slices, (gemm.dtype, str(gemm.rhs_dtype)), lhs, rhs).out


@pytest.mark.parametrize("k", [1, 100, 2048])
@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *(
            ("p100", "fp32"),
            ("v100", "fp16"),
            ("t4", "fp16"),
            ("t4", "int8"),
            ("a100", "bf16"),
            ("a100", "fp32"),
        ),
        *(("a100", "int8"), ("h100", "bf16"), ("h100", "fp8"), ("h100", "fp32"), ("b200", "fp8_e5m2")),
        *(
            ("rtx-4090", "fp8"),
            ("mi210", "bf16"),
            ("mi300x", "fp32"),
            ("teaching-gpu", "bf16"),
            ("v100", "bf16"),
        ),
    ],
)
def test_values_lie_within_the_bound_of_their_own_roundings(
    name: str, dtype: str, k: int, slices: int
) -> None:
    """Of every element, against jnp.matmul of the operands rounded as the chip rounds them."""
    chip = gpu(name)
    gemm = Gemm(m=9, n=33, k=k, dtype=dtype, name=f"{name}.{dtype}")
    formats = formats_of(gemm, chip)
    check = check_matmul(
        gemm,
        precision_of(formats, chip, k, slices),
        lambda a, b: products(formats, chip, slices, (gemm.dtype, str(gemm.rhs_dtype)), a, b),
        mode="full",
    )
    assert check.passed
    assert check.compared == 9 * 33
    assert check.exact is (dtype == "int8")


@pytest.mark.parametrize("kernel", ["scalar", "tensor"])
def test_a_lost_element_of_k_fails(kernel: str) -> None:
    """As in the report: one that is off by 1% of its row norm times its column norm."""
    chip = gpu("a100")
    gemm = Gemm(m=16, n=16, k=512, dtype="bf16", name="lost")
    formats = formats_of(gemm, chip, scalar=kernel == "scalar")

    class Lost:
        overflows = 0

        def __init__(self, out: np.ndarray) -> None:
            self.out = out

    def wrong(lhs: np.ndarray, rhs: np.ndarray) -> Lost:
        lhs = lhs.copy()
        lhs[:, :, 100] = 0
        return Lost(computed(gemm, chip, formats, 1, lhs, rhs))

    assert not check_matmul(gemm, precision_of(formats, chip, 512, 1), wrong, mode="full").passed


@given(
    exact_operands(40), st.sampled_from(["p100", "v100", "a100", "h100", "b200", "mi210"]), st.integers(1, 3)
)
def test_sums_of_small_integers_are_exact(
    operands: tuple[np.ndarray, np.ndarray], name: str, slices: int
) -> None:
    lhs, rhs = operands
    gemm = Gemm(m=lhs.shape[0], n=rhs.shape[1], k=lhs.shape[1], dtype="bf16", out_dtype="fp32")
    formats = formats_of(gemm, gpu(name))
    got = computed(gemm, gpu(name), formats, slices, lhs[None], rhs[None])
    np.testing.assert_array_equal(got[0], lhs @ rhs)


@pytest.mark.parametrize("shape", [(32, 32, 16), (16, 32, 48), (1, 7, 5)])
@pytest.mark.parametrize("name", ["a100", "teaching-gpu"])
def test_shapes_that_once_verified_as_all_zeros(name: str, shape: tuple[int, int, int]) -> None:
    """sarchlab/mgpusim issue 160: non-square matmuls."""
    m, n, k = shape
    rng = np.random.default_rng(160)
    lhs, rhs = rng.integers(-128, 128, (1, m, k), np.int8), rng.integers(-128, 128, (1, k, n), np.int8)
    gemm = Gemm(m=m, n=n, k=k, dtype="int8")
    got = computed(gemm, gpu(name), formats_of(gemm, gpu(name)), 1, lhs, rhs)
    np.testing.assert_array_equal(got[0], lhs[0].astype(np.int32) @ rhs[0].astype(np.int32))


@given(shapes(40), seeds(), st.sampled_from(["a100", "h100", "v100"]), st.data())
def test_any_rows_and_columns_have_the_values_of_the_whole(
    shape: tuple[int, int, int], seed: int, name: str, data: st.DataObject
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(seed)
    lhs = rng.standard_normal((1, m, k), np.float32)
    rhs = rng.standard_normal((1, k, n), np.float32)
    gemm = Gemm(m=m, n=n, k=k, dtype="fp16")
    run = partial(computed, gemm, gpu(name), formats_of(gemm, gpu(name)), 2)
    rows = sorted(data.draw(st.sets(st.integers(0, m - 1), min_size=1)))
    columns = sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1)))
    whole, part = run(lhs, rhs), run(lhs[:, rows], rhs[:, :, columns])
    np.testing.assert_array_equal(part, whole[:, rows][:, :, columns])


def test_split_sums_are_added_in_rising_k() -> None:
    """2^24 + 1 is 2^24 in fp32; two halves of it, added, are not."""
    ones = np.ones((1, 1, 4), np.float32)
    column = np.array([[2.0**24], [0], [1], [1]], np.float32)[None]
    gemm = Gemm(m=1, n=1, k=4, dtype="fp32", precision="highest")
    formats = formats_of(gemm, gpu("a100"))
    assert not formats.tensor
    assert computed(gemm, gpu("a100"), formats, 1, ones, column)[0, 0, 0] == 2.0**24
    assert computed(gemm, gpu("a100"), formats, 2, ones, column)[0, 0, 0] == 2.0**24 + 2


def test_tf32_is_rounded_to_the_nearest_even() -> None:
    """10 fraction bits: 1 + 2^-11 is a tie and goes to 1, 1 + 3 * 2^-11 to 1 + 2^-9."""
    lhs = np.array([[[1 + 2.0**-11], [1 + 3 * 2.0**-11]]], np.float32)
    gemm = Gemm(m=2, n=1, k=1, dtype="fp32")
    got = computed(gemm, gpu("a100"), formats_of(gemm, gpu("a100")), 1, lhs, np.ones((1, 1, 1), np.float32))
    np.testing.assert_array_equal(got[0, :, 0], [1, 1 + 2.0**-9])


def test_the_same_numbers_on_four_generations() -> None:
    """Volta cuts more than Ampere, and Ampere than Hopper: sums of terms of one sign come out less."""
    rng = np.random.default_rng(7)
    lhs, rhs = (round_to(rng.random(s, np.float32) + 1, "fp16")[None] for s in ((8, 4096), (4096, 8)))
    gemm = Gemm(m=8, n=8, k=4096, dtype="fp16", out_dtype="fp32")
    exact = lhs[0].astype(np.float64) @ rhs[0].astype(np.float64)
    loss = {}
    for name in ("v100", "a100", "h100", "p100"):
        formats = formats_of(gemm, gpu(name))
        got = computed(gemm, gpu(name), formats, 1, lhs, rhs)[0]
        assert np.all(got <= exact) or name == "p100"
        loss[name] = float(np.mean((exact - got) / exact))
    assert loss["v100"] > loss["a100"] > loss["h100"] > 0
    assert abs(loss["p100"]) < loss["h100"]  # rounds to nearest


@pytest.mark.parametrize(
    ("name", "dtype", "rhs", "precision", "words"),
    [
        ("a100", "fp32", None, "default", "tf32 -> fp32 -> fp32 (fp32 operands rounded to tf32)"),
        ("a100", "fp32", None, "high", "tf32 -> fp32 -> fp32 (fp32 operands rounded to tf32)"),
        ("a100", "fp32", None, "highest", "fp32 -> fp32 -> fp32"),
        ("v100", "fp32", None, "default", "fp32 -> fp32 -> fp32"),
        ("v100", "bf16", None, "default", "bf16 -> fp32 -> bf16 (bf16 operands upcast to fp32)"),
        ("p100", "fp16", None, "default", "fp16 -> fp32 -> fp16 (fp16 operands upcast to fp32)"),
        ("a100", "bf16", "int4", "default", "bf16 x int4 -> fp32 -> bf16 (int4 rhs upcast to bf16)"),
        ("a100", "fp8", None, "default", "fp8_e4m3 -> fp32 -> fp8_e4m3 (fp8_e4m3 operands upcast to bf16)"),
        ("h100", "fp8", "fp8_e5m2", "default", "fp8_e4m3 x fp8_e5m2 -> fp22 -> fp8_e4m3"),
        ("b200", "fp8", None, "default", "fp8_e4m3 -> fp32 -> fp8_e4m3"),
        ("h100", "int4", None, "default", "int4 -> int32 -> int32 (int4 operands upcast to int8)"),
    ],
)
def test_effective_precision_in_words(
    name: str, dtype: str, rhs: str | None, precision: str, words: str
) -> None:
    """jax.lax.Precision on GPUs: tensorfloat32 where there is some, unless highest (jax issue 14022)."""
    gemm = Gemm(m=1, n=1, k=8, dtype=dtype, rhs_dtype=rhs, precision=precision)
    chip = gpu(name)
    assert str(precision_of(formats_of(gemm, chip), chip, 8, 1)) == words


def test_sums_that_the_chip_does_not_give_are_refused() -> None:
    with pytest.raises(SystolicError, match="acc_dtype must be fp22 on h100, got bf16"):
        formats_of(Gemm(m=1, n=1, k=1, dtype="fp8", acc_dtype="bf16"), gpu("h100"))
    with pytest.raises(SystolicError, match="out_dtype int8 of a int8 matmul is not modelled; use int32"):
        formats_of(Gemm(m=1, n=1, k=1, dtype="int8", out_dtype="int8"), gpu("a100"))
