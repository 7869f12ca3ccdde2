"""The chips that ship with the package, against what their vendor and the literature print."""

from __future__ import annotations

import pytest

from systolic.chips import catalogue, describe, load_chip
from systolic.chips.kinds import LAYOUTS, values_of

NAMES = (
    "scale-sim",
    "teaching-4x4",
    "tpu-v1",
    "tpu-v2",
    "tpu-v3",
    "tpu-v4",
    "tpu-v4i",
    "tpu-v5e",
    "tpu-v5p",
    "tpu-v6e",
    "tpu-v7",
)

# TFLOP/s or TOPS of a whole chip. v1: Jouppi et al., ISCA 2017. v2: Jouppi et al., CACM 63(7), 2020.
# v4i: Jouppi et al., ISCA 2021. The others: Google Cloud TPU docs, but int4 and the fp8 of v6e: JAX's
# tpu_info.py.
PUBLISHED_PEAKS = {
    ("tpu-v1", "int8"): 92,
    ("tpu-v2", "bf16"): 46,
    ("tpu-v3", "bf16"): 123,
    ("tpu-v4i", "bf16"): 138,
    ("tpu-v4i", "int8"): 138,
    ("tpu-v5e", "bf16"): 197,
    ("tpu-v5e", "int8"): 393,
    ("tpu-v5e", "int4"): 788,
    ("tpu-v7", "bf16"): 2307,
    ("tpu-v7", "fp8_e4m3"): 4614,
    ("tpu-v7", "fp8_e5m2"): 4614,
    ("tpu-v4", "bf16"): 275,
    ("tpu-v4", "int8"): 275,
    ("tpu-v5p", "bf16"): 459,
    ("tpu-v5p", "int8"): 918,
    ("tpu-v5p", "fp8_e4m3"): 459,
    ("tpu-v5p", "fp8_e5m2"): 459,
    ("tpu-v5p", "int4"): 1840,
    ("tpu-v6e", "bf16"): 918,
    ("tpu-v6e", "int8"): 1836,
    ("tpu-v6e", "fp8_e4m3"): 920,
    ("tpu-v6e", "fp8_e5m2"): 920,
    ("tpu-v6e", "int4"): 3680,
}

# GiB and GB/s of main memory, from the same pages (v1: 8 GiB at 34 GB/s).
PUBLISHED_MEMORY = {
    "tpu-v1": (8, 34),
    "tpu-v2": (16, 700),
    "tpu-v3": (32, 900),
    "tpu-v4i": (8, 614),
    "tpu-v5e": (16, 819),
    "tpu-v7": (192, 7380),
    "tpu-v4": (32, 1200),
    "tpu-v5p": (95, 2765),
    "tpu-v6e": (32, 1640),
}


def test_names() -> None:
    chips = [load_chip(name) for name in catalogue()]
    assert tuple(chip.name for chip in chips) == catalogue()
    assert tuple(chip.name for chip in chips if chip.kind == "tpu") == NAMES


@pytest.mark.parametrize("name", catalogue())
def test_every_number_has_a_source(name: str) -> None:
    chip = load_chip(name)
    unsourced = [path for path in values_of(chip) if path != "name" and len(chip.sources.get(path, "")) < 10]
    assert not unsourced
    assert set(chip.sources) == set(values_of(chip)) - {"name"}


@pytest.mark.parametrize("name", catalogue())
def test_nothing_is_left_to_a_default(name: str) -> None:
    assert "default" not in load_chip(name).sources.values()


@pytest.mark.parametrize(("name", "dtype"), PUBLISHED_PEAKS)
def test_peak_is_the_published_one(name: str, dtype: str) -> None:
    peak = 2 * load_chip(name).peak_macs_per_s(dtype) / 1e12
    assert peak == pytest.approx(PUBLISHED_PEAKS[name, dtype], rel=0.01)


