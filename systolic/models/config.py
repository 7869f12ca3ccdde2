"""Hugging Face ``config.json`` -> :class:`~.architecture.Model`.

A reader of our own: it needs no network and no other package, refuses what it does not model by
name, and fills no size from some checkpoint's default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import SystolicError, raise_if_any
from .architecture import Model
from .families import PAIRS, reader_of

_TEXT_PARTS = ("text_config", "llm_config", "language_config")
_OTHER_PARTS = ("vision_config", "audio_config", "speech_config", "vision_tower_config")
_INHERITED = ("model_type", "tie_word_embeddings", "quantization_config")
"""Keys of the whole that hold for its text part where that does not say otherwise."""

_NOT_MODELLED = {
    "add_cross_attention": "a decoder with cross attention",
    "hidden_size_per_layer_input": "embeddings for each layer",
    "altup_num_inputs": "alternating updates",
    "interleave_moe_layer_step": "experts interleaved with layers of another width",
    "attn_layer_period": "a hybrid of attention and state space layers",
    "linear_num_value_heads": "linear attention",
    "state_size": "a state space model",
    "ssm_state_size": "a state space model",
    "mamba_d_state": "a state space model",
}
"""Keys that change the matmuls in a way no reader here knows, unless they are 0, false or null."""


def read_config(path: Path, *, name: str, source: str) -> Model:
    """Read a ``config.json``.

    Parameters
    ----------
    path
        The file.
    name, source
        See :class:`~.architecture.Model`.

    Raises
    ------
    SystolicError
        If the file cannot be read, is no JSON object, lacks a key that sets a shape, holds a wrong
        value, or describes a model that is not modelled; all mistakes at once, one line each.
    """
    whole = _read_json(path)
    raw = _text_part(whole, path)
    raise_if_any(_not_modelled(raw, path))
    model = reader_of(raw.get("model_type"))(raw, name, str(path))
    left_out = [f"the {part.partition('_')[0]} part ({part})" for part in _OTHER_PARTS if whole.get(part)]
    notes = list(model.notes)
    if raw.get("quantization_config"):
        notes.append("quantization_config is passed over: all operands have one number format (dtype)")
    return replace(model, source=source, notes=tuple(notes), not_covered=(*model.not_covered, *left_out))


def _text_part(whole: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """The keys of the text model, which a model of several parts keeps in a table of their own."""
    for key in _TEXT_PARTS:
        part = whole.get(key)
        if part is None:
            continue
        if not isinstance(part, dict):
            raise SystolicError(f"{path}: {key} must be a table of keys, got {part!r:.60}")
        return {**{k: whole[k] for k in _INHERITED if k in whole}, **part}
    return whole


def _not_modelled(raw: Mapping[str, Any], path: Path) -> list[str]:
    lines = [
        f"{path}: {key} says that this is {what}, which is not modelled, got {raw[key]!r:.60}; "
        "give a model without it"
        for key, what in _NOT_MODELLED.items()
        if raw.get(key)
    ]
    family = raw.get("model_type")
    if raw.get("is_encoder_decoder") and family not in PAIRS:
        lines.append(
            f"{path}: is_encoder_decoder says that this is an encoder and a decoder, which is modelled for "
            f"{' and '.join(PAIRS)}, got model_type {family!r:.60}"
        )
    return lines


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SystolicError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SystolicError(f"{path}: must be JSON in UTF-8, got other bytes") from None
    except json.JSONDecodeError as error:
        raise SystolicError(
            f"{path}: must be JSON, got an error at line {error.lineno} column {error.colno}: {error.msg}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise SystolicError(f"{path}: must be JSON, got {error}") from None
    if not isinstance(raw, dict):
        raise SystolicError(f"{path}: must be a JSON object of keys, got a {type(raw).__name__}")
    return raw
