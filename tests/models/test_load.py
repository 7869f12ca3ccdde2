"""What `load_model` takes, its defaults, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from systolic.errors import SystolicError
from systolic.models import load_model
from systolic.workload import Gemm

from .configs import TINY_GPT2, TINY_GQA, write


def test_a_single_matmul() -> None:
    (gemm,) = load_model("512, 768,256").ops
    assert gemm == Gemm(m=512, n=768, k=256, name="matmul", origin="M,N,K")
    (gemm,) = load_model("3x4,5,6", dtype="int8").ops
    assert isinstance(gemm, Gemm)
    assert (gemm.batch, gemm.m, gemm.n, gemm.k, gemm.dtype, gemm.acc_dtype) == (3, 4, 5, 6, "int8", "int32")


@pytest.mark.parametrize(
    "text", ["512,768", "1,2,3,4", "0,2,3", "-1,2,3", "1.5,2,3", "a,b,c", ",", f"1,1,{10**400}"]
)
def test_a_single_matmul_misspelt(text: str) -> None:
    with pytest.raises(SystolicError, match="M,N,K must be three whole numbers > 0 such as 512,768,768, got"):
        load_model(text)


def test_a_single_matmul_takes_nothing_of_a_model() -> None:
    with pytest.raises(SystolicError) as caught:
        load_model("1,2", phase="decode", kv_len=9, batch=2, logits="last", causal=True)
    assert [line.split()[0] for line in caught.value.problems] == [
        "phase",
        "batch",
        "kv_len",
        "logits",
        "causal",
        "M,N,K",
    ]


def test_names_files_and_folders(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    path = write(folder, TINY_GQA)
    other = tmp_path / "my-model.json"
    other.write_bytes(path.read_bytes())
    assert load_model("GPT2").name == "gpt2"
    assert load_model(str(path)).name == load_model(folder).name == "tiny"
    assert load_model(folder) == load_model(path)
    assert load_model(other).name == "my-model"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("gtp2", r"model must be a catalogue name, .*, got 'gtp2'; did you mean 'gpt2'\?"),
        ("no/such/config.json", r"model must be .*, got 'no/such/config.json'; known: bert-base, "),
        ("x" * 5000, r"model must be a catalogue name"),
        ("", r"model must be|holds no config.json"),
    ],
    ids=["misspelt", "no-file", "long", "empty"],
)
def test_unknown_models(model: str, words: str) -> None:
    with pytest.raises(SystolicError, match=words) as caught:
        load_model(model)
    assert len(caught.value.problems) == 1


def test_a_folder_without_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(SystolicError, match=r"the folder holds no config\.json"):
        load_model(tmp_path)


def test_prefill_defaults(tmp_path: Path) -> None:
    assert load_model("llama-3-8b").seq == 1024
    short = load_model(write(tmp_path, TINY_GPT2))
    assert (short.phase, short.batch, short.seq, short.kv_len, short.dtype) == ("prefill", 1, 32, 32, None)


def test_decode_defaults_say_so(tmp_path: Path) -> None:
    workload = load_model("llama-3-8b", phase="decode")
    assert (workload.seq, workload.kv_len) == (1, 1024)
    assert "kv_len was not given: the new token attends 1024 keys" in workload.notes
    assert load_model(write(tmp_path, TINY_GPT2), phase="decode").kv_len == 32
    assert not any("kv_len" in note for note in load_model("gpt2", phase="decode", kv_len=9).notes)


def test_unstated_positions_are_noted(tmp_path: Path) -> None:
    workload = load_model(write(tmp_path, TINY_GQA), seq=5000)
    assert workload.seq == 5000
    assert any("states no number of positions" in note for note in workload.notes)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"phase": "both"}, ["phase must be prefill, decode or train, got 'both'"]),
        (
            {"phase": "train", "kv_len": 5},
            ["kv_len applies to decode, got 5 in train; give seq, or use decode"],
        ),
        (
            {"phase": "train", "logits": "last"},
            ["logits must be all in train, got 'last': each position has a loss"],
        ),
        ({"kv_len": 5}, ["kv_len applies to decode, got 5 in prefill; give seq, or use decode"]),
        (
            {"phase": "decode", "seq": 5},
            ["seq applies to prefill, got 5 in decode (one new token); give kv_len"],
        ),
        (
            {"batch": 0, "seq": 1.5, "logits": "first"},
            [
                "batch must be > 0, got 0",
                "seq must be a whole number > 0, got 1.5",
                "logits must be all or last, got 'first'",
            ],
        ),
        (
            {"phase": "decode", "kv_len": 1025},
            [
                "kv_len must be <= 1024, the positions of gpt2, got 1025; give a smaller kv_len "
                "or a model with more positions"
            ],
        ),
        ({"dtype": "bf61"}, ["dtype must be a number format, got 'bf61'; did you mean 'bf16'?"]),
    ],
    ids=str,
)
def test_what_does_not_apply_is_refused(arguments: dict[str, Any], lines: list[str]) -> None:
    with pytest.raises(SystolicError) as caught:
        load_model("gpt2", **arguments)
    assert list(caught.value.problems) == lines


@pytest.mark.parametrize(
    ("name", "arguments", "lines"),
    [
        (
            "bert-base",
            {"phase": "decode"},
            [
                "phase must be prefill or train, got 'decode': bert-base is an encoder, which has no next "
                "token"
            ],
        ),
        (
            "bert-base",
            {"causal": True, "logits": "last"},
            [
                "causal applies to a decoder, and bert-base is an encoder: each token attends all others; "
                "drop it",
                "logits must be all, got 'last': bert-base is an encoder, whose heads say what they read",
            ],
        ),
        ("vit-base", {"seq": 64}, ["seq must be 197, the tokens of an image of vit-base, got 64"]),
        (
            "whisper-tiny",
            {"seq": 449},
            [
                "seq must be <= 448, the positions of whisper-tiny, got 449; give a smaller seq or a model "
                "with more positions"
            ],
        ),
    ],
    ids=str,
)
def test_what_does_not_apply_to_an_encoder_is_refused(
    name: str, arguments: dict[str, Any], lines: list[str]
) -> None:
    with pytest.raises(SystolicError) as caught:
        load_model(name, **arguments)
    assert list(caught.value.problems) == lines


@pytest.mark.parametrize(
    ("name", "arguments", "seq", "kv_len", "source"),
    [
        ("bert-base", {}, 512, 0, None),
        ("vit-base", {}, 197, 0, None),
        ("vit-base", {"seq": 197, "phase": "train"}, 197, 0, None),
        ("t5-small", {}, 512, 512, "the encoder processes 512 tokens and the decoder 512"),
        ("t5-small", {"seq": 7}, 7, 7, "the encoder processes 7 tokens and the decoder 7"),
        ("whisper-tiny", {}, 448, 448, "the encoder processes 1500 tokens and the decoder 448"),
        ("whisper-tiny", {"phase": "decode", "kv_len": 9}, 1, 9, "attends 1500 encoder tokens"),
    ],
    ids=str,
)
def test_lengths_of_encoders_and_pairs(
    name: str, arguments: dict[str, Any], seq: int, kv_len: int, source: str | None
) -> None:
    workload = load_model(name, **arguments)
    assert (workload.seq, workload.kv_len) == (seq, kv_len)
    assert source is None or any(source in note for note in workload.notes)


def test_a_topology_takes_a_batch_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "net.csv"
    path.write_text("Layer,M,N,K\nL0,4,5,6\n", encoding="utf-8")
    (gemm,) = load_model(path, batch=3, dtype="int8").gemms
    assert (gemm.name, gemm.m, gemm.n, gemm.k, gemm.dtype) == ("L0", 12, 5, 6, "int8")
    with pytest.raises(SystolicError) as caught:
        load_model(path, phase="decode", kv_len=9, causal=True)
    assert [line.split()[0] for line in caught.value.problems] == ["phase", "kv_len", "causal"]


def test_dtype_is_applied_to_every_op() -> None:
    workload = load_model("gpt2", dtype="float32")
    assert workload.dtype == "fp32"
    assert {op.dtype for op in workload.ops} == {"fp32"}
    assert workload.weight_bytes == 4 * 124_439_808


def test_numpy_integers_do_not_wrap() -> None:
    """As int32, the MACs of this prompt would wrap (numba/numba 5365 is the same fault)."""
    assert load_model("llama-3-8b", seq=np.int32(8192), batch=np.int32(4)) == load_model(  # type: ignore[arg-type]
        "llama-3-8b", seq=8192, batch=4
    )
