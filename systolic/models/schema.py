"""Keys of Hugging Face ``config.json`` files, checked; the one place of `models` that imports pydantic."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import SystolicError, raise_if_any

K = TypeVar("K", bound="Keys")
Size = Annotated[int, Field(gt=0)]
Activation = Literal["gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu", "swish"]
LayerType = Literal["full_attention", "sliding_attention"]

_RULES = {
    "int_type": "a whole number > 0",
    "greater_than": "a whole number > 0",
    "bool_type": "true or false",
    "list_type": "a list",
    "string_type": "a text",
}


class Keys(BaseModel):
    """A ``config.json``: what sets shapes is read, the rest (dropout, token ids …) is passed over.

    A default stands only where it is no size, or where the family's published class derives the size
    from other keys. Sizes that such a class would fill from one checkpoint are demanded.
    """

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    vocab_size: Size


class Gpt2Keys(Keys):
    """GPT-2. ``n_inner`` absent means 4 * n_embd, and embeddings are tied (transformers, GPT2Config)."""

    n_embd: Size
    n_layer: Size
    n_head: Size
    n_positions: Size
    n_inner: Size | None = None
    activation_function: Activation = "gelu_new"
    tie_word_embeddings: bool = True


class LlamaKeys(Keys):
    """Llama and its relatives.

    ``num_key_value_heads`` absent means one for each query head, ``head_dim`` absent means
    hidden_size / num_attention_heads, embeddings are not tied (transformers, LlamaConfig).
    """

    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Size
    num_attention_heads: Size
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    max_position_embeddings: Size | None = None
    hidden_act: Activation = "silu"
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: Size | None = None
    use_sliding_window: bool = True
    max_window_layers: Annotated[int, Field(ge=0)] = 0
    layer_types: list[LayerType] | None = None


class MistralKeys(LlamaKeys):
    """Mistral: MistralConfig would fill 8 KV heads, those of the 7B model, so they are demanded."""

    num_key_value_heads: Size


class Qwen2Keys(MistralKeys):
    """Qwen2: KV heads demanded likewise; the window is off unless ``use_sliding_window``."""

    use_sliding_window: bool = False


class Qwen3Keys(Qwen2Keys):
    """Qwen3: Qwen3Config would fill a head_dim of 128, so it is demanded."""

    head_dim: Size


class GenericKeys(MistralKeys):
    """A family without a reader of its own: nothing that changes a count is taken for granted."""

    hidden_act: Activation
    tie_word_embeddings: bool


def validate(raw: Mapping[str, Any], schema: type[K], path: str, problems: Sequence[str] = ()) -> K:
    """Check `raw` (null means absent) against `schema`.

    Raises
    ------
    SystolicError
        With `problems` and one line for each mistake, misspelt optional keys included.
    """
    found = list(problems)
    for key, info in schema.model_fields.items():
        if key in raw or info.is_required():
            continue
        if close := _unknown_like(key, raw, schema, cutoff=0.9):
            found.append(f"{path}: {close!r} is no known key; did you mean {key!r}?")
    try:
        keys = schema.model_validate({key: value for key, value in raw.items() if value is not None})
    except ValidationError as error:
        found += [_line(dict(item), raw, schema, path) for item in error.errors()]
        raise SystolicError(*dict.fromkeys(found)) from None
    raise_if_any(found)
    return keys


def _line(error: dict[str, Any], raw: Mapping[str, Any], schema: type[Keys], path: str) -> str:
    key = str(error["loc"][0])
    if error["type"] == "missing":
        close = _unknown_like(key, raw, schema, cutoff=0.75)
        hint = f"; did you mean it by {close!r}?" if close else "; it sets a shape and has no safe default"
        return f"{path}: {key} is missing{hint}"
    rule = _RULES.get(error["type"])
    if error["type"] == "greater_than_equal":
        rule = "a whole number >= 0"
    elif error["type"] == "literal_error":
        rule = f"one of {error['ctx']['expected']}"
    return f"{path}: {key} must be {rule or error['msg']}, got {error['input']!r:.60}"


def _unknown_like(key: str, raw: Mapping[str, Any], schema: type[Keys], cutoff: float) -> str | None:
    unknown = [word for word in raw if word not in schema.model_fields]
    return next(iter(difflib.get_close_matches(key, unknown, n=1, cutoff=cutoff)), None)
