"""One reader per kind of configuration file, and which families it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from ..architecture import Model

Reader = Callable[[Mapping[str, Any], str, str], Model]
"""(keys of the file, name of the model, path of the file) -> the model."""

READERS = {
    "gpt2": ("classic", "read_gpt2"),
    "opt": ("classic", "read_opt"),
    "bloom": ("classic", "read_bloom"),
    "falcon": ("classic", "read_falcon"),
    "phi": ("classic", "read_phi"),
    "bert": ("encoders", "read_bert"),
    "vit": ("encoders", "read_vit"),
    "t5": ("pairs", "read_t5"),
    "whisper": ("pairs", "read_whisper"),
    **dict.fromkeys(
        (
            *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2"),
            *("gemma3", "gemma3_text", "phi3", "deepseek_v2", "deepseek_v3"),
        ),
        ("decoders", "read_decoder"),
    ),
}
"""Family (``model_type``) -> module and function that reads it."""

PAIRS = tuple(family for family, (module, _) in READERS.items() if module == "pairs")
"""Families of an encoder and a decoder."""


def reader_of(family: object) -> Reader:
    """The reader of a family; that of generic decoders where it has none of its own."""
    module, function = READERS.get(family if isinstance(family, str) else "", ("decoders", "read_decoder"))
    reader: Reader = getattr(import_module(f".{module}", __package__), function)
    return reader