def test_every_format_of_a_real_chip_is_compared() -> None:
    real = {
        (name, dtype) for name in NAMES if name.startswith("tpu-") for dtype in load_chip(name).array.lanes
    }
    assert real == set(PUBLISHED_PEAKS)


@pytest.mark.parametrize("name", PUBLISHED_MEMORY)
def test_main_memory_is_the_published_one(name: str) -> None:
    gibibytes, gigabytes_per_s = PUBLISHED_MEMORY[name]
    dram = load_chip(name).memory["dram"]
    assert dram.bytes == gibibytes * 2**30
    assert dram.bytes_per_s == pytest.approx(gigabytes_per_s * 1e9, rel=0.01)


def test_tpu_v1_is_weight_stationary() -> None:
    """A public preset of another simulator called it output stationary (ARM-software/SCALE-Sim issue 57)."""
    chip = load_chip("tpu-v1")
    array = chip.array
    assert (array.rows, array.cols, array.dataflow, chip.clock_hz) == (256, 256, "ws", 700_000_000)
    assert chip.native_dtype == "int8"
    assert 2 * chip.peak_macs_per_s("int8") == 65_536 * 2 * 700_000_000  # 91.75 TOPS


def test_tpu_v1_ridge_point() -> None:
    """Jouppi et al., ISCA 2017: a tile of 64 KiB of weights takes about 1350 cycles to fetch."""
    chip = load_chip("tpu-v1")
    assert chip.memory["dram"].transfer_cycles(64 * 1024, chip.clock_hz) == pytest.approx(1350, rel=0.005)


def test_tpu_v4_measured_transfers() -> None:
    """ayaka14732, tpu-v4-latency-numbers: CMEM to VMEM takes 311 + S/2048 cycles on one of two cores."""
    chip = load_chip("tpu-v4")
    cmem = chip.memory["cmem"]
    for size in (4 * 2**10, 2**20):
        cycles = cmem.latency_cycles(chip.clock_hz) + cmem.transfer_cycles(size, chip.clock_hz, sharers=2)
        assert cycles == pytest.approx(311 + size / 2048, abs=1)
    assert chip.memory["vmem"].transfer_cycles(4096, chip.clock_hz) == 1
    assert chip.memory["dram"].latency_cycles(chip.clock_hz) == pytest.approx(484, abs=1)


@pytest.mark.parametrize("name", [name for name in NAMES if name >= "tpu-v2"])
def test_weights_can_enter_the_arrays_as_fast_as_main_memory_delivers(name: str) -> None:
    """Else the array's edge, not the HBM, would bound decoding, against what is measured on TPU v6e.

    TPU v2 has one MXU per core and takes one row of weights per cycle: its edge is the limit.
    """
    chip = load_chip(name)
    arrays = chip.cores * chip.mxus_per_core
    edge = arrays * chip.array.cols * chip.array.weight_rows * 2 * chip.clock_hz  # bf16
    assert (edge > (chip.memory["dram"].bytes_per_s or 0)) is (name != "tpu-v2")


def test_description_has_the_value_and_source_of_each_field_in_words() -> None:
    chip = load_chip("tpu-v4", {"memory.vmem.bytes_per_s": "unlimited", "array.rows": "64"})
    rows = {row.field: row for row in describe(chip)}
    assert list(rows) == [
        path for path in LAYOUTS["tpu"].fields if path in values_of(chip) and path != "name"
    ]
    assert rows["clock_hz"].value == "1.05 GHz"
    assert rows["memory.cmem.bytes"].value == "128 MiB"
    assert rows["memory.dram.bytes_per_s"].value == "1.2 TB/s"
    assert rows["memory.dram.latency_ns"].value == "461 ns"
    assert rows["memory.vmem.bytes_per_s"].value == "unlimited"
    assert (rows["array.rows"].value, rows["array.rows"].source) == ("64", "--set")
    assert "Google Cloud TPU docs" in rows["memory.dram.bytes"].source
