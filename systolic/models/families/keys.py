"""The keys of decoders: one class per family, with the defaults that its published class has.

Defaults are those of transformers 4.57 (``configuration_<family>.py``) where they are no sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from ..schema import Activation, Count, Keys, LayerType, Size

_OLD_NAMES = {
    "hidden_size": ("n_embd", "n_embed", "d_model"),
    "intermediate_size": ("ffn_hidden_size", "ffn_dim", "d_ff", "n_inner"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "n_kv_heads"),
    "max_position_embeddings": ("n_positions", "n_ctx", "seq_length", "max_seq_len"),
    "hidden_act": ("hidden_activation", "activation_function"),
    "num_experts": ("num_local_experts", "n_routed_experts"),
}
"""Field -> names that families without a reader of their own have for it."""


class DecoderKeys(Keys):
    """Llama and what came after it.

    ``num_key_value_heads`` absent means one for each query head, ``head_dim`` absent means
    hidden_size / num_attention_heads, embeddings are not tied (transformers, LlamaConfig).
    """

    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "num_experts": ("num_experts", *_OLD_NAMES["num_experts"]),
    }

    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Annotated[int, Field(gt=0, le=10_000)]
    num_attention_heads: Size
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    max_position_embeddings: Size | None = None
    hidden_act: Activation = "silu"
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    qkv_bias: bool = True
    partial_rotary_factor: Annotated[float, Field(gt=0, le=1, strict=False)] = 1.0
    attn_logit_softcapping: float | None = None
    final_logit_softcapping: float | None = None

    sliding_window: Size | None = None
    use_sliding_window: bool = True
    max_window_layers: Count = 0
    sliding_window_pattern: Size = 6
    layer_types: list[LayerType] | None = None
    num_kv_shared_layers: Count = 0

    num_experts: Count = 0
    num_experts_per_tok: Size | None = None
    moe_intermediate_size: Size | None = None
    shared_expert_intermediate_size: Count = 0
    n_shared_experts: Count = 0
    decoder_sparse_step: Size = 1
    mlp_only_layers: list[Count] = Field(default_factory=list)
    first_k_dense_replace: Count = 0
    moe_layer_freq: Size = 1
    topk_method: str = ""
    num_nextn_predict_layers: Count = 0

    q_lora_rank: Size | None = None
    kv_lora_rank: Size | None = None
    qk_nope_head_dim: Size | None = None
    qk_rope_head_dim: Size | None = None
    v_head_dim: Size | None = None


class MistralKeys(DecoderKeys):
    """Mistral: MistralConfig would fill 8 KV heads, those of the 7B model, so they are demanded."""

    num_key_value_heads: Size


class Qwen2Keys(MistralKeys):
    """Qwen2: KV heads demanded likewise; the window is off unless ``use_sliding_window``."""

    use_sliding_window: bool = False


class Qwen3Keys(Qwen2Keys):
    """Qwen3: Qwen3Config would fill a head_dim of 128, so it is demanded."""

    head_dim: Size


class GemmaKeys(MistralKeys):
    """Gemma 1 to 3: heads of a stated width, tied embeddings; the old ``hidden_act`` still occurs."""

    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **DecoderKeys.aliases,
        "hidden_act": ("hidden_activation", "hidden_act"),
    }

    head_dim: Size
    hidden_act: Activation = "gelu_pytorch_tanh"
    tie_word_embeddings: bool = True


class Gemma2Keys(GemmaKeys):
    """Gemma 2 bends scores and logits, and every other layer has a window."""

    sliding_window: Size
    attn_logit_softcapping: float | None = 50.0
    final_logit_softcapping: float | None = 30.0


class Gemma3Keys(GemmaKeys):
    """Gemma 3: one layer in ``sliding_window_pattern`` attends all keys.

    Files of the larger models leave out what Gemma3TextConfig fills.
    """

    fills: ClassVar[Mapping[str, int]] = {
        "vocab_size": 262_208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
    }

    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **GemmaKeys.aliases,
        "sliding_window_pattern": ("_sliding_window_pattern",),
    }

    sliding_window: Size


class MixtralKeys(MistralKeys):
    """Mixtral: ``intermediate_size`` is that of one expert."""

    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {"num_experts": ("num_local_experts",)}

    num_experts: Size
    num_experts_per_tok: Size


class Qwen3MoeKeys(Qwen3Keys):
    """Qwen3 with experts."""

    num_experts: Size
    num_experts_per_tok: Size
    moe_intermediate_size: Size


class Qwen2MoeKeys(Qwen2Keys):
    """Qwen2 with experts, and one that all tokens see."""

    num_experts: Size
    num_experts_per_tok: Size
    moe_intermediate_size: Size
    shared_expert_intermediate_size: Size


class DeepseekKeys(DecoderKeys):
    """DeepSeek V2 and V3: latent attention, and experts from layer ``first_k_dense_replace`` on."""

    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {"num_experts": ("n_routed_experts",)}

    num_experts: Size
    num_experts_per_tok: Size
    moe_intermediate_size: Size
    n_shared_experts: Count
    first_k_dense_replace: Count
    kv_lora_rank: Size
    qk_nope_head_dim: Size
    qk_rope_head_dim: Size
    v_head_dim: Size


class GenericKeys(MistralKeys):
    """A family without a reader of its own: nothing that changes a count is taken for granted."""

    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {
        field: (field, *names) for field, names in _OLD_NAMES.items()
    }

    hidden_act: Activation
    tie_word_embeddings: bool
