"""A function op by op, eager and compiled. XLA's part is that of the CPU backend of the jax under test."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from systolic import SystolicError, load_chip
from systolic.engine.fusion import FusionReport, fusion_report
from systolic.models.trace.compiled import compiled_kernels


def f32(*sides: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sides, jnp.float32)


def counts(report: FusionReport) -> list[tuple[int, int, int]]:
    return [(level.launches, level.matmuls, level.macs) for level in report.levels]


def test_each_intermediate_is_written_and_read_op_by_op() -> None:
    """tanh and multiply over 1024 numbers: two reads and two writes of 4 KiB, and one of the factor."""
    report = fusion_report(lambda x: jnp.tanh(x) * 2.0, f32(1024))
    written, eager, compiled = report.levels
    assert (written.launches, written.bytes) == (2, 4 * 4096 + 4)
    assert (eager.launches, compiled.launches) == (2, 1)
    assert compiled.bytes == 2 * 4096


def test_eager_runs_a_function_of_the_library_as_one_kernel() -> None:
    """greater, where and add are one executable each, whatever they are made of."""
    report = fusion_report(lambda x: jnp.where(x > 0, x, 0) + 1, f32(64))
    assert [kernel.name for kernel in report.levels[1].kernels] == ["greater", "_where", "add"]
    assert report.levels[0].launches > 3


def test_a_jitted_function_is_one_kernel_when_called() -> None:
    report = fusion_report(jax.jit(lambda x, w: jnp.tanh(x @ w) @ w), f32(8, 8), f32(8, 8))
    assert counts(report)[1] == (1, 2, 1024)
    assert report.levels[1].bytes == 3 * 8 * 8 * 4


def test_s54_equal_matmuls_are_merged_by_the_compiler_and_that_is_said() -> None:
    """jax-ml/jax #13956."""
    report = fusion_report(lambda a: (a @ a) + (a @ a), f32(64, 64))
    assert [matmuls for _, matmuls, _ in counts(report)] == [2, 2, 1]
    assert any("2 matmuls" in note and "1 (262,144 MACs) are compiled" in note for note in report.notes)


def test_loops_are_multiplied_out_at_every_level() -> None:
    def layers(weights: Any, x: Any) -> Any:
        return jax.lax.scan(lambda carry, w: (jnp.tanh(carry @ w), None), x, weights)[0]

    report = fusion_report(layers, f32(5, 8, 8), f32(16, 8))
    assert [(matmuls, macs) for _, matmuls, macs in counts(report)] == [(5, 5 * 16 * 64)] * 3
    assert counts(report)[0][0] == 2 * 5
    assert counts(report)[1][0] == 1


def test_convolutions_and_batches_have_the_macs_of_the_program() -> None:
    def fn(x: Any, w: Any, a: Any) -> Any:
        out = jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", feature_group_count=2)
        return out, jnp.einsum("bij,bkj->bik", a, a)

    report = fusion_report(fn, f32(1, 4, 9, 9), f32(6, 2, 3, 3), f32(3, 5, 7))
    assert {macs for _, _, macs in counts(report)} == {7 * 7 * 6 * 2 * 9 + 3 * 25 * 7}


def test_time_is_launches_and_the_slower_of_bytes_and_macs() -> None:
    """One kernel per 8 KiB at 1.2 TB/s, and 5 us each."""
    report = fusion_report(lambda x: jnp.tanh(jnp.sin(x)), f32(1024), on="tpu-v4", launch_ns=5000)
    bandwidth = load_chip("tpu-v4").memory["dram"].bytes_per_s
    assert bandwidth == 1200 * 10**9
    assert report.levels[0].seconds == pytest.approx(2 * (5e-6 + 8192 / bandwidth))
    assert report.levels[2].seconds == pytest.approx(5e-6 + 8192 / bandwidth)
    wide = fusion_report(lambda a: a @ a, f32(4096, 4096), on="tpu-v4").levels[2].seconds
    assert wide == pytest.approx(4096**3 / load_chip("tpu-v4").peak_macs_per_s("bf16"))


def test_the_text_names_who_made_the_kernels() -> None:
    text = str(fusion_report(lambda x: x @ x, f32(8, 8)))
    assert "XLA's, for cpu" in text
    assert "another backend fuses otherwise" in text


def test_a_loop_of_unknown_length_is_asked_for() -> None:
    fn = lambda n, x: jax.lax.fori_loop(0, n, lambda _, c: c @ c, x)  # noqa: E731
    with pytest.raises(SystolicError, match=r"--trip test_fusion\.py:"):
        fusion_report(fn, jax.ShapeDtypeStruct((), jnp.int32), f32(4, 4))
    text = jax.jit(fn).lower(3, f32(4, 4)).compile().as_text()
    with pytest.raises(SystolicError, match="XLA does not know how often its loop while"):
        compiled_kernels(text)


def test_the_dearest_branch_of_a_conditional_is_counted() -> None:
    fn = lambda p, x: jax.lax.cond(p, lambda x: x @ x @ x, lambda x: x, x)  # noqa: E731
    report = fusion_report(fn, jax.ShapeDtypeStruct((), jnp.bool_), f32(16, 16))
    assert [matmuls for _, matmuls, _ in counts(report)] == [2, 2, 2]
