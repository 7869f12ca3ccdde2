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

TINY_MOE: dict[str, Any] = {
    **TINY_GQA,
    "model_type": "qwen3_moe",
    "intermediate_size": 256,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}

TINY_LATENT: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vocab_size": 50,
    "q_lora_rank": 12,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "n_routed_experts": 6,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 20,
    "first_k_dense_replace": 1,
    "topk_method": "noaux_tc",
}

TINY_BERT: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertForMaskedLM"],
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
    "type_vocab_size": 2,
    "vocab_size": 60,
}

TINY_VIT: dict[str, Any] = {
    "model_type": "vit",
    "architectures": ["ViTForImageClassification"],
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 12,
    "patch_size": 4,
    "num_channels": 3,
    "num_labels": 7,
}

TINY_T5: dict[str, Any] = {
    "model_type": "t5",
    "is_encoder_decoder": True,
    "d_model": 24,
    "d_kv": 8,
    "d_ff": 40,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "n_positions": 32,
    "feed_forward_proj": "gated-gelu",
    "vocab_size": 60,
}

TINY_WHISPER: dict[str, Any] = {
    "model_type": "whisper",
    "is_encoder_decoder": True,
    "d_model": 24,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_layers": 3,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 44,
    "num_mel_bins": 5,
    "max_source_positions": 9,
    "max_target_positions": 16,
    "vocab_size": 60,
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

OPT_125M: dict[str, Any] = {  # as published by facebook/opt-125m
    "model_type": "opt",
    "hidden_size": 768,
    "ffn_dim": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 2048,
    "word_embed_proj_dim": 768,
    "activation_function": "relu",
    "do_layer_norm_before": True,
    "vocab_size": 50272,
}

BLOOM_560M: dict[str, Any] = {  # as published by bigscience/bloom-560m, with its old names
    "model_type": "bloom",
    "n_embed": 1024,
    "n_layer": 24,
    "num_attention_heads": 16,
    "seq_length": 2048,
    "vocab_size": 250880,
}

FALCON_7B: dict[str, Any] = {  # as first published by tiiuae/falcon-7b, with its old names
    "model_type": "falcon",
    "hidden_size": 4544,
    "n_layer": 32,
    "n_head": 71,
    "multi_query": True,
    "parallel_attn": True,
    "bias": False,
    "alibi": False,
    "vocab_size": 65024,
}


def write(folder: Path, config: dict[str, Any], **changes: Any) -> Path:
    """Write `config` with `changes` (``...`` removes a key) as ``folder/config.json``; return the file."""
    merged = {key: value for key, value in {**config, **changes}.items() if value is not ...}
    path = folder / "config.json"
    path.write_text(json.dumps(merged), encoding="utf-8")
    return path
