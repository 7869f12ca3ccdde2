"""Rules that the parts of a chip have in common."""

from __future__ import annotations

from ..errors import shown
from ..quantity import whole_number


def take_whole(spec: object, *fields: str) -> None:
    """Turn NumPy's integers in the named fields of a frozen object into Python ints."""
    for name in fields:
        number = whole_number(getattr(spec, name))
        if number is not None:
            object.__setattr__(spec, name, number)


def choice_problem(field: str, value: object, allowed: tuple[str, ...]) -> list[str]:
    """One line where `value` of `field` is none of `allowed`."""
    return [] if value in allowed else [f"{field} must be one of {', '.join(allowed)}, got {shown(value)}"]
