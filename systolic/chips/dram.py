"""Frozen descriptions of DRAM parts, and the catalogue of them. A part is data; nothing here simulates."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import SystolicError, did_you_mean, raise_if_any, shown
from ..quantity import Dimension, count_problem, parse_quantity

SCHEMA = 1
_CATALOGUE = Path(__file__).parent / "dram_parts"
_MAY_BE_ZERO = ("write_turnaround",)


@dataclass(frozen=True, kw_only=True)
class DramTiming:
    """Least distances between commands, cycles of the part's command clock; names as JEDEC's without the t.

    Attributes
    ----------
    burst
        Cycles that the data of one access occupy the bus.
    cl, cwl
        From a read or write command to its first data.
    rcd_read, rcd_write
        From activating a row to reading or writing it.
    rp, ras, rc
        From precharge to activate; activate to precharge; activate to activate of one bank.
    rrd_s, rrd_l, faw
        From activate to activate of another bank, in another and in the same bank group; a fifth activate
        waits until `faw` after the first of the last four.
    ccd_s, ccd_l
        From read to read and write to write, in another and in the same bank group.
    wr, rtp
        From the last data written, and from a read command, to precharge.
    wtr_s, wtr_l
        From the last data written to a read, in another and in the same bank group.
    write_turnaround
        Cycles that the bus rests between data read and data written.
    refi, rfc
        From refresh to refresh on average; how long one keeps the channel busy.
    activate_slots
        Cycles that an activate takes on the command bus.
    """

    burst: int
    cl: int
    cwl: int
    rcd_read: int
    rcd_write: int
    rp: int
    ras: int
    rc: int
    rrd_s: int
    rrd_l: int
    faw: int
    ccd_s: int
    ccd_l: int
    wr: int
    rtp: int
    wtr_s: int
    wtr_l: int
    write_turnaround: int
    refi: int
    rfc: int
    activate_slots: int = 1

    def problems(self, path: str = "timing") -> list[str]:
        """One line for each broken rule."""
        lines = [
            line
            for f in fields(self)
            for line in count_problem(
                f"{path}.{f.name}", getattr(self, f.name), least=0 if f.name in _MAY_BE_ZERO else 1
            )
        ]
        if lines:
            return lines
        for low, high in (("rrd_s", "rrd_l"), ("ccd_s", "ccd_l"), ("wtr_s", "wtr_l"), ("rfc", "refi")):
            least, value = getattr(self, low), getattr(self, high)
            if value < least:
                lines.append(f"{path}.{high} must be >= {path}.{low} ({least}), got {value}")
        if self.rc < self.ras + self.rp:
            lines.append(f"{path}.rc must be >= ras + rp ({self.ras + self.rp}), got {self.rc}")
        if self.refi <= self.rfc + 2 * self.rc:
            lines.append(f"{path}.refi must be > rfc + 2 rc ({self.rfc + 2 * self.rc}), got {self.refi}")
        if self.cl + self.burst + self.write_turnaround < self.cwl:
            lines.append(f"{path}.cwl must be <= cl + burst + write_turnaround, got {self.cwl}")
        return lines


@dataclass(frozen=True, kw_only=True)
class DramPart:
    """What one part offers: a stack of HBM, a GDDR chip, a module of DDR.

    Attributes
    ----------
    name, description
        Name in the catalogue, or the file's; what it is in words.
    clock_hz
        Command clock, Hz; all `timing` is in its cycles.
    channels
        Parts of it that work on their own: channels, or the pseudo channels of HBM.
    groups, banks
        Bank groups of a channel; banks of a group.
    rows, row_bytes
        Rows of a bank; bytes of a row over the whole width of the channel.
    access_bytes
        Bytes of one access: bus width times burst length.
    command_buses
        1, or 2 where row and column commands have a bus each.
    timing
        See there.
    sources
        Field path (``"timing.cl"``) -> where the number comes from.
    """

    name: str
    clock_hz: int
    channels: int
    groups: int
    banks: int
    rows: int
    row_bytes: int
    access_bytes: int
    timing: DramTiming
    command_buses: int = 1
    description: str = ""
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        raise_if_any(self.problems())
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))

    def problems(self) -> list[str]:
        """One line for each broken rule, the field's path first."""
        lines = [line for name in _COUNTS for line in count_problem(name, getattr(self, name))]
        if not lines and self.row_bytes % self.access_bytes:
            lines.append(
                f"row_bytes must be a multiple of access_bytes ({self.access_bytes}), got {self.row_bytes}"
            )
        if not lines and self.command_buses > 2:
            lines.append(f"command_buses must be 1 or 2, got {self.command_buses}")
        return lines + self.timing.problems()

    @property
    def columns(self) -> int:
        """Accesses in one row."""
        return self.row_bytes // self.access_bytes

    @property
    def channel_bytes(self) -> int:
        """Capacity of one channel."""
        return self.groups * self.banks * self.rows * self.row_bytes

    @property
    def channel_bytes_per_s(self) -> int:
        """Peak of one channel, bytes per second, rounded down: one access after the other, no refresh."""
        return self.access_bytes * self.clock_hz // max(self.timing.burst, self.timing.ccd_s)


