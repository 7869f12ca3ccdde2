"""A chip as a flat table of field paths: what files, ``--set`` and ``systolic chips`` speak of.

Each kind of chip says in a :class:`Layout` which tables and fields it has; the rest holds for all kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NamedTuple

from ..dtypes import canonical
from ..errors import SystolicError, did_you_mean, shown
from ..quantity import Dimension, format_bytes, format_hz, format_rate, parse_quantity

Values = dict[str, Any]
"""Field path -> value as the spec holds it. In tables with a field per number format, order counts."""

# Names that people will try, with the reason why they are refused: a number that changes nothing misleads.
NOT_MODELLED = {
    "energy": "energy is not modelled yet; remove the [energy] table",
}


class ChipField(NamedTuple):
    """One line of a chip's description: the field's path, its value in words, where it comes from."""

    field: str
    value: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The fields of one kind of chip, and how its dataclasses hold them.

    Attributes
    ----------
    kind, noun
        ``"tpu"``; what error texts call such a chip (``"a TPU"``).
    leaves
        Table (``""``, ``"array"``, ``"array.lanes"``) -> its fields, in the order of the file layout.
    parts
        Table -> the dataclass that holds it; a table without one is a mapping.
    required
        Table -> fields that must be given, where the table is.
    optional
        Tables that a chip may lack.
    quantities
        Name of a field -> the dimension of its texts, such as ``"1 MiB"``.
    may_be_unlimited
        Names of fields that take ``"unlimited"``, which is None in the spec.
    formats
        Tables with a field per number format.
    holds_formats
        Those of `formats` whose values are number formats as well.
    groups
        Names of fields that only stand in the flat table where the first of them has a value.
    refused
        First names of paths -> why they are refused.
    """

    kind: str
    noun: str
    leaves: Mapping[str, tuple[str, ...]]
    parts: Mapping[str, Callable[..., Any]]
    required: Mapping[str, tuple[str, ...]]
    optional: tuple[str, ...] = ()
    quantities: Mapping[str, Dimension] = field(default_factory=dict)
    may_be_unlimited: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    holds_formats: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    refused: Mapping[str, str] = field(default_factory=lambda: NOT_MODELLED)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Every field, by path."""
        return tuple(f"{table}.{leaf}".lstrip(".") for table, of in self.leaves.items() for leaf in of)

    @cached_property
    def tables(self) -> frozenset[str]:
        """Every table, by path, those that hold only tables included."""
        outer = {table.rpartition(".")[0] for table in self.leaves}
        return frozenset({*self.leaves, *outer} - {""})

    def required_of(self, values: Values) -> list[str]:
        """Paths that must be given beside `values`: optional tables need theirs only where they are begun."""
        begun = {path.rpartition(".")[0] for path in values}
        return [
            f"{table}.{leaf}".lstrip(".")
            for table, leaves in self.required.items()
            if table not in self.optional or table in begun
            for leaf in leaves
        ]

    def flatten(self, table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
        """Pairs of path and value of a nested table, going down only where the chip has a table."""
        for key, value in table.items():
            here = f"{path}.{key}" if path else key
            if here in self.tables and isinstance(value, Mapping) and value:
                yield from self.flatten(value, here)
            else:
                yield here, value

    def read_field(self, path: str, value: object) -> tuple[str, Any]:
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
        path = self.canonical_path(path)
        table, _, leaf = path.rpartition(".")
        if path in self.tables:
            raise SystolicError(f"{path} must be a table that holds something, got {shown(value)}")
        if path not in self.fields:
            raise SystolicError(self.unknown_field(path))
        if leaf in self.may_be_unlimited and value == "unlimited":
            return path, None
        if table in self.holds_formats:
            return path, canonical(value, path)
        return path, parse_quantity(value, self.quantities[leaf], path) if leaf in self.quantities else value

    def unknown_field(self, path: str) -> str:
        """The line for a path that is no field: why it is refused, or what may have been meant."""
        for name, reason in self.refused.items():
            if path == name or path.startswith(f"{name}."):
                return reason
        table, _, leaf = path.rpartition(".")
        named = path if re.fullmatch(r"[\w.-]+", path) else shown(path)
        namesakes = [f for f in self.fields if f.rpartition(".")[2] == leaf]
        beside = (f for f in (*self.fields, *self.tables) if f.rpartition(".")[0] == table)
        siblings = {f.rpartition(".")[2]: f for f in beside}
        close = [siblings[name] for name in get_close_matches(leaf, siblings, n=1)]
        if close or not siblings:
            meant = did_you_mean(path, close or namesakes or self.tables)
            return f"{named} is no field of {self.noun}{meant}"
        known = ", ".join(namesakes or sorted(siblings.values()))
        return f"{named} is no field of {self.noun}; known: {known}"

    def canonical_path(self, path: str) -> str:
        """A path with the canonical name of the number format in the tables that have a field for each."""
        table, _, leaf = path.rpartition(".")
        if table not in self.formats:
            return path
        try:
            return f"{table}.{canonical(leaf)}"
        except SystolicError:
            return path

    def values_of(self, chip: Any) -> Values:
        """The flat table of a chip."""
        formats = [f"{table}.{dtype}" for table in self.formats for dtype in _part(chip, table)]
        others = [f for f in self.fields if f.rpartition(".")[0] not in self.formats]
        values: Values = {}
        for path in (*others, *formats):
            table, _, leaf = path.rpartition(".")
            if (part := _part(chip, table)) is None:
                continue
            leader = next((group[0] for group in self.groups if leaf in group), None)
            if leader is None or _part(part, leader) is not None:
                values[path] = _part(part, leaf)
        return values

    def chip_of(self, values: Values, sources: Mapping[str, str], notes: tuple[str, ...]) -> Any:
        """Build a chip from its flat table, which holds every field that has no default.

        Raises
        ------
        SystolicError
            One line, beginning with the field's path, for each rule that the spec finds broken.
        """
        by_table: dict[str, Values] = {}
        for path, value in values.items():
            table, _, leaf = path.rpartition(".")
            by_table.setdefault(table, {})[leaf] = value
        return self.parts[""](**self._content(by_table, ""), sources=sources, notes=notes)

    def _content(self, by_table: Mapping[str, Values], table: str) -> dict[str, Any]:
        """Fields of a table, and the tables in it as parts."""
        content = dict(by_table.get(table, {}))
        for inner in self._tables_in.get(table, ()):
            held = self._content(by_table, inner)
            if held or inner not in self.optional:
                content[inner.rpartition(".")[2]] = self.parts[inner](**held) if inner in self.parts else held
        return content

    @cached_property
    def _tables_in(self) -> dict[str, list[str]]:
        """Table -> the tables in it, in the order of the file layout: each stands with its first field."""
        found: dict[str, list[str]] = {}
        for inner in sorted(
            self.tables,
            key=lambda t: next(i for i, path in enumerate(self.fields) if path.startswith(f"{t}.")),
        ):
            found.setdefault(inner.rpartition(".")[0], []).append(inner)
        return found

    def describe(self, chip: Any) -> list[ChipField]:
        """Every field of a chip, in the order of the layout, with its source ("" where none is given)."""
        values = self.values_of(chip)
        order = [f for f in self.fields if f in values and f != "name"]
        return [
            ChipField(path, self._in_words(path, values[path]), chip.sources.get(path, "")) for path in order
        ]

    def _in_words(self, path: str, value: Any) -> str:
        if value is None:
            return "unlimited"
        dimension = self.quantities.get(path.rpartition(".")[2])
        if dimension is None:
            return str(value)
        if dimension == "time":
            return f"{value} ns"
        return {"frequency": format_hz, "size": format_bytes, "rate": format_rate}[dimension](value)


def _part(whole: Any, path: str) -> Any:
    """What a chip, or a part of it, holds at a path; None where it has no such part."""
    for name in path.split(".") if path else ():
        if whole is not None:
            whole = whole.get(name) if isinstance(whole, Mapping) else getattr(whole, name)
    return whole
