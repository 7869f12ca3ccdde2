"""Public bug reports about speed, memory, threads and what a figure means: cases S-76 to S-80, S-83 to S-85.

S-79 stands in tests/mapping/test_limits.py, S-81 in tests/test_kernel_cache.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from systolic import Gemm, simulate
from systolic.chips.tpu import DATAFLOWS

# Runs as a process with so many processors; prints the report without what the host contributes, and a digest
# of values computed in several tasks.
THREADS = """
import hashlib, json, os, sys
import numpy as np
processors = int(sys.argv[1])
os.sched_getaffinity = lambda pid: set(range(processors))
from systolic import Gemm, load_chip, matmul_hook, simulate
report = simulate(Gemm(m=104, n=104, k=104, dtype="bf16"), check="full").to_dict()
del report["host"]
digest = hashlib.sha256()
rng = np.random.default_rng(72)
hook = matmul_hook(load_chip("teaching-4x4"))
for dtype, word in (("fp32", np.float32), ("bf16", np.float32), ("int8", np.int8)):
    lhs, rhs = (rng.integers(-128, 128, shape).astype(word) for shape in ((1, 520, 104), (1, 104, 520)))
    if word is np.float32:
        lhs, rhs = lhs / 7, rhs / 7
    digest.update(hook(Gemm(m=520, n=520, k=104, dtype=dtype), lhs, rhs).tobytes())
print(json.dumps([report, digest.hexdigest()]))
"""

# Runs as a process; prints what it found and the most memory that it took, kilobytes. Not getrusage's figure:
# Linux hands a new program the peak of the process that started it.
LARGE = """
import json, re, sys
from pathlib import Path
import systolic
name, phase, length, on = sys.argv[1:]
length = {"seq" if phase == "prefill" else "kv_len": int(length)}
(chip,) = systolic.simulate(systolic.load_model(name, phase=phase, **length), on=on).to_dict()["chips"]
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(json.dumps([chip["fits"], chip["totals"], int(peak[1])]))
"""


def printed(script: str, *arguments: str, **environment: str) -> object:
    """What a fresh process that runs `script` prints, as JSON."""
    run = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_fresh_processes_with_any_number_of_threads_agree_to_the_byte() -> None:
    """S-13 and S-78: KULeuven-MICAS/zigzag issue 72, numba issues 3681 and 9938."""
    found = [
        printed(THREADS, str(threads), PYTHONHASHSEED=str(threads), NUMBA_NUM_THREADS=str(threads))
        for threads in (1, 2, 4)
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("side", [8, 32])
def test_a_small_array_and_a_large_matmul_need_no_stepping(side: int) -> None:
    """S-76, SCALE-Sim issues 62, 53, 101: 4096 cubed on 8 x 8 is 1.08e9 clocks, known at once."""
    overrides = {"array.rows": side, "array.cols": side}
    cube = Gemm(m=4096, n=4096, k=4096, dtype="int8")
    (chip,) = simulate(cube, on="teaching-4x4", overrides=overrides).chips
    assert chip.totals.cycles == (4096 // side) ** 2 * (3 * side + 4096 - 2)
    assert chip.totals.source == "tiled"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell peak memory")
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_largest_model_takes_little_memory(phase: str) -> None:
    """S-76. Llama-3-405B in bf16: 811.7 GB of weights alone, more than 8 times the 95 GiB of a TPU v5p.

    The KV cache of 8192 tokens is 126 layers * 2 * 8 heads * 128 * 2 B each; 8 chips hold both.
    """
    fits, totals, kilobytes = printed(LARGE, "llama-3-405b", phase, "8192", "tpu-v5p")  # type: ignore[misc]
    assert fits["weight_bytes"] == 2 * 405_853_388_800
    assert fits["kv_cache_bytes"] == 8192 * 126 * 2 * 8 * 128 * 2
    assert fits["chips_needed"] >= 8
    assert totals["cycles"] == sum(totals["cycles_by_cause"].values()) > 0
    assert 20_000 < kilobytes < 500_000


def test_the_report_shows_the_simulators_own_speed() -> None:
    """S-77, accel-sim-framework issue 284."""
    report = simulate(Gemm(m=64, n=64, k=64, dtype="bf16"))
    speed = report.to_dict()["host"]["simulated_cycles_per_second"]
    assert speed == pytest.approx(report.chips[0].totals.cycles / report.host.simulation_seconds)
    assert "simulated cycles/s" in str(report)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_counters_of_a_tiny_run_are_small_and_not_negative(dataflow: str) -> None:
    """S-80, timeloop-accelergy-exercises issue 30: 16 outputs of 3 taps, and a counter of 1.8e19."""
    (chip,) = simulate(Gemm(m=16, n=1, k=3, dtype="int8"), on="teaching-4x4", dataflow=dataflow).to_dict()[
        "chips"
    ]
    assert chip["totals"]["macs"] == chip["totals"]["array_macs"] == 48
    counts: list[float] = []

    def walk(value: object) -> None:
        if isinstance(value, dict):
            for item in value.values():
                walk(item)
        elif isinstance(value, (int, float)):
            counts.append(value)

    walk({key: value for key, value in chip["totals"].items() if key != "bound_by"})
    walk(chip["matmuls"][0])
    assert counts
    assert all(0 <= count <= 1024 for count in counts)


def test_low_use_is_shown_as_what_it_is_and_its_time_has_causes() -> None:
    """S-83, ONNXim issue 27: a utilisation of 0.00 % at 408,000 cycles for no clear reason."""
    report = simulate(Gemm(m=1, n=2, k=32_768, dtype="bf16"))
    (row,) = report.chips[0].rows
    assert row.utilization is not None and row.utilization < 5e-5
    assert f"{100 * row.utilization:.3g}" in str(report)
    assert row.cycles == sum(row.cycles_by_cause.values())
    assert "weight_load" in str(report).replace("\n", " ")


def test_cycles_clock_and_seconds_stand_together() -> None:
    """S-84, astra-sim issues 148 and 208: 940,000 cycles at 940 MHz are 1 ms."""
    report = simulate(
        Gemm(m=940_000 - 10, n=4, k=4, dtype="fp32"), on="teaching-4x4", overrides={"clock_hz": "940 MHz"}
    )
    (chip,) = report.to_dict()["chips"]
    assert (chip["totals"]["cycles"], chip["clock_hz"], chip["totals"]["seconds"]) == (
        940_000,
        940_000_000,
        1e-3,
    )
    for text in ("clock 940 MHz", "940,000", "1 ms"):
        assert text in str(report)


def test_both_utilizations_are_told() -> None:
    """S-85, timeloop issue 258: 4 x 4 output stationary on (1, 4, 4); a peer divides by 9 cycles.

    4 of 16 PEs hold work: 25 %. 16 MACs in 16 PEs * 10 cycles to the last MAC are 10 %, 4 more to shift out.
    """
    (row,) = simulate(Gemm(m=1, n=4, k=4, dtype="fp32"), on="teaching-4x4", dataflow="os").chips[0].rows
    assert row.utilization is not None and row.mapped_utilization is not None
    assert row.utilization / row.mapped_utilization == pytest.approx(0.25)
    to_last_mac = row.cycles - row.cycles_by_cause["drain"]
    assert row.utilization * row.cycles / to_last_mac == pytest.approx(0.10)
