"""The commands inside this process: what they print, and the lines that refuse wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from systolic.cli import main
from systolic.metrics import METRICS


def status_of(*arguments: str) -> int:
    """Exit status of the command line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("run gpt2 --seq 0", "seq must be > 0, got 0"),
        ("run gpt2 --seq 2000", "seq must be <= 1024, the positions of gpt2, got 2000"),
        ("run gpt2 --seq x", "Invalid value for '--seq'"),
        ("run gpt2 --phase decode --seq 4", "seq applies to prefill, got 4 in decode"),
        ("run gtp2", "model must be a catalogue name, a config.json (or its folder), a topology .csv, or"),
        (
            "run 4,4,4 --tile 4,5",
            "--tile must be three whole numbers > 0 such as 512,768,768 (M,N,K), got '4,5'",
        ),
        ("run 4,4,4 --tile 4,5,x", "--tile must be three whole numbers > 0"),
        ("run 4,4,4 --tile 4,5,0", "--tile must be three whole numbers > 0"),
        ("run 4,4,4 --order mmk", "order must be one of mnk, mkn, nmk, nkm, kmn, knm, got 'mmk'"),
        ("run 4,4,4 --dataflow xs", "dataflow must be one of ws, os, is, got 'xs'"),
        ("run 4,4,4 --mode fast", "mode must be one of tiled, stepped, bound, got 'fast'"),
        ("run 4,4,4 --check maybe", "check must be one of off, auto, sample, full, got 'maybe'"),
        ("run 4,4,4 --precision low", "precision must be one of default, high, highest, got 'low'"),
        ("run 4,4,4 --dtype fp9", "dtype must be a number format, got 'fp9'"),
        ("run 4,4,4 --on nothing", "chip 'nothing' is not in the catalogue"),
        ("run 4,4,4 --on tpu-v4,", "--on must name chips separated by commas, got 'tpu-v4,'"),
        ("run 4,4,4 --set array.rows", "--set must be FIELD=VALUE such as array.rows=64, got 'array.rows'"),
        (
            "run 4,4,4 --set array.rows=8 --set array.rows=9",
            "--set must give each field once, got array.rows twice",
        ),
        ("run 4,4,4 --set array.rows=-4", "--set: array.rows must be > 0, got -4"),
        (
            "run 4,4,4 --json /no/such/folder/x.json",
            "--json: there is no folder '/no/such/folder'; create it first",
        ),
        ("run 4,4,4 --json /", "--json must name a file, got the folder '/'"),
        ("run 4,4,4 --picture x", "No such option: --picture"),
        ("run", "Missing argument 'MODEL'; see systolic run --help"),
        ("rum", "No such command 'rum'. Did you mean 'run'?"),
        ("chips tpu-v5", "chip 'tpu-v5' is not in the catalogue"),
        ("chips --set a=b", "--set needs the CHIP that it changes"),
        ("explain utilisation", "no metric is called 'utilisation'; did you mean 'utilization'?"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(
    line: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(*line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"systolic: {text}")
    assert err.count("\n") == 1


def test_each_mistake_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("run", "4,4,4", "--on", ",", "--set", "rows", "--tile", "1") == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["--on", "--set", "--tile"]


def test_debug_shows_where_it_was_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("run", "4,4,4", "--on", "nothing", "--debug") == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("systolic: chip 'nothing'")


def test_json_to_standard_output_is_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """2R + C + K - 2 = 14 cycles on the serial 4x4 array."""
    assert status_of("run", "4,4,4", "--on", "teaching-4x4", "--json", "-", "--check", "off") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["chips"][0]["totals"]["cycles"] == 14
    assert err == ""


def test_json_file_beside_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.json"
    target.write_text("old")
    assert (
        status_of("run", "4,4,4", "--on", "teaching-4x4,tpu-v4", "--json", str(target), "--check", "off") == 0
    )
    assert [chip["chip"] for chip in json.loads(target.read_text())["chips"]] == ["teaching-4x4", "tpu-v4"]
    assert list(tmp_path.iterdir()) == [target]
    out, err = capsys.readouterr()
    assert "comparison" in out
    assert err == f"systolic: wrote {target}\n"


def test_every_option_reaches_the_simulation(capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "run gpt2 --on tpu-v4 --phase decode --batch 2 --kv-len 32 --dtype int8 --logits last --causal "
        "--dataflow os --order nmk --set array.rows=64 --mode bound --check off --json -"
    )
    assert status_of(*line.split()) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["workload"]["phase"] == "decode"
    assert (data["workload"]["batch"], data["workload"]["kv_len"]) == (2, 32)
    (chip,) = data["chips"]
    assert {row["dtype"] for row in chip["matmuls"]} == {"int8"}
    assert {row["source"] for row in chip["matmuls"]} == {"bound"}
    assert {row["mapping"]["dataflow"] for row in chip["matmuls"]} == {"os"}
    assert {row["mapping"]["order"] for row in chip["matmuls"]} == {"nmk"}
    labels = "\n".join(chip["notes"])
    assert "array.rows = 64" in labels and "dataflow os" in labels and "pinned order nmk" in labels


def test_formats_in_memory_reach_the_simulation(capsys: pytest.CaptureFixture[str]) -> None:
    """W4A16 with an fp8 cache, and fp32 in six passes."""
    line = "run gpt2 --on tpu-v4 --phase decode --kv-len 32 --mode bound --check off --json -"
    assert status_of(*line.split(), "--weight-dtype", "int4", "--kv-dtype", "fp8") == 0
    rows = json.loads(capsys.readouterr().out)["chips"][0]["matmuls"]
    assert {(row["rhs_kind"], row["rhs_dtype"]) for row in rows} == {
        ("weight", "int4"),
        ("weight", "bf16"),  # lm_head is the embedding table
        ("kv_cache", "fp8_e4m3"),
    }
    assert status_of(*line.split(), "--dtype", "fp32", "--precision", "highest") == 0
    rows = json.loads(capsys.readouterr().out)["chips"][0]["matmuls"]
    assert all(row["array_macs"] == 6 * row["macs"] for row in rows)
    assert status_of(*line.split(), "--weight-dtype", "int5") == 2
    assert capsys.readouterr().err == (
        "systolic: weight_dtype must be a number format, got 'int5'; did you mean 'int8'?\n"
    )


def test_pinned_tile_is_the_tile(capsys: pytest.CaptureFixture[str]) -> None:
    line = "run 64,64,64 --on teaching-4x4 --tile 32,16,8 --check off --json -"
    assert status_of(*line.split()) == 0
    (row,) = json.loads(capsys.readouterr().out)["chips"][0]["matmuls"]
    assert row["mapping"]["tile"] == {"m": 32, "n": 16, "k": 8}


def test_chips_lists_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    """TPU v4: 2 cores of four 128x128 arrays at 1050 MHz; 275 TFLOP/s (Google Cloud TPU docs)."""
    assert status_of("chips") == 0
    lines = capsys.readouterr().out.splitlines()
    (v4,) = (line for line in lines if line.startswith("tpu-v4 "))
    assert "128x128 ws" in v4
    assert "1.05 GHz" in v4
    assert "275.3 TFLOP/s bf16" in v4


def test_chips_shows_one_chip_with_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("chips", "tpu-v4", "--set", "array.rows=64") == 0
    out = capsys.readouterr().out
    (rows,) = (line for line in out.splitlines() if line.startswith("array.rows"))
    assert rows.split() == ["array.rows", "64", "--set"]
    assert "Google Cloud TPU docs" in out


def test_explain_defines_every_metric(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("explain") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(METRICS)


def test_explain_one_metric(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("explain", "bytes") == 0
    out = capsys.readouterr().out
    assert out.startswith("bytes [B]\n")
    assert "\n\nfits.bytes [B]\n" in out
    assert status_of("explain", "totals.bytes.dram") == 0
    assert capsys.readouterr().out.startswith("dram [B]\n")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ((), ("--help",)):
        assert status_of(*arguments) == 0
        out = capsys.readouterr().out
        assert all(f"  {name} " in out for name in ("run", "chips", "explain"))
