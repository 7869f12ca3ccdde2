"""The ledger of a CPU."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic import Gemm, SystolicError, load_model, simulate

from .runs import assert_ledger, chip_of, costed

CHIPS = ("teaching-cpu", "skylake-sp", "ice-lake", "sapphire-rapids")
PLAIN = ("naive", "reordered", "simd", "blocked")


def gemms(most: int) -> st.SearchStrategy[Gemm]:
    """Ragged and smooth sides, batches, repeats, any layout."""
    side = st.integers(1, most)
    return st.builds(
        lambda m, n, k, batch, count, layout: Gemm(
            m=m, n=n, k=k, batch=batch, count=count, layout=layout, dtype="fp32", name="drawn"
        ),
        side,
        side,
        side,
        st.sampled_from((1, 3)),
        st.sampled_from((1, 5)),
        st.sampled_from(("nn", "nt", "tn")),
    )


@given(gemms(200), st.sampled_from(CHIPS), st.sampled_from((None, *PLAIN)))
@settings(max_examples=40, deadline=None)
def test_ledger_of_random_matmuls(op: Gemm, name: str, kernel: str | None) -> None:
    chip = chip_of(name)
    assert_ledger(costed(op, chip, kernel=kernel), chip)


@given(gemms(300), st.sampled_from(CHIPS), st.sampled_from(PLAIN))
@settings(max_examples=30, deadline=None)
def test_no_kernel_is_faster_than_the_bound(op: Gemm, name: str, kernel: str) -> None:
    chip = chip_of(name)
    bound = costed(op, chip, mode="bound", kernel=kernel)
    assert_ledger(bound, chip)
    assert bound.source == "bound"
    assert costed(op, chip, kernel=kernel).cycles >= bound.cycles


@given(gemms(150), st.sampled_from(CHIPS))
@settings(max_examples=20, deadline=None)
def test_the_chosen_kernel_is_the_fastest(op: Gemm, name: str) -> None:
    chip = chip_of(name)
    times = [costed(op, chip, kernel=kernel).cycles for kernel in PLAIN]
    assert costed(op, chip).cycles == min(times)


@given(gemms(40), st.sampled_from(("naive", "reordered", "simd")))
@settings(max_examples=25, deadline=None)
def test_two_rows_stand_for_a_nest(op: Gemm, kernel: str) -> None:
    """Mode tiled steps two rows of each nest: within 15% of the whole nest's cycles on one core."""
    chip = chip_of("teaching-cpu", cores=1)
    tiled, stepped = (costed(op, chip, mode=mode, kernel=kernel) for mode in ("tiled", "stepped"))
    assert stepped.source == "stepped"
    assert_ledger(stepped, chip)
    assert tiled.cycles == pytest.approx(stepped.cycles, rel=0.15)


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("kernel", PLAIN)
def test_unlimited_memory_means_no_stall(name: str, kernel: str) -> None:
    chip = chip_of(name)
    memory = dict(chip.memory)
    memory["dram"] = replace(memory["dram"], bytes_per_s=None, latency_ns=0)
    for level in ("l1", "l2", "l3"):
        memory[level] = replace(memory[level], bytes_per_cycle=None, latency_cycles=0)
    row = costed(Gemm(m=96, n=80, k=70, dtype="fp32"), replace(chip, memory=memory), kernel=kernel)
    assert row.cycles_by_cause.keys() <= {"compute", "preload"}


@pytest.mark.parametrize("shape", [(1, 1024, 1024), (128, 512, 512), (1024, 1024, 1024)])
def test_more_bandwidth_is_never_slower(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    op = Gemm(m=m, n=n, k=k, dtype="fp32")
    rates = ["10 GB/s", "40 GB/s", "160 GB/s", "unlimited"]
    chips = [chip_of("skylake-sp", memory__dram__bytes_per_s=rate) for rate in rates]
    cycles = [costed(op, chip).cycles for chip in chips]
    assert all(later <= earlier for earlier, later in pairwise(cycles))
    assert cycles[-1] < cycles[0]


def test_the_chain_of_additions_bounds_the_naive_loop() -> None:
    """Each of k additions waits for the one before: 4 cycles each on Skylake (LLVM, WriteFAdd)."""
    chip = chip_of("skylake-sp", cores=1)
    row = costed(Gemm(m=64, n=64, k=64, dtype="fp32"), chip, kernel="naive")
    assert row.cycles_by_cause["compute"] == 4 * 64**3


def test_the_lesson_of_four_kernels() -> None:
    chip = chip_of("skylake-sp", cores=1)
    op = Gemm(m=256, n=256, k=256, dtype="fp32")
    times = [costed(op, chip, kernel=kernel).cycles for kernel in PLAIN]
    assert all(later < earlier for earlier, later in pairwise(times))


def test_tiles_multiply_bf16() -> None:
    op = Gemm(m=1024, n=1024, k=1024, dtype="bf16")
    row = costed(op, chip_of("sapphire-rapids"))
    assert (row.mapping or {})["kernel"] == "amx"
    assert_ledger(row, chip_of("sapphire-rapids"))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            {"kernel": "amx"},
            "kernel must be one of naive, reordered, simd, blocked on skylake-sp, got 'amx'",
        ),
        ({"dataflow": "ws"}, "dataflow is no choice of skylake-sp, which has kernel"),
        (
            {"mode": "stepped", "kernel": "blocked"},
            "mode stepped walks the nests of naive, reordered, simd through the caches, not blocked",
        ),
    ],
)
def test_what_is_not_there_is_refused(options: dict[str, object], line: str) -> None:
    with pytest.raises(SystolicError) as caught:
        costed(Gemm(m=64, n=64, k=64, dtype="fp32"), chip_of("skylake-sp"), **options)
    assert str(caught.value).startswith(line)


def test_rows_of_a_model_add_up() -> None:
    (report,) = simulate(load_model("gpt2", seq=64), on="skylake-sp").chips
    assert report.totals.cycles == sum(row.cycles for row in report.rows)
