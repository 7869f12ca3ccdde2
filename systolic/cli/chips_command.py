"""``systolic chips``: the catalogue, or one chip with the source of each number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from ..chips import Chip, catalogue, describe, load_chip
from ..dtypes import DTYPES
from ..errors import raise_if_any
from ..quantity import format_bytes, format_count, format_hz, format_rate
from .options import Debug, Overrides, parse_set


def chips(
    chip: Annotated[
        str | None, typer.Argument(metavar="[CHIP]", help="A catalogue name or a .toml file.")
    ] = None,
    overrides: Overrides = None,
    debug: Debug = False,
) -> None:
    """The catalogue; with CHIP, every number of that chip and where it comes from."""
    problems: list[str] = []
    changed = parse_set(overrides or [], problems)
    if changed and chip is None:
        problems.append("--set needs the CHIP that it changes")
    raise_if_any(problems)
    if chip is None:
        _print_catalogue()
    else:
        _print_chip(load_chip(chip, changed))


def _print_catalogue() -> None:
    heads = ("chip", "kind", "made of", "clock", "formats", "peak", "dram", "dram rate")
    _print_columns([heads, *(_facts(load_chip(name)) for name in catalogue())])


def _facts(chip: Chip) -> tuple[str, ...]:
    dram, native = chip.memory["dram"], chip.native_dtype
    operation = "FLOP" if DTYPES[native].kind == "float" else "OP"
    return (
        chip.name,
        chip.kind,
        chip.units,
        format_hz(chip.clock_hz),
        " ".join(chip.formats),
        f"{format_count(2 * chip.peak_macs_per_s(native))}{operation}/s {native}",
        "unlimited" if dram.bytes is None else format_bytes(dram.bytes),
        "unlimited" if dram.bytes_per_s is None else format_rate(dram.bytes_per_s),
    )


def _print_chip(chip: Chip) -> None:
    print(chip.name)
    _print_columns([("field", "value", "source"), *describe(chip)])
    for note in chip.notes:
        print(f"note: {note}")


def _print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Rows of texts under one another; the last column is as wide as it likes."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
