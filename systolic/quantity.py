"""Physical quantities as people write them: ``"1050 MHz"``, ``"24 MiB"``, ``"1200 GB/s"``.

Sizes are binary when written KiB/MiB/GiB and decimal when written kB/MB/GB; rates are decimal
(GB/s is 10**9 bytes per second). Values inside the program are exact integers in base units
(Hz, bytes, bytes/s) or nanoseconds.
"""

from __future__ import annotations

import operator
import re
from fractions import Fraction
from typing import Literal

from .errors import SystolicError, shown

COUNT_LIMIT = 2**63
"""Counts and base units stay below this, so that they fit 64-bit integers in arrays."""

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
# Two digits of exponent and forty of mantissa hold every quantity below COUNT_LIMIT, and keep a
# text such as "1e999999999 Hz" from being expanded.
_TEXT = re.compile(r"(-?[0-9](?:_?[0-9]){0,39}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,2})?)\s*([A-Za-z/]*)")


def whole_number(value: object) -> int | None:
    """`value` as a Python int, or None where it is no whole number by type.

    Python's and NumPy's integers are whole numbers; booleans, floats such as 4.0 and texts are not.
    """
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def count_problem(field: str, value: object, least: int = 1, alternative: str = "") -> list[str]:
    """The line to report when `value` is no count of at least `least` (0 or 1); else none.

    `alternative` follows the rule in the text: what else may stand there.
    """
    rule = f"{'> 0' if least == 1 else '>= 0'}{alternative}"
    number = whole_number(value)
    if number is None:
        return [f"{field} must be a whole number {rule}, got {shown(value)}"]
    if number < least:
        return [f"{field} must be {rule}, got {number}"]
    if number >= COUNT_LIMIT:
        return [f"{field} must be < 2**63, got a number of {number.bit_length()} bits"]
    return []


def parse_quantity(value: object, dimension: Dimension, field: str) -> int:
    """Read a quantity and return it as an integer in base units (Hz, bytes, bytes/s, ns).

    Parameters
    ----------
    value
        An integer in base units, or a text of a number and a unit (no unit: base units).
    dimension
        What is measured.
    field
        Name of the field, for the error text.

    Returns
    -------
    int
        Exact. A negative integer is returned as it is: its range is the caller's to judge.

    Raises
    ------
    SystolicError
        If it is neither an integer nor a text, the text has no such unit, or its value is negative
        or not a whole number of base units.
    """
    hint = f"write a whole number of {_BASE[dimension]} or a text such as {_EXAMPLE[dimension]!r}"
    number = whole_number(value)
    if number is not None:
        return number
    if not isinstance(value, str):
        raise SystolicError(f"{field} must be a {dimension}, got {shown(value)}; {hint}")
    match = _TEXT.fullmatch(value.strip())
    units = _UNITS[dimension]
    if match is None or (match[2] and match[2] not in units):
        raise SystolicError(
            f"{field} must be a {dimension} in {', '.join(units)}, got {shown(value)}; {hint}"
        )
    exact = Fraction(match[1].replace("_", "")) * units[match[2] or next(iter(units))]
    if exact.denominator != 1:
        raise SystolicError(f"{field} must be a whole number of {_BASE[dimension]}, got {shown(value)}")
    if exact < 0:
        raise SystolicError(f"{field} must not be negative, got {shown(value)}")
    return int(exact)


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    """`value` in the largest unit that it reaches, four digits, no exponent for large values."""
    scale, unit = next((step for step in steps if abs(value) >= step[0]), steps[-1])
    shown = value / scale
    return f"{shown:.0f} {unit}" if 1e4 <= abs(shown) < 1e15 else f"{shown:.4g} {unit}"


def format_seconds(seconds: float) -> str:
    """Time with a unit that keeps it readable, from ps to s; never rounded to 0."""
    if seconds == 0:
        return "0 s"
    return _scaled(seconds, ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps")))


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
