"""Matmuls timed on this machine: what is, and what is not, inside the time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter

import jax
import numpy as np
import pytest

import systolic
from systolic import Gemm, SystolicError
from systolic.measured.device import devices, observed_precision, prepare
from systolic.measured.harness import Request, alarm_of, distinct, measure
from systolic.measured.record import Measurement, read
from tests.measured.test_record import measurement

QUICK = Request(device="cpu", spread=1.0, budget_s=2)
"""Half of everything may differ: these tests look at what is timed, not at how exactly."""


@pytest.fixture(scope="module")
def cpu() -> jax.Device:
    return devices("cpu")[0]


def work(*gemms: Gemm) -> systolic.Workload:
    return systolic.Workload(name="some", ops=gemms, dtype=gemms[0].dtype)


def test_completion_is_awaited(cpu: jax.Device) -> None:
    """1024^3 fp32 is 2.1 GFLOP: no processor does 10 TFLOP/s, and an unawaited call returns in 0.1 ms."""
    row = measure(work(Gemm(m=1024, n=1024, k=1024, dtype="fp32")), request=QUICK).rows[0]
    assert row.median_us is not None
    assert row.flop == 2 * 1024**3
    assert row.flop / row.median_us / 1e6 < 10


def test_compile_and_transfer_stand_apart(cpu: jax.Device) -> None:
    begun = perf_counter()
    prepared = prepare(Gemm(m=8, n=2048, k=2048, dtype="fp32"), cpu, copies=4, seed=0)
    took = perf_counter() - begun
    assert 0 < prepared.compile_s + prepared.transfer_s < took
    assert prepared.rotated_bytes == 4 * 4 * (8 * 2048 + 2048 * 2048)
    first = perf_counter()
    prepared.call(0)
    assert perf_counter() - first < took  # the first call pays neither


def test_the_result_is_the_product(cpu: jax.Device) -> None:
    for layout in ("nn", "nt", "tn", "tt"):
        for batch in (1, 3):
            gemm = Gemm(m=5, n=7, k=11, batch=batch, dtype="fp32", layout=layout)
            prepared = prepare(gemm, cpu, copies=1, seed=3)
            random = np.random.default_rng(3)
            lead = (batch,) if batch > 1 else ()
            lhs = random.standard_normal((*lead, *((11, 5) if layout[0] == "t" else (5, 11))), np.float32)
            rhs = random.standard_normal((*lead, *((7, 11) if layout[1] == "t" else (11, 7))), np.float32)
            left = lhs.swapaxes(-1, -2) if layout[0] == "t" else lhs
            right = rhs.swapaxes(-1, -2) if layout[1] == "t" else rhs
            np.testing.assert_allclose(np.asarray(prepared.call(0)), left @ right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "out"), [("int8", "int32"), ("bf16", "bfloat16"), ("fp8_e4m3", "float8_e4m3fn")]
)
def test_result_formats(cpu: jax.Device, dtype: str, out: str) -> None:
    (gemm,) = distinct(work(Gemm(m=4, n=4, k=32, dtype=dtype)))
    assert str(prepare(gemm, cpu, copies=1, seed=0).call(0).dtype) == out  # type: ignore[attr-defined]


def test_precision_is_observed(cpu: jax.Device) -> None:
    """XLA's CPU backend multiplies float32 in full whatever is asked."""
    assert observed_precision(cpu, "fp32", "default") == "fp32"
    assert observed_precision(cpu, "bf16", "default") == "bf16"


def test_cold_inputs_outgrow_the_caches_and_warm_ones_are_one_set() -> None:
    gemm = work(Gemm(m=64, n=64, k=64, dtype="fp32"))
    cold = measure(gemm, request=QUICK).rows[0]
    warm = measure(gemm, request=replace(QUICK, warm=True)).rows[0]
    assert warm.rotated_bytes == 4 * 2 * 64 * 64
    assert cold.rotated_bytes >= min(512 * warm.rotated_bytes, 2 * (1 << 20))


def test_equal_matmuls_are_measured_once() -> None:
    layers = [
        Gemm(m=2, n=4, k=8, count=count, dtype="fp32", name=name) for count, name in ((2, "a"), (3, "b"))
    ]
    (one,) = distinct(
        work(
            *layers,
        )
    )
    assert (one.name, one.count) == ("a", 5)


def test_a_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    first, second = Gemm(m=2, n=4, k=8, dtype="fp32"), Gemm(m=3, n=4, k=8, dtype="fp32")
    measure(work(first), path, QUICK)
    assert len(measure(work(first, second), path, QUICK).rows) == 2
    before = path.read_text()
    assert len(measure(work(first, second), path, QUICK).rows) == 2
    assert path.read_text() == before
    again = measure(work(first), path, replace(QUICK, again=True))
    assert [row.m for row in again.rows] == [2, 3, 2]
    assert [session.id for session in again.sessions] == [1, 2, 3]
    assert read(path) == again


def test_a_cut_file_goes_on_too(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    gemms = [Gemm(m=m, n=4, k=8, dtype="fp32") for m in (2, 3)]
    measure(work(*gemms), path, QUICK)
    path.write_bytes(path.read_bytes()[:-40])
    lines: list[str] = []

    class Heard:
        def announce(self, line: str) -> None:
            lines.append(line)

        def start(self, label: str, total: int) -> None: ...

        def advance(self, units: int) -> None: ...

    measure(work(*gemms), path, QUICK, progress=Heard())
    assert "cut off" in lines[0]
    assert read(path).notes == ()
    assert {row.m for row in read(path).rows} == {2, 3}


def test_a_rate_above_the_peak_raises_an_alarm() -> None:
    """TPU v6e: 917.5 TFLOP/s in bf16 and 1638 GB/s; 4096^3 is 137 GFLOP and 100.7 MB."""
    chip = systolic.load_chip("tpu-v6e")
    gemm = Gemm(m=4096, n=4096, k=4096)
    row = replace(measurement(1), m=4096, n=4096, k=4096, dtype="bf16", median_us=50.0)
    assert alarm_of(row, gemm, chip, cold=True) == (
        "2749 TFLOP/s is above the peak of 917.5; 2.013 TB/s is above the memory's 1.638 TB/s"
    )
    assert "memory" not in alarm_of(row, gemm, chip, cold=False)
    assert alarm_of(replace(row, median_us=160.0), gemm, chip, cold=True) == ""
    assert alarm_of(row, gemm, None, cold=True) == ""


def test_refusals(cpu: jax.Device) -> None:
    with pytest.raises(SystolicError, match=r"--device must be one that JAX has here \(cpu.*got 'tpu'"):
        measure(work(Gemm(m=2, n=2, k=2, dtype="fp32")), request=replace(QUICK, device="tpu"))
    with pytest.raises(SystolicError, match="spread must be > 0 and <= 1, got 0") as caught:
        Request(spread=0, budget_s=-1)
    assert "budget must be > 0, got -1" in str(caught.value)


def test_measurement_keys_tell_layouts_apart() -> None:
    row: Measurement = measurement(4)
    assert row.key != replace(row, layout="nt").key
    assert row.key == replace(row, name="other", count=9).key
