"""The DRAM parts that ship with the package, against what is printed of them, and users' own files."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from systolic.chips import catalogue, load_chip
from systolic.chips.dram import DramTiming, dram_parts, load_dram_part
from systolic.errors import SystolicError

# GB/s of the whole part as its maker names it: PC3-17000, PC4-25600; 14 Gb/s on 32 pins; 2.0, 2.4, 3.2 and
# 3.6 Gb/s on 1024 pins (HBM2E Flashbolt: 410 GB/s; HBM3 at 6.4 Gb/s: 819 GB/s).
PRINTED = {
    "DDR3": 17.0,
    "DDR4": 25.6,
    "GDDR6": 56,
    "HBM2": 256,
    "HBM2-2400": 307,
    "HBM2E": 410,
    "HBM2E-3600": 460,
    "HBM3": 819,
}
GIBIBYTES = {
    "DDR3": 4,
    "DDR4": 8,
    "GDDR6": 1,
    "HBM2": 8,
    "HBM2-2400": 8,
    "HBM2E": 16,
    "HBM2E-3600": 16,
    "HBM3": 16,
}

# ns from data sheets: JEDEC DDR3-2133 13-13-13 and DDR4-3200AA 22-22-22 (13.75 ns); 14 ns is what simulators
# of HBM2 take (DRAMsim3, Ramulator 2).
ROW_TO_DATA_NS = {"DDR3": 2 * 12.19, "DDR4": 2 * 13.75, "HBM2": 28}


@pytest.mark.parametrize("name", dram_parts())
def test_peak_and_capacity_are_the_printed_ones(name: str) -> None:
    part = load_dram_part(name)
    assert part.channels * part.channel_bytes_per_s / 1e9 == pytest.approx(PRINTED[name], rel=0.01)
    assert part.channels * part.channel_bytes == GIBIBYTES[name] * 2**30


@pytest.mark.parametrize("name", ROW_TO_DATA_NS)
def test_latency_is_that_of_the_data_sheet(name: str) -> None:
    part = load_dram_part(name)
    cycles = part.timing.rcd_read + part.timing.cl
    assert cycles / part.clock_hz * 1e9 == pytest.approx(ROW_TO_DATA_NS[name], rel=0.01)


@pytest.mark.parametrize("name", dram_parts())
def test_every_number_has_a_source(name: str) -> None:
    part = load_dram_part(name)
    numbers = [
        "clock_hz",
        "channels",
        "groups",
        "banks",
        "rows",
        "row_bytes",
        "access_bytes",
        "command_buses",
    ]
    timings = [f"timing.{f.name}" for f in fields(DramTiming)]
    assert set(part.sources) == {*numbers, *timings}
    assert all(len(source) > 10 for source in part.sources.values())


@pytest.mark.parametrize("name", [n for n in catalogue() if load_chip(n).memory["dram"].part])
def test_chips_have_the_channels_that_their_bandwidth_takes(name: str) -> None:
    memory = load_chip(name).memory["dram"]
    assert memory.part and memory.channels and memory.bytes_per_s and memory.bytes
    part = load_dram_part(memory.part)
    assert memory.channels % part.channels == 0
    assert 0.99 < memory.channels * part.channel_bytes_per_s / memory.bytes_per_s < 1.15


def text_of(name: str) -> str:
    """The file of a shipped part."""
    import systolic.chips.dram as module

    return (Path(module.__file__).parent / "dram_parts" / f"{name}.toml").read_text()


def test_a_file_of_ones_own_is_a_part(tmp_path: Path) -> None:
    path = tmp_path / "slow.toml"
    path.write_text(text_of("DDR4").replace("cl = 22", "cl = 44"))
    chip = load_chip("tpu-v1", {"memory.dram.model": "timing", "memory.dram.part": str(path)})
    assert load_dram_part(path).timing.cl == 44
    assert load_dram_part(path).name == "slow"
    assert chip.memory["dram"].part == str(path)


MISTAKES = {
    "channels = 1": ("channels = 0", "channels must be > 0, got 0"),
    "cl = 22\n": ("cl = 2.5\n", "timing.cl must be a whole number > 0, got 2.5"),
    "rows = 65536": ("row = 65536", "row is no field of a DRAM part; did you mean 'rows'?"),
    "rc = 74": ("rc = 60", "timing.rc must be >= ras + rp (74), got 60"),
    "ccd_l = 8": ("ccd_l = 2", "timing.ccd_l must be >= timing.ccd_s (4), got 2"),
    "refi = 12480": ("refi = 600", "timing.refi must be > rfc + 2 rc (708), got 600"),
    'clock_hz = "1600 MHz"': ('clock_hz = "fast"', "clock_hz must be a frequency in Hz"),
    'row_bytes = "8 KiB"': ("row_bytes = 100", "row_bytes must be a multiple of access_bytes (64), got 100"),
    "schema = 1": ("schema = 2", "schema must be 1, got 2"),
    "[timing]": ("[timings]", "timings is no field of a DRAM part"),
}


@pytest.mark.parametrize("right", MISTAKES)
def test_a_mistake_is_named(right: str, tmp_path: Path) -> None:
    wrong, message = MISTAKES[right]
    text = text_of("DDR4")
    assert right in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(right, wrong, 1))
    with pytest.raises(SystolicError) as caught:
        load_dram_part(path)
    assert any(line.startswith(f"{path}: {message}") for line in caught.value.problems)


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text_of("DDR4").replace("cl = 22", "cl = 0").replace("banks = 4", "banks = -1"))
    with pytest.raises(SystolicError) as caught:
        load_dram_part(path)
    assert len(caught.value.problems) == 2


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystolicError, match="'HBM5' is not in the catalogue; did you mean 'HBM"):
        load_dram_part("HBM5")
    with pytest.raises(SystolicError, match="cannot be read: No such file or directory"):
        load_dram_part(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("schema =")
    with pytest.raises(SystolicError, match="must be valid TOML"):
        load_dram_part(tmp_path / "bad.toml")


TIMING = {"memory.dram.model": "timing"}


@pytest.mark.parametrize(
    ("chip", "changes", "message"),
    [
        ("tpu-v2", TIMING, "memory.dram.part must be given for model 'timing'; known: DDR3, DDR4"),
        ("tpu-v2", {**TIMING, "memory.dram.part": "HBM2"}, "memory.dram.channels must be given"),
        ("tpu-v4", {"memory.dram.channels": 0}, "memory.dram.channels must be > 0, got 0"),
        ("tpu-v4", {"memory.dram.model": "magic"}, "memory.dram.model must be one of bandwidth, timing"),
        ("tpu-v4", {"memory.vmem.part": "HBM2"}, "memory.vmem.part is no field of a TPU"),
    ],
)
def test_a_chip_says_what_its_dram_lacks(chip: str, changes: dict[str, object], message: str) -> None:
    with pytest.raises(SystolicError) as caught:
        load_chip(chip, changes)
    assert any(line.startswith(f"--set: {message}") for line in caught.value.problems)
