"""The measurements that ship with the package: their files, provenance, and the chips of their devices."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..chips import Chip, catalogue, load_chip
from ..errors import SystolicError, did_you_mean
from .rows import Read, Row, read_rows

if TYPE_CHECKING:
    from .record import Measurements

SHIPPED = Path(__file__).with_name("shipped")
"""Folder of the files that ship."""

TINY = 5
"""Rows below so many times the floor of their clock are compared apart: what the clock adds is a fifth or
more of them."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a file of measurements comes from; the fields are explained in ``shipped/sources.toml``."""

    id: str
    title: str
    where: str
    licence: str
    method: str
    left_out: str
    caveats: str
    floor_us: float = 0.0
    noise_pct: Mapping[str, float] = field(default_factory=dict, hash=False)
    noise: str = ""
    activations_on_chip: bool = False
    weight_copies: int = 0

    @property
    def path(self) -> Path:
        """The file of its rows."""
        return SHIPPED / f"{self.id}.csv"


@dataclass(frozen=True, kw_only=True)
class Device:
    """What is known of a device: its chip in the catalogue, fields that differ, and how; or why none.

    `name` is the device as a source, or JAX, names it.
    """

    name: str
    chip: str = ""
    set: Mapping[str, Any] = field(default_factory=dict, hash=False)
    note: str = ""
    why: str = ""

    def load(self) -> Chip:
        """The chip, as it was measured.

        Raises
        ------
        SystolicError
            If no chip of the catalogue stands for the device.
        """
        if self.chip not in catalogue():
            raise SystolicError(self.why or f"no chip of the catalogue stands for device {self.name!r}")
        return load_chip(self.chip, self.set)


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((SHIPPED / name).read_text(encoding="utf-8"))


@cache
def shipped_sources() -> Mapping[str, Source]:
    """Id -> source, of all files of rows that ship."""
    found = {key: Source(id=key, **entry) for key, entry in _table("sources.toml").items()}
    return {key: source for key, source in found.items() if source.path.exists()}


@cache
def _devices() -> Mapping[str, Device]:
    return {key: Device(name=key, **entry) for key, entry in _table("devices.toml").items()}


def device_of(name: str) -> Device:
    """What is known of a device, by the name that its rows give it."""
    return _devices().get(name, Device(name=name))


@cache
def shipped_rows(source: str) -> tuple[Row, ...]:
    """The rows of a source that ships.

    Raises
    ------
    SystolicError
        If there is no such source.
    """
    if source not in shipped_sources():
        known = did_you_mean(source, shipped_sources()) or f"; known: {', '.join(shipped_sources())}"
        raise SystolicError(f"no measurements called {source!r} ship with systolic{known}")
    return read_rows(shipped_sources()[source].path).rows


def read_measured(path: Path) -> Read:
    """The rows of a file: of ``systolic measure``, with our columns, or a public collection's by its name.

    Raises
    ------
    SystolicError
        If it is none of them, or cannot be read.
    """
    from .originals import READERS, read_original
    from .record import is_measurements, read

    if is_measurements(path):
        content = read(path)
        floor = max((session.dispatch_us for session in content.sessions), default=0.0)
        return Read(content.as_rows(), (*content.notes, *_told(content, path)), floor)
    if path.name in READERS and not _is_ours(path):
        return read_original(path)
    return read_rows(path)


def _told(content: Measurements, path: Path) -> Iterator[str]:
    """What sessions and rows say that bears on a comparison."""
    noisy = sum(row.median_us is None for row in content.rows)
    if noisy:
        yield f"{path}: {noisy:,} rows were too noisy for a number"
    for row in content.rows:
        if row.alarm:
            yield f"{path}: {row.name} {row.m}x{row.n}x{row.k}: {row.alarm}"
    for session in content.sessions:
        inside = [f"{of} as {seen}" for of, seen in session.observed.items() if of != seen]
        if inside:
            yield f"{path}: {session.device} was seen to multiply {', '.join(inside)}"
        if session.options.get("warm"):
            yield f"{path}: session {session.id} took the same inputs again and again, which caches may hold"


def _is_ours(path: Path) -> bool:
    from .rows import COLUMNS

    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline().strip() == ",".join(COLUMNS)
    except OSError as error:
        raise SystolicError(f"{path}: cannot be read: {error.strerror or error}") from error
