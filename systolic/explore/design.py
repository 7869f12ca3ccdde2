"""What a sweep is: its space, what stays fixed, how points are picked; from a file or built in Python."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..chips import load_chip
from ..chips.kinds import LAYOUTS
from ..errors import SystolicError, did_you_mean, raise_if_any, shown
from ..quantity import count_problem, parse_quantity
from .expressions import Expression
from .figures import FIGURES
from .space import Axis, Space

SCHEMA = 1
CHOICES = ("on", "model")
WORK = ("phase", "batch", "seq", "kv_len", "dtype", "logits", "weight_dtype", "kv_dtype", "precision")
OPTIONS = ("mode", "dataflow", "tile", "order", "kernel")
KNOBS = (*CHOICES, *WORK, *OPTIONS)
"""Names that an axis, or the top of a sweep file, may give beside the fields of a chip."""

METHODS = ("grid", "random", "bayesian")
_TABLES = ("schema", "name", "axes", "set", "constraints", "derived", "search")
_SEARCH = ("method", "points", "seed", "minimize", "maximize")
MOST_POINTS = 10**9


@dataclass(frozen=True, kw_only=True)
class Search:
    """How points are picked from the space.

    Attributes
    ----------
    method
        ``grid`` (all), ``random`` (`points` of them) or ``bayesian`` (`points`, each where the ones before
        promise most for what is in `minimize` and `maximize`).
    points, seed
        How many; where the draw begins.
    minimize, maximize
        Figures or derived columns.
    """

    method: str = "grid"
    points: int | None = None
    seed: int = 0
    minimize: tuple[str, ...] = ()
    maximize: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Design:
    """A sweep, checked as far as it can be before it runs.

    Attributes
    ----------
    name
        Its title.
    space
        Axes and constraints.
    fixed
        Knob -> value that all points share.
    overrides
        Field of the chip -> value that all points share.
    derived
        Name -> expression over axes and figures: columns of the table.
    search
        How points are picked.
    folder
        Where relative paths of models and chips start.
    """

    name: str
    space: Space
    fixed: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    derived: Mapping[str, Expression] = field(default_factory=dict)
    search: Search = field(default_factory=Search)
    folder: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the table, in order."""
        return ("point", *self.space.names, "status", "reason", *FIGURES, *self.derived)

    @property
    def digest(self) -> str:
        """16 hex digits that change with whatever changes which points there are."""
        plain = [
            [[axis.names, axis.values] for axis in self.space.axes],
            [constraint.text for constraint in self.space.constraints],
            *(dict(part) for part in (self.fixed, self.overrides)),
            {name: expression.text for name, expression in self.derived.items()},
            [self.search.method, self.search.points, self.search.seed],
            [self.search.minimize, self.search.maximize, self.folder],
        ]
        return hashlib.sha256(json.dumps(plain, default=str).encode()).hexdigest()[:16]


