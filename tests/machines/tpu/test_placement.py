"""Where operands lie, and what limits the blocks of an op."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import systolic
from systolic import Gemm
from systolic.chips.tpu import Array, Memory, Policy, TpuChip
from systolic.errors import SystolicError
from systolic.machines.tpu.placement import block_room, operand_levels, vector_level
from systolic.models import vector_ops as vec

CHIP = TpuChip(
    name="drawn",
    clock_hz=10**9,
    array=Array(rows=4, cols=4),
    memory={"dram": Memory(bytes_per_s=8 * 10**9, latency_ns=20), "vmem": Memory(bytes=8192)},
    policy=Policy(activations="small", block_bytes=1024),
)


def chip(block_bytes: int | None, bytes_per_s: int = 8 * 10**9) -> TpuChip:
    memory = {**CHIP.memory, "dram": replace(CHIP.memory["dram"], bytes_per_s=bytes_per_s)}
    return replace(CHIP, memory=memory, policy=replace(CHIP.policy, block_bytes=block_bytes))


def levels(
    m: int, n: int, k: int, *, lhs: str | None = None, rhs: str | None = None, out: str | None = None
) -> str:
    """Levels of lhs, rhs and out of a bf16 matmul that asks for these places."""
    found = operand_levels(Gemm(m=m, n=n, k=k, lhs_at=lhs, rhs_at=rhs, out_at=out), CHIP)
    return " ".join(found[name] for name in ("lhs", "rhs", "out"))


def test_small_activations_stay_beside_the_blocks() -> None:
    """Less than half of 1024 bytes: 2 x 2 x (64 + 63) = 508; with 64 + 64 it is 512 and goes out."""
    assert levels(2, 63, 64) == "vmem dram vmem"
    assert levels(2, 64, 64) == "dram dram dram"


def test_a_matmul_that_fits_as_a_whole_stays() -> None:
    """2 x (16 x 8 + 8 x 16 + 16 x 16) = 1024 bytes, 768 of them activations."""
    assert levels(16, 16, 8) == "vmem dram vmem"
    assert levels(16, 16, 9) == "dram dram dram"


@pytest.mark.parametrize("block_bytes", ["32 MiB", "64 MiB"])
def test_activations_that_leave_no_room_for_blocks_lie_in_memory(block_bytes: str) -> None:
    """131,036 x (64 + 64) bf16 leave 9 KiB of 32 MiB: weights of 64 x 64 fit once (8 KiB), not twice."""
    knobs = {"memory.vmem.bytes": "32 MiB", "policy.block_bytes": block_bytes}
    chip = systolic.load_chip("tpu-v6e", knobs)
    full = Gemm(m=131_036, n=64, k=64)
    assert operand_levels(full, chip)["lhs"] == "vmem"
    (row,) = systolic.simulate(full, on=chip).chips[0].rows
    assert row.bytes["dram"]["lhs"].read == full.lhs_bytes
    assert row.bytes["dram"]["out"].write == full.out_bytes


def test_what_the_op_says_goes_before_the_policy() -> None:
    assert levels(2, 8, 8, lhs="memory", rhs="chip") == "dram vmem vmem"
    assert levels(2, 64, 64, out="stream") == "dram dram vmem"


def test_tables_lie_in_memory() -> None:
    assert vector_level(vec.norm("norm", "rmsnorm", 4, 16), CHIP) == "vmem"
    assert vector_level(vec.norm("norm", "rmsnorm", 64, 16), CHIP) == "dram"
    assert vector_level(vec.gather("look-up", 4, 16, 100), CHIP) == "dram"


def test_held_operands_take_room_and_streams_none() -> None:
    gemm = Gemm(m=60, n=60, k=1, lhs_at="chip", out_at="chip")
    whole = chip(None)
    assert block_room(gemm, whole, 1) == 8192 - 2 * (60 + 3600)
    assert block_room(replace(gemm, out_at="stream"), whole, 1) == 8192 - 2 * 60
    assert block_room(gemm, CHIP, 1) == 8192 - 2 * (60 + 3600) == 872
    assert block_room(replace(gemm, out_at="stream"), CHIP, 1) == 1024


@given(st.tuples(*[st.integers(1, 40)] * 3), st.integers(500, 3000), st.integers(0, 3000))
def test_more_room_for_blocks_never_costs(shape: tuple[int, int, int], room: int, more: int) -> None:
    m, n, k = shape
    gemm = Gemm(m=m, n=n, k=k)
    less, wide = (systolic.simulate(gemm, on=chip(r)).chips[0].matmuls[0] for r in (room, room + more))
    assert wide.cycles <= less.cycles
    assert (wide.min_dram_bytes or 0) <= (less.min_dram_bytes or 0)


@given(st.tuples(*[st.integers(1, 40)] * 3), st.integers(1, 30), st.integers(0, 30))
def test_more_bandwidth_never_costs(shape: tuple[int, int, int], rate: int, more: int) -> None:
    m, n, k = shape
    slow, fast = (chip(1024, bytes_per_s=r * 10**9) for r in (rate, rate + more))
    cycles = [systolic.simulate(Gemm(m=m, n=n, k=k), on=c).chips[0].totals.cycles for c in (slow, fast)]
    assert cycles[1] <= cycles[0]


def test_block_too_small_for_anything_is_refused_with_its_remedy() -> None:
    with pytest.raises(SystolicError, match=r"policy\.block_bytes.*raise memory\.vmem\.bytes or policy"):
        systolic.simulate(Gemm(m=64, n=64, k=64), on=chip(16))


def test_tpu_v1_takes_weights_tile_by_tile() -> None:
    """600 x 600 takes 9 steps on the 256 x 256 array, 4 on one of 512 x 512 (Jouppi et al., ISCA 2017)."""
    gemm = Gemm(m=96, n=600, k=600, dtype="int8")
    for side, steps in ((256, 9), (512, 4)):
        overrides = {"array.rows": side, "array.cols": side}
        mapping = systolic.simulate(gemm, on="tpu-v1", overrides=overrides).chips[0].matmuls[0].mapping or {}
        assert mapping["tile"] == {"m": 96, "n": side, "k": side}
        assert mapping["blocks"]["n"] * mapping["blocks"]["k"] == steps


def test_pinned_block_of_more_tiles_than_the_fifo_gives_is_refused() -> None:
    gemm = Gemm(m=96, n=600, k=600, dtype="int8")
    with pytest.raises(SystolicError, match=r"at most 1 tile\(s\) of weights \(policy\.block_tiles\)"):
        systolic.simulate(gemm, on="tpu-v1", tile=(96, 512, 256))
