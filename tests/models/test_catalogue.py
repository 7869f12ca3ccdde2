"""The shipped configurations are those of the published models."""

from __future__ import annotations

from pathlib import Path

import pytest

from systolic import models
from systolic.models.load import CATALOGUE

from .configs import BLOOM_560M, FALCON_7B, OPT_125M, write

# Totals as published: number of elements in the safetensors files on huggingface.co (tied tables once, no
# buffers). Gemma 2 and 3, Mixtral, Qwen1.5-MoE, Phi-3, T5, ViT and Whisper also stand in the presets of
# KerasHub and torchvision; DeepSeek-V3 is its 61 layers without the module for multi-token prediction.
# BERT: the class that its file names, BertForMaskedLM, as PyTorch counts it.
PUBLISHED_PARAMETERS = {
    "bert-base": 109_514_298,
    "bert-large": 335_174_458,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v3": 671_026_419_200,
    "flan-t5-base": 247_577_856,
    "gemma-2-27b": 27_227_128_320,
    "gemma-2-2b": 2_614_341_888,
    "gemma-3-1b": 999_885_952,
    "gemma-3-270m": 268_098_176,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "llama-2-7b": 6_738_415_616,
    "llama-3-405b": 405_853_388_800,
    "llama-3-70b": 70_553_706_496,
    "llama-3-8b": 8_030_261_248,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "phi-2": 2_779_683_840,
    "phi-3-mini": 3_821_079_552,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "t5-small": 60_506_624,
    "vit-base": 86_567_656,
    "whisper-large-v3": 1_543_490_560,
    "whisper-tiny": 37_760_640,
}
# Context lengths of the model cards.
PUBLISHED_POSITIONS = {
    "bert-base": 512,
    "deepseek-v3": 163840,
    "gemma-2-2b": 8192,
    "gemma-3-270m": 32768,
    "gpt2": 1024,
    "gpt2-xl": 1024,
    "llama-2-7b": 4096,
    "llama-3-405b": 131072,
    "llama-3-70b": 8192,
    "llama-3-8b": 8192,
    "mistral-7b": 32768,
    "mixtral-8x7b": 32768,
    "phi-2": 2048,
    "phi-3-mini": 4096,
    "qwen3-30b-a3b": 40960,
    "qwen3-4b": 40960,
    "qwen3-8b": 40960,
    "t5-small": 512,
    "whisper-tiny": 448,
}
ENCODERS = ("bert-base", "bert-large", "vit-base")


def test_catalogue_names_the_models_with_known_totals() -> None:
    assert set(models.catalogue()) == set(PUBLISHED_PARAMETERS)


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        (name, phase)
        for name in PUBLISHED_PARAMETERS
        for phase in ("prefill", "decode", "train")
        if not (name in ENCODERS and phase == "decode")
    ],
)
def test_parameters_are_the_published_total(name: str, phase: str) -> None:
    """Whatever is run, the shapes of the run and those left idle add up to the same model."""
    workload = models.load_model(name, phase=phase, batch=2)
    assert workload.parameters == PUBLISHED_PARAMETERS[name]


# google-bert/bert-base-uncased as PyTorch counts its classes, and as its safetensors file holds it; ViT as
# google/vit-base-patch16-224-in21k.
@pytest.mark.parametrize(
    ("name", "architecture", "parameters"),
    [
        ("bert-base", "BertModel", 109_482_240),
        ("bert-base", "BertForPreTraining", 110_106_428),
        ("bert-large", "BertModel", 335_141_888),
        ("vit-base", "ViTModel", 86_389_248),
    ],
)
def test_heads_of_encoders_are_those_of_the_class(
    tmp_path: Path, name: str, architecture: str, parameters: int
) -> None:
    text = (CATALOGUE / f"{name}.json").read_text(encoding="utf-8")
    old = "BertForMaskedLM" if "BertForMaskedLM" in text else "ViTForImageClassification"
    (tmp_path / "config.json").write_text(text.replace(old, architecture), encoding="utf-8")
    assert models.load_model(tmp_path).parameters == parameters


@pytest.mark.parametrize(
    ("config", "parameters"),
    [(OPT_125M, 125_239_296), (BLOOM_560M, 559_214_592), (FALCON_7B, 6_921_720_704)],
    ids=["opt-125m", "bloom-560m", "falcon-7b"],
)
def test_older_families(tmp_path: Path, config: dict[str, object], parameters: int) -> None:
    """Published totals; Falcon's with its table of words once, as its class ties it."""
    assert models.load_model(write(tmp_path, config)).parameters == parameters


@pytest.mark.parametrize("name", PUBLISHED_POSITIONS)
def test_positions_bound_the_prompt(name: str) -> None:
    positions = PUBLISHED_POSITIONS[name]
    assert models.load_model(name, seq=positions).seq == positions
    with pytest.raises(ValueError, match=rf"seq must be <= {positions}, the positions of {name}, got"):
        models.load_model(name, seq=positions + 1)


def test_the_source_of_each_configuration_is_stated() -> None:
    readme = (CATALOGUE / "README.md").read_text(encoding="utf-8")
    missing = [name for name in models.catalogue() if f"| `{name}.json` |" not in readme]
    assert not missing
