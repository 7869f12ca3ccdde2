"""Users' chip files: layout, ``base``, and what is said about mistakes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given

from systolic.chips import TpuChip, describe, load_chip, read_chip
from systolic.chips.kinds import values_of
from systolic.errors import SystolicError

from .. import strategies

WHOLE = """
schema = 1
name = "mine"
kind = "tpu"
clock_hz = "1.5 GHz"
cores = 2
mxus_per_core = 3
notes = ["a note"]

[array]
rows = 8
cols = 16
dataflow = "os"
convention = "serial"
weight_rows = 2
mac_latency = 4
mac_interval = 3

[array.lanes]
int8 = 2
bfloat16 = 1

[array.acc]
bfloat16 = "fp22"

[memory.dram]
bytes = "16 GiB"
bytes_per_s = "819 GB/s"
latency_ns = "0.4 us"
burst_bytes = 64
sustained_percent = 80

[memory.vmem]
bytes = 1048576
bytes_per_s = "unlimited"

[vector]
lanes = 128
alus = 2

[policy]
activations = "vmem"
overlap = "none"
prefetch = "weights"
fusion = "xla"
block_bytes = "512 KiB"
block_tiles = 4

[source]
"array.rows" = "datasheet"
"""

SMALLEST = """
schema = 1
kind = "tpu"
clock_hz = 1_000_000
array = { rows = 2, cols = 3, lanes.bf16 = 1 }
memory.dram = { bytes = "unlimited", bytes_per_s = "1 GB/s" }
memory.vmem = { bytes = "1 MiB", bytes_per_s = "unlimited" }
"""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str, path: str = "my.toml") -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
    return path


def load(text: str) -> TpuChip:
    return load_chip(write(text))


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(SystolicError) as caught:
        load(text)
    return caught.value.problems


def test_every_field_of_a_file_arrives() -> None:
    chip = load(WHOLE)
    assert values_of(chip) == {
        "name": "mine",
        "clock_hz": 1_500_000_000,
        "cores": 2,
        "mxus_per_core": 3,
        "array.rows": 8,
        "array.cols": 16,
        "array.dataflow": "os",
        "array.convention": "serial",
        "array.weight_rows": 2,
        "array.mac_latency": 4,
        "array.mac_interval": 3,
        "array.lanes.int8": 2,
        "array.lanes.bf16": 1,
        "array.acc.bf16": "fp22",
        "memory.dram.bytes": 16 * 2**30,
        "memory.dram.bytes_per_s": 819 * 10**9,
        "memory.dram.latency_ns": 400,
        "memory.dram.burst_bytes": 64,
        "memory.dram.sustained_percent": 80,
        "memory.vmem.bytes": 2**20,
        "memory.vmem.bytes_per_s": None,
        "memory.vmem.latency_ns": 0,
        "memory.vmem.burst_bytes": 1,
        "memory.vmem.sustained_percent": 100,
        "vector.lanes": 128,
        "vector.alus": 2,
        "policy.activations": "vmem",
        "policy.overlap": "none",
        "policy.prefetch": "weights",
        "policy.fusion": "xla",
        "policy.block_bytes": 2**19,
        "policy.block_tiles": 4,
    }
    assert chip.native_dtype == "int8"  # the first that the file gives
    assert chip.notes == ("a note",)
    assert chip.sources["array.rows"] == "datasheet"


def test_smallest_file_takes_its_name_from_the_file_and_says_what_is_default() -> None:
    chip = load_chip(Path(write(SMALLEST, "chips/tiny.toml")))
    assert chip.name == "tiny"
    sources = {row.field: row.source for row in describe(chip)}
    assert sources["array.dataflow"] == sources["policy.prefetch"] == "default"
    assert sources["array.rows"] == ""


def test_the_same_chip_from_a_table_in_memory() -> None:
    lanes = {"array": {"rows": 2, "cols": 3, "lanes": {"bf16": 1}}}
    level = {"bytes": "unlimited", "bytes_per_s": 10**9}
    raw = {"schema": 1, "kind": "tpu", "clock_hz": 10**6, **lanes, "memory": {"dram": level, "vmem": level}}
    assert read_chip(raw, "x.toml").memory["vmem"].bytes_per_s == 10**9


def test_base_changes_a_few_fields() -> None:
    v4 = load_chip("tpu-v4")
    chip = load('schema = 1\nbase = "tpu-v4"\n[array]\nrows = 64\n[memory.vmem]\nbytes = "8 MiB"')
    changed = {"name": "my", "array.rows": 64, "memory.vmem.bytes": 8 * 2**20}
    assert values_of(chip) == values_of(v4) | changed
    assert chip.sources["array.rows"] == "my.toml"
    assert chip.sources["array.cols"] == v4.sources["array.cols"]


def test_base_may_be_a_file_beside_this_one_and_have_a_base() -> None:
    write('schema = 1\nbase = "tpu-v4"\ncores = 1\nclock_hz = "2 GHz"', "chips/deep/one.toml")
    write('schema = 1\nbase = "deep/one.toml"\ncores = 3', "chips/two.toml")
    chip = load_chip("chips/two.toml")
    assert (chip.name, chip.cores, chip.clock_hz, chip.mxus_per_core) == ("two", 3, 2 * 10**9, 4)


def test_base_that_leads_back_is_refused() -> None:
    write('schema = 1\nbase = "b.toml"', "a.toml")
    write('schema = 1\nbase = "./a.toml"', "b.toml")
    with pytest.raises(SystolicError, match=r"base must not lead .* a\.toml -> b\.toml -> a\.toml"):
        load_chip("a.toml")


def test_all_mistakes_of_a_file_at_once_one_line_each() -> None:
    """Each line names the file, the field, the rule and the value found."""
    found = problems(
        """
        schema = 1
        kind = "tpu"
        clock_hz = 1.05e9
        cores = true
        [array]
        rows = -4
        cols = nan
        coles = 3
        dataflow = "wz"
        [array.lanes]
        bf16 = 0
        [memory.dram]
        bytes = "24 MB/s"
        bytes_per_s = 0
        latency_ns = "-1 ns"
        [memory.vmem]
        bytes = 1
        """
    )
    hint = "write a whole number of"
    assert set(found) == {
        f"my.toml: clock_hz must be a frequency, got 1050000000.0; {hint} Hz or a text such as '1050 MHz'",
        "my.toml: cores must be a whole number > 0, got True",
        "my.toml: array.rows must be > 0, got -4",
        "my.toml: array.cols must be a whole number > 0, got nan",
        "my.toml: array.coles is no field of a TPU; did you mean 'array.cols'?",
        "my.toml: array.dataflow must be one of ws, os, is, got 'wz'",
        "my.toml: array.lanes.bf16 must be > 0, got 0",
        "my.toml: memory.dram.bytes must be a size in B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, got '24 MB/s'; "
        f"{hint} bytes or a text such as '24 MiB'",
        'my.toml: memory.dram.bytes_per_s must be > 0 or "unlimited", got 0',
        "my.toml: memory.dram.latency_ns must not be negative, got '-1 ns'",
        "my.toml: memory.vmem.bytes_per_s must be given",
    }
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("schema = 1\n", "", "schema must be given: write schema = 1"),
        ("schema = 1", "schema = 2", "schema must be 1, got 2"),
        ("schema = 1", "schema = true", "schema must be 1, got True"),
        ('kind = "tpu"', "", "kind must be given: tpu"),
        (
            'kind = "tpu"',
            'kind = "fixed-function"',
            "kind 'fixed-function' is not modelled yet; modelled: tpu",
        ),
        ('kind = "tpu"', 'kind = "etched"', "kind 'etched' is not modelled yet; modelled: tpu"),
        (
            'kind = "tpu"',
            'kind = "npu"',
            "kind must be one of tpu, gpu, cpu, fixed-function, etched, got 'npu'",
        ),
        ("rows = 8", 'rows = "8"', "array.rows must be a whole number > 0, got '8'"),
        ("rows = 8", "rows = 8.0", "array.rows must be a whole number > 0, got 8.0"),
        ("rows = 8", "rows = 1", "array.weight_rows must be <= array.rows (1), got 2"),
        ("rows = 8", "rows = 9223372036854775808", "array.rows must be < 2**63, got a number of 64 bits"),
        (
            "mac_latency = 4",
            "mac_latency = 2",
            "array.mac_interval must be <= array.mac_latency (2), as a MAC that is done",
        ),
        (
            "[policy]",
            "[energy]\nmac_pj = 1\n[policy]",
            "energy is not modelled yet; remove the [energy] table",
        ),
        ("[policy]", "[polcy]\nx = 1\n[policy]", "polcy is no field of a TPU; did you mean 'policy'?"),
        (
            "[policy]",
            "[memory.l2]\nbytes = 1\n[policy]",
            "memory.l2 is no field of a TPU; known: memory.acc, ",
        ),
        ("[policy]", "[memory.acc]\n[policy]", "memory.acc must be a table that holds something, got {}"),
        ("cores = 2", "rows = 2", "rows is no field of a TPU; known: array.rows"),
        (
            "[array.lanes]\nint8 = 2\nbfloat16 = 1",
            "lanes = 3",
            "array.lanes must be a table that holds something, got 3",
        ),
        ('"vmem"', '"cmem"', "policy.activations must name a memory of this chip (dram, vmem), got 'cmem'"),
        ("int8 = 2", "int9 = 2", "array.lanes.int9 is no field of a TPU; did you mean 'array.lanes.int8'?"),
        ("int8 = 2", "bf16 = 2", "array.lanes.bf16 must be given once, got it under two names"),
        (
            "[vector]",
            "[memory.vmen]\nbytes = 1\n[vector]",
            "memory.vmen is no field of a TPU; did you mean 'memory.v",
        ),
        (
            '"array.rows" = "data',
            '"array.row" = "data',
            "source: array.row is no field of a TPU; did you mean 'array",
        ),
        ('= "datasheet"', "= 3", "source of array.rows must be a text, got 3"),
        ('["a note"]', '"a note"', "notes must be a list of texts, got 'a note'"),
        ('name = "mine"', 'name = " "', "name must be a printable text on one line, got ' '"),
    ],
)
def test_one_mistake_is_one_line(before: str, after: str, line: str) -> None:
    assert before in WHOLE
    (found,) = problems(WHOLE.replace(before, after))
    assert found.startswith(f"my.toml: {line}")


@pytest.mark.parametrize("missing", ["clock_hz", "array.rows", "array.cols"])
def test_a_needed_field_that_is_missing_is_named(missing: str) -> None:
    leaf = missing.rpartition(".")[2]
    text = "\n".join(line for line in WHOLE.splitlines() if not line.startswith(f"{leaf} "))
    assert problems(text) == (f"my.toml: {missing} must be given",)


def test_no_lanes_at_all() -> None:
    text = WHOLE.replace("[array.lanes]\nint8 = 2\nbfloat16 = 1\n", "")
    assert problems(text) == (
        "my.toml: array.lanes must give the lanes of at least one number format, got none",
    )


def test_a_mistake_is_told_of_the_file_that_made_it() -> None:
    write('schema = 1\nbase = "tpu-v4"\ncores = 0', "low.toml")
    assert problems('schema = 1\nbase = "low.toml"\nmxus_per_core = 0') == (
        "low.toml: cores must be > 0, got 0",
        "my.toml: mxus_per_core must be > 0, got 0",
    )
    assert load('schema = 1\nbase = "low.toml"\ncores = 1').cores == 1


def test_a_base_that_cannot_be_read_is_the_only_complaint() -> None:
    assert problems('schema = 1\nbase = "gone.toml"\ncores = 1') == (
        "my.toml: base: gone.toml: no such file",
    )
    (found,) = problems('schema = 1\nbase = "tpu-v44"')
    assert found.startswith("my.toml: base: chip 'tpu-v44' is not in the catalogue")
    assert found.endswith("did you mean 'tpu-v4'?")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"a = ", "my.toml: must be valid TOML: Invalid value"),
        (b"a = 1\na = 2", "my.toml: must be valid TOML: Cannot overwrite a value"),
        (b"name = '\xff'", "my.toml: must be UTF-8 text, byte 8 is not"),
        (b"a = " + b"[" * 5000, "my.toml: is nested too deeply to be a chip"),
        (b"a = " + b"9" * 5000, "my.toml: cannot be read: Exceeds the limit"),
    ],
)
def test_files_that_are_no_toml(content: bytes, line: str) -> None:
    Path("my.toml").write_bytes(content)
    with pytest.raises(SystolicError) as caught:
        load_chip("my.toml")
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    ("chip", "line"),
    [
        (
            "tpu-v9",
            "chip 'tpu-v9' is not in the catalogue, nor the path of a .toml file; did you mean 'tpu-v",
        ),
        (
            "m1",
            "chip 'm1' is not in the catalogue, nor the path of a .toml file; known: a100, ",
        ),
        ("gone.toml", "gone.toml: no such file"),
        (Path(), ".: cannot be read: Is a directory"),
        (3, "a chip must be a name, the path of a .toml file or a chip, got 3"),
        ("a\0.toml", "a\0.toml: cannot be read: embedded null byte"),
    ],
)
def test_no_such_chip(chip: object, line: str) -> None:
    with pytest.raises(SystolicError) as caught:
        load_chip(chip)  # type: ignore[arg-type]
    assert str(caught.value).startswith(line)


def test_a_chip_is_returned_as_it_is() -> None:
    chip = load_chip("tpu-v4")
    assert load_chip(chip) is chip
    assert load_chip(chip, {}) is chip


def test_a_chip_can_be_a_key() -> None:
    assert {load_chip("tpu-v4"): 1}[load_chip("tpu-v4")] == 1
    assert load_chip("tpu-v4") != load_chip("tpu-v4", {"array.lanes.bf16": "2"})


def test_the_error_survives_a_process_boundary() -> None:
    with pytest.raises(SystolicError) as caught:
        load("schema = 1")
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


@given(strategies.toml_tables())
def test_any_table_is_a_chip_or_a_plain_error(raw: dict[str, object]) -> None:
    try:
        chip = read_chip(raw, "drawn.toml")
    except SystolicError as error:
        assert all(line.isprintable() for line in error.problems)
    else:
        assert describe(chip)


@given(strategies.toml_tables())
def test_any_table_over_a_base(raw: dict[str, object]) -> None:
    try:
        assert describe(read_chip({**raw, "schema": 1, "base": "tpu-v4"}, "drawn.toml"))
    except SystolicError as error:
        assert error.problems
