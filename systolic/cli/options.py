"""Texts of the command line that become values; all mistakes are reported at once by the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

DEBUG = "--debug"
Debug = Annotated[bool, typer.Option(DEBUG, help="Show the traceback of an error.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Change a field of the chip, as array.rows=64; repeatable."
    ),
]


def parse_on(text: str, problems: list[str]) -> list[str]:
    """Chips of ``--on a,b``."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        problems.append(f"--on must name chips separated by commas, got {text!r}; systolic chips lists them")
    return names


def parse_set(texts: Sequence[str], problems: list[str]) -> dict[str, object]:
    """Field path -> value text of all ``--set FIELD=VALUE``."""
    overrides: dict[str, object] = {}
    for text in texts:
        path, equals, value = (part.strip() for part in text.partition("="))
        if not (path and equals and value):
            problems.append(f"--set must be FIELD=VALUE such as array.rows=64, got {text!r}")
        elif path in overrides:
            problems.append(f"--set must give each field once, got {path} twice")
        else:
            overrides[path] = value
    return overrides


def parse_tile(text: str | None, problems: list[str]) -> tuple[int, int, int] | None:
    """Sides of ``--tile M,N,K``; None where it was not given, or is wrong."""
    if text is None:
        return None
    sides = [int(side) if side.strip().isdecimal() else 0 for side in text.split(",")]
    if len(sides) == 3 and all(sides):
        return sides[0], sides[1], sides[2]
    problems.append(f"--tile must be three whole numbers > 0 such as 512,768,768 (M,N,K), got {text!r}")
    return None


def parse_counts(option: str, texts: Sequence[str], problems: list[str]) -> dict[str, int]:
    """Name -> whole number of all ``--OPTION NAME=NUMBER``."""
    counts: dict[str, int] = {}
    for text in texts:
        name, equals, number = (part.strip() for part in text.rpartition("="))
        if not (name and equals and number.isdecimal()):
            problems.append(f"--{option} must be NAME=NUMBER such as model.py:42=10, got {text!r}")
        elif name in counts:
            problems.append(f"--{option} must give each name once, got {name} twice")
        else:
            counts[name] = int(number)
    return counts
