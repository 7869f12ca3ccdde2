"""Llama and the decoders built like it, unknown ones among them: one reader, one line of traits per family.

Structure from transformers 4.57 (``modeling_<family>.py``). Qwen2 adds a bias to q, k and v; Qwen3 and
Gemma 3 norm each head of q and k; Gemma 2 and 3 norm around each half layer; Phi-3 stores q, k and v, and
gate and up, as one matrix; DeepSeek attends through latents. Unknown families are built like Llama.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import SystolicError, raise_if_any
from .. import schema
from ..architecture import (
    Attention,
    Head,
    LatentAttention,
    Layers,
    Mlp,
    Model,
    Moe,
    Norm,
    Stack,
    Tokens,
)
from . import READERS, keys


@dataclass(frozen=True)
class _Family:
    """What a family fixes without a key, or reads from a key that others ignore.

    `qkv_bias` biases q, k and v; `attention_bias` and `mlp_bias` honour the keys of that name; `windows`
    says which layers have the sliding window where ``layer_types`` does not.
    """

    keys: type[keys.DecoderKeys]
    qkv_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    windows: str = "all"
    head_norm: Norm | None = None
    fused: bool = False
    sandwich: bool = False
    scaled: bool = False
    shared_router: bool = False


_FAMILIES = {
    "llama": _Family(keys.DecoderKeys, attention_bias=True, mlp_bias=True, windows="none"),
    "mistral": _Family(keys.MistralKeys),
    "mixtral": _Family(keys.MixtralKeys),
    "qwen2": _Family(keys.Qwen2Keys, qkv_bias=True, windows="late"),
    "qwen2_moe": _Family(keys.Qwen2MoeKeys, qkv_bias=True, windows="late", shared_router=True),
    "qwen3": _Family(keys.Qwen3Keys, attention_bias=True, windows="late", head_norm="rmsnorm"),
    "qwen3_moe": _Family(keys.Qwen3MoeKeys, attention_bias=True, windows="late", head_norm="rmsnorm"),
    "gemma": _Family(keys.GemmaKeys, attention_bias=True, windows="none", scaled=True),
    "gemma2": _Family(keys.Gemma2Keys, attention_bias=True, windows="other", sandwich=True, scaled=True),
    "gemma3_text": _Family(
        keys.Gemma3Keys,
        attention_bias=True,
        windows="pattern",
        head_norm="rmsnorm",
        sandwich=True,
        scaled=True,
    ),
    "phi3": _Family(keys.DecoderKeys, fused=True),
    "deepseek_v2": _Family(keys.DeepseekKeys, attention_bias=True, windows="none"),
    "deepseek_v3": _Family(keys.DeepseekKeys, attention_bias=True, windows="none"),
}
_FAMILIES["gemma3"] = _FAMILIES["gemma3_text"]
_GENERIC = _Family(keys.GenericKeys, attention_bias=True, mlp_bias=True)


def read_decoder(raw: Mapping[str, Any], name: str, path: str) -> Model:
    """A decoder-only model from its keys.

    Raises
    ------
    SystolicError
        If keys are missing, wrong, or describe what is not modelled; one line for each.
    """
    family_name = raw.get("model_type")
    known = isinstance(family_name, str) and family_name in _FAMILIES
    family = _FAMILIES[str(family_name)] if known else _GENERIC
    problems = [] if known else _unknown_problems(raw, path)
    if family.keys is keys.DeepseekKeys and "q_lora_rank" not in raw:
        problems.append(f"{path}: q_lora_rank is missing; null says that queries are projected directly")
    k = schema.validate(raw, family.keys, path, problems)
    raise_if_any(_size_problems(k, path))
    layers = _layers(k, family, path)
    return Model(
        name=name,
        hidden=k.hidden_size,
        positions=k.max_position_embeddings,
        decoder=Stack(
            embedding=Tokens(vocab=k.vocab_size, scaled=family.scaled),
            layers=layers,
            norm="rmsnorm",
            arrangement="sandwich" if family.sandwich else "pre",
        ),
        heads=(
            Head(
                name="lm_head",
                inputs=k.hidden_size,
                outputs=k.vocab_size,
                tied=k.tie_word_embeddings,
                softcap=k.final_logit_softcapping is not None,
            ),
        ),
        notes=() if known else (_generic_note(family_name, k),),
        not_covered=("the multi-token prediction module",) if k.num_nextn_predict_layers else (),
    )


def _unknown_problems(raw: Mapping[str, Any], path: str) -> list[str]:
    """Why an unknown family cannot be read; a SiLU is what tells a gated MLP without a key for it."""
    spellings = keys.GenericKeys.aliases["hidden_act"]
    activation = next((raw[key] for key in spellings if raw.get(key) is not None), None)
    if activation in ("silu", "swish"):
        return []
    return [
        f"{path}: model_type must be one of {', '.join(READERS)}, got {raw.get('model_type')!r:.60}; "
        f"another is read as a Llama-style decoder only where hidden_act is silu, got {activation!r:.60}"
    ]


def _generic_note(family: object, k: keys.DecoderKeys) -> str:
    parts = (
        "RMS norms, gated MLP, rotary positions"
        if not k.num_experts
        else ("RMS norms, gated experts, rotary positions")
    )
    return (
        f"model_type {family!r:.60} has no reader of its own: simulated from its generic keys as a "
        f"Llama-style decoder ({parts})"
    )


def _size_problems(k: keys.DecoderKeys, path: str) -> list[str]:
    """Sizes that do not go together."""
    heads, kv_heads = k.num_attention_heads, k.num_key_value_heads or k.num_attention_heads
    problems = schema.indivisible(path, "num_key_value_heads", kv_heads, "num_attention_heads", heads)
    if k.head_dim is None and k.kv_lora_rank is None:
        whole = ("hidden_size", k.hidden_size, "; or give head_dim")
        problems += schema.indivisible(path, "num_attention_heads", heads, *whole)
    if k.layer_types is not None and len(k.layer_types) != k.num_hidden_layers:
        problems.append(
            f"{path}: layer_types must name num_hidden_layers ({k.num_hidden_layers}) layers, "
            f"got {len(k.layer_types)}"
        )
    if k.num_kv_shared_layers >= k.num_hidden_layers:
        problems.append(
            f"{path}: num_kv_shared_layers must be < num_hidden_layers ({k.num_hidden_layers}), "
            f"got {k.num_kv_shared_layers}"
        )
    return problems + _expert_problems(k, path) + _latent_problems(k, path)


def _expert_problems(k: keys.DecoderKeys, path: str) -> list[str]:
    if not k.num_experts:
        return []
    if k.num_experts_per_tok is None:
        return [f"{path}: num_experts_per_tok is missing; it says how many of num_experts a token sees"]
    if k.num_experts_per_tok > k.num_experts:
        return [
            f"{path}: num_experts_per_tok must be <= num_experts ({k.num_experts}), "
            f"got {k.num_experts_per_tok}"
        ]
    return []


def _latent_problems(k: keys.DecoderKeys, path: str) -> list[str]:
    if k.kv_lora_rank is None:
        return []
    missing = [key for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim") if not getattr(k, key)]
    return [f"{path}: {key} is missing; kv_lora_rank says that attention is latent" for key in missing]


def _layers(k: keys.DecoderKeys, family: _Family, path: str) -> tuple[Layers, ...]:
    """Equal layers counted together; those that attend all keys come first."""
    windows = _windows(k, family)
    if any(windows) and k.sliding_window is None:
        raise SystolicError(f"{path}: sliding_window is missing; layer_types names layers that have one")
    first_shared = k.num_hidden_layers - k.num_kv_shared_layers
    kinds: dict[tuple[bool, bool, bool], int] = {}
    for index, window in enumerate(windows):
        kind = (window, index >= first_shared, _has_experts(k, index))
        kinds[kind] = kinds.get(kind, 0) + 1
    return tuple(
        Layers(
            count=count,
            attention=_attention(k, family, window, shared),
            feed_forward=_experts(k, family) if experts else _mlp(k, family, k.intermediate_size),
        )
        for (window, shared, experts), count in sorted(kinds.items(), key=lambda item: item[0][:2])
    )


def _windows(k: keys.DecoderKeys, family: _Family) -> list[bool]:
    """Which layers have the sliding window."""
    layers = range(k.num_hidden_layers)
    if family.windows == "none" or not k.use_sliding_window:
        return [False] * len(layers)
    if k.layer_types is not None:
        return [kind == "sliding_attention" for kind in k.layer_types]
    if k.sliding_window is None:
        return [False] * len(layers)
    if family.windows == "late":
        return [index >= k.max_window_layers for index in layers]
    if family.windows == "other":
        return [index % 2 == 0 for index in layers]
    if family.windows == "pattern":
        return [(index + 1) % k.sliding_window_pattern != 0 for index in layers]
    return [True] * len(layers)


def _has_experts(k: keys.DecoderKeys, index: int) -> bool:
    return (
        k.num_experts > 0
        and index not in k.mlp_only_layers
        and (index + 1) % k.decoder_sparse_step == 0
        and index >= k.first_k_dense_replace
        and index % k.moe_layer_freq == 0
    )


def _attention(
    k: keys.DecoderKeys, family: _Family, window: bool, shared: bool
) -> Attention | LatentAttention:
    biased = k.attention_bias and family.attention_bias
    if k.kv_lora_rank is not None:
        assert k.qk_nope_head_dim and k.qk_rope_head_dim and k.v_head_dim
        return LatentAttention(
            heads=k.num_attention_heads,
            q_rank=k.q_lora_rank,
            kv_rank=k.kv_lora_rank,
            nope_dim=k.qk_nope_head_dim,
            rope_dim=k.qk_rope_head_dim,
            value_dim=k.v_head_dim,
            biases=frozenset(("q_down", "kv_down", "out") if biased else ()),
        )
    head_dim = k.head_dim or k.hidden_size // k.num_attention_heads
    biases = ("q", "k", "v", "out") if biased else ("q", "k", "v") if family.qkv_bias and k.qkv_bias else ()
    return Attention(
        heads=k.num_attention_heads,
        kv_heads=k.num_key_value_heads or k.num_attention_heads,
        head_dim=head_dim,
        rotary=int(head_dim * k.partial_rotary_factor),
        fused=family.fused and not shared,
        biases=frozenset(biases),
        head_norm=family.head_norm,
        window=k.sliding_window if window else None,
        softcap=k.attn_logit_softcapping is not None,
        reuses_cache=shared,
    )


def _mlp(k: keys.DecoderKeys, family: _Family, width: int) -> Mlp:
    return Mlp(
        width=width,
        gated=True,
        activation=k.hidden_act,
        fused=family.fused,
        bias=k.mlp_bias and family.mlp_bias,
    )


def _experts(k: keys.DecoderKeys, family: _Family) -> Moe:
    """Experts; Mixtral and its like have no width of their own for them."""
    assert k.num_experts_per_tok is not None
    width = k.moe_intermediate_size or k.intermediate_size
    shared = k.shared_expert_intermediate_size or k.n_shared_experts * width
    return Moe(
        experts=k.num_experts,
        active=k.num_experts_per_tok,
        expert=_mlp(k, family, width),
        shared=_mlp(k, family, shared) if shared else None,
        shared_router=family.shared_router,
        router_bias=k.topk_method == "noaux_tc",
    )