def read_design(path: str | os.PathLike[str]) -> Design:
    """A sweep file.

    Raises
    ------
    SystolicError
        All mistakes at once, one line each, beginning with the file.
    """
    try:
        with Path(path).open("rb") as file:
            raw = tomllib.load(file)
    except FileNotFoundError:
        raise SystolicError(f"{path}: no such file") from None
    except tomllib.TOMLDecodeError as error:
        raise SystolicError(f"{path}: must be valid TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise SystolicError(f"{path}: must be UTF-8 text, byte {error.start} is not") from None
    except OSError as error:
        raise SystolicError(f"{path}: cannot be read: {error.strerror}") from None
    problems: list[str] = []
    if raw.get("schema") != SCHEMA:
        found = "got none" if "schema" not in raw else f"got {shown(raw['schema'])}"
        problems.append(f"schema must be {SCHEMA}, {found}")
    where = Path(path)
    try:
        design = design_of(raw, name=where.stem, folder=os.fspath(where.resolve().parent))
    except SystolicError as error:
        problems += error.problems
    if problems:
        raise SystolicError(*(f"{path}: {line}" for line in problems))
    return design


def design_of(raw: Mapping[str, Any], *, name: str, folder: str = "") -> Design:
    """A sweep from the content of a sweep file.

    Raises
    ------
    SystolicError
        All mistakes at once, one line each.
    """
    problems = [
        f"{shown(key)} is no part of a sweep{did_you_mean(key, (*_TABLES, *KNOBS))}"
        for key in raw
        if key not in _TABLES and key not in KNOBS
    ]
    reader = _Reader(raw, problems)
    fixed = {key: raw[key] for key in KNOBS if key in raw}
    axes = reader.axes()
    overrides = reader.table("set")
    swept = [name for axis in axes for name in axis.names]
    problems += [
        f"{n} must be swept or set, not both" for n in dict.fromkeys(swept) if n in {**fixed, **overrides}
    ]
    problems += [
        f"axes must hold each field once, got {n} twice" for n in dict.fromkeys(swept) if swept.count(n) > 1
    ]
    if "model" not in fixed and "model" not in swept:
        problems.append("model must be given: a name such as 'gpt2', or a matmul such as '512,768,768'")
    reader.judge_fields({**dict.fromkeys(swept), **overrides}, fixed, axes)
    constraints = reader.constraints(swept)
    derived = reader.derived(swept)
    search = reader.search({*FIGURES, *derived})
    title = raw.get("name", name)
    if not isinstance(title, str):
        problems.append(f"name must be a text, got {shown(title)}")
    raise_if_any(problems)
    design = Design(
        name=title,
        space=Space(tuple(axes), tuple(constraints)),
        fixed={"on": "tpu-v4", **fixed} if "on" not in swept else fixed,
        overrides=overrides,
        derived=derived,
        search=search,
        folder=folder,
    )
    if search.method == "grid" and design.space.size > MOST_POINTS:
        raise SystolicError(
            f"axes span {design.space.size:,} points, more than {MOST_POINTS:,}; search them at random or "
            "with method = 'bayesian'"
        )
    return design


@dataclass
class _Reader:
    """Parts of a sweep, each read for itself; mistakes are collected."""

    raw: Mapping[str, Any]
    problems: list[str]

    def table(self, name: str) -> dict[str, Any]:
        found = self.raw.get(name, {})
        if isinstance(found, Mapping):
            return dict(found)
        self.problems.append(f"{name} must be a table, got {shown(found)}")
        return {}

    def axes(self) -> list[Axis]:
        axes: list[Axis] = []
        given = _flat(self.table("axes"))
        if not given:
            self.problems.append('axes must hold at least one axis, such as "array.rows" = [64, 128]')
        for key, values in given.items():
            try:
                axes.append(Axis.read(key, _without_units(key, values)))
            except SystolicError as error:
                self.problems += error.problems
        return axes

    def judge_fields(self, paths: Mapping[str, Any], fixed: Mapping[str, Any], axes: Sequence[Axis]) -> None:
        """Refuse paths that no kind of chip has, values that no field takes, and knobs with wrong values."""
        swept = {n: [v[i] for v in axis.values] for axis in axes for i, n in enumerate(axis.names)}
        for path, value in paths.items():
            if path in KNOBS:
                continue
            tries = swept.get(path, [value])
            lines = []
            for layout in LAYOUTS.values():
                try:
                    for one in tries:
                        layout.read_field(path, one)
                except SystolicError as error:
                    lines.append(error.problems[0])
            if len(lines) == len(LAYOUTS):
                known = [
                    la.unknown_field(path)
                    for la in LAYOUTS.values()
                    if la.canonical_path(path) not in la.fields
                ]
                self.problems.append(
                    lines[0]
                    if len(known) == len(lines)
                    else next(line for line in lines if line not in known)
                )
        for knob in ("batch", "seq", "kv_len"):
            for value in swept.get(knob, [fixed[knob]] if knob in fixed else []):
                self.problems += count_problem(knob, value)
        for chip in swept.get("on", [fixed["on"]] if "on" in fixed else []):
            if isinstance(chip, str) and (chip.endswith(".toml") or "/" in chip):
                continue  # read with the folder of the file, when the sweep starts
            try:
                load_chip(chip)
            except SystolicError as error:
                self.problems += [f"on: {line}" for line in error.problems]

    def constraints(self, swept: Sequence[str]) -> list[Expression]:
        given = self.raw.get("constraints", [])
        if not isinstance(given, (list, tuple)):
            self.problems.append(f"constraints must be a list of texts, got {shown(given)}")
            return []
        read = [self._expression(text, f"constraints[{i}]", swept, "axes") for i, text in enumerate(given)]
        return [expression for expression in read if expression is not None]

    def derived(self, swept: Sequence[str]) -> dict[str, Expression]:
        known: list[str] = [*swept, *FIGURES]
        read: dict[str, Expression] = {}
        for name, text in self.table("derived").items():
            if name in known:
                self.problems.append(f"derived.{name} must have a name of its own, and {name} is taken")
                continue
            expression = self._expression(text, f"derived.{name}", known, "axes, figures and columns above")
            if expression is not None:
                read[name] = expression
            known.append(name)
        return read

    def _expression(self, text: object, label: str, known: Sequence[str], what: str) -> Expression | None:
        try:
            expression = Expression.parse(text, label)
        except SystolicError as error:
            self.problems += error.problems
            return None
        for name in sorted(expression.names - {*known}):
            self.problems.append(
                f"{label} speaks of {name}, which is none of the {what}{did_you_mean(name, known)}"
            )
        return expression if expression.names <= {*known} else None

    def search(self, figures: set[str]) -> Search:
        given = self.table("search")
        lines = [f"search has no {k!r}{did_you_mean(k, _SEARCH)}" for k in given if k not in _SEARCH]
        method = given.get("method", "grid")
        if method not in METHODS:
            lines.append(f"search.method must be one of {', '.join(METHODS)}, got {shown(method)}")
        points = given.get("points")
        if points is not None:
            lines += count_problem("search.points", points)
        elif method in METHODS[1:]:
            lines.append(f"search.points must be given for method {method!r}: how many points to try")
        seed = given.get("seed", 0)
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            lines.append(f"search.seed must be a whole number >= 0, got {shown(seed)}")
        aims: dict[str, tuple[str, ...]] = {}
        for key in ("minimize", "maximize"):
            names = given.get(key, [])
            names = [names] if isinstance(names, str) else names
            if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
                lines.append(f"search.{key} must be a list of figures, got {shown(names)}")
                names = []
            lines += [
                f"search.{key}: {shown(n)} is no figure{did_you_mean(n, figures)}"
                for n in names
                if n not in figures
            ]
            aims[key] = tuple(names)
        if method == "bayesian" and not (aims["minimize"] or aims["maximize"]):
            lines.append("search.minimize or search.maximize must name a figure for method 'bayesian'")
        self.problems += lines
        return Search() if lines else Search(method=method, points=points, seed=seed, **aims)


def _flat(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Axes by path: ``[axes.array]`` with ``rows = …`` is ``"array.rows"``; a range stays as it is."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, Mapping) and not {"from", "to"} & {*value}:
            flat |= _flat(value, here)
        else:
            flat[here] = value
    return flat


def _without_units(key: str, given: object) -> object:
    """A range whose ends are texts such as ``"100 GB/s"`` in base units; all else as it stands."""
    dimension = next(
        (la.quantities[leaf] for la in LAYOUTS.values() if (leaf := key.rpartition(".")[2]) in la.quantities),
        None,
    )
    if dimension is None or not isinstance(given, Mapping):
        return given
    return {
        k: parse_quantity(v, dimension, f"axes.{key}.{k}")
        if k in ("from", "to", "step") and isinstance(v, str)
        else v
        for k, v in given.items()
    }
