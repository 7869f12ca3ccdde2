"""The shipped configurations are those of the published models."""

from __future__ import annotations

import pytest

from systolic import models
from systolic.models.load import CATALOGUE

# Totals as published: number of elements in the safetensors files on huggingface.co, tied tables once.
PUBLISHED_PARAMETERS = {
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3-405b": 405_853_388_800,
    "mistral-7b": 7_241_732_096,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
}
# Context lengths of the model cards.
PUBLISHED_POSITIONS = {
    "gpt2": 1024,
    "gpt2-xl": 1024,
    "llama-2-7b": 4096,
    "llama-3-8b": 8192,
    "llama-3-70b": 8192,
    "llama-3-405b": 131072,
    "mistral-7b": 32768,
    "qwen3-4b": 40960,
    "qwen3-8b": 40960,
}


def test_catalogue_names_the_models_with_known_totals() -> None:
    assert set(models.catalogue()) == set(PUBLISHED_PARAMETERS)


@pytest.mark.parametrize("name", PUBLISHED_PARAMETERS)
@pytest.mark.parametrize("request_", [{"seq": 7, "batch": 2}, {"phase": "decode", "logits": "last"}], ids=str)
def test_parameters_are_the_published_total(name: str, request_: dict[str, object]) -> None:
    """Whatever is run, the shapes of the run add up to the same model."""
    assert models.load_model(name, **request_).parameters == PUBLISHED_PARAMETERS[name]  # type: ignore[arg-type]


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
