"""Counts are exact or refused, never wrapped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from systolic import Gemm, SystolicError, load_model, simulate
from systolic.mapping.limits import largest_count
from systolic.mapping.plan import DIMS, Place, Plan, Problem
from systolic.mapping.schedule import plan_outcome
from systolic.mapping.traffic import onchip_bytes, port_totals

from ..tpu_strategies import planned_problems


@given(planned_problems())
def test_no_count_of_a_plan_exceeds_the_largest(planned: tuple[Problem, Plan]) -> None:
    problem, plan = planned
    tile = {d: plan.tile[d] for d in DIMS}
    totals = port_totals(problem, tile, plan.order)
    counts = [
        *(problem.batch * amount for amount in totals.bytes.values()),
        problem.batch * (totals.load_cycles + totals.store_cycles),
        *(problem.batch * amount for amount in onchip_bytes(problem, tile, plan.split).values()),
        plan_outcome(problem, plan).cycles,
    ]
    assert max(counts) <= largest_count(problem, tile)


@pytest.mark.parametrize("side", [2**22, 2**31, 2**40, 2**62])
@pytest.mark.parametrize("on", ["tpu-v4", "teaching-4x4"])
def test_a_matmul_beyond_64_bits_is_refused(on: str, side: int) -> None:
    with pytest.raises(SystolicError, match="all counts of all plans fit 64 bits"):
        simulate(Gemm(m=side, n=side, k=side, dtype="bf16"), on=on)


def test_a_million_tokens_are_no_such_matmul() -> None:
    """Attention of Llama-3-405B over 2**20 tokens: 8 groups of 16 heads of 128."""
    scores = Gemm(m=16 * 2**20, n=2**20, k=128, batch=8, rhs_kind="kv_cache")
    (row,) = simulate(scores, on="tpu-v4").chips[0].rows
    assert row.array_macs == 2**54
    assert row.cycles > 2**54 / (8 * 128**2)


@pytest.mark.parametrize(
    ("shape", "macs"), [((65536, 65536, 4), 17_179_869_184), ((8192, 28672, 8192), 1_924_145_348_608)]
)
def test_counts_beyond_32_bits_from_32_bit_sizes(shape: tuple[int, int, int], macs: int) -> None:
    """S-79: numba issue 5365, jax issue 8604: 32-bit integers wrap in silence."""
    m, n, k = (np.int32(side) for side in shape)
    gemm = Gemm(m=m, n=n, k=k, count=np.int32(3))  # type: ignore[arg-type]
    (row,) = simulate(gemm, on="tpu-v4").chips[0].rows
    assert row.macs == row.array_macs == 3 * macs
    assert all(type(count) is int for count in (row.cycles, row.array_macs, row.padded_macs, row.pe_cycles))
    for operands in row.bytes.values():
        assert all(traffic.read >= 0 and traffic.write >= 0 for traffic in operands.values())
    assert row.level_bytes("dram") >= 3 * 2 * (
        shape[0] * shape[2] + shape[2] * shape[1] + shape[0] * shape[1]
    )


def test_a_bandwidth_with_no_round_ratio_to_the_clock_is_exact() -> None:
    """Bytes times the clock's part of the ratio then pass 64 bits on the way: 4 GiB times 12 digits."""
    place = Place(level="dram", cycles_num=940_000_000_007, bytes_den=1_234_567_891_237, latency=0, burst=1)
    sizes = [2**32, 2**40 + 1, 3]
    np.testing.assert_array_equal(place.cycles(np.array(sizes)), [place.cycles(size) for size in sizes])


def test_an_odd_bandwidth_stands_between_its_neighbours() -> None:
    work = load_model("gpt2", seq=128)
    cycles = []
    for rate in (1_200_000_000_000, 1_199_999_999_989, 1_199_000_000_000):
        memory = {"memory.dram.bytes_per_s": rate, "memory.vmem.bytes_per_s": 4_300_799_999_957}
        cycles.append(simulate(work, on="tpu-v4", overrides=memory).chips[0].totals.cycles)
    assert cycles == sorted(cycles)
