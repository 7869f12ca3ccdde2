"""``simulate``: what it takes, what it says, and what its choices change."""

from __future__ import annotations

import dataclasses

import pytest

from systolic import Gemm, SystolicError, VectorOp, Workload, load_chip, load_model, simulate
from systolic.engine.progress import Silent

TINY = Gemm(m=4, n=4, k=4, dtype="fp32", name="tiny")


def cycles(*args: object, **choices: object) -> int:
    """Total cycles on the only chip."""
    (chip,) = simulate(*args, **choices).chips
    return chip.totals.cycles


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_textbook_4x4_takes_14_cycles(dataflow: str) -> None:
    """2R + C + K - 2 with load or shift-out counted: the paper's formula, scale-sim-v3 issue 4."""
    assert cycles(TINY, on="teaching-4x4", dataflow=dataflow) == 14


def test_list_of_matmuls_is_the_sum_of_its_parts() -> None:
    """Nothing overlaps on a serial array; 2x2 OS on (4,4,4) is 32 with shift-out: SCALE-Sim issue 60."""
    two = {"array.rows": 2, "array.cols": 2}
    both = [TINY, dataclasses.replace(TINY, name="again")]
    assert cycles(TINY, on="teaching-4x4", overrides=two, dataflow="os") == 32
    assert cycles(both, on="teaching-4x4", overrides=two, dataflow="os") == 64


def test_a_model_without_format_takes_the_chips() -> None:
    workload = load_model("4,4,4")
    for chip, dtype in (("teaching-4x4", "fp32"), ("tpu-v4", "bf16"), ("tpu-v1", "int8")):
        (report,) = simulate(workload, on=chip).chips
        assert report.matmuls[0].op.dtype == dtype
    (report,) = simulate(load_model("4,4,4", dtype="bf16"), on="teaching-4x4").chips
    assert report.matmuls[0].op.dtype == "bf16"


def test_matmuls_keep_the_formats_that_they_state() -> None:
    (report,) = simulate([TINY, Gemm(m=4, n=4, k=4, dtype="int8")], on="teaching-4x4").chips
    assert [row.op.dtype for row in report.matmuls] == ["fp32", "int8"]
    assert [row.name for row in report.matmuls] == ["tiny", "matmul.1"]


def test_several_chips_stand_in_the_order_given() -> None:
    chip = load_chip("tpu-v4", {"name": "mine"})
    report = simulate(TINY, on=["teaching-4x4", chip])
    assert [each.chip.name for each in report.chips] == ["teaching-4x4", "mine"]


def test_all_wrong_choices_are_reported_at_once() -> None:
    with pytest.raises(SystolicError) as caught:
        simulate(TINY, mode="fast", dataflow="xs", order="mmk", tile=(4, 5), precision="low", check="yes")
    assert caught.value.problems == (
        "mode must be one of tiled, stepped, bound, got 'fast'",
        "dataflow must be one of ws, os, is, got 'xs'",
        "order must be one of mnk, mkn, nmk, nkm, kmn, knm, got 'mmk'",
        "precision must be one of default, high, highest, got 'low'",
        "check must be one of off, auto, sample, full, got 'yes'",
        "tile must be three whole numbers > 0 (m, n, k), got (4, 5)",
    )


def test_a_choice_that_the_machine_does_not_have_is_refused() -> None:
    with pytest.raises(SystolicError) as caught:
        simulate(TINY, on="teaching-4x4", kernel="naive")
    assert caught.value.problems == (
        "kernel is no choice of teaching-4x4, which has dataflow, tile, order; drop it, or simulate the "
        "chips apart; got 'naive'",
    )


@pytest.mark.parametrize("wrong", ["gpt2", 7, [1], []])
def test_what_is_no_workload_is_refused(wrong: object) -> None:
    with pytest.raises(SystolicError, match="workload must"):
        simulate(wrong)  # type: ignore[arg-type]


def test_no_chip_is_refused() -> None:
    with pytest.raises(SystolicError, match="on must name at least one chip, got none"):
        simulate(TINY, on=[])


def test_a_model_larger_than_the_memory_is_flagged() -> None:
    """Llama-3-405B has 405,853,388,800 parameters (Hugging Face model card's safetensors total).

    Its KV cache takes 126 layers * 2 * 8 heads * 128 * 2 B = 516,096 B per token. Eight times the
    95 GiB of a TPU v5p hold both at 8192 tokens, seven do not.
    """
    workload = load_model("llama-3-405b", phase="decode", kv_len=8192)
    (report,) = simulate(workload, on="tpu-v5p", mode="bound").chips
    assert report.fits.weight_bytes == 2 * 405_853_388_800
    assert report.fits.kv_cache_bytes == 8192 * 516_096
    assert report.fits.chips_needed == 8
    assert report.notes[0] == "larger than the chip's memory, simulated as if resident; 8 chips would hold it"


def test_what_fits_exactly_fits() -> None:
    """64 weights, 64 activations in, 64 out, 4 B each: 768 B."""
    gemm = Gemm(m=8, n=8, k=8, dtype="fp32")
    needed = [
        simulate(gemm, on="teaching-4x4", overrides={"memory.dram.bytes": size}).chips[0].fits.chips_needed
        for size in (768, 767, 384, 383, "unlimited")
    ]
    assert needed == [1, 2, 2, 3, 1]


