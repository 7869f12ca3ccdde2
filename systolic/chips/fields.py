"""A chip as a flat table of field paths: what files, ``--set`` and ``systolic chips`` speak of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from ..dtypes import canonical
from ..errors import SystolicError, did_you_mean, shown
from ..quantity import Dimension, format_bytes, format_hz, format_rate, parse_quantity
from .memory import Memory
from .spec import LANE_DTYPES, LEVELS, Array, Policy, TpuChip, Vector

Values = dict[str, Any]
"""Field path -> value as the spec holds it. The order of ``array.lanes.*`` is the order of the formats."""

_MEMORY = ("bytes", "bytes_per_s", "latency_ns", "burst_bytes", "sustained_percent")
_DRAM = ("model", "part", "channels")
_BANKS = ("banks", "bank_bytes", "layout")
_LEAVES = {
    "": ("name", "clock_hz", "cores", "mxus_per_core"),
    "array": ("rows", "cols", "dataflow", "convention", "weight_rows", "mac_latency", "mac_interval"),
    "array.lanes": LANE_DTYPES,
    "array.acc": LANE_DTYPES,
    **{f"memory.{level}": _MEMORY for level in LEVELS},
    "memory.dram": (*_MEMORY, *_DRAM),
    "memory.vmem": (*_MEMORY, *_BANKS),
    "vector": ("lanes", "alus"),
    "policy": ("activations", "overlap", "prefetch", "fusion", "block_bytes", "block_tiles"),
}
FIELDS = tuple(f"{table}.{leaf}".lstrip(".") for table, leaves in _LEAVES.items() for leaf in leaves)
"""Every field of a TPU-style chip, by path."""

_BY_FORMAT = ("array.lanes", "array.acc")
_TABLES = {"memory", *_LEAVES} - {""}
_QUANTITIES: dict[str, Dimension] = {
    "clock_hz": "frequency",
    "bytes": "size",
    "bytes_per_s": "rate",
    "latency_ns": "time",
    "burst_bytes": "size",
    "bank_bytes": "size",
    "block_bytes": "size",
}
_MAY_BE_UNLIMITED = ("bytes", "bytes_per_s", "block_bytes", "block_tiles")

# Names that people will try, with the reason why they are refused: a number that changes nothing misleads.
_NOT_MODELLED = {
    "energy": "energy is not modelled yet; remove the [energy] table",
}


def flatten(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Pairs of path and value of a nested table, going down only where the chip has a table."""
    for key, value in table.items():
        here = f"{path}.{key}" if path else key
        if here in _TABLES and isinstance(value, Mapping) and value:
            yield from flatten(value, here)
        else:
            yield here, value


def read_field(path: str, value: object) -> tuple[str, Any]:
    """Read the value of one field as a file or ``--set`` gives it; ranges are the spec's to judge.

    Returns
    -------
    tuple[str, Any]
        The path with canonical names, and the value in base units.

    Raises
    ------
    SystolicError
        If there is no such field, it is not modelled, or its text cannot be read.
    """
    path = canonical_path(path)
    leaf = path.rpartition(".")[2]
    if path in _TABLES:
        raise SystolicError(f"{path} must be a table that holds something, got {shown(value)}")
    if path not in FIELDS:
        raise SystolicError(unknown_field(path))
    if leaf in _MAY_BE_UNLIMITED and value == "unlimited":
        return path, None
    if path.startswith("array.acc."):
        return path, canonical(value, path)
    return path, parse_quantity(value, _QUANTITIES[leaf], path) if leaf in _QUANTITIES else value


def unknown_field(path: str) -> str:
    """The line for a path that is no field: why it is refused, or what may have been meant."""
    for name, reason in _NOT_MODELLED.items():
        if path == name or path.startswith(f"{name}."):
            return reason
    table, _, leaf = path.rpartition(".")
    named = path if re.fullmatch(r"[\w.-]+", path) else shown(path)
    namesakes = [f for f in FIELDS if f.rpartition(".")[2] == leaf]
    siblings = {f.rpartition(".")[2]: f for f in (*FIELDS, *_TABLES) if f.rpartition(".")[0] == table}
    close = [siblings[name] for name in get_close_matches(leaf, siblings, n=1)]
    if close or not siblings:
        return f"{named} is no field of a chip{did_you_mean(path, close or namesakes or _TABLES)}"
    return f"{named} is no field of a chip; known: {', '.join(namesakes or sorted(siblings.values()))}"


def values_of(chip: TpuChip) -> Values:
    """The flat table of a chip."""
    formats = [f"{table}.{d}" for table in _BY_FORMAT for d in getattr(chip.array, table.split(".")[1])]
    others = [f for f in FIELDS if not f.startswith(_BY_FORMAT)]
    values: Values = {}
    for path in (*others, *formats):
        table, _, leaf = path.rpartition(".")
        if table.startswith("memory."):
            if (level := table.removeprefix("memory.")) not in chip.memory:
                continue
            memory = chip.memory[level]
            absent = _DRAM if memory.part is None else ()
            if leaf not in (absent if memory.banks is not None else (*absent, *_BANKS)):
                values[path] = getattr(memory, leaf)
        elif table in _BY_FORMAT:
            values[path] = getattr(chip.array, table.split(".")[1])[leaf]
        else:
            values[path] = getattr(getattr(chip, table) if table else chip, leaf)
    return values


def chip_of(values: Values, sources: Mapping[str, str], notes: tuple[str, ...]) -> TpuChip:
    """Build a chip from its flat table, which holds every field that has no default.

    Raises
    ------
    SystolicError
        One line, beginning with the field's path, for each rule that the spec finds broken.
    """
    levels = [level for level in LEVELS if any(f.startswith(f"memory.{level}.") for f in values)]
    return TpuChip(
        **_children(values, ""),
        array=Array(
            **_children(values, "array"),
            lanes=_children(values, "array.lanes"),
            acc=_children(values, "array.acc"),
        ),
        memory={level: Memory(**_children(values, f"memory.{level}")) for level in levels},
        vector=Vector(**_children(values, "vector")),
        policy=Policy(**_children(values, "policy")),
        sources=sources,
        notes=notes,
    )


class ChipField(NamedTuple):
    """One line of a chip's description: the field's path, its value in words, where it comes from."""

    field: str
    value: str
    source: str


def describe(chip: TpuChip) -> list[ChipField]:
    """Every field of a chip, in the order of the file layout, with its source ("" where none is given)."""
    values = values_of(chip)
    order = [f for f in FIELDS if f in values and f != "name"]
    return [ChipField(path, _in_words(path, values[path]), chip.sources.get(path, "")) for path in order]


def _in_words(path: str, value: Any) -> str:
    if value is None:
        return "unlimited"
    dimension = _QUANTITIES.get(path.rpartition(".")[2])
    if dimension is None:
        return str(value)
    if dimension == "time":
        return f"{value} ns"
    return {"frequency": format_hz, "size": format_bytes, "rate": format_rate}[dimension](value)


def _children(values: Values, table: str) -> dict[str, Any]:
    return {f.rpartition(".")[2]: v for f, v in values.items() if f.rpartition(".")[0] == table}


def canonical_path(path: str) -> str:
    """A path with the canonical name of the number format in ``array.lanes.*`` and ``array.acc.*``."""
    table, _, leaf = path.rpartition(".")
    if table not in _BY_FORMAT:
        return path
    try:
        return f"{table}.{canonical(leaf)}"
    except SystolicError:
        return path
