"""Configurations that several tests write to files.

TINY_GQA is a small decoder whose 8 heads of 16 do not make up its width of 64, the trap of readers that
divide. Its numbers below were worked out by hand (see each test).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TINY_GQA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "vocab_size": 100,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
}

TINY_GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "n_embd": 24,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 32,
    "vocab_size": 50,
    "activation_function": "gelu_new",
}

LLAMA_3_2_1B: dict[str, Any] = {  # as published by meta-llama/Llama-3.2-1B
    "model_type": "llama",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": True,
}


def write(folder: Path, config: dict[str, Any], **changes: Any) -> Path:
    """Write `config` with `changes` (``...`` removes a key) as ``folder/config.json``; return the file."""
    merged = {key: value for key, value in {**config, **changes}.items() if value is not ...}
    path = folder / "config.json"
    path.write_text(json.dumps(merged), encoding="utf-8")
    return path
