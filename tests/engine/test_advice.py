"""What would help: the rule's figures, tested by doing what it says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import systolic
from systolic.engine.advice import Advice, advise, bandwidth_needed, bound_cycles, padding_of, rows_needed
from systolic.engine.report import Report
from systolic.metrics import BOUND_OF_CAUSE
from systolic.result import Result
from systolic.workload import Gemm


def row_of(gemm: Gemm, on: str = "tpu-v4", **options: object) -> Result:
    return systolic.simulate(gemm, on=on, **options).chips[0].matmuls[0]  # type: ignore[arg-type]


def advice_of(gemm: Gemm, on: str = "tpu-v4", **overrides: object) -> Advice:
    chip = systolic.load_chip(on, overrides)
    return advise(systolic.simulate(gemm, on=chip).chips[0].matmuls[0], chip)


@pytest.fixture(scope="module")
def models() -> list[Report]:
    prefill = systolic.load_model("gpt2", seq=256)
    decode = systolic.load_model("gpt2", phase="decode", kv_len=512)
    return [systolic.simulate(work, on=["tpu-v1", "tpu-v4", "tpu-v6e"]) for work in (prefill, decode)]


def test_every_bound_has_a_text(models: list[Report]) -> None:
    for report in models:
        for chip in report.chips:
            for row in chip.matmuls:
                assert advise(row, chip.chip).text


def test_shares_and_speedups_add_up(models: list[Report]) -> None:
    for report in models:
        for chip in report.chips:
            for row in chip.matmuls:
                advice = advise(row, chip.chip)
                if not row.cycles:
                    assert advice.share is None
                    continue
                assert advice.share == bound_cycles(row) / row.cycles
                # What bounds it is its largest part, so no other bound has more cycles.
                others = {b: 0 for b in BOUND_OF_CAUSE.values() if b != row.bound_by}
                assert advice.share >= 1 / (len(others) + 1)
                if advice.most_speedup is not None:
                    assert advice.most_speedup == pytest.approx(1 / (1 - advice.share))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 600),
    st.integers(1, 2000),
    st.integers(1, 2000),
    st.floats(0.05, 0.95, allow_subnormal=False),
)
def test_less_than_the_bandwidth_needed_leaves_it_waiting(m: int, n: int, k: int, part: float) -> None:
    gemm = Gemm(m=m, n=n, k=k, dtype="bf16")
    row = row_of(gemm)
    if row.bound_by != "dram":
        return
    needed = bandwidth_needed(row)
    assert needed is not None
    assert row.mapping is not None
    pinned = {"tile": tuple(row.mapping["tile"][d] for d in "mnk"), "order": row.mapping["order"]}
    less = {"memory.dram.bytes_per_s": int(needed * part) + 1, "memory.dram.sustained_percent": 100}
    slower = row_of(gemm, overrides=less, **pinned)
    assert slower.cycles_by_cause.get("stall_dram", 0) > 0
    # The bytes take longer than all that the row does without waiting.
    working = (
        row.cycles - row.cycles_by_cause.get("stall_dram", 0) - row.cycles_by_cause.get("stall_latency", 0)
    )
    assert slower.cycles > working


def test_unlimited_bandwidth_ends_what_dram_bounds() -> None:
    gemm = Gemm(m=8, n=4096, k=4096, dtype="bf16")
    assert row_of(gemm).bound_by == "dram"
    assert row_of(gemm, overrides={"memory.dram.bytes_per_s": "unlimited"}).bound_by != "dram"


def test_decode_is_told_to_batch_its_weights() -> None:
    text = advice_of(Gemm(m=1, n=4096, k=4096, dtype="bf16")).text
    assert "more rows per weight (a larger batch)" in text
    assert "100% of its bytes are rhs" in text
    assert "(sustained now: 996 GB/s)" in text  # 83% of 1200 GB/s


def test_the_rows_that_hide_a_weight_load_do() -> None:
    chip = systolic.load_chip("tpu-v4", {"memory.dram.bytes_per_s": "unlimited", "memory.dram.latency_ns": 0})
    needed = rows_needed(chip, "bf16")
    for rows, waits in ((needed, False), (needed - 1, True)):
        row = systolic.simulate(Gemm(m=rows, n=4096, k=4096, dtype="bf16"), on=chip).chips[0].matmuls[0]
        assert bool(row.cycles_by_cause.get("weight_load", 0)) is waits


def test_the_rows_that_hide_a_weight_load_are_named() -> None:
    advice = advice_of(
        Gemm(m=2, n=512, k=512, dtype="bf16"),
        **{"memory.dram.bytes_per_s": "unlimited", "memory.dram.latency_ns": 0},
    )
    assert advice.row.bound_by == "weight load"
    assert advice.text.startswith("more rows per tile of weights: ")
    assert "(2 rows here; a larger batch)" in advice.text


def test_padding_names_the_array() -> None:
    # k = 64 fills half of the 128 rows.
    advice = advice_of(Gemm(m=65536, n=128, k=64, dtype="bf16"), **{"memory.dram.bytes_per_s": "unlimited"})
    assert advice.row.bound_by == "compute"
    assert padding_of(advice.row) == pytest.approx(0.5, abs=0.01)
    assert "50% of the 128×128 PEs hold no work (m, n, k = 65,536, 128, 64)" in advice.text
    assert advice.most_speedup is None


def test_a_full_array_needs_faster_multipliers() -> None:
    advice = advice_of(Gemm(m=8192, n=8192, k=8192, dtype="bf16"))
    assert advice.text.startswith("only more or faster multipliers")


def test_a_short_stream_is_told_so() -> None:
    # 4 x 4 x 4 on 4 x 4 PEs: 10 of 14 cycles are preload, fill and drain.
    advice = advice_of(Gemm(m=4, n=4, k=4, dtype="fp32"), on="teaching-4x4")
    assert advice.row.bound_by == "fill/drain"
    assert "71% of its cycles fill and empty the array" in advice.text
    assert advice.most_speedup == pytest.approx(14 / 4)
