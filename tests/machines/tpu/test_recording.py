"""What is recorded of an array is what the stepped engine holds, and its last frame is the report."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.blocks.stepping import SteppedArray
from systolic.chips import load_chip
from systolic.chips.tpu import DATAFLOWS, TpuChip
from systolic.errors import SystolicError
from systolic.kernels.stationary import REAL
from systolic.machines.tpu.recording import record_array
from systolic.machines.tpu.stepped import stepped_cost
from systolic.numerics.inputs import seeded_inputs
from systolic.recorded import ArrayRecord
from systolic.workload import Gemm
from tests.machines.tpu.runs import costed, lowered
from tests.strategies import seeds, shapes
from tests.tpu_strategies import busy_chips, small_gemms


def drawn_operands(gemm: Gemm, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers small enough that every format holds them and every order of sums gives the same."""
    rng = np.random.default_rng(seed)
    number = np.int8 if "int" in gemm.dtype else np.float32
    lhs = rng.integers(-3, 4, (gemm.batch, gemm.m, gemm.k)).astype(number)
    return lhs, rng.integers(-3, 4, (gemm.batch, gemm.k, gemm.n)).astype(number)


def recorded(gemm: Gemm, chip: TpuChip, seed: int = 0, **options: object) -> ArrayRecord:
    step = lowered(gemm, chip, **options)
    return record_array(step, chip, *drawn_operands(gemm, seed))


def one_array(chip: TpuChip) -> TpuChip:
    return replace(chip, cores=1, mxus_per_core=1)


@settings(max_examples=12)
@given(busy_chips(), small_gemms(9), st.sampled_from(DATAFLOWS))
def test_the_last_frame_is_the_report(chip: TpuChip, gemm: Gemm, dataflow: str) -> None:
    chip, gemm = one_array(chip), replace(gemm, count=1)
    seen, row = recorded(gemm, chip, dataflow=dataflow), costed(gemm, chip, dataflow=dataflow)
    assert seen.is_whole and seen.cycles == len(seen.causes)
    causes = Counter(row.cycles_by_cause)
    causes["stall_dram"] += causes.pop("stall_latency", 0)
    assert Counter(seen.causes) == +causes
    assert int(seen.macs[-1]) == row.array_macs
    if gemm.batch == 1:  # a batch rounds each element's bytes up by itself
        onchip = row.bytes["vmem"]
        assert {n: int(seen.entered[n][-1]) for n in ("lhs", "rhs")} == {
            n: onchip[n].read for n in ("lhs", "rhs")
        }
        assert int(seen.entered["psum"][-1]) == row.bytes["acc"]["psum"].write


@settings(max_examples=12)
@given(busy_chips(), small_gemms(9), st.sampled_from(DATAFLOWS), seeds())
def test_what_leaves_becomes_the_product(chip: TpuChip, gemm: Gemm, dataflow: str, seed: int) -> None:
    """Whole numbers with sums below 2^24 have one right answer in every order (accumulators permitting)."""
    chip, gemm = one_array(replace(chip, array=replace(chip.array, acc={}))), replace(gemm, count=1)
    seen = recorded(gemm, chip, seed, dataflow=dataflow)
    lhs, rhs = drawn_operands(gemm, seed)
    out = np.full((gemm.batch, gemm.m, gemm.n), np.nan)
    for event in seen.leaving:
        out[event.batch, event.row, event.col] = event.sum
    np.testing.assert_array_equal(out, lhs.astype(np.float64) @ rhs.astype(np.float64))


@settings(max_examples=12)
@given(busy_chips(), small_gemms(9), st.sampled_from(DATAFLOWS), st.data())
def test_every_register_is_the_stepped_engines(
    chip: TpuChip, gemm: Gemm, dataflow: str, data: st.DataObject
) -> None:
    step = lowered(replace(gemm, count=1), chip, dataflow=dataflow)
    problem = step.mapped.split.busiest
    share = replace(step.op, m=problem.m, n=problem.n, k=problem.k, batch=problem.batch, name="", layout="nn")
    lhs, rhs = seeded_inputs(
        Gemm(**{d: getattr(share, d) for d in ("m", "n", "k", "batch", "dtype", "rhs_dtype")})
    )
    seen = record_array(step, chip, lhs, rhs)
    arrays: list[SteppedArray] = []
    stepped_cost(step, chip, record=arrays)
    clock = data.draw(st.integers(0, arrays[0].clocks), "clock")
    for name, register in arrays[0].state_at(clock).items():
        np.testing.assert_array_equal(seen.registers[name][clock], register)


