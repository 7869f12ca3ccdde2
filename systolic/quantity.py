"""Physical quantities as people write them: ``"1050 MHz"``, ``"24 MiB"``, ``"1200 GB/s"``.

Sizes are binary when written KiB/MiB/GiB and decimal when written kB/MB/GB; rates are decimal
(GB/s is 10**9 bytes per second). Values inside the program are exact integers in base units
(Hz, bytes, bytes/s) or nanoseconds.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

from .errors import SystolicError

Dimension = Literal["frequency", "size", "rate", "time"]

_UNITS: dict[Dimension, dict[str, Fraction]] = {
    "frequency": {"Hz": Fraction(1), "kHz": Fraction(10**3), "MHz": Fraction(10**6), "GHz": Fraction(10**9)},
    "size": {
        "B": Fraction(1),
        **{f"{p}B": Fraction(1000**i) for i, p in enumerate(("k", "M", "G", "T"), 1)},
        **{f"{p}iB": Fraction(1024**i) for i, p in enumerate(("K", "M", "G", "T"), 1)},
    },
    "rate": {
        "B/s": Fraction(1),
        **{f"{p}B/s": Fraction(1000**i) for i, p in enumerate(("k", "M", "G", "T"), 1)},
        **{f"{p}iB/s": Fraction(1024**i) for i, p in enumerate(("K", "M", "G", "T"), 1)},
    },
    "time": {"ns": Fraction(1), "us": Fraction(10**3), "ms": Fraction(10**6), "s": Fraction(10**9)},
}
_BASE = {"frequency": "Hz", "size": "bytes", "rate": "bytes/s", "time": "ns"}
_EXAMPLE = {"frequency": "1050 MHz", "size": "24 MiB", "rate": "1200 GB/s", "time": "484 ns"}
_TEXT = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z/]*)")


def parse_quantity(value: object, dimension: Dimension, field: str) -> int:
    """Read a quantity and return it as an integer in base units (Hz, bytes, bytes/s, ns).

    Parameters
    ----------
    value
        An integer in base units, or a text of a number and a unit.
    dimension
        What is measured.
    field
        Name of the field, for the error text.

    Raises
    ------
    SystolicError
        If the text has no such unit, or the value is not a whole number of base units.
    """
    hint = f"write a whole number of {_BASE[dimension]} or a text such as {_EXAMPLE[dimension]!r}"
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise SystolicError(f"{field} must be a {dimension}, got {value!r}; {hint}")
    if isinstance(value, int):
        return value
    match = _TEXT.fullmatch(value.strip())
    units = _UNITS[dimension]
    if match is None or (match[2] and match[2] not in units):
        raise SystolicError(
            f"{field} must be a {dimension} in {', '.join(units)}, got {value!r}; {hint}"
        )
    exact = Fraction(match[1].replace("_", "")) * units[match[2] or next(iter(units))]
    if exact.denominator != 1:
        raise SystolicError(f"{field} must be a whole number of {_BASE[dimension]}, got {value!r}")
    return int(exact)


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    for scale, unit in steps:
        if abs(value) >= scale:
            return f"{value / scale:.4g} {unit}"
    scale, unit = steps[-1]
    return f"{value / scale:.4g} {unit}"


def format_seconds(seconds: float) -> str:
    """Time with a unit that keeps it readable, from ps to s; never rounded to 0."""
    return _scaled(
        seconds, ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps"))
    )


def format_bytes(count: int) -> str:
    """Size in binary units, exact below 1 KiB."""
    return _scaled(count, ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")))


def format_rate(bytes_per_s: float) -> str:
    """Bandwidth in decimal units: GB/s is 10**9 bytes per second."""
    return _scaled(bytes_per_s, ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")))


def format_count(count: float) -> str:
    """Plain count with a decimal prefix and no unit: 1.2 G."""
    return _scaled(count, ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))).strip()


def format_hz(hz: int) -> str:
    """Clock in MHz or GHz."""
    return _scaled(hz, ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1, "Hz")))


def transfer_cycles(num_bytes: int, bytes_per_s: int | None, clock_hz: int) -> int:
    """Cycles of the named clock that `num_bytes` take: ceil(bytes * clock / bandwidth), exact.

    An unlimited bandwidth (None) takes 0 cycles.
    """
    if bytes_per_s is None or num_bytes == 0:
        return 0
    return -(-num_bytes * clock_hz // bytes_per_s)


def latency_cycles(nanoseconds: int, clock_hz: int) -> int:
    """Cycles of the named clock that a latency takes, rounded up."""
    return -(-nanoseconds * clock_hz // 10**9)
