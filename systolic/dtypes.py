"""Number formats by name: width, kind, and the names that JAX, NumPy and model files give them.

Only names and widths live here; encoding and rounding are in :mod:`systolic.numerics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .errors import SystolicError, did_you_mean, shown


@dataclass(frozen=True, kw_only=True)
class DType:
    """A number format.

    Attributes
    ----------
    name
        The canonical name, the one that reports print.
    bits
        Width of one element in memory, bits.
    kind
        ``"float"`` or ``"int"``.
    precision
        Significant bits of a float, the implicit one included (fp32: 24); 0 for integers.
    exponent
        Bits of a float's exponent; 0 for integers.
    """

    name: str
    bits: int
    kind: Literal["float", "int"]
    precision: int = 0
    exponent: int = 0

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding to nearest: 2**-precision; 0 for integers."""
        return 2.0**-self.precision if self.kind == "float" else 0.0


# Significant and exponent bits: IEEE 754-2019 table 3.5 (fp32, fp16); bf16 and tf32 as published by
# their vendors (8 and 11 bits with the implicit one); OCP 8-bit floating point specification 1.0 (fp8).
# fp22, int16 and int32 are formats of sums only. fp22 (1 sign, 8 exponent, 13 fraction bits; it takes a
# 32-bit word in memory) is what is left of fp32 sums in Hopper's fp8 tensor cores: DeepSeek-AI,
# DeepSeek-V3 Technical Report, 2024, section 3.3.2 ("around 14 bits").
DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType(name="fp32", bits=32, kind="float", precision=24, exponent=8),
        DType(name="tf32", bits=32, kind="float", precision=11, exponent=8),
        DType(name="fp22", bits=32, kind="float", precision=14, exponent=8),
        DType(name="bf16", bits=16, kind="float", precision=8, exponent=8),
        DType(name="fp16", bits=16, kind="float", precision=11, exponent=5),
        DType(name="fp8_e4m3", bits=8, kind="float", precision=4, exponent=4),
        DType(name="fp8_e5m2", bits=8, kind="float", precision=3, exponent=5),
        DType(name="int32", bits=32, kind="int"),
        DType(name="int16", bits=16, kind="int"),
        DType(name="int8", bits=8, kind="int"),
        DType(name="int4", bits=4, kind="int"),
    )
}

MULTIPLIED = tuple(d for d in DTYPES if d not in ("fp22", "int16", "int32"))
"""Formats that a chip may multiply; the others are summed in."""

SUMMED = {"float": ("fp32", "tf32", "fp22", "bf16"), "int": ("int32", "int16")}
"""Kind -> formats of accumulators, widest first; the floats have the exponent of fp32."""

_ALIASES = {
    "float32": "fp32",
    "f32": "fp32",
    "single": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "f16": "fp16",
    "half": "fp16",
    "float8_e4m3fn": "fp8_e4m3",
    "f8e4m3fn": "fp8_e4m3",
    "fp8": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
    "f8e5m2": "fp8_e5m2",
    "tensorfloat32": "tf32",
    "i16": "int16",
    "s16": "int16",
    "i32": "int32",
    "s32": "int32",
    "i8": "int8",
    "s8": "int8",
    "i4": "int4",
    "s4": "int4",
}


def canonical(name: object, field: str = "dtype") -> str:
    """Return the canonical name of a number format.

    Parameters
    ----------
    name
        A canonical name, one used by JAX, NumPy, PyTorch or HLO, in any case, or a NumPy or JAX
        dtype itself.
    field
        What to call it in the error text.

    Raises
    ------
    SystolicError
        If the name is unknown; the text suggests the closest one.
    """
    text = name if isinstance(name, str) else getattr(name, "name", getattr(name, "__name__", None))
    key = str(text).lower().removeprefix("torch.")
    key = _ALIASES.get(key, key)
    if key not in DTYPES:
        raise SystolicError(f"{field} must be a number format, got {shown(name)}{did_you_mean(key, DTYPES)}")
    return key


def bytes_of(elements: int, dtype: str) -> int:
    """Bytes that `elements` numbers of format `dtype` (canonical name) take when packed."""
    return (elements * DTYPES[dtype].bits + 7) // 8


def holds(wide: str, narrow: str) -> bool:
    """Whether each number of format `narrow` is one of `wide`: an upcast is exact; canonical names."""
    into, of = DTYPES[wide], DTYPES[narrow]
    if of.kind == "float":
        return into.kind == "float" and into.precision >= of.precision and into.exponent >= of.exponent
    if into.kind == "int":
        return into.bits >= of.bits
    return into.precision >= of.bits - 1  # the least integer is a power of two


def accumulator_of(*operands: str) -> str:
    """Default accumulator of operands in these formats: fp32 if any is a float, else int32."""
    return "fp32" if any(DTYPES[d].kind == "float" for d in operands) else "int32"


def output_of(*operands: str) -> str:
    """Default result format: the first float among the operands' formats, or int32 for integers."""
    return next((d for d in operands if DTYPES[d].kind == "float"), "int32")
