"""Models on the command line: training, encoders, topologies, and what does not apply to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from systolic.cli import main

from ..models.configs import TINY_BERT, TINY_GQA, write


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON report of ``systolic run``."""
    with pytest.raises(SystemExit) as ended:
        main(["run", *arguments, "--on", "tpu-v4", "--check", "off", "--json", "-"])
    assert ended.value.code == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def test_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write(tmp_path, TINY_GQA))
    forward = run(capsys, path, "--seq", "10", "--batch", "3")
    train = run(capsys, path, "--seq", "10", "--batch", "3", "--phase", "train")
    assert train["workload"]["phase"] == "train"
    assert train["workload"]["kv_len"] is None
    totals, before = (report["chips"][0]["totals"] for report in (train, forward))
    assert totals["macs"] == 3 * before["macs"]
    assert totals["useful_macs"] == 3 * before["useful_macs"] < totals["macs"]
    assert train["chips"][0]["not_covered"] == [{"op": "the optimizer's step", "share": None}]


def test_dense_and_causal_attention_stand_in_one_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By hand, TINY-GQA, batch 3, 10 tokens: 153,600 MACs dense, 84,480 inside the mask."""
    path = str(write(tmp_path, TINY_GQA))
    options = ("--seq", "10", "--batch", "3")
    for choice, useful in (((), 84_480), (("--causal",), 84_480), (("--no-causal",), 153_600)):
        matmuls = run(capsys, path, *options, *choice)["chips"][0]["matmuls"]
        scores = [row for row in matmuls if row["name"] in ("attn.qk", "attn.pv")]
        assert sum(row["macs"] for row in scores) == 153_600
        assert sum(row["useful_macs"] for row in scores) == useful


def test_topology(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.csv"
    path.write_bytes(b"\xef\xbb\xbfLayer, M, N, K\r\nL0, 4, 5, 6\r\nL1,7,8,9,\r\n\r\n")
    matmuls = run(capsys, str(path))["chips"][0]["matmuls"]
    assert [(row["name"], row["m"], row["n"], row["k"]) for row in matmuls] == [
        ("L0", 4, 5, 6),
        ("L1", 7, 8, 9),
    ]
    assert matmuls[1]["origin"] == f"{path}:3"


def test_an_encoder_has_no_decode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", str(write(tmp_path, TINY_BERT)), "--phase", "decode"])
    assert ended.value.code == 2
    assert "systolic: phase must be prefill or train, got 'decode'" in capsys.readouterr().err
