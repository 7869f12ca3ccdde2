"""What the chip computes, bit for bit: its registers, its value kernels, and the sums as a book has them."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from systolic import load_chip
from systolic.blocks.stepping import SteppedArray
from systolic.chips.tpu import DATAFLOWS, TpuChip
from systolic.errors import SystolicError
from systolic.machines import tpu
from systolic.machines.tpu.clocked import Core
from systolic.numerics.inputs import seeded_inputs
from systolic.workload import Gemm

from ...strategies import MATRIX_DTYPES, seeds
from ...tpu_strategies import busy_chips, small_gemms
from .runs import lowered


def operands(gemm: Gemm, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Operands over many exponents, or over all of int8."""
    rng = np.random.default_rng(seed)
    shapes = ((gemm.batch, gemm.m, gemm.k), (gemm.batch, gemm.k, gemm.n))
    if gemm.dtype == "int8":
        return tuple(rng.integers(-128, 128, shape, np.int8) for shape in shapes)  # type: ignore[return-value]
    return tuple(  # type: ignore[return-value]
        (rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 9, shape)).astype(np.float32)
        for shape in shapes
    )


def by_the_book(gemm: Gemm, chip: TpuChip, dataflow: str, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """The sums of a chip that multiplies, rounds, adds, rounds.

    Weights or inputs stationary, the array's rows make a chain that starts at 0, and chains are added as k
    rises; outputs stationary, k is one chain.
    """
    if gemm.dtype == "int8":
        return lhs.astype(np.int32) @ rhs.astype(np.int32)
    if gemm.dtype == "bf16":
        lhs, rhs = (x.astype(ml_dtypes.bfloat16).astype(np.float32) for x in (lhs, rhs))
    rows = gemm.k if dataflow == "os" else chip.array.rows
    total = np.zeros((gemm.batch, gemm.m, gemm.n), np.float32)
    for start in range(0, gemm.k, rows):
        chain = np.zeros_like(total)
        for k in range(start, min(start + rows, gemm.k)):
            chain += lhs[:, :, k, None] * rhs[:, k, None, :]
        total += chain
    return total.astype(ml_dtypes.bfloat16).astype(np.float32) if gemm.dtype == "bf16" else total


@given(busy_chips(), small_gemms(), st.sampled_from(DATAFLOWS), seeds())
def test_value_kernels_registers_and_the_book_agree(
    chip: TpuChip, gemm: Gemm, dataflow: str, seed: int
) -> None:
    step = lowered(gemm, chip, dataflow=dataflow)
    lhs, rhs = operands(gemm, seed)
    quick = tpu.values(step, chip, lhs, rhs)
    stepped = tpu.values(replace(step, mode="stepped"), chip, lhs, rhs)
    np.testing.assert_array_equal(quick.out, stepped.out)
    np.testing.assert_array_equal(quick.out, by_the_book(gemm, chip, dataflow, lhs, rhs))
    assert quick.overflows == stepped.overflows == 0
    assert quick.out.dtype == stepped.out.dtype == (np.int32 if gemm.dtype == "int8" else np.float32)


def left_by_the_arrays(step: tpu.GemmStep, chip: TpuChip) -> np.ndarray:
    """The result that the arrays of a stepped run leave behind, accumulated as they gave it."""
    arrays: list[SteppedArray] = []
    tpu.cost(replace(step, mode="stepped"), chip, record=arrays)
    (share,) = step.mapped.split.shares
    core = Core(share.problem, step.mapped.plan)
    is_float = arrays[0].is_float
    out = np.zeros((step.op.batch, step.op.m, step.op.n), np.float32 if is_float else np.int32)
    for array, feeder in zip(arrays, (f for f in core.feeders if f.pieces), strict=True):
        is_os = step.dataflow == "os"
        ended = [(block, piece) for block, piece in feeder.pieces if piece.last or not is_os]
        for (block, piece), sums in zip(ended, array.run("stored").results, strict=True):
            rows, cols, stream = slice(*piece.rows), slice(*piece.cols), slice(*piece.stream)
            target = out[core.batch_of[block]]
            if is_os:
                target[rows, cols] = sums
            elif step.dataflow == "ws":
                target[stream, cols] += sums
            else:
                target[cols, stream] += sums.T
    return out


@given(busy_chips(), small_gemms(), st.sampled_from(DATAFLOWS))
def test_the_arrays_that_were_timed_leave_the_values(chip: TpuChip, gemm: Gemm, dataflow: str) -> None:
    """Whatever the mapper cuts: the very arrays whose clocks were counted compute the result."""
    # One array stands for all that work on batch elements of their own.
    chip = replace(chip, cores=1, mxus_per_core=1 if gemm.batch > 1 else chip.mxus_per_core)
    gemm = replace(gemm, out_dtype=None if gemm.dtype == "int8" else "fp32")
    step = lowered(gemm, chip, dataflow=dataflow)
    lhs, rhs = seeded_inputs(Gemm(m=gemm.m, n=gemm.n, k=gemm.k, batch=gemm.batch, dtype=gemm.dtype))
    np.testing.assert_array_equal(left_by_the_arrays(step, chip), tpu.values(step, chip, lhs, rhs).out)


@given(busy_chips(), small_gemms(), st.sampled_from(DATAFLOWS), seeds(), st.data())
def test_values_depend_on_dataflow_and_array_alone(
    chip: TpuChip, gemm: Gemm, dataflow: str, seed: int, data: st.DataObject
) -> None:
    """Not on tile, order, split, memory or policy."""
    lhs, rhs = operands(gemm, seed)
    plain = tpu.values(lowered(gemm, chip, dataflow=dataflow), chip, lhs, rhs).out
    other = replace(data.draw(busy_chips()), array=chip.array)
    rows = chip.array.rows
    tile = (
        data.draw(st.integers(1, gemm.m)),
        data.draw(st.integers(1, gemm.n)),
        data.draw(st.sampled_from((rows, 3 * rows, gemm.k))),
    )
    order = data.draw(st.sampled_from(("mnk", "knm", "nmk")))
    try:
        step = lowered(gemm, other, dataflow=dataflow, tile=tile, order=order)
    except SystolicError:
        assume(False)
    np.testing.assert_array_equal(tpu.values(step, other, lhs, rhs).out, plain)


@given(st.sampled_from(MATRIX_DTYPES), st.sampled_from(DATAFLOWS), seeds(), st.data())
def test_any_rows_and_columns_have_the_values_of_the_whole(
    dtype: str, dataflow: str, seed: int, data: st.DataObject
) -> None:
    gemm, chip = Gemm(m=70, n=9, k=33, dtype=dtype), load_chip("teaching-4x4")
    step = lowered(gemm, chip, dataflow=dataflow)
    lhs, rhs = operands(gemm, seed)
    rows = data.draw(st.lists(st.integers(0, 69), min_size=1, max_size=5))
    cols = data.draw(st.lists(st.integers(0, 8), min_size=1, max_size=5))
    whole, some = (tpu.values(step, chip, a, b).out for a, b in ((lhs, rhs), (lhs[:, rows], rhs[:, :, cols])))
    np.testing.assert_array_equal(some, whole[:, rows][:, :, cols])


@pytest.mark.parametrize(
    ("dataflow", "mode"), [("ws", "tiled"), ("os", "tiled"), ("is", "tiled"), ("os", "stepped")]
)
def test_sums_beyond_int32_wrap_and_are_counted(dataflow: str, mode: str) -> None:
    """-128 * -128 is 2**14, so 2**17 of them are 2**31, one more than int32 holds: it wraps to -2**31."""
    k = 2**17
    chip = load_chip("teaching-4x4")
    step = lowered(Gemm(m=1, n=1, k=k, dtype="int8"), chip, dataflow=dataflow)
    step = replace(step, mode=mode)  # type: ignore[arg-type]
    lowest = np.full((1, 1, k), -128, np.int8)
    values = tpu.values(step, chip, lowest, lowest.reshape(1, k, 1))
    assert values.out.item() == -(2**31)
    assert values.overflows == 1
    fewer = tpu.values(step, chip, lowest[:, :, 1:], lowest[:, :, 1:].reshape(1, k - 1, 1))
    assert (fewer.out.item(), fewer.overflows) == (2**31 - 2**14, 0)
