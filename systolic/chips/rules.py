"""Rules that the parts of a chip have in common."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..errors import shown
from ..quantity import count_problem, whole_number


def take_whole(spec: object, *fields: str) -> None:
    """Turn NumPy's integers in the named fields of a frozen object into Python ints."""
    for name in fields:
        number = whole_number(getattr(spec, name))
        if number is not None:
            object.__setattr__(spec, name, number)


def choice_problem(field: str, value: object, allowed: tuple[str, ...]) -> list[str]:
    """One line where `value` of `field` is none of `allowed`."""
    return [] if value in allowed else [f"{field} must be one of {', '.join(allowed)}, got {shown(value)}"]


def count_problems(part: object, path: str, names: tuple[str, ...]) -> list[str]:
    """One line for each of the named fields of `part` that is no whole number > 0; `path` names the part."""
    return [line for name in names for line in count_problem(f"{path}.{name}", getattr(part, name))]


def name_problem(name: object) -> list[str]:
    """One line where a chip's name cannot be printed."""
    if isinstance(name, str) and name.strip() and name.isprintable():
        return []
    return [f"name must be a printable text on one line, got {shown(name)}"]


def freeze_counts(part: object, *names: str) -> None:
    """Make the named tables of counts of a frozen object immutable, with Python ints."""
    for name in names:
        if isinstance(table := getattr(part, name), Mapping):
            counts = {key: v if (n := whole_number(v)) is None else n for key, v in table.items()}
            object.__setattr__(part, name, MappingProxyType(counts))
