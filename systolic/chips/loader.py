"""Chips from the catalogue, from TOML files, and with single fields changed.

A chip is drafted in layers: the base's base, the base, the file, then ``--set``. Each layer changes
some fields of the one below; ranges are judged once, on the finished draft, and every mistake is
reported with the layer that made it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import SystolicError, did_you_mean, raise_if_any, shown
from ..quantity import whole_number
from .fields import Layout, Values
from .kinds import KINDS, LAYOUTS, Chip, values_of

SCHEMA = 1
_OVERRIDES = "--set"
_CATALOGUE = Path(__file__).parent / "catalogue"


_BUILT: dict[str, Callable[[], Chip]] = {}


def register_chip(name: str, build: Callable[[], Chip]) -> None:
    """Let `name` stand for the chip that `build` returns, built where it is loaded.

    For layers above this one, which know more than files say: ``host`` is measured.
    """
    _BUILT[name] = build


def catalogue() -> tuple[str, ...]:
    """Names of the chips that ship with the package."""
    return tuple(sorted(path.stem for path in _CATALOGUE.glob("*.toml")))


def load_chip(chip: str | os.PathLike[str] | Chip, overrides: Mapping[str, object] | None = None) -> Chip:
    """Load a chip and change some of its fields.

    Parameters
    ----------
    chip
        A name of :func:`catalogue`, the path of a ``.toml`` file, or a chip to start from.
    overrides
        Field path -> new value, as ``--set array.rows=64`` gives them: a text is read as a TOML
        value, or as it stands where it is none (``vmem``, ``1 MiB``, ``unlimited``).

    Raises
    ------
    SystolicError
        All mistakes at once, one line each, beginning with the file or ``--set``.
    """
    if isinstance(chip, Chip) and not overrides:
        return chip
    draft = _draft_of(chip) if isinstance(chip, Chip) else _open(chip, Path())
    if not overrides:
        return draft.finish()
    draft.change(_OVERRIDES, ((path, _parsed(value)) for path, value in overrides.items()))
    changes = ", ".join(f"{path} = {_told(value)}" for path, value in overrides.items())
    draft.notes += (f"changed with {_OVERRIDES}: {changes}",)
    return draft.finish()


def read_chip(raw: Mapping[str, Any], label: str, folder: Path | None = None) -> Chip:
    """Build a chip from the content of a chip file.

    Parameters
    ----------
    raw
        The file as nested tables.
    label
        What to call it in error texts; its stem is the chip's name where none is given.
    folder
        Where a relative path in ``base`` starts (default: the current one).

    Raises
    ------
    SystolicError
        All mistakes at once, one line each.
    """
    return _read(raw, label, folder or Path()).finish()


@dataclass
class _Draft:
    """A chip under construction: of the kind that `layout` describes.

    `layers` names them from the lowest up; `origin` tells which of them set a field last; `unread`
    are the fields whose value could not be read; `complete` is False when a base failed, so that
    what is missing is not this file's fault.
    """

    layout: Layout
    values: Values = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problems: list[str] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    layers: list[str] = field(default_factory=list)
    complete: bool = True

    def change(self, label: str, pairs: Iterable[tuple[str, object]]) -> None:
        """Lay a layer of pairs of path and raw value over what is there."""
        seen: set[str] = set()
        for given, raw in pairs:
            try:
                path, value = self.layout.read_field(given, raw)
            except SystolicError as error:
                self.problems += [f"{label}: {line}" for line in error.problems]
                self.unread.add(given)
                continue
            if path in seen:
                self.problems.append(f"{label}: {path} must be given once, got it under two names")
            seen.add(path)
            self.values[path], self.origin[path] = value, label
            self.sources.pop(path, None)
            if self.layers:
                self.sources[path] = label
        self.layers.append(label)

    def cite(self, label: str, sources: object, notes: object) -> None:
        """Add where the numbers of the top layer come from, and what the reader has to know."""
        if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
            self.problems.append(f"{label}: notes must be a list of texts, got {shown(notes)}")
        else:
            self.notes += tuple(notes)
        if not isinstance(sources, Mapping):
            self.problems.append(f"{label}: source must be a table, got {shown(sources)}")
            return
        for given, source in self.layout.flatten(sources):
            path = self.layout.canonical_path(given)
            if path not in self.layout.fields:
                self.problems.append(f"{label}: source: {self.layout.unknown_field(path)}")
            elif not isinstance(source, str) or not source.strip():
                self.problems.append(f"{label}: source of {path} must be a text, got {shown(source)}")
            else:
                self.sources[path] = source

    def finish(self) -> Chip:
        """Judge the whole, and build it.

        Raises
        ------
        SystolicError
            All mistakes of all layers.
        """
        required = self.layout.required_of(self.values)
        missing = [path for path in required if path not in self.values]
        if self.complete:
            self.problems += [
                f"{self.layers[-1]}: {path} must be given" for path in missing if not self._excused(path)
            ]
        try:
            whole = dict.fromkeys(required) | self.values
            chip: Chip = self.layout.chip_of(whole, self.sources, self.notes)
        except SystolicError as error:
            subjects = ((line.split()[0], line) for line in error.problems)
            self.problems += [
                f"{self._blamed(line)}: {line}"
                for subject, line in subjects
                if subject not in missing and not self._excused(subject)
            ]
            raise SystolicError(*dict.fromkeys(self.problems)) from None
        raise_if_any(list(dict.fromkeys(self.problems)))
        defaults = {path: "default" for path in values_of(chip) if path not in self.values}
        return replace(chip, sources=defaults | self.sources) if defaults else chip

    def _excused(self, path: str) -> bool:
        """Whether a complaint about `path` would only repeat that it, or a table around it, was not read."""
        unread = any(u.startswith(path) for u in self.unread)
        if path in self.layout.formats and (not self.complete or unread):
            return True  # these tables are judged as a whole
        return any(path == unread or path.startswith(f"{unread}.") for unread in self.unread)

    def _blamed(self, line: str) -> str:
        """The highest layer that set one of the fields named in a line of the spec."""
        words = [line.split()[0], *re.findall(r"\w+(?:\.\w+)+", line)]
        named = [self.origin[word] for word in words if word in self.origin]
        return max(named, key=self.layers.index, default=self.layers[-1])


def _draft_of(chip: Chip) -> _Draft:
    values = dict(_known_values(chip))
    origin = dict.fromkeys(values, chip.name)
    layout = LAYOUTS[chip.kind]
    return _Draft(layout, values, origin, dict(chip.sources), chip.notes, layers=[chip.name])


@lru_cache(8)
def _known_values(chip: Chip) -> Values:
    """The flat table of a chip; whoever changes one chip again and again has it at once."""
    return values_of(chip)


def _open(chip: object, folder: Path, chain: tuple[Path, ...] = ()) -> _Draft:
    """Draft of a catalogue name or of a file; a relative path starts in `folder`."""
    name = os.fspath(chip) if isinstance(chip, (str, os.PathLike)) else None
    if not isinstance(name, str):
        raise SystolicError(f"a chip must be a name, the path of a .toml file or a chip, got {shown(chip)}")
    if name in _BUILT:
        return _draft_of(_BUILT[name]())
    if name in catalogue():
        path, label = _CATALOGUE / f"{name}.toml", name
    elif isinstance(chip, os.PathLike) or name.endswith(".toml") or "/" in name:
        path = folder / name
        label = str(path)
    else:
        hint = did_you_mean(name, catalogue())
        raise SystolicError(f"chip {shown(name)} is not in the catalogue, nor the path of a .toml file{hint}")
    raw, here = _read_toml(path)
    if here in chain:
        circle = " -> ".join(p.name for p in (*chain[chain.index(here) :], here))
        raise SystolicError(f"{label}: base must not lead back to the file itself, got {circle}")
    return _read(raw, label, path.parent, (*chain, here))


def _read_toml(path: Path) -> tuple[dict[str, Any], Path]:
    """The content of a file, and its one true path."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file), path.resolve()
    except FileNotFoundError:
        problem = "no such file"
    except tomllib.TOMLDecodeError as error:
        problem = f"must be valid TOML: {error}"
    except UnicodeDecodeError as error:
        problem = f"must be UTF-8 text, byte {error.start} is not"
    except RecursionError:
        problem = "is nested too deeply to be a chip"
    except (OSError, ValueError) as error:
        problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise SystolicError(f"{path}: {problem}")


