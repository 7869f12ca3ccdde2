"""Out-of-order cores: what they dispatch, hold and issue, read from ``cores/*.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import SystolicError, did_you_mean, shown

_CATALOGUE = Path(__file__).parent / "cores"


class UopClass(BaseModel):
    """One µop: the ports that may take it, and cycles from its issue to one that needs its result."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    ports: tuple[str, ...] = Field(min_length=1)
    latency: int = Field(ge=0)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_: int = Field(alias="schema", ge=1, le=1)
    name: str
    width: int = Field(gt=0)
    window: int = Field(gt=0)
    scheduler: int = Field(gt=0)
    load_buffer: int = Field(gt=0)
    store_buffer: int = Field(gt=0)
    fuses: bool = False
    ports: tuple[str, ...] = Field(min_length=1)
    uops: dict[str, UopClass]


@dataclass(frozen=True, kw_only=True)
class CoreSpec:
    """An out-of-order core.

    Attributes
    ----------
    name
        What it is called.
    width
        µops that are renamed and dispatched per cycle, in program order.
    window
        µops between dispatch and retirement (re-order buffer).
    scheduler
        µops that wait for operands or a port.
    load_buffer, store_buffer
        Loads and stores between dispatch and retirement.
    fuses
        Whether the µops of an instruction count once against width and window.
    ports
        Names; each takes one µop per cycle.
    uops
        Class of µop -> ports and latency. A class followed by 256 or 512 is that of wider vectors, where it
        differs. A store is two µops, ``store_address`` and ``store_data``, or one, ``store``.
    """

    name: str
    width: int
    window: int
    scheduler: int
    load_buffer: int
    store_buffer: int
    fuses: bool
    ports: tuple[str, ...]
    uops: Mapping[str, UopClass]

    def uop(self, kind: str, bits: int) -> UopClass:
        """The µop of class `kind` on registers of `bits`, the widest that the file has up to that.

        Raises
        ------
        SystolicError
            If the core has none.
        """
        for wide in (512, 256):
            if bits >= wide and f"{kind}{wide}" in self.uops:
                return self.uops[f"{kind}{wide}"]
        if bits > 256 and "fma512" not in self.uops:
            raise SystolicError(f"{self.name} has no registers of {bits} bits; take at most 256")
        if kind not in self.uops:
            raise SystolicError(f"{self.name} has no µop {kind!r}; it has {', '.join(self.uops)}")
        return self.uops[kind]


@cache
def cores() -> tuple[str, ...]:
    """Names in the catalogue."""
    return tuple(sorted(path.stem for path in _CATALOGUE.glob("*.toml")))


@cache
def load_core(name: str) -> CoreSpec:
    """A core of the catalogue.

    Raises
    ------
    SystolicError
        If there is none of this name, or its file breaks a rule.
    """
    if name not in cores():
        raise SystolicError(f"core {shown(name)} is not in the catalogue{did_you_mean(name, cores())}")
    path = _CATALOGUE / f"{name}.toml"
    try:
        read = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SystolicError(f"{path.name}: {where}: {first['msg']}, got {first['input']!r}") from error
    unknown = {port for kind in read.uops.values() for port in kind.ports} - set(read.ports)
    if unknown:
        raise SystolicError(f"{path.name}: uops name ports that there are not: {', '.join(sorted(unknown))}")
    fields = read.model_dump(exclude={"schema_", "uops"})
    return CoreSpec(**fields, uops=read.uops)