def test_kv_cache_is_counted_in_its_own_format() -> None:
    """K of one head: 16 keys of 8 elements in fp32."""
    gemm = Gemm(m=1, n=16, k=8, dtype="fp32", rhs_kind="kv_cache")
    fits = simulate(gemm, on="teaching-4x4").chips[0].fits
    assert (fits.weight_bytes, fits.kv_cache_bytes) == (0, 16 * 8 * 4)


@pytest.mark.parametrize("kib", [16, 32, 64, 128])
def test_a_knob_that_changed_nothing_is_explained(kib: int) -> None:
    """SCALE-Sim issue 50: SRAM sizes changed, cycles did not, and nobody was told why."""
    square = Gemm(m=512, n=512, k=512, dtype="int8")
    array = {"array.rows": 32, "array.cols": 32, "array.convention": "overlapped"}
    big = load_chip("teaching-4x4", {**array, "memory.vmem.bytes": "1 MiB"})
    (before,) = simulate(square, on=big).chips[0].rows
    (chip,) = simulate(square, on=big, overrides={"memory.vmem.bytes": f"{kib} KiB"}).chips
    (row,) = chip.rows
    (note,) = (note for note in chip.notes if note.startswith(f"memory.vmem.bytes = {kib} KiB"))
    assert row.cycles == before.cycles
    assert "changed no cycles: the run is compute-bound" in note
    assert f"dram bytes went from {before.level_bytes('dram'):,} to {row.level_bytes('dram'):,}" in note
    assert row.mapping is not None and set(row.mapping["tile"]) == {"m", "n", "k"}


def test_each_turned_knob_has_its_own_note() -> None:
    (chip,) = simulate(
        Gemm(m=64, n=64, k=64, dtype="fp32", name="square"),
        on="teaching-4x4",
        overrides={"array.rows": 8, "memory.dram.bytes": "1 GiB", "clock_hz": "2 GHz"},
        dataflow="os",
        tile=(64, 64, 64),
        order="nmk",
    ).chips
    turned = [note.partition(" changed")[0].partition(":")[0] for note in chip.notes]
    for label in (
        *("array.rows = 8", "memory.dram.bytes = 1 GiB", "clock_hz = 2 GHz"),
        *("dataflow os", "pinned tile 64,64,64", "pinned order nmk"),
    ):
        assert label in turned
    (clock,) = (note for note in chip.notes if note.startswith("clock_hz"))
    assert "time went from" in clock
    (rows,) = (note for note in chip.notes if note.startswith("array.rows"))
    without = cycles(
        Gemm(m=64, n=64, k=64, dtype="fp32"), on="teaching-4x4", dataflow="os", tile=(64, 64, 64), order="nmk"
    )
    assert f"cycles went from {without:,} to {chip.totals.cycles:,}" in rows


def test_a_knob_without_which_nothing_runs_is_said_so() -> None:
    (chip,) = simulate(
        Gemm(m=8, n=8, k=8, dtype="fp16"), on="tpu-v4", overrides={"array.lanes.fp16": 1}
    ).chips
    (note,) = (note for note in chip.notes if note.startswith("array.lanes.fp16"))
    assert "nothing to compare with, as without it" in note
    assert "fp16 must be one that the chip multiplies" in note


def test_long_stepping_announces_itself_and_the_cheaper_way() -> None:
    """Announced before any clock is stepped: the interrupt comes from the announcement itself."""

    class Stop(Silent):
        def announce(self, line: str) -> None:
            lines.append(line)
            raise KeyboardInterrupt

    lines: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        simulate(Gemm(m=8192, n=8192, k=8192), mode="stepped", progress=Stop())
    tiled = cycles(Gemm(m=8192, n=8192, k=8192))
    assert lines[0].startswith(f"stepping {tiled:,} cycles of 65,536 PEs on tpu-v4")
    assert lines[0].endswith(f"mode tiled gives the same {tiled:,} cycles at once")


@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_stepped_tiled_and_bound_say_what_they_are_and_agree(dataflow: str) -> None:
    """Without memory limits all three have the same cycles."""
    gemm = Gemm(m=9, n=7, k=10, dtype="fp32")
    found = {
        mode: simulate(gemm, on="teaching-4x4", dataflow=dataflow, mode=mode).chips[0].totals
        for mode in ("stepped", "tiled", "bound")
    }
    assert [total.source for total in found.values()] == ["stepped", "tiled", "bound"]
    assert len({total.cycles for total in found.values()}) == 1


def test_what_the_workload_and_the_chip_have_to_say_stands_in_the_notes() -> None:
    workload = Workload(
        name="noted",
        ops=(
            dataclasses.replace(TINY),
            VectorOp(name="add", kind="add", elements=4, vector_ops=1, read_elements=8, write_elements=4),
        ),
        dtype="fp32",
        notes=("said by the workload",),
    )
    chip = dataclasses.replace(load_chip("teaching-4x4"), notes=("said by the chip",))
    (report,) = simulate(workload, on=chip).chips
    assert report.notes[:2] == ("said by the workload", "said by the chip")
