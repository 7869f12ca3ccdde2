"""One point of a sweep after another, in one process: figures, or the reason why there are none.

What points share (chips as read from files, workloads) is kept between them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..chips import Chip, load_chip
from ..chips.kinds import LAYOUTS, values_of
from ..engine.simulation import choices, formatted, simulate_bare
from ..errors import SystolicError
from ..models import load_model
from ..workload import Workload
from .design import CHOICES, KNOBS, Design
from .figures import figures_of
from .space import Point

PACKAGE = Path(__file__).parent.parent
_MODEL = ("phase", "batch", "seq", "kv_len", "dtype", "logits")
KEPT_CHANGES = 4096
KEPT_WORKLOADS = 64
"""Workloads that a process keeps: they are large, and points that share one mostly come together."""


class Outcome(NamedTuple):
    """What became of a point: its figures, or the one-line reason why it failed."""

    key: bytes
    figures: Mapping[str, Any] | None
    reason: str = ""


class Asked(NamedTuple):
    """A point to evaluate: its place in the table, its key, its values."""

    number: int
    key: bytes
    point: Point


@cache
def code_version() -> str:
    """16 hex digits that change with any file of the package that a figure may depend on."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        parts = path.relative_to(PACKAGE).parts
        if path.suffix in (".py", ".toml", ".json") and parts[0] not in ("cli", "viz", "measured"):
            digest.update(repr((parts, path.read_bytes())).encode())
    return digest.hexdigest()[:16]


class Evaluator:
    """Evaluates the points of one design."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self._base = cache(self._base)  # type: ignore[method-assign]
        self._identity = cache(self._identity)  # type: ignore[method-assign]
        self._path = cache(self._path)  # type: ignore[method-assign]
        self._content = cache(self._content)  # type: ignore[method-assign]
        self._change = lru_cache(KEPT_CHANGES)(self._change)  # type: ignore[method-assign]
        self._workload = lru_cache(KEPT_WORKLOADS)(self._workload)  # type: ignore[method-assign]
        self._ready: dict[tuple[Any, ...], Workload] = {}

    def outcome(self, asked: Asked) -> Outcome:
        """Figures of a point, or why there are none: one point never ends a sweep."""
        try:
            return Outcome(asked.key, self.figures(asked.point))
        except SystolicError as error:
            return Outcome(asked.key, None, "; ".join(error.problems))
        except Exception as error:
            return Outcome(asked.key, None, f"the simulator failed: {type(error).__name__}: {error}")

    def figures(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Figures of a point.

        Raises
        ------
        SystolicError
            If the chip, the workload or their combination is wrong or not modelled.
        """
        knobs, overrides = self._parts(point)
        chip = self._chip(knobs["on"], overrides)
        shape = tuple(knobs.get(k) for k in _MODEL)
        work = self._formatted(chip, knobs["model"], shape, knobs.get("weight_dtype"), knobs.get("kv_dtype"))
        if (precision := knobs.get("precision")) is not None:
            work = work.with_precision(precision)
        options = choices(
            knobs.get("mode", "tiled"),
            knobs.get("dataflow"),
            _tile(knobs.get("tile")),
            knobs.get("order"),
            knobs.get("kernel"),
            "default",
            "off",
        )
        return figures_of(simulate_bare(work, chip, replace(options, compiled=True)), work)

    def key(self, point: Mapping[str, Any]) -> bytes:
        """16 bytes that name a point whatever sweep it stands in: chip, changes, workload, choices, code.

        A change to the value that the chip has anyway is none, and a choice that is not made is none.
        """
        knobs, overrides = self._parts(point)
        on = knobs["on"]
        digest = self._identity(on)[2]
        changed: dict[str, Any] = {}
        for path, given in overrides.items():
            name, value, differs = self._change(on, path, given)
            if differs:
                changed[name] = value
        rest = {k: v for k, v in knobs.items() if k not in CHOICES and v is not None}
        model = self._content(knobs["model"])
        whole = [code_version(), digest, model, sorted(changed.items()), sorted(rest.items())]
        return hashlib.sha256(json.dumps(whole, default=str).encode()).digest()[:16]

    def _change(self, on: str, path: str, given: Any) -> tuple[str, Any, bool]:
        """(canonical path, value, whether the chip has another) of a changed field."""
        base, values, _ = self._identity(on)
        if base is None:
            return path, given, True
        try:
            name, value = LAYOUTS[base.kind].read_field(path, given)
        except SystolicError:
            return path, given, True
        return name, value, name not in values or values[name] != value

    def _parts(self, point: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """(knobs, changed fields of the chip) of a point, what is fixed included."""
        knobs, overrides = dict(self.design.fixed), dict(self.design.overrides)
        for name, value in point.items():
            (knobs if name in KNOBS else overrides)[name] = value
        return knobs, overrides

    def _path(self, text: str) -> str:
        """A file's path where there is such a file beside the sweep file, the text itself elsewhere."""
        beside = Path(self.design.folder) / text
        return str(beside) if self.design.folder and beside.is_file() else text

    def _content(self, model: str) -> str:
        """What names a model: a digest of its file, or its name."""
        path = Path(self._path(model))
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else model

    def _base(self, on: str | Chip) -> Chip:
        return load_chip(self._path(on) if isinstance(on, str) else on)

    def _identity(self, on: str) -> tuple[Chip | None, Mapping[str, Any], str]:
        """A chip, its fields, and a digest of them; a chip that cannot be read is its name."""
        try:
            chip = self._base(on)
        except SystolicError:
            return None, {}, str(on)
        values = {k: v for k, v in values_of(chip).items() if k != "name"}
        return chip, values, hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()

    def _chip(self, on: str, overrides: Mapping[str, Any]) -> Chip:
        base = self._base(on)
        return load_chip(base, overrides) if overrides else base

    def _workload(self, model: str, shape: tuple[Any, ...]) -> Workload:
        given = {k: v for k, v in zip(_MODEL, shape, strict=True) if v is not None}
        return load_model(self._path(model), **given)

    def _formatted(
        self, chip: Chip, model: str, shape: tuple[Any, ...], weights: str | None, kv_cache: str | None
    ) -> Workload:
        """The workload in the chip's formats; the same object for each chip with the same native one."""
        asked = (chip.native_dtype, model, shape, weights, kv_cache)
        if asked not in self._ready:
            while len(self._ready) >= KEPT_WORKLOADS:
                self._ready.pop(next(iter(self._ready)))
            work = self._workload(model, shape)
            self._ready[asked] = formatted(work, chip, weights, kv_cache)
        return self._ready[asked]


def _tile(given: Any) -> Any:
    """Sides of a pinned tile; ``"512,768,768"`` as on the command line."""
    if not isinstance(given, str):
        return None if given is None else tuple(given) if isinstance(given, (list, tuple)) else given
    return tuple(int(side) if side.strip().isdecimal() else side for side in given.split(","))


_EVALUATORS: dict[str, Evaluator] = {}


def evaluate_batch(design: Design, batch: Iterable[Asked]) -> list[Outcome]:
    """Outcomes of a batch, in order: what a worker is asked for. It keeps what its batches share."""
    found = _EVALUATORS.get(design.digest)
    if found is None:
        _EVALUATORS.clear()
        found = _EVALUATORS[design.digest] = Evaluator(design)
    return [found.outcome(asked) for asked in batch]
