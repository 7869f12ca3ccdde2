"""GPT-2 and other decoders from before Llama: layer norms, biases, MLPs without a gate, and Phi-2.

Structure from transformers 4.57 (``modeling_<family>.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from ...errors import raise_if_any
from ..architecture import Attention, Head, Layers, Mlp, Model, Stack, Tokens
from ..schema import Activation, Keys, Size, indivisible, validate

_ALL = frozenset(("q", "k", "v", "out"))


class _Gpt2Keys(Keys):
    """``n_inner`` absent means 4 * n_embd, and embeddings are tied (GPT2Config)."""

    n_embd: Size
    n_layer: Size
    n_head: Size
    n_positions: Size
    n_inner: Size | None = None
    activation_function: Activation = "gelu_new"
    tie_word_embeddings: bool = True


class _OptKeys(Keys):
    """OPTConfig; embeddings are tied."""

    hidden_size: Size
    ffn_dim: Size
    num_hidden_layers: Size
    num_attention_heads: Size
    max_position_embeddings: Size
    word_embed_proj_dim: Size | None = None
    activation_function: Activation = "relu"
    do_layer_norm_before: bool = True
    enable_bias: bool = True
    layer_norm_elementwise_affine: bool = True
    tie_word_embeddings: bool = True


class _BloomKeys(Keys):
    """BloomConfig: a toy in its defaults, so every size is demanded; embeddings are tied."""

    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "hidden_size": ("hidden_size", "n_embed"),
        "n_head": ("n_head", "num_attention_heads"),
    }

    hidden_size: Size
    n_layer: Size
    n_head: Size
    seq_length: Size | None = None
    tie_word_embeddings: bool = True


class _FalconKeys(Keys):
    """FalconConfig, old names included; embeddings are tied."""

    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "hidden_size": ("hidden_size", "n_embed"),
        "num_hidden_layers": ("num_hidden_layers", "n_layer"),
        "num_attention_heads": ("num_attention_heads", "n_head"),
        "num_kv_heads": ("num_kv_heads", "n_head_kv"),
    }

    hidden_size: Size
    num_hidden_layers: Size
    num_attention_heads: Size
    num_kv_heads: Size | None = None
    ffn_hidden_size: Size | None = None
    max_position_embeddings: Size | None = None
    activation: Activation = "gelu"
    multi_query: bool = True
    new_decoder_architecture: bool = False
    parallel_attn: bool = True
    num_ln_in_parallel_attn: Size | None = None
    alibi: bool = False
    bias: bool = False
    tie_word_embeddings: bool = True


class _PhiKeys(Keys):
    """PhiConfig; KV heads absent means one for each query head."""

    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Size
    num_attention_heads: Size
    num_key_value_heads: Size | None = None
    max_position_embeddings: Size | None = None
    hidden_act: Activation = "gelu_new"
    partial_rotary_factor: Annotated[float, Field(gt=0, le=1, strict=False)] = 0.5
    qk_layernorm: bool = False
    tie_word_embeddings: bool = False


def read_gpt2(raw: Mapping[str, Any], name: str, path: str) -> Model:
    """GPT-2 (Radford et al. 2019): one fused qkv, learned positions, biases everywhere."""
    k = validate(raw, _Gpt2Keys, path)
    raise_if_any(indivisible(path, "n_head", k.n_head, "n_embd", k.n_embd))
    width = k.n_inner or 4 * k.n_embd
    return _decoder(
        name,
        Tokens(vocab=k.vocab_size, positions=k.n_positions),
        Layers(
            count=k.n_layer,
            attention=_heads(k.n_head, k.n_head, k.n_embd, biases=_ALL, fused=True),
            feed_forward=Mlp(width=width, gated=False, activation=k.activation_function, bias=True),
        ),
        hidden=k.n_embd,
        positions=k.n_positions,
        tied=k.tie_word_embeddings,
    )


def read_opt(raw: Mapping[str, Any], name: str, path: str) -> Model:
    """OPT (arXiv 2205.01068): learned positions behind two unused rows, biases everywhere.

    OPT-350m embeds in a narrower width and norms after each half layer; that is refused.
    """
    k = validate(raw, _OptKeys, path)
    problems = indivisible(path, "num_attention_heads", k.num_attention_heads, "hidden_size", k.hidden_size)
    problems += [
        f"{path}: {key} must be {needed}, got {value}; another is not modelled"
        for key, value, needed in (
            ("word_embed_proj_dim", k.word_embed_proj_dim or k.hidden_size, k.hidden_size),
            ("do_layer_norm_before", k.do_layer_norm_before, True),
            ("enable_bias", k.enable_bias, True),
            ("layer_norm_elementwise_affine", k.layer_norm_elementwise_affine, True),
        )
        if value != needed
    ]
    raise_if_any(problems)
    heads = k.num_attention_heads
    return _decoder(
        name,
        Tokens(vocab=k.vocab_size, positions=k.max_position_embeddings + 2),
        Layers(
            count=k.num_hidden_layers,
            attention=_heads(heads, heads, k.hidden_size, biases=_ALL),
            feed_forward=Mlp(width=k.ffn_dim, gated=False, activation=k.activation_function, bias=True),
        ),
        hidden=k.hidden_size,
        positions=k.max_position_embeddings,
        tied=k.tie_word_embeddings,
    )


def read_bloom(raw: Mapping[str, Any], name: str, path: str) -> Model:
    """BLOOM (arXiv 2211.05100): ALiBi, a norm behind the embedding, biases everywhere."""
    k = validate(raw, _BloomKeys, path)
    raise_if_any(indivisible(path, "n_head", k.n_head, "hidden_size", k.hidden_size))
    return _decoder(
        name,
        Tokens(vocab=k.vocab_size, norm=True),
        Layers(
            count=k.n_layer,
            attention=_heads(k.n_head, k.n_head, k.hidden_size, biases=_ALL, fused=True, score_bias=True),
            feed_forward=Mlp(width=4 * k.hidden_size, gated=False, activation="gelu_new", bias=True),
        ),
        hidden=k.hidden_size,
        positions=k.seq_length,
        tied=k.tie_word_embeddings,
    )


def read_falcon(raw: Mapping[str, Any], name: str, path: str) -> Model:
    """Falcon (arXiv 2311.16867): one or few KV heads, halves in parallel; the 40B norms each half."""
    k = validate(raw, _FalconKeys, path)
    heads = k.num_attention_heads
    kv_heads = k.num_kv_heads or heads
    if k.multi_query and not k.new_decoder_architecture:
        kv_heads = 1
    raise_if_any(
        indivisible(path, "num_attention_heads", heads, "hidden_size", k.hidden_size)
        + indivisible(path, "num_kv_heads", kv_heads, "num_attention_heads", heads)
    )
    norms = k.num_ln_in_parallel_attn or (2 if k.new_decoder_architecture else 1)
    rotary = 0 if k.alibi else k.hidden_size // heads
    biases = _ALL if k.bias else frozenset[str]()
    width = k.ffn_hidden_size or 4 * k.hidden_size
    return _decoder(
        name,
        Tokens(vocab=k.vocab_size),
        Layers(
            count=k.num_hidden_layers,
            attention=_heads(
                heads, kv_heads, k.hidden_size, biases, fused=True, rotary=rotary, score_bias=k.alibi
            ),
            feed_forward=Mlp(width=width, gated=False, activation=k.activation, bias=k.bias),
        ),
        hidden=k.hidden_size,
        positions=k.max_position_embeddings,
        tied=k.tie_word_embeddings,
        # Halves in parallel with a norm each do the same work as one after the other.
        parallel=k.parallel_attn and norms == 1,
    )


def read_phi(raw: Mapping[str, Any], name: str, path: str) -> Model:
    """Phi-1.5 and Phi-2: halves in parallel behind one norm, partly rotated heads, a bias on lm_head."""
    k = validate(raw, _PhiKeys, path)
    heads, kv_heads = k.num_attention_heads, k.num_key_value_heads or k.num_attention_heads
    raise_if_any(
        indivisible(path, "num_attention_heads", heads, "hidden_size", k.hidden_size)
        + indivisible(path, "num_key_value_heads", kv_heads, "num_attention_heads", heads)
    )
    rotary = int(k.hidden_size // heads * k.partial_rotary_factor)
    norm = "layernorm" if k.qk_layernorm else None
    return _decoder(
        name,
        Tokens(vocab=k.vocab_size),
        Layers(
            count=k.num_hidden_layers,
            attention=_heads(heads, kv_heads, k.hidden_size, _ALL, rotary=rotary, head_norm=norm),
            feed_forward=Mlp(width=k.intermediate_size, gated=False, activation=k.hidden_act, bias=True),
        ),
        hidden=k.hidden_size,
        positions=k.max_position_embeddings,
        tied=k.tie_word_embeddings,
        parallel=True,
        head_bias=True,
    )


def _heads(heads: int, kv_heads: int, hidden: int, biases: frozenset[str], **fields: Any) -> Attention:
    """Heads that make up the width of the residual stream."""
    return Attention(heads=heads, kv_heads=kv_heads, head_dim=hidden // heads, biases=biases, **fields)


def _decoder(
    name: str,
    embedding: Tokens,
    layers: Layers,
    *,
    hidden: int,
    positions: int | None,
    tied: bool,
    parallel: bool = False,
    head_bias: bool = False,
) -> Model:
    return Model(
        name=name,
        hidden=hidden,
        positions=positions,
        decoder=Stack(
            embedding=embedding,
            layers=(layers,),
            norm="layernorm",
            arrangement="parallel" if parallel else "pre",
        ),
        heads=(Head(name="lm_head", inputs=hidden, outputs=embedding.vocab, tied=tied, bias=head_bias),),
    )
