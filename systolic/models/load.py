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
from ..workload import Gemm, Workload
from .config import TransformerConfig, read_config
from .transformer import Pass, forward

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
    causal: bool = False,
) -> Workload:
    """Matmuls, vector work and sizes of one forward pass of a model.

    Parameters
    ----------
    model
        A catalogue name (see :func:`catalogue`; it goes before a file of the same name), a Hugging
        Face ``config.json`` or a folder that holds one, or a single matmul ``M,N,K`` (``BxM,N,K``: B
        products, each with an rhs of its own).
    phase
        ``"prefill"`` (all tokens of the prompt at once) or ``"decode"`` (one new token).
    batch
        Sequences at once.
    seq
        Tokens of each prompt; prefill only. Default: 1024, or the model's positions if fewer.
    kv_len
        Keys that the new token attends, itself included; decode only. Default as for `seq`, and a
        note says so.
    dtype
        Number format of all operands; None leaves it to each chip.
    logits
        Positions that lm_head sees: all of them, or the last one of each sequence.
    causal
        Count apart (``masked_macs``) the attention MACs outside the causal mask and the sliding
        window. They are part of ``macs`` either way: the hardware runs attention dense.

    Raises
    ------
    SystolicError
        If the model is unknown or its configuration is wrong or not modelled, or if an argument does
        not apply to the phase, or exceeds the model's positions.
    """
    text = os.fspath(model)
    request = _Request(phase=phase, batch=batch, seq=seq, kv_len=kv_len, logits=logits, causal=causal)
    raise_if_any(request.problems())
    if "," in text and not _exists(Path(text)):
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
    causal: bool = False

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
        if self.phase == "train":
            lines.append("phase 'train' is not modelled yet; use prefill or decode")
        elif self.phase not in ("prefill", "decode"):
            lines.append(f"phase must be prefill or decode, got {self.phase!r}")
        elif self.phase == "prefill" and self.kv_len is not None:
            lines.append(f"kv_len applies to decode, got {self.kv_len!r} in prefill; give seq, or use decode")
        elif self.phase == "decode" and self.seq is not None:
            lines.append(f"seq applies to prefill, got {self.seq!r} in decode (one new token); give kv_len")
        return lines


def _single(text: str, request: _Request) -> Workload:
    """The workload of ``M,N,K`` or ``BxM,N,K``, to which nothing of `request` applies."""
    given = [f.name for f in fields(request) if getattr(request, f.name) != f.default]
    problems = [f"{name} applies to a model, not to the single matmul {text!r}; drop it" for name in given]
    match = _SHAPE.fullmatch(text.strip())
    if match is None or not all(int(size) for size in match.groups("1")):
        problems.append(f"M,N,K must be three whole numbers > 0 such as 512,768,768, got {text!r}")
    raise_if_any(problems)
    assert match is not None
    batch, m, n, k = (int(size) for size in match.groups("1"))
    gemm = Gemm(batch=batch, m=m, n=n, k=k, name="matmul", origin="M,N,K")
    return Workload(name=text, ops=(gemm,))


def _config(text: str) -> TransformerConfig:
    """The configuration that a catalogue name, a file or a folder stands for."""
    names, word = catalogue(), text.lower()
    if word in names:
        return read_config(CATALOGUE / f"{word}.json", name=word, source=f"catalogue/{word}.json")
    path = Path(text)
    if not _exists(path):
        raise SystolicError(
            f"model must be a catalogue name, a config.json (or its folder), or M,N,K, got {text!r:.80}"
            f"{did_you_mean(word, names)}"
        )
    if path.is_dir():
        path /= "config.json"
        if not path.is_file():
            raise SystolicError(f"{text}: the folder holds no config.json; give the configuration's file")
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    return read_config(path, name=name, source=str(path))


def _model(config: TransformerConfig, request: _Request) -> Workload:
    """The pass over a model; its length is seq in prefill, kv_len in decode."""
    field = "seq" if request.phase == "prefill" else "kv_len"
    length = whole_number(getattr(request, field))
    notes = []
    if config.positions is None:
        notes.append(f"the configuration states no number of positions: {field} is not checked against it")
    elif length is not None and length > config.positions:
        raise SystolicError(
            f"{field} must be <= {config.positions}, the positions of {config.name}, got {length}; "
            f"give a smaller {field} or a model with more positions"
        )
    if length is None:
        length = min(DEFAULT_TOKENS, config.positions or DEFAULT_TOKENS)
        if request.phase == "decode":
            notes.append(f"kv_len was not given: the new token attends {length} keys")
    run = Pass(
        batch=operator.index(request.batch),
        queries=length if request.phase == "prefill" else 1,
        keys=length,
        logits=request.logits,
        causal=request.causal,
    )
    return forward(config, run, phase=request.phase, notes=tuple(notes))


def _exists(path: Path) -> bool:
    """Whether there is such a file or folder; no text, however long or odd, is an error here."""
    try:
        return path.exists()
    except OSError:
        return False
