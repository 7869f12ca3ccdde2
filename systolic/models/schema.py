"""Checking the keys of Hugging Face ``config.json`` files; pydantic stays behind this module."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import SystolicError, raise_if_any

K = TypeVar("K", bound="Keys")
Size = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
Activation = Literal["gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu", "swish"]
LayerType = Literal["full_attention", "sliding_attention"]

_RULES = {
    "int_type": "a whole number > 0",
    "greater_than": "a whole number > 0",
    "greater_than_equal": "a whole number >= 0",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "string_type": "a text",
}
_PARAMETER_TABLES = ("rope_parameters", "rope_scaling")
"""Tables inside a configuration where releases of transformers put keys that once stood beside them."""


class Keys(BaseModel):
    """A ``config.json``: what sets shapes is read, the rest (dropout, token ids …) is passed over.

    A default stands only where it is no size, or where the family's published class derives the size
    from other keys. Sizes that such a class would fill from one checkpoint are demanded.

    Attributes
    ----------
    aliases
        Field -> names that files have for it, the one that a missing key is called by first. The field
        itself goes before them unless it is among them.
    fills
        Field -> the size that the family's class would fill from one checkpoint, where files in use leave
        it out. It is named to the user, not taken.
    """

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)
    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    fills: ClassVar[Mapping[str, int]] = {}

    vocab_size: Size


def validate(raw: Mapping[str, Any], schema: type[K], path: str, problems: Sequence[str] = ()) -> K:
    """Check `raw` (null means absent) against `schema`.

    Raises
    ------
    SystolicError
        With `problems` and one line for each mistake, misspelt optional keys included.
    """
    found = list(problems)
    present = {key: value for key, value in raw.items() if value is not None}
    spelled = _spellings(present, schema, path, found)
    for key, info in schema.model_fields.items():
        if key in spelled or key in raw or info.is_required():
            continue
        if close := _unknown_like(key, raw, schema, cutoff=0.9):
            found.append(f"{path}: {close!r} is no known key; did you mean {key!r}?")
    try:
        keys = schema.model_validate({key: _value(present, name) for key, name in spelled.items()})
    except ValidationError as error:
        found += [_line(dict(item), raw, schema, path, spelled) for item in error.errors()]
        raise SystolicError(*dict.fromkeys(found)) from None
    raise_if_any(found)
    return keys


def indivisible(path: str, key: str, value: int, whole_key: str, whole: int, remedy: str = "") -> list[str]:
    """A line where `value` does not divide `whole`."""
    return [f"{path}: {key} must divide {whole_key} ({whole}), got {value}{remedy}"] if whole % value else []


def _spellings(raw: Mapping[str, Any], schema: type[Keys], path: str, problems: list[str]) -> dict[str, str]:
    """Field -> the key of `raw` that holds it; sizes under two keys that disagree are a problem."""
    spelled: dict[str, str] = {}
    for field in schema.model_fields:
        aliases = schema.aliases.get(field, ())
        words = aliases if field in aliases else (field, *aliases)
        names = [name for name in words if _value(raw, name) is not None]
        if names:
            spelled[field] = names[0]
        sizes = [_value(raw, name) for name in names]
        if all(isinstance(size, int) for size in sizes) and len(set(sizes)) > 1:
            both = " and ".join(map(str, sizes))
            problems.append(f"{path}: {' and '.join(names)} mean the same and must agree, got {both}")
    return spelled


def _value(raw: Mapping[str, Any], name: str) -> Any:
    """What `raw` says under `name`, or its table of rotary parameters does."""
    if name in raw:
        return raw[name]
    tables = (raw.get(table) for table in _PARAMETER_TABLES)
    return next((table[name] for table in tables if isinstance(table, dict) and name in table), None)


def _line(
    error: dict[str, Any], raw: Mapping[str, Any], schema: type[Keys], path: str, spelled: Mapping[str, str]
) -> str:
    field = str(error["loc"][0])
    key = spelled.get(field, field)
    if error["type"] == "missing":
        key = next(iter(schema.aliases.get(field, ())), field)
        close = _unknown_like(key, raw, schema, cutoff=0.75)
        hint = f"did you mean it by {close!r}?" if close else "it sets a shape and has no safe default"
        if field in schema.fills:
            hint += f" (transformers would fill {schema.fills[field]}: write that if it is meant)"
        return f"{path}: {key} is missing; {hint}"
    rule = _RULES.get(error["type"])
    if error["type"] == "less_than_equal":
        rule = f"a number <= {error['ctx']['le']}"
    elif error["type"] == "literal_error":
        rule = f"one of {error['ctx']['expected']}"
    return f"{path}: {key} must be {rule or error['msg']}, got {error['input']!r:.60}"


def _unknown_like(key: str, raw: Mapping[str, Any], schema: type[Keys], cutoff: float) -> str | None:
    known = {*schema.model_fields, *(name for names in schema.aliases.values() for name in names)}
    return next(iter(difflib.get_close_matches(key, set(raw) - known, n=1, cutoff=cutoff)), None)