_COUNTS = ("clock_hz", "channels", "groups", "banks", "rows", "row_bytes", "access_bytes", "command_buses")
_PATHS = {"description", *_COUNTS, *(f"timing.{f.name}" for f in fields(DramTiming))}
_OPTIONAL = {"description", "command_buses", "timing.activate_slots"}
_QUANTITIES: dict[str, Dimension] = {"clock_hz": "frequency", "row_bytes": "size", "access_bytes": "size"}


@cache
def dram_parts() -> tuple[str, ...]:
    """Names of the DRAM parts that ship with the package."""
    return tuple(sorted(path.stem for path in _CATALOGUE.glob("*.toml")))


def load_dram_part(part: str | os.PathLike[str]) -> DramPart:
    """Load a part of the catalogue by name, or from a ``.toml`` file.

    Raises
    ------
    SystolicError
        All mistakes at once, one line each.
    """
    name = os.fspath(part) if isinstance(part, (str, os.PathLike)) else None
    if not isinstance(name, str):
        raise SystolicError(f"a DRAM part must be a name or the path of a .toml file, got {shown(part)}")
    if name in dram_parts():
        return _shipped(name)
    if name.endswith(".toml"):
        return _load(Path(name), name)
    raise SystolicError(f"DRAM part {shown(name)} is not in the catalogue{did_you_mean(name, dram_parts())}")


@cache
def _shipped(name: str) -> DramPart:
    return _load(_CATALOGUE / f"{name}.toml", name)


def _load(path: Path, label: str) -> DramPart:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SystolicError(f"{label}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise SystolicError(f"{label}: must be valid TOML in UTF-8: {error}") from None
    try:
        return _part_of(raw, path.stem)
    except SystolicError as error:
        raise SystolicError(*(f"{label}: {line}" for line in error.problems)) from None


def _part_of(raw: Mapping[str, Any], name: str) -> DramPart:
    top = {key: value for key, value in raw.items() if key not in ("schema", "timing", "source")}
    timing, source = raw.get("timing", {}), raw.get("source", {})
    tables = (("timing", timing), ("source", source))
    lines = [
        f"{key} must be a table, got {shown(table)}" for key, table in tables if not isinstance(table, dict)
    ]
    raise_if_any(lines)
    if raw.get("schema") != SCHEMA:
        lines.append(f"schema must be {SCHEMA}, got {shown(raw.get('schema'))}")
    given = {*top, *(f"timing.{key}" for key in timing)}
    lines += [
        f"{path} is no field of a DRAM part{did_you_mean(path, _PATHS)}" for path in sorted(given - _PATHS)
    ]
    lines += [f"source: {path} is no field of a DRAM part" for path in sorted(set(source) - _PATHS)]
    lines += [f"{path} must be given" for path in sorted(_PATHS - _OPTIONAL - given)]
    raise_if_any(lines)
    for key, dimension in _QUANTITIES.items():
        try:
            top[key] = parse_quantity(top[key], dimension, key)
        except SystolicError as error:
            lines += error.problems
    raise_if_any(lines)
    return DramPart(name=name, timing=DramTiming(**timing), sources=source, **top)
