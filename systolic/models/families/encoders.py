"""BERT and ViT: encoders, and the heads that a file's ``architectures`` names.

Structure from transformers 4.57 (``modeling_bert.py``, ``modeling_vit.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ...errors import raise_if_any
from ..architecture import Attention, Head, Layers, Mlp, Model, Patches, Stack, Tokens
from ..schema import Activation, Keys, Size, indivisible, validate


class _EncoderKeys(Keys):
    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Size
    num_attention_heads: Size
    hidden_act: Activation = "gelu"
    architectures: list[str] | None = None
    id2label: dict[str, str] | None = None
    num_labels: Size | None = None

    @property
    def labels(self) -> int | None:
        """Classes that the file names or counts."""
        return self.num_labels or (len(self.id2label) if self.id2label else None)


class _BertKeys(_EncoderKeys):
    """BertConfig; ``is_decoder`` would make it causal, relative positions would add tables."""

    type_vocab_size: Size
    max_position_embeddings: Size
    is_decoder: Literal[False] = False
    position_embedding_type: Literal["absolute"] = "absolute"


class _VitKeys(_EncoderKeys):
    """ViTConfig; an image has no vocabulary."""

    vocab_size: Size | None = None  # type: ignore[assignment]
    image_size: Size
    patch_size: Size
    num_channels: Size
    qkv_bias: bool = True


def read_bert(raw: Mapping[str, Any], name: str, path: str) -> Model:
    """BERT (arXiv 1810.04805): norms after each half layer, learned positions and token types."""
    k = validate(raw, _BertKeys, path)
    embedding = Tokens(
        vocab=k.vocab_size, positions=k.max_position_embeddings, types=k.type_vocab_size, norm=True
    )
    stack = _stack(k, embedding, path, arrangement="post", final_norm=False)
    heads, missing = _bert_heads(k)
    return Model(
        name=name,
        hidden=k.hidden_size,
        positions=k.max_position_embeddings,
        encoder=stack,
        heads=heads,
        not_covered=missing,
    )


def _bert_heads(k: _BertKeys) -> tuple[tuple[Head, ...], tuple[str, ...]]:
    """Heads of the class that the file names, and what of it is not modelled."""
    hidden = k.hidden_size
    pooler = _pooler(hidden)
    masked = (
        Head(
            name="mlm",
            inputs=hidden,
            outputs=hidden,
            rows="tokens",
            bias=True,
            activation=k.hidden_act,
            norm="layernorm",
        ),
        Head(name="lm_head", inputs=hidden, outputs=k.vocab_size, rows="tokens", bias=True, tied=True),
    )
    next_sentence = Head(name="nsp", inputs=hidden, outputs=2, rows="sequences", bias=True)
    known = {
        "BertModel": (pooler,),
        "BertForMaskedLM": masked,
        "BertForPreTraining": (pooler, next_sentence, *masked),
        "BertForNextSentencePrediction": (pooler, next_sentence),
    }
    if k.labels:
        known["BertForSequenceClassification"] = (pooler, _classifier(hidden, k.labels))
    return _chosen(k, known, (pooler,))


def read_vit(raw: Mapping[str, Any], name: str, path: str) -> Model:
    """ViT (arXiv 2010.11929): one matmul embeds the patches, a class token goes before them."""
    k = validate(raw, _VitKeys, path)
    raise_if_any(indivisible(path, "patch_size", k.patch_size, "image_size", k.image_size))
    patches = Patches(count=(k.image_size // k.patch_size) ** 2, elements=k.num_channels * k.patch_size**2)
    stack = _stack(k, patches, path, biases=("q", "k", "v", "out") if k.qkv_bias else ("out",))
    known = {"ViTModel": (_pooler(k.hidden_size),)}
    if k.labels:
        known["ViTForImageClassification"] = (_classifier(k.hidden_size, k.labels),)
    heads, missing = _chosen(k, known, ())
    return Model(
        name=name,
        hidden=k.hidden_size,
        positions=patches.tokens,
        encoder=stack,
        heads=heads,
        not_covered=missing,
    )


def _stack(
    k: _EncoderKeys,
    embedding: Tokens | Patches,
    path: str,
    biases: tuple[str, ...] = ("q", "k", "v", "out"),
    **fields: Any,
) -> Stack:
    heads, hidden = k.num_attention_heads, k.hidden_size
    raise_if_any(indivisible(path, "num_attention_heads", heads, "hidden_size", hidden))
    attention = Attention(heads=heads, kv_heads=heads, head_dim=hidden // heads, biases=frozenset(biases))
    mlp = Mlp(width=k.intermediate_size, gated=False, activation=k.hidden_act, bias=True)
    layers = Layers(count=k.num_hidden_layers, attention=attention, feed_forward=mlp)
    return Stack(embedding=embedding, layers=(layers,), norm="layernorm", causal=False, **fields)


def _chosen(
    k: _EncoderKeys, known: Mapping[str, tuple[Head, ...]], default: tuple[Head, ...]
) -> tuple[tuple[Head, ...], tuple[str, ...]]:
    """Heads of the first class that the file names; `default` where it names none."""
    if not k.architectures:
        return default, ()
    name = k.architectures[0]
    return (known[name], ()) if name in known else ((), (f"the head of {name}",))


def _pooler(hidden: int) -> Head:
    return Head(name="pooler", inputs=hidden, outputs=hidden, rows="sequences", bias=True, activation="tanh")


def _classifier(hidden: int, labels: int) -> Head:
    return Head(name="classifier", inputs=hidden, outputs=labels, rows="sequences", bias=True)
