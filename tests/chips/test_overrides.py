"""Single fields changed with ``--set``: the same fields, the same errors as in files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.chips import catalogue, describe, load_chip
from systolic.chips.kinds import LAYOUTS, values_of
from systolic.errors import SystolicError

from .. import strategies


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("array.rows", "64", 64),
        ("array.rows", " 0x40 ", 64),
        ("clock_hz", "1050 MHz", 1_050_000_000),
        ("clock_hz", '"2 GHz"', 2_000_000_000),
        ("memory.vmem.bytes", "1 MiB", 2**20),
        ("memory.vmem.bytes", "unlimited", None),
        ("memory.dram.bytes_per_s", "1_200 GB/s", 1_200_000_000_000),
        ("memory.dram.latency_ns", "1 us", 1000),
        ("policy.activations", "vmem", "vmem"),
        ("policy.activations", "'vmem'", "vmem"),
        ("array.dataflow", "os", "os"),
        ("array.lanes.int8", "2", 2),
        ("array.lanes.fp16", "1", 1),
        ("name", "mine", "mine"),
        ("cores", 1, 1),
        ("cores", np.int64(1), 1),
    ],
)
def test_one_field_changes_and_the_rest_stays(path: str, text: object, value: object) -> None:
    before = load_chip("tpu-v4")
    after = load_chip("tpu-v4", {path: text})
    assert values_of(after) == values_of(before) | {path: value}
    assert type(values_of(after)[path]) is type(value)
    assert after == load_chip(before, {path: text})
    assert after.sources[path] == "--set"


def test_a_new_level_of_memory_needs_its_sizes() -> None:
    with pytest.raises(SystolicError) as caught:
        load_chip("tpu-v3", {"memory.acc.bytes": "1 MiB"})
    assert caught.value.problems == ("--set: memory.acc.bytes_per_s must be given",)
    chip = load_chip("tpu-v3", {"memory.acc.bytes": "1 MiB", "memory.acc.bytes_per_s": "unlimited"})
    assert chip.memory["acc"].bytes == 2**20


def test_accumulators_take_what_the_array_gives() -> None:
    limited = {
        "memory.acc.bytes": "1 MiB",
        "memory.acc.bytes_per_s": "1 GB/s",
        "memory.acc.latency_ns": "3 ns",
    }
    with pytest.raises(SystolicError) as caught:
        load_chip("tpu-v3", limited)
    assert caught.value.problems == (
        "--set: memory.acc.latency_ns must be 0: inside the fill of the array; got 3",
        "--set: memory.acc.bytes_per_s must be unlimited: the array sets the pace; got 1000000000",
    )


def test_an_alias_names_the_same_lanes() -> None:
    assert load_chip("tpu-v4", {"array.lanes.bfloat16": "2"}).array.lanes == {"bf16": 2, "int8": 1}


def test_the_reader_is_told_of_the_change() -> None:
    chip = load_chip("tpu-v4", {"array.rows": "64", "memory.vmem.bytes": "1 MiB"})
    assert chip.notes == ("changed with --set: array.rows = 64, memory.vmem.bytes = 1 MiB",)


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("array.row", "3", "array.row is no field of a TPU; did you mean 'array.rows'?"),
        ("aray.rows", "3", "aray.rows is no field of a TPU; did you mean 'array.rows'?"),
        ("rows", "3", "rows is no field of a TPU; known: array.rows"),
        ("array.lanes.bf17", "1", "array.lanes.bf17 is no field of a TPU; did you mean 'array.lanes.bf16'?"),
        ("array.lanes.int32", "1", "array.lanes.int32 is no field of a TPU"),
        ("memory.cmem", "3", "memory.cmem must be a table that holds something, got 3"),
        ("array.rows", "-4", "array.rows must be > 0, got -4"),
        ("array.rows", "4.0", "array.rows must be a whole number > 0, got 4.0"),
        ("array.rows", "true", "array.rows must be a whole number > 0, got True"),
        ("array.rows", "nan", "array.rows must be a whole number > 0, got nan"),
        ("array.rows", "", "array.rows must be a whole number > 0, got ''"),
        ("array.rows", "4\nforged = 1", r"array.rows must be a whole number > 0, got '4\nforged = 1'"),
        ("array.rows", "[" * 5000, "array.rows must be a whole number > 0, got '[["),
        ("array.rows", "0x" + "f" * 9000, "array.rows must be < 2**63, got a number of 36000 bits"),
        ("array.dataflow", "0x" + "f" * 9000, "array.dataflow must be one of ws, os, is, got a huge int"),
        ("array.weight_rows", "129", "array.weight_rows must be <= array.rows (128), got 129"),
        (
            "clock_hz",
            "1 Ghz",
            "clock_hz must be a frequency in Hz, kHz, MHz, GHz, got '1 Ghz'; write a whole",
        ),
        ("clock_hz", "1e99 GHz", "clock_hz must be < 2**63"),
        ("memory.vmem.bytes", "1 GB/s", "memory.vmem.bytes must be a size in B, kB, MB, GB, TB, KiB"),
        ("memory.dram.bytes_per_s", "100 Gb/s", "memory.dram.bytes_per_s must be a rate in B/s, kB/s"),
        ("memory.dram.latency_ns", "unlimited", "memory.dram.latency_ns must be a time in ns, us, ms, s"),
        ("policy.activations", "acc", "policy.activations must be one of dram, cmem, vmem, small, got 'acc'"),
        ("array.mac_latency", "0", "array.mac_latency must be > 0, got 0"),
        ("array.mac_interval", "3", "array.mac_interval must be <= array.mac_latency (1), as a MAC that is"),
        ("array.acc.bf16", "int32", "array.acc.bf16 must be one of fp32, tf32, fp22, bf16, got 'int32'"),
        ("array.acc.int8", "fp32", "array.acc.int8 must be one of int32, int16, got 'fp32'"),
        ("array.acc.bf16", "fp23", "array.acc.bf16 must be a number format, got 'fp23'; did you mean"),
        ("array.acc.fp16", "fp32", "array.acc.fp16 must be of a format in array.lanes: bf16, int8"),
        ("memory.vmem.banks", "8", "memory.vmem.bank_bytes must be given where memory.vmem.banks is"),
        (
            "memory.vmem.bank_bytes",
            "8",
            "memory.vmem.bank_bytes must be left out where memory.vmem.banks is not",
        ),
        ("memory.vmem.layout", "diagonal", "memory.vmem.layout must be one of row, column, got 'diagonal'"),
        ("memory.dram.banks", "8", "memory.dram.banks is no field of a TPU; "),
        (
            "memory.vmem.latency_ns",
            "5",
            "memory.vmem.latency_ns must be 0: inside the fill of the array; got 5",
        ),
        ("memory.vmem.burst_bytes", "32", "memory.vmem.burst_bytes must be 1: not charged on chip; got 32"),
        ("energy.mac_pj", "1", "energy is not modelled yet"),
        ("kind", "gpu", "kind is no field of a TPU"),
    ],
)
def test_mistakes(path: str, text: str, line: str) -> None:
    with pytest.raises(SystolicError) as caught:
        load_chip("tpu-v4", {path: text})
    (found,) = caught.value.problems
    assert found.startswith(f"--set: {line}")


def test_all_mistakes_at_once() -> None:
    with pytest.raises(SystolicError) as caught:
        load_chip("tpu-v4", {"array.row": "3", "array.cols": "0", "clock_hz": "fast", "cores": "0"})
    assert len(caught.value.problems) == 4


@given(
    st.dictionaries(
        st.sampled_from(LAYOUTS["tpu"].fields) | st.text(max_size=12),
        st.text(max_size=12) | strategies.scalars(),
    ),
    st.sampled_from(catalogue()),
)
def test_any_override_is_a_chip_or_a_plain_error(overrides: dict[str, object], name: str) -> None:
    try:
        assert describe(load_chip(name, overrides))
    except SystolicError as error:
        assert all(line.isprintable() for line in error.problems)


@given(strategies.chips())
def test_every_field_can_be_set_to_what_it_is(chip: strategies.TpuChip) -> None:
    values = {path: "unlimited" if value is None else value for path, value in values_of(chip).items()}
    assert values_of(load_chip("tpu-v4", values)) | values_of(chip) == values_of(load_chip("tpu-v4", values))
