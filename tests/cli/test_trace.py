"""``systolic trace``: files by suffix, their size first, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.test_commands import status_of


def test_gzipped_json_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "run.json.gz"
    line = f"trace gpt2 --seq 16 --on tpu-v6e --dataflow os --set array.rows=128 -o {target}"
    assert status_of(*line.split()) == 0
    first = target.read_bytes()
    trace = json.loads(gzip.decompress(first))
    assert trace["otherData"] == {"workload": "gpt2", "chip": "tpu-v6e", "clock_hz": 1_750_000_000}
    out, err = capsys.readouterr()
    assert out == ""
    size, wrote = err.splitlines()
    assert (
        size.startswith(f"systolic: {target}: at most ")
        and "--detail op writes one slice for each op" in size
    )
    assert wrote == f"systolic: wrote {target}"
    said = int(size.split("at most ")[1].split(" ")[0].replace(",", ""))
    assert len(trace["traceEvents"]) <= said + 16  # and a few that name the tracks
    assert status_of(*line.split()) == 0
    assert target.read_bytes() == first  # same input, same bytes
    assert list(tmp_path.iterdir()) == [target]


def test_plain_json_with_one_slice_for_each_op(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    assert status_of(*f"trace 64,64,64 --detail op -o {target}".split()) == 0
    events = json.loads(target.read_text())["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"] == ["matmul"]


def test_waveform(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "wave.vcd"
    assert status_of(*f"trace 4,4,4 --dataflow is --dtype int8 --seed 4 -o {target}".split()) == 0
    assert "$var wire 32" in target.read_text()
    assert "at most " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("4,4,4 -o x.txt", "--output must end in one of .json, .json.gz, .vcd, got 'x.txt'"),
        ("4,4,4 -o x.json --detail all", "--detail must be one of slice, op, got 'all'"),
        ("4,4,4 -o x.json --matmul a", "--matmul applies to a .vcd, and a .json holds all ops; drop it"),
        ("4,4,4 -o x.vcd --seed -1", "--seed must be >= 0, got -1"),
        ("4,4,4 -o x.json --on l4", "l4 (kind gpu) has no timeline of units yet; take a TPU"),
        ("4,4,4 -o x.json --dataflow xs", "dataflow must be one of ws, os, is, got 'xs'"),
        ("4,4,4 -o /no/such/x.json", "--output: there is no folder '/no/such'; create it first"),
        (
            "4,4,4 -o x.vcd --on tpu-v4",
            "a .vcd must hold every register of every cycle, got 128 x 128 PEs for ",
        ),
    ],
)
def test_wrong_input_is_one_line_and_writes_nothing(
    line: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status_of("trace", *line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"systolic: {text}")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())
