"""T5 and Whisper: an encoder, and a decoder that attends its result.

Structure from transformers 4.57 (``modeling_t5.py``, ``modeling_whisper.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ...errors import raise_if_any
from ..architecture import Attention, Frames, Head, Layers, Mlp, Model, Stack, Tokens
from ..schema import Activation, Keys, Size, indivisible, validate


class _T5Keys(Keys):
    """T5Config: as many decoder layers as encoder layers unless stated; embeddings tied unless denied."""

    d_model: Size
    d_kv: Size
    d_ff: Size
    num_layers: Size
    num_decoder_layers: Size | None = None
    num_heads: Size
    relative_attention_num_buckets: Size
    n_positions: Size | None = None
    feed_forward_proj: Literal["relu", "gelu", "gated-gelu", "gated-relu", "gated-silu"] = "relu"
    tie_word_embeddings: bool = True


class _WhisperKeys(Keys):
    """WhisperConfig; the table of the decoder's tokens is that of the output."""

    d_model: Size
    encoder_layers: Size
    encoder_attention_heads: Size
    encoder_ffn_dim: Size
    decoder_layers: Size
    decoder_attention_heads: Size
    decoder_ffn_dim: Size
    num_mel_bins: Size
    max_source_positions: Size
    max_target_positions: Size
    activation_function: Activation = "gelu"
    scale_embedding: bool = False
    tie_word_embeddings: bool = True


def read_t5(raw: Mapping[str, Any], name: str, path: str) -> Model:
    """T5 (arXiv 1910.10683): RMS norms, no biases, terms for the distance on the scores of each stack."""
    k = validate(raw, _T5Keys, path)
    activation = k.feed_forward_proj.removeprefix("gated-")
    # T5Config turns gated-gelu into the tanh form.
    mlp = Mlp(
        width=k.d_ff,
        gated=activation != k.feed_forward_proj,
        activation="gelu_new" if activation == "gelu" else activation,
    )
    plain = Attention(heads=k.num_heads, kv_heads=k.num_heads, head_dim=k.d_kv)
    own = Attention(heads=k.num_heads, kv_heads=k.num_heads, head_dim=k.d_kv, score_bias=True)

    def stack(count: int, decoder: bool) -> Stack:
        cross = plain if decoder else None
        layers = Layers(count=count, attention=own, feed_forward=mlp, cross=cross)
        return Stack(
            embedding=Tokens(vocab=k.vocab_size, shared=not decoder),
            layers=(layers,),
            norm="rmsnorm",
            causal=decoder,
            distance_buckets=k.relative_attention_num_buckets,
            scaled=decoder and k.tie_word_embeddings,
        )

    return Model(
        name=name,
        hidden=k.d_model,
        positions=k.n_positions,
        encoder=stack(k.num_layers, decoder=False),
        decoder=stack(k.num_decoder_layers or k.num_layers, decoder=True),
        heads=(Head(name="lm_head", inputs=k.d_model, outputs=k.vocab_size, tied=k.tie_word_embeddings),),
    )


def read_whisper(raw: Mapping[str, Any], name: str, path: str) -> Model:
    """Whisper (arXiv 2212.04356): two convolutions over the spectrogram, keys without a bias."""
    k = validate(raw, _WhisperKeys, path)
    raise_if_any(
        [
            line
            for key in ("encoder_attention_heads", "decoder_attention_heads")
            for line in indivisible(path, key, getattr(k, key), "d_model", k.d_model)
        ]
    )

    def stack(side: str, embedding: Tokens | Frames) -> Stack:
        heads = getattr(k, f"{side}_attention_heads")
        biases = frozenset(("q", "v", "out"))
        attention = Attention(heads=heads, kv_heads=heads, head_dim=k.d_model // heads, biases=biases)
        mlp = Mlp(
            width=getattr(k, f"{side}_ffn_dim"),
            gated=False,
            activation=k.activation_function,
            bias=True,
        )
        layers = Layers(
            count=getattr(k, f"{side}_layers"),
            attention=attention,
            feed_forward=mlp,
            cross=attention if side == "decoder" else None,
        )
        return Stack(embedding=embedding, layers=(layers,), norm="layernorm", causal=side == "decoder")

    tokens = Tokens(vocab=k.vocab_size, positions=k.max_target_positions, scaled=k.scale_embedding)
    return Model(
        name=name,
        hidden=k.d_model,
        positions=k.max_target_positions,
        encoder=stack("encoder", Frames(tokens=k.max_source_positions, bins=k.num_mel_bins)),
        decoder=stack("decoder", tokens),
        heads=(Head(name="lm_head", inputs=k.d_model, outputs=k.vocab_size, tied=k.tie_word_embeddings),),
    )