@given(shapes(9), st.sampled_from(DATAFLOWS), st.integers(1, 30))
def test_a_part_of_a_run_is_its_beginning(shape: tuple[int, int, int], dataflow: str, cycles: int) -> None:
    m, n, k = shape
    chip, gemm = load_chip("teaching-4x4"), Gemm(m=m, n=n, k=k, dtype="fp32")
    step, operands = lowered(gemm, chip, dataflow=dataflow), drawn_operands(gemm, 1)
    whole, part = record_array(step, chip, *operands), record_array(step, chip, *operands, cycles=cycles)
    least = 1 if dataflow == "os" else 5  # its first weights and a clock
    assert part.cycles == min(max(cycles, least), whole.cycles) and part.total_cycles == whole.cycles
    for name, register in part.registers.items():
        np.testing.assert_array_equal(register, whole.registers[name][: part.cycles + 1])
    assert part.causes == whole.causes[: part.cycles]
    assert part.leaving == tuple(event for event in whole.leaving if event.cycle <= part.cycles)


def test_a_part_begins_where_the_array_does() -> None:
    """4 GB/s at 1 GHz: the 64 bytes of B take 16 cycles, and 5 of latency, before a weight can enter."""
    slow = {"memory.dram.bytes_per_s": "4 GB/s", "memory.dram.latency_ns": 5}
    step = lowered(Gemm(m=4, n=4, k=4, dtype="fp32"), load_chip("teaching-4x4", slow))
    seen = record_array(
        step, load_chip("teaching-4x4", slow), np.ones((1, 4, 4)), np.ones((1, 4, 4)), cycles=3
    )
    assert set(seen.causes[:21]) == {"stall_dram"}
    assert seen.causes[-5:] == ("preload",) * 4 + ("fill",)  # a first tile is there, however short the part


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_cells_count_what_the_registers_hold(dataflow: str) -> None:
    chip = load_chip("teaching-4x4", {"array.rows": 35, "array.cols": 20})
    gemm = Gemm(m=21, n=20, k=40, dtype="fp32")
    step, operands = lowered(gemm, chip, dataflow=dataflow), drawn_operands(gemm, 1)
    whole, cells = record_array(step, chip, *operands), record_array(step, chip, *operands, by_cell=True)
    assert cells.grid is not None and not cells.registers
    assert cells.grid.side == 3  # ceil(35 / 16)
    assert cells.grid.busy.shape == (whole.cycles + 1, 12, 7)
    np.testing.assert_array_equal(cells.grid.busy.sum(axis=(1, 2)), whole.busy)
    valid = whole.registers["valid"].any(axis=1)
    np.testing.assert_array_equal(cells.grid.streaming[:, 1, 2], valid[:, 3:6, 6:9].sum(axis=(1, 2)))


def test_a_closed_form_has_no_registers() -> None:
    chip = load_chip("teaching-4x4")
    step = lowered(Gemm(m=4, n=4, k=4, dtype="fp32"), chip, mode="bound")
    with pytest.raises(SystolicError, match="mode must be tiled or stepped to record an array, got bound"):
        record_array(step, chip, np.ones((1, 4, 4)), np.ones((1, 4, 4)))


@given(shapes(9), st.sampled_from(DATAFLOWS), seeds())
def test_every_word_is_the_element_that_it_is_said_to_be(
    shape: tuple[int, int, int], dataflow: str, seed: int
) -> None:
    m, n, k = shape
    seen = recorded(Gemm(m=m, n=n, k=k, dtype="fp32"), load_chip("teaching-4x4"), seed, dataflow=dataflow)
    lhs, rhs = (operand[0].ravel() for operand in (seen.lhs, seen.rhs))
    moving, other = (rhs, lhs) if dataflow == "is" else (lhs, rhs)
    real = seen.left_flags & REAL != 0
    np.testing.assert_array_equal(seen.left[real], moving[seen.origins["left"][real]])
    real = seen.top_flags & REAL != 0
    np.testing.assert_array_equal(seen.top[real], other[seen.origins["top"][real]])
    real = seen.registers["valid"]
    np.testing.assert_array_equal(seen.registers["act"][real], moving[seen.origins["act"][real]])
    real = (seen.registers["weight_flags"] & REAL if dataflow == "os" else seen.registers["weight_real"]) != 0
    np.testing.assert_array_equal(seen.registers["weight"][real], other[seen.origins["weight"][real]])
