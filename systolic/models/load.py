"""From what the user names to a :class:`~systolic.workload.Workload`."""

from __future__ import annotations

import operator
import os
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from ..errors import SystolicError, did_you_mean, raise_if_any
from ..quantity import count_problem, whole_number
from ..workload import PHASES, Gemm, Workload
from .architecture import Model
from .config import read_config
from .passes import Pass
from .transformer import forward

CATALOGUE = Path(__file__).with_name("catalogue")
DEFAULT_TOKENS = 1024
"""Prompt length, and keys attended in decode, where the user gives none and the model holds as many."""

# Wider numbers than any memory could hold are typing errors, and Python limits how long a text it reads.
_SHAPE = re.compile(r"(?:(\d{1,18})\s*[xX]\s*)?(\d{1,18})\s*,\s*(\d{1,18})\s*,\s*(\d{1,18})")


def catalogue() -> tuple[str, ...]:
    """Names of the models whose configurations ship with the package, sorted."""
    return tuple(sorted(path.stem for path in CATALOGUE.glob("*.json")))


def load_model(
    model: str | os.PathLike[str],
    *,
    phase: str = "prefill",
    batch: int = 1,
    seq: int | None = None,
    kv_len: int | None = None,
    dtype: str | None = None,
    logits: Literal["all", "last"] = "all",
    causal: bool | None = None,
) -> Workload:
    """Matmuls, vector work and sizes of one pass over a model.

    Parameters
    ----------
    model
        A catalogue name (see :func:`catalogue`; it goes before a file of the same name), a Hugging
        Face ``config.json`` or a folder that holds one, a SCALE-Sim topology ``.csv``, or a single matmul
        ``M,N,K`` (``BxM,N,K``: B products, each with an rhs of its own).
    phase
        ``"prefill"`` (all tokens of the prompt at once), ``"decode"`` (one new token), or ``"train"`` (a
        forward pass, and the two matmuls that each matmul takes on the way back).
    batch
        Sequences at once; images of a topology.
    seq
        Tokens of each prompt; not in decode. Default: 1024, or the model's positions if fewer. T5's
        encoder and decoder both process as many. Whisper's decoder does, and its encoder all of its
        positions; the tokens of a ViT follow from its image.
    kv_len
        Keys that the new token attends, itself included; decode only. Default as for `seq`, and a
        note says so. T5's new token attends as many of the encoder, Whisper's all of them.
    dtype
        Number format of all operands; None leaves it to each chip.
    logits
        Positions that lm_head sees: all of them, or the last one of each sequence.
    causal
        Whether the attention MACs outside the causal mask and the sliding window are counted apart
        (``masked_macs``). They are part of ``macs`` either way: the hardware runs attention dense. None:
        they are, wherever the model has a mask.

    Raises
    ------
    SystolicError
        If the model is unknown or its configuration is wrong or not modelled, or if an argument does
        not apply to the phase, or exceeds the model's positions.
    """
    text = os.fspath(model)
    request = _Request(phase=phase, batch=batch, seq=seq, kv_len=kv_len, logits=logits, causal=causal)
    raise_if_any(request.problems())
    if text.lower().endswith(".csv"):
        workload = _topology(text, request)
    elif "," in text and not _exists(Path(text)):
        workload = _single(text, request)
    else:
        workload = _model(_config(text), request)
    return workload if dtype is None else workload.with_dtype(dtype)


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What to run on a model; see :func:`load_model`."""

    phase: str = "prefill"
    batch: int = 1
    seq: int | None = None
    kv_len: int | None = None
    logits: Literal["all", "last"] = "all"
    causal: bool | None = None

    def problems(self) -> list[str]:
        """One line for each argument that is wrong whatever the model."""
        lines = [
            line
            for name in ("batch", "seq", "kv_len")
            if (value := getattr(self, name)) is not None
            for line in count_problem(name, value)
        ]
        if self.logits not in ("all", "last"):
            lines.append(f"logits must be all or last, got {self.logits!r}")
        if self.phase not in PHASES:
            lines.append(f"phase must be {', '.join(PHASES[:-1])} or {PHASES[-1]}, got {self.phase!r}")
        elif self.phase != "decode" and self.kv_len is not None:
            lines.append(
                f"kv_len applies to decode, got {self.kv_len!r} in {self.phase}; give seq, or use decode"
            )
        elif self.phase == "decode" and self.seq is not None:
            lines.append(f"seq applies to prefill, got {self.seq!r} in decode (one new token); give kv_len")
        elif self.phase == "train" and self.logits == "last":
            lines.append("logits must be all in train, got 'last': each position has a loss")
        return lines

    def given(self) -> list[str]:
        """Names of the arguments that differ from their default."""
        return [f.name for f in fields(self) if getattr(self, f.name) != f.default]


def _topology(text: str, request: _Request) -> Workload:
    """The workload of a topology file, of which `request` sets the batch alone."""
    from .topology import read_topology

    given = [name for name in request.given() if name != "batch"]
    raise_if_any([f"{name} applies to a model, not to the topology {text!r}; drop it" for name in given])
    return read_topology(text).workload(operator.index(request.batch))


def _single(text: str, request: _Request) -> Workload:
    """The workload of ``M,N,K`` or ``BxM,N,K``, to which nothing of `request` applies."""
    problems = [
        f"{name} applies to a model, not to the single matmul {text!r}; drop it" for name in request.given()
    ]
    match = _SHAPE.fullmatch(text.strip())
    if match is None or not all(int(size) for size in match.groups("1")):
        problems.append(f"M,N,K must be three whole numbers > 0 such as 512,768,768, got {text!r}")
    raise_if_any(problems)
    assert match is not None
    batch, m, n, k = (int(size) for size in match.groups("1"))
    gemm = Gemm(batch=batch, m=m, n=n, k=k, name="matmul", origin="M,N,K")
    return Workload(name=text, ops=(gemm,))


def _config(text: str) -> Model:
    """The configuration that a catalogue name, a file or a folder stands for."""
    names, word = catalogue(), text.lower()
    if word in names:
        return read_config(CATALOGUE / f"{word}.json", name=word, source=f"catalogue/{word}.json")
    path = Path(text)
    if not _exists(path):
        raise SystolicError(
            f"model must be a catalogue name, a config.json (or its folder), a topology .csv, or M,N,K, "
            f"got {text!r:.80}"
            f"{did_you_mean(word, names)}"
        )
    if path.is_dir():
        path /= "config.json"
        if not path.is_file():
            raise SystolicError(f"{text}: the folder holds no config.json; give the configuration's file")
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    return read_config(path, name=name, source=str(path))


def _model(model: Model, request: _Request) -> Workload:
    """The pass over a model; its length is seq, or kv_len in decode."""
    raise_if_any(_inapplicable(model, request))
    length, notes = _length(model, request)
    decode = request.phase == "decode"
    run = Pass(
        batch=operator.index(request.batch),
        queries=1 if decode else length,
        keys=length,
        logits=request.logits,
        causal=request.causal is not False and model.decoder is not None,
        cached=request.phase != "train" and model.decoder is not None,
        source=(model.fixed_tokens or length) if model.encoder and model.decoder else 0,
        source_cached=decode,
    )
    return forward(model, run, phase=request.phase, notes=notes)


def _inapplicable(model: Model, request: _Request) -> list[str]:
    """What an encoder has no use for."""
    if model.decoder is not None:
        return []
    why = f"{model.name} is an encoder"
    lines = []
    if request.phase == "decode":
        lines.append(f"phase must be prefill or train, got 'decode': {why}, which has no next token")
    if request.causal:
        lines.append(f"causal applies to a decoder, and {why}: each token attends all others; drop it")
    if request.logits == "last":
        lines.append(f"logits must be all, got 'last': {why}, whose heads say what they read")
    if model.fixed_tokens and request.seq not in (None, model.fixed_tokens):
        lines.append(
            f"seq must be {model.fixed_tokens}, the tokens of an image of {model.name}, got {request.seq}"
        )
    return lines


def _length(model: Model, request: _Request) -> tuple[int, list[str]]:
    """Tokens of a sequence, or keys of the new token; what has to be said about them."""
    field = "kv_len" if request.phase == "decode" else "seq"
    length = whole_number(getattr(request, field))
    notes = []
    if model.positions is None:
        notes.append(f"the configuration states no number of positions: {field} is not checked against it")
    elif length is not None and length > model.positions:
        raise SystolicError(
            f"{field} must be <= {model.positions}, the positions of {model.name}, got {length}; "
            f"give a smaller {field} or a model with more positions"
        )
    if length is None:
        length = min(DEFAULT_TOKENS, model.positions or DEFAULT_TOKENS)
        if model.decoder is None and model.fixed_tokens:
            length = model.fixed_tokens
        if request.phase == "decode":
            notes.append(f"kv_len was not given: the new token attends {length} keys")
    return length, notes


def _exists(path: Path) -> bool:
    """Whether there is such a file or folder; no text, however long or odd, is an error here."""
    try:
        return path.exists()
    except OSError:
        return False
