"""Reading config.json: what is refused, in which words, and what unknown and nested models are read as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from systolic.errors import SystolicError
from systolic.models import load_model
from systolic.models.architecture import Attention, Layers, Model
from systolic.models.config import read_config
from systolic.workload import PHASES, Gemm

from .configs import (
    TINY_BERT,
    TINY_GPT2,
    TINY_GQA,
    TINY_LATENT,
    TINY_MOE,
    TINY_T5,
    TINY_VIT,
    TINY_WHISPER,
    write,
)


def read(path: Path) -> Model:
    return read_config(path, name="tiny", source=str(path))


def kinds(path: Path) -> tuple[Layers, ...]:
    decoder = read(path).decoder
    assert decoder is not None
    return decoder.layers


def attention(path: Path) -> Attention:
    (kind,) = kinds(path)
    assert isinstance(kind.attention, Attention)
    return kind.attention


def problems(path: Path) -> tuple[str, ...]:
    with pytest.raises(SystolicError) as caught:
        read(path)
    return caught.value.problems


@pytest.mark.parametrize(
    "key",
    ["vocab_size", "num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads"],
)
@pytest.mark.parametrize("absent", [..., None], ids=["absent", "null"])
def test_missing_size_is_refused_by_name(tmp_path: Path, key: str, absent: Any) -> None:
    """ai-dynamo/aiconfigurator PR 1201: a missing vocabulary counted as 0, a missing width as 4 x hidden."""
    path = write(tmp_path, TINY_GQA, **{key: absent})
    assert problems(path) == (f"{path}: {key} is missing; it sets a shape and has no safe default",)


@pytest.mark.parametrize("key", ["n_embd", "n_layer", "n_head", "n_positions", "vocab_size"])
def test_missing_size_of_gpt2_is_refused_by_name(tmp_path: Path, key: str) -> None:
    assert f"{key} is missing" in problems(write(tmp_path, TINY_GPT2, **{key: ...}))[0]


@pytest.mark.parametrize(
    ("model_type", "key"),
    [
        ("mistral", "num_key_value_heads"),
        ("qwen2", "num_key_value_heads"),
        ("qwen3", "num_key_value_heads"),
        ("qwen3", "head_dim"),
        ("gemma", "head_dim"),
        ("gemma2", "sliding_window"),
        ("gemma3_text", "sliding_window"),
        ("mixtral", "num_local_experts"),
        ("mixtral", "num_experts_per_tok"),
        ("qwen2_moe", "shared_expert_intermediate_size"),
        ("qwen3_moe", "moe_intermediate_size"),
        ("deepseek_v3", "kv_lora_rank"),
        ("deepseek_v3", "q_lora_rank"),
        ("deepseek_v2", "n_routed_experts"),
        ("deepseek_v2", "first_k_dense_replace"),
    ],
)
def test_no_size_comes_from_a_checkpoint_of_the_family(tmp_path: Path, model_type: str, key: str) -> None:
    """Their published classes would fill the sizes of one model (8 or 32 KV heads, heads of 128)."""
    path = write(tmp_path, TINY_GQA, model_type=model_type, **{key: ...})
    assert [line for line in problems(path) if f"{key} is missing" in line]


def test_llama_derives_head_dim_and_kv_heads_from_other_keys(tmp_path: Path) -> None:
    derived = attention(write(tmp_path, TINY_GQA, head_dim=..., num_key_value_heads=...))
    assert (derived.head_dim, derived.kv_heads) == (64 // 8, 8)


def test_all_mistakes_at_once_with_suggestions(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        TINY_GQA,
        num_hidden_layers=...,
        num_hiden_layers=2,
        num_key_value_heads=...,
        num_key_value_head=2,
        hidden_size="64",
        vocab_size=-4,
        tie_word_embeddings="yes",
        hidden_act="gelo",
    )
    assert set(problems(path)) == {
        f"{path}: num_hidden_layers is missing; did you mean it by 'num_hiden_layers'?",
        f"{path}: 'num_key_value_head' is no known key; did you mean 'num_key_value_heads'?",
        f"{path}: hidden_size must be a whole number > 0, got '64'",
        f"{path}: vocab_size must be a whole number > 0, got -4",
        f"{path}: tie_word_embeddings must be true or false, got 'yes'",
        f"{path}: hidden_act must be one of 'gelu', 'gelu_new', 'gelu_fast', 'gelu_pytorch_tanh', 'relu', "
        "'silu' or 'swish', got 'gelo'",
    }


@pytest.mark.parametrize("value", [True, 64.0, [64], 0])
def test_wrong_types_are_not_coerced(tmp_path: Path, value: Any) -> None:
    path = write(tmp_path, TINY_GQA, hidden_size=value)
    assert problems(path) == (f"{path}: hidden_size must be a whole number > 0, got {value!r}",)


def test_heads_must_divide(tmp_path: Path) -> None:
    path = write(tmp_path, TINY_GQA, num_key_value_heads=3, hidden_size=100, head_dim=...)
    assert problems(path) == (
        f"{path}: num_key_value_heads must divide num_attention_heads (8), got 3",
        f"{path}: num_attention_heads must divide hidden_size (100), got 8; or give head_dim",
    )
    path = write(tmp_path, TINY_GPT2, n_head=5)
    assert problems(path) == (f"{path}: n_head must divide n_embd (24), got 5",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"hidden_size": 64,', "must be JSON, got an error at line 1 column 20"),
        (b"[1, 2]", "must be a JSON object of keys, got a list"),
        (b'{"model_type": "\xff\xfe"}', "must be JSON in UTF-8, got other bytes"),
        (b"[" * 100_000, "must be JSON, got "),
        (b'{"n": ' + b"9" * 5000 + b"}", "must be JSON, got "),
        (b"", "must be JSON, got an error at line 1 column 1"),
    ],
    ids=["cut", "list", "latin", "deep", "long", "empty"],
)
def test_what_is_no_json_object_is_one_line(tmp_path: Path, text: bytes, words: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(text)
    (line,) = problems(path)
    assert line.startswith(f"{path}: {words}")
    assert "\n" not in line


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("add_cross_attention", True),
        ("hidden_size_per_layer_input", 256),
        ("ssm_state_size", 16),
    ],
)
def test_what_is_not_modelled_is_refused_by_name(tmp_path: Path, key: str, value: object) -> None:
    (line,) = problems(write(tmp_path, TINY_GQA, **{key: value}))
    assert f"config.json: {key} says that this is " in line
    assert "which is not modelled" in line


@pytest.mark.parametrize("family", ["llama", "bart", ...])
def test_pairs_of_other_families_are_refused(tmp_path: Path, family: object) -> None:
    path = write(tmp_path, TINY_GQA, is_encoder_decoder=True, model_type=family)
    (line,) = problems(path)
    assert line.startswith(f"{path}: is_encoder_decoder says that this is an encoder and a decoder, which is")
    assert "t5 and whisper" in line


@pytest.mark.parametrize("model_type", ["brand_new", ...], ids=["unknown", "absent"])
def test_unknown_family_is_read_from_generic_keys_with_a_note(tmp_path: Path, model_type: object) -> None:
    """microsoft/vidur 75: a new family was simply not accepted. 2,680,320 MACs: the table of TINY-GQA."""
    workload = load_model(write(tmp_path, TINY_GQA, model_type=model_type), batch=3, seq=10)
    assert workload.macs == 2_680_320
    assert any("has no reader of its own" in note for note in workload.notes)


def test_unknown_family_with_old_names(tmp_path: Path) -> None:
    """The names that GPT-2, Falcon, T5 and MPT have for the same sizes."""
    old = {
        "hidden_size": "n_embd",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_head",
        "num_key_value_heads": "num_kv_heads",
        "intermediate_size": "ffn_hidden_size",
        "hidden_act": "activation_function",
    }
    plain = load_model(write(tmp_path, TINY_GQA, model_type="brand_new"), batch=3, seq=10)
    changes = dict.fromkeys(old, ...) | {name: TINY_GQA[key] for key, name in old.items()}
    path = write(tmp_path, TINY_GQA, model_type="brand_new", **changes)
    assert load_model(path, batch=3, seq=10) == plain
    path = write(tmp_path, TINY_GQA, model_type="brand_new", n_embd=65)
    assert problems(path) == (f"{path}: hidden_size and n_embd mean the same and must agree, got 64 and 65",)


def test_unknown_family_with_experts_and_latents(tmp_path: Path) -> None:
    """Its generic keys say what it is; what a family would fix is not taken for granted."""
    known = load_model(write(tmp_path, TINY_LATENT), seq=5)
    states = {"tie_word_embeddings": False, "hidden_act": "silu", "num_key_value_heads": 4}
    unknown = load_model(write(tmp_path, TINY_LATENT, model_type="brand_new", **states), seq=5)
    assert unknown.ops == known.ops
    assert any("has no reader of its own" in note and "gated experts" in note for note in unknown.notes)
    path = write(tmp_path, TINY_LATENT, model_type="x", v_head_dim=..., num_experts_per_tok=..., **states)
    keys = [line.split(": ")[1].split()[0] for line in problems(path)]
    assert keys == ["num_experts_per_tok", "v_head_dim"]


def test_unknown_family_must_state_what_families_fix(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        TINY_GQA,
        model_type="roberta",
        hidden_act="gelu",
        num_key_value_heads=...,
        tie_word_embeddings=...,
    )
    lines = problems(path)
    assert lines[0].startswith(f"{path}: model_type must be one of gpt2, ")
    assert lines[0].endswith(
        "got 'roberta'; another is read as a Llama-style decoder only where hidden_act is silu, got 'gelu'"
    )
    assert {line.split(": ")[1].split()[0] for line in lines[1:]} == {
        "num_key_value_heads",
        "tie_word_embeddings",
    }


GEMMA_3_4B: dict[str, Any] = {  # as published by google/gemma-3-4b-pt, which leaves out what its class fills
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
    "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27},
}


def test_sizes_that_a_class_would_fill_are_named_and_not_taken(tmp_path: Path) -> None:
    """Written in, they give the 3,880,263,168 parameters of the text model that its class has."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(GEMMA_3_4B), encoding="utf-8")
    sizes = {"vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256}
    assert set(problems(path)) == {
        f"{path}: {key} is missing; it sets a shape and has no safe default (transformers would fill {size}: "
        "write that if it is meant)"
        for key, size in sizes.items()
    }
    whole = {**GEMMA_3_4B, "text_config": {**GEMMA_3_4B["text_config"], **sizes}}
    path.write_text(json.dumps(whole), encoding="utf-8")
    assert load_model(path).parameters == 3_880_263_168


def test_later_names_of_keys(tmp_path: Path) -> None:
    """transformers 5 moves rotary keys into a table, and calls experts of every family local."""
    phi = {"model_type": "phi", "head_dim": ..., "hidden_act": "gelu_new"}
    stated = load_model(write(tmp_path, TINY_GQA, **phi, partial_rotary_factor=0.25))
    table = {"partial_rotary_factor": 0.25, "rope_theta": 10000.0}
    assert load_model(write(tmp_path, TINY_GQA, **phi, rope_parameters=table)) == stated
    moe = load_model(write(tmp_path, TINY_MOE))
    assert load_model(write(tmp_path, TINY_MOE, num_experts=..., num_local_experts=8)) == moe


def test_experts_are_never_passed_over(tmp_path: Path) -> None:
    """In a family that has none as in any other: they change every count."""
    path = write(tmp_path, TINY_GQA, num_local_experts=8)
    assert problems(path) == (
        f"{path}: num_experts_per_tok is missing; it says how many of num_experts a token sees",
    )


@pytest.mark.parametrize("part", ["text_config", "llm_config", "language_config"])
def test_text_part_of_a_multimodal_model(tmp_path: Path, part: str) -> None:
    """hf-mem 60: the text model stands in a table of its own; 2,680,320 MACs: the table of TINY-GQA."""
    whole = {"model_type": "some_vl", part: TINY_GQA, "vision_config": {"hidden_size": 1024}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(whole), encoding="utf-8")
    workload = load_model(path, batch=3, seq=10)
    assert (workload.macs, workload.parameters, workload.kv_cache_bytes) == (2_680_320, 84_544, 7_680)
    assert [missing.op for missing in workload.not_covered] == ["the vision part (vision_config)"]
    assert workload.notes == load_model(write(tmp_path, TINY_GQA), batch=3, seq=10).notes


def test_text_part_inherits_what_it_does_not_say(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    text = {key: value for key, value in TINY_GQA.items() if key not in ("tie_word_embeddings", "model_type")}
    whole = {"model_type": "llama", "tie_word_embeddings": True, "text_config": text, "hidden_size": 7}
    path.write_text(json.dumps(whole), encoding="utf-8")
    assert load_model(path).parameters == 84_544
    path.write_text(json.dumps({"text_config": [1]}), encoding="utf-8")
    assert problems(path) == (f"{path}: text_config must be a table of keys, got [1]",)


def test_some_layers_keep_a_cache(tmp_path: Path) -> None:
    path = write(tmp_path, TINY_GQA, num_kv_shared_layers=2)
    assert problems(path) == (f"{path}: num_kv_shared_layers must be < num_hidden_layers (2), got 2",)


def test_layer_types(tmp_path: Path) -> None:
    mistral = {"model_type": "mistral", "sliding_window": 8}
    path = write(tmp_path, TINY_GQA, **mistral, layer_types=["linear_attention"] * 2)
    assert problems(path) == (
        f"{path}: layer_types must be one of 'full_attention' or 'sliding_attention', got 'linear_attention'",
    )
    path = write(tmp_path, TINY_GQA, **mistral, layer_types=["full_attention"] * 3)
    assert problems(path) == (f"{path}: layer_types must name num_hidden_layers (2) layers, got 3",)


def test_quantized_weights_are_noted(tmp_path: Path) -> None:
    path = write(tmp_path, TINY_GQA, quantization_config={"quant_method": "gptq", "bits": 4})
    assert any(note.startswith("quantization_config is passed over") for note in load_model(path).notes)


def test_keys_that_set_no_shape_change_nothing(tmp_path: Path) -> None:
    """Published files hold dozens of other keys, and a byte order mark at times."""
    path = write(tmp_path, TINY_GQA)
    plain = load_model(path, seq=5)
    extra = {"bos_token_id": 1, "rope_theta": 1e4, "torch_dtype": "bfloat16", "num_experts": 0}
    path.write_text("\ufeff" + json.dumps({**TINY_GQA, **extra}), encoding="utf-8")
    assert load_model(path, seq=5) == plain


def test_gemms_of_a_config_are_not_those_of_hidden_over_heads(tmp_path: Path) -> None:
    """LMCache 688, entrenar 262: head_dim is stated, 8 x 16 = 128 is not 64."""
    shapes = {
        op.name: (op.n, op.k) for op in load_model(write(tmp_path, TINY_GQA)).ops if isinstance(op, Gemm)
    }
    assert shapes["attn.q"] == (128, 64)
    assert shapes["attn.k"] == shapes["attn.v"] == (32, 64)
    assert shapes["attn.out"] == (64, 128)


def test_more_layers_than_any_model_has_are_refused_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, TINY_GQA, num_hidden_layers=10**18)
    assert problems(path) == (f"{path}: num_hidden_layers must be a number <= 10000, got {10**18}",)


TINY = (TINY_BERT, TINY_GPT2, TINY_GQA, TINY_LATENT, TINY_MOE, TINY_T5, TINY_VIT, TINY_WHISPER)
KEYS = sorted({key for config in TINY for key in config} | {"sliding_window", "layer_types", "text_config"})
NUMBERS = st.integers(-1, 100) | st.integers() | st.floats() | st.just(10**30)
VALUES = NUMBERS | st.none() | st.booleans() | st.text(max_size=4) | st.sampled_from(("silu", "llama", "t5"))


@given(
    st.sampled_from(TINY), st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3), st.sampled_from(PHASES)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_configuration_is_a_model_or_a_plain_error(
    tmp_path: Path, config: dict[str, Any], changes: dict[str, Any], phase: str
) -> None:
    try:
        assert load_model(write(tmp_path, config, **changes), phase=phase).macs > 0
    except SystolicError as error:
        assert error.problems
