"""Hugging Face ``config.json`` -> :class:`TransformerConfig`, the shape of a dense decoder.

A reader of our own: it needs no network and no other package, refuses what it does not model by
name, and fills no size from some checkpoint's default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import SystolicError, raise_if_any

if TYPE_CHECKING:
    from .schema import LlamaKeys

FAMILIES = ("gpt2", "llama", "mistral", "qwen2", "qwen3")

_NOT_MODELLED = {
    "num_local_experts": "a mixture of experts",
    "num_experts": "a mixture of experts",
    "n_routed_experts": "a mixture of experts",
    "q_lora_rank": "latent attention",
    "kv_lora_rank": "latent attention",
    "num_kv_shared_layers": "layers that share a KV cache",
    "is_encoder_decoder": "an encoder",
    "add_cross_attention": "cross attention",
    "text_config": "a model of several parts",
}
"""Keys that change the matmuls in a way no reader here knows, unless they are 0, false or null."""


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """A dense decoder-only transformer, by its shapes.

    Attributes
    ----------
    name, source
        What reports call it; the file it was read from.
    hidden, layers, vocab
        Width of the residual stream, layers, rows of the embedding table.
    heads, kv_heads, head_dim
        Query heads, key-value heads (a divisor of them), width of one head. heads * head_dim need
        not equal hidden.
    intermediate, gated, activation
        Width of the MLP; whether it has a third matrix (gate); its activation function.
    positions
        Longest sequence; None where nobody says.
    learned_positions
        Whether positions are a table that is added to the embedding; else they rotate q and k.
    norm, qk_norm
        Norm of each half layer and of the end; whether each head of q and k is normed, too (RMS).
    fused_qkv
        Whether q, k and v are one matmul.
    tied
        Whether lm_head shares the embedding table.
    qkv_bias, out_bias, mlp_bias
        Which linear layers add a bias.
    window, window_layers
        Keys that a query sees at most, itself included, and in how many layers.
    notes
        What the reader of results has to know.
    """

    name: str
    hidden: int
    layers: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    gated: bool
    activation: str
    positions: int | None
    learned_positions: bool = False
    norm: Literal["layernorm", "rmsnorm"] = "rmsnorm"
    qk_norm: bool = False
    fused_qkv: bool = False
    tied: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    window: int | None = None
    window_layers: int = 0
    notes: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        assert self.heads % self.kv_heads == 0, "the reader has checked that kv_heads divides heads"
        assert self.positions or not self.learned_positions, "a table of positions has a size"

    @property
    def group(self) -> int:
        """Query heads that share one key-value head."""
        return self.heads // self.kv_heads


def read_config(path: Path, *, name: str, source: str) -> TransformerConfig:
    """Read a ``config.json``.

    Parameters
    ----------
    path
        The file.
    name, source
        See :class:`TransformerConfig`.

    Raises
    ------
    SystolicError
        If the file cannot be read, is no JSON object, lacks a key that sets a shape, holds a wrong
        value, or describes a model that is not modelled; all mistakes at once, one line each.
    """
    raw = _read_json(path)
    raise_if_any(
        [
            f"{path}: {key} says that this is {what}, which is not modelled, got {raw[key]!r:.60}; "
            "give a dense decoder-only model"
            for key, what in _NOT_MODELLED.items()
            if raw.get(key)
        ]
    )
    read = _gpt2 if raw.get("model_type") == "gpt2" else _llama
    config = replace(read(raw, name, str(path)), source=source)
    if raw.get("quantization_config"):
        note = "quantization_config is passed over: all operands have one number format (dtype)"
        config = replace(config, notes=(*config.notes, note))
    return config


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


def _gpt2(raw: Mapping[str, Any], name: str, path: str) -> TransformerConfig:
    """GPT-2 (Radford et al. 2019; transformers, modeling_gpt2): one fused qkv, biases everywhere."""
    from . import schema

    keys = schema.validate(raw, schema.Gpt2Keys, path)
    raise_if_any(_indivisible(path, "n_head", keys.n_head, "n_embd", keys.n_embd))
    return TransformerConfig(
        name=name,
        hidden=keys.n_embd,
        layers=keys.n_layer,
        vocab=keys.vocab_size,
        heads=keys.n_head,
        kv_heads=keys.n_head,
        head_dim=keys.n_embd // keys.n_head,
        intermediate=keys.n_inner or 4 * keys.n_embd,
        gated=False,
        activation=keys.activation_function,
        positions=keys.n_positions,
        learned_positions=True,
        norm="layernorm",
        fused_qkv=True,
        tied=keys.tie_word_embeddings,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
    )


def _llama(raw: Mapping[str, Any], name: str, path: str) -> TransformerConfig:
    """Llama, Mistral, Qwen2, Qwen3, and unknown families that state every key and a gated MLP.

    Structure from transformers (modeling_llama, _mistral, _qwen2, _qwen3): Qwen2 adds a bias to q, k
    and v without a key for it; only Llama and Qwen3 have ``attention_bias`` (q, k, v and out), only
    Llama ``mlp_bias``; Qwen3 norms each head of q and k. Unknown families are built like Llama.
    """
    from . import schema

    family = raw.get("model_type")
    schemas: dict[object, type[LlamaKeys]] = {
        "llama": schema.LlamaKeys,
        "mistral": schema.MistralKeys,
        "qwen2": schema.Qwen2Keys,
        "qwen3": schema.Qwen3Keys,
    }
    known = isinstance(family, str) and family in schemas
    problems = [] if known else _family_problems(raw, path)
    keys = schema.validate(raw, schemas[family] if known else schema.GenericKeys, path, problems)
    heads, hidden = keys.num_attention_heads, keys.hidden_size
    kv_heads = keys.num_key_value_heads or heads
    problems = _indivisible(path, "num_key_value_heads", kv_heads, "num_attention_heads", heads)
    if keys.head_dim is None:
        problems += _indivisible(
            path, "num_attention_heads", heads, "hidden_size", hidden, "; or give head_dim"
        )
    raise_if_any(problems)
    attention_bias = keys.attention_bias and (family in ("llama", "qwen3") or not known)
    window_layers = _window_layers(keys, family, path)
    return TransformerConfig(
        name=name,
        hidden=hidden,
        layers=keys.num_hidden_layers,
        vocab=keys.vocab_size,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=keys.head_dim or hidden // heads,
        intermediate=keys.intermediate_size,
        gated=True,
        activation=keys.hidden_act,
        positions=keys.max_position_embeddings,
        qk_norm=family == "qwen3",
        tied=keys.tie_word_embeddings,
        qkv_bias=attention_bias or family == "qwen2",
        out_bias=attention_bias,
        mlp_bias=keys.mlp_bias and (family == "llama" or not known),
        window=keys.sliding_window if window_layers else None,
        window_layers=window_layers,
        notes=() if known else (_generic_note(family),),
    )


def _family_problems(raw: Mapping[str, Any], path: str) -> list[str]:
    """Why an unknown family cannot be read; a SiLU is what tells a gated MLP without a key for it."""
    activation = raw.get("hidden_act")
    if activation in ("silu", "swish"):
        return []
    return [
        f"{path}: model_type must be one of {', '.join(FAMILIES)}, got {raw.get('model_type')!r:.60}; "
        f"another is read as a Llama-style decoder only where hidden_act is silu, got {activation!r:.60}"
    ]


def _generic_note(family: object) -> str:
    return (
        f"model_type {family!r:.60} has no reader of its own: simulated from its generic keys as a "
        "Llama-style decoder (RMS norms, gated MLP, rotary positions)"
    )


def _window_layers(keys: LlamaKeys, family: object, path: str) -> int:
    """How many layers have the sliding window.

    Mistral: all of them; Qwen: those from ``max_window_layers`` on, or those that ``layer_types``
    names; Llama: none.
    """
    if keys.sliding_window is None or not keys.use_sliding_window or family == "llama":
        return 0
    layers, types = keys.num_hidden_layers, keys.layer_types
    if types is None:
        return max(0, layers - keys.max_window_layers)
    if len(types) != layers:
        raise SystolicError(
            f"{path}: layer_types must name num_hidden_layers ({layers}) layers, got {len(types)}"
        )
    return types.count("sliding_attention")


def _indivisible(path: str, key: str, value: int, whole_key: str, whole: int, remedy: str = "") -> list[str]:
    return [f"{path}: {key} must divide {whole_key} ({whole}), got {value}{remedy}"] if whole % value else []