def _read(raw: Mapping[str, Any], label: str, folder: Path, chain: tuple[Path, ...] = ()) -> _Draft:
    """Draft of one file's content over that of its base."""
    fields = dict(raw)
    schema, kind, base = (fields.pop(key, None) for key in ("schema", "kind", "base"))
    notes, sources = fields.pop("notes", []), fields.pop("source", {})
    problems = [f"{label}: {line}" for line in _header_problems(schema, kind, base)]
    if kind in KINDS and kind not in LAYOUTS:
        raise SystolicError(*problems)  # its fields are another machine's
    known = kind if isinstance(kind, str) and kind in LAYOUTS else None
    draft = _Draft(LAYOUTS[known] if known else _closest_layout(fields))
    if base is not None:
        try:
            draft = _open(base, folder, chain)
        except SystolicError as error:
            problems += [f"{label}: base: {line}" for line in error.problems]
            draft.complete = False
        else:
            if known not in (None, draft.layout.kind):
                found = f"kind must be {draft.layout.kind!r}, as that of its base, got {known!r}"
                raise SystolicError(*problems, f"{label}: {found}")
    draft.problems += problems
    fields.setdefault("name", Path(label).stem)
    draft.change(label, draft.layout.flatten(fields))
    draft.cite(label, sources, notes)
    return draft


def _closest_layout(fields: Mapping[str, Any]) -> Layout:
    """The layout that knows most of the tables and fields of a file that does not say what kind it is.

    The file is refused anyway; this decides in whose words its other mistakes are told.
    """
    return max(
        LAYOUTS.values(), key=lambda layout: len({*layout.tables, *layout.fields}.intersection(fields))
    )


def _header_problems(schema: object, kind: object, base: object) -> list[str]:
    lines = []
    if schema is None:
        lines.append(f"schema must be given: write schema = {SCHEMA}")
    elif whole_number(schema) != SCHEMA:
        lines.append(f"schema must be {SCHEMA}, got {shown(schema)}")
    if kind is None and base is None:
        lines.append(f"kind must be given: {', '.join(LAYOUTS)}")
    elif kind in KINDS and kind not in LAYOUTS:
        lines.append(f"kind {kind!r} is not modelled yet; modelled: {', '.join(LAYOUTS)}")
    elif kind is not None and kind not in KINDS:
        lines.append(f"kind must be one of {', '.join(KINDS)}, got {shown(kind)}")
    return lines


def _told(value: object) -> str:
    """A value as a note tells it: as it was given."""
    return value if isinstance(value, str) else shown(value)


def _parsed(text: object) -> object:
    """The value that a text of ``--set`` stands for; what is no text is taken as it is."""
    if not isinstance(text, str):
        return text
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text.strip()
    return parsed["value"] if len(parsed) == 1 else text.strip()
