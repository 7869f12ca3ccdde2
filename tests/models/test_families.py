"""What families fix without a key: biases, norms, widths, windows, shared caches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from systolic.models import load_model
from systolic.models.architecture import Layers, Mlp
from systolic.models.config import read_config
from systolic.workload import VectorOp

from .configs import TINY_GPT2, TINY_GQA, write


def kinds(path: Path) -> tuple[Layers, ...]:
    decoder = read_config(path, name="tiny", source="").decoder
    assert decoder is not None
    return decoder.layers


def biases(path: Path) -> set[str]:
    ops = load_model(path, seq=4).ops
    return {op.fused_into for op in ops if isinstance(op, VectorOp) and op.name.endswith(".bias")}


def test_biases_of_each_family(tmp_path: Path) -> None:
    """Where transformers 4.51 has a bias: modeling_gpt2, _llama, _qwen2, _qwen3."""
    attention = {"attn.q", "attn.k", "attn.v"}
    mlp = {"mlp.gate", "mlp.up", "mlp.down"}
    assert biases(write(tmp_path, TINY_GPT2)) == {"attn.qkv", "attn.out", "mlp.up", "mlp.down"}
    assert biases(write(tmp_path, TINY_GQA)) == set()
    assert biases(write(tmp_path, TINY_GQA, attention_bias=True)) == attention | {"attn.out"}
    assert biases(write(tmp_path, TINY_GQA, mlp_bias=True)) == mlp
    assert biases(write(tmp_path, TINY_GQA, model_type="qwen2")) == attention
    assert biases(write(tmp_path, TINY_GQA, model_type="qwen3", attention_bias=True)) == attention | {
        "attn.out"
    }


def test_qwen3_norms_each_head_of_q_and_k(tmp_path: Path) -> None:
    plain = load_model(write(tmp_path, TINY_GQA)).parameters
    assert load_model(write(tmp_path, TINY_GQA, model_type="qwen3")).parameters == plain + 2 * (16 + 16)


def test_gpt2_widths(tmp_path: Path) -> None:
    """n_inner null means 4 x n_embd (transformers, GPT2Config)."""
    for changes, width in (({}, 4 * 24), ({"n_inner": None}, 4 * 24), ({"n_inner": 40}, 40)):
        (kind,) = kinds(write(tmp_path, TINY_GPT2, **changes))
        assert isinstance(kind.feed_forward, Mlp)
        assert kind.feed_forward.width == width


SLIDING = ["sliding_attention", "full_attention"]


@pytest.mark.parametrize(
    ("changes", "layers"),
    [
        ({"model_type": "mistral"}, 2),
        ({"model_type": "llama"}, 0),
        ({"model_type": "phi3"}, 2),
        ({"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 1}, 2),
        ({"model_type": "qwen2"}, 0),
        ({"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 1}, 1),
        ({"model_type": "qwen3", "use_sliding_window": True, "layer_types": SLIDING}, 1),
        ({"model_type": "gemma"}, 0),
        ({"model_type": "gemma2", "num_hidden_layers": 5}, 3),
        ({"model_type": "gemma3_text", "num_hidden_layers": 13}, 11),
        ({"model_type": "gemma3_text", "num_hidden_layers": 13, "sliding_window_pattern": 3}, 9),
        ({"model_type": "gemma3_text", "layer_types": SLIDING}, 1),
    ],
    ids=str,
)
def test_layers_with_a_sliding_window(tmp_path: Path, changes: dict[str, Any], layers: int) -> None:
    """transformers 4.57, configuration_<family>.py: which layers of each family slide."""
    found = kinds(write(tmp_path, TINY_GQA, sliding_window=8, **changes))
    windows = {kind.attention.window: kind.count for kind in found}  # type: ignore[union-attr]
    assert windows.get(8, 0) == layers
    assert sum(kind.count for kind in found) == changes.get("num_hidden_layers", 2)


def test_shared_kv_layers(tmp_path: Path) -> None:
    """unsloth PR 5225: 15 of 35 layers read the cache of earlier ones; 4,480 B per token charges all."""
    path = write(tmp_path, TINY_GQA, num_hidden_layers=35, num_kv_shared_layers=15)
    workload = load_model(path, phase="decode", kv_len=1, dtype="bf16")
    assert workload.kv_cache_bytes == 2_560
    layers = {op.name: op.layers for op in workload.ops}
    assert (layers["attn.q"], layers["attn.k"], layers["attn.v"]) == (35, 20, 20)
    assert (layers["attn.cache"], layers["attn.qk"], layers["attn.rope"]) == (20, 35, 20)
    assert layers["attn.rope.shared"] == 15
    assert any(note.startswith("15 of 35 layers read the keys and values") for note in workload.notes)
