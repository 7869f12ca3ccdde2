"""Which number format of a chip's multipliers takes the operands of a matmul."""

from __future__ import annotations

from collections.abc import Mapping

from ..dtypes import DTYPES, MULTIPLIED, accumulator_of, holds
from ..errors import SystolicError
from ..workload import Gemm


def multiplied_format(lhs: str, rhs: str, rates: Mapping[str, int]) -> str | None:
    """The format of the multipliers that holds the numbers of both operands, or None.

    Parameters
    ----------
    lhs, rhs
        Formats of the operands, canonical names.
    rates
        Format that the chip multiplies -> its rate, in any unit.

    Returns
    -------
    str | None
        The operands' own where the chip multiplies it; else the narrowest that holds all numbers of both,
        which changes no value: what OpenXLA's compatibility mode does for int and fp8 operands (openxla.org,
        error code E2001).
    """
    if lhs == rhs and lhs in rates:
        return lhs
    if DTYPES[lhs].kind == DTYPES[rhs].kind == "float" and DTYPES[lhs].bits == DTYPES[rhs].bits == 8:
        # The two kinds of fp8 meet in one multiplier (JAX's tpu_info.py, is_matmul_supported; PTX ISA, mma).
        both = [d for d in (lhs, rhs) if d in rates]
        if len(both) == 2:
            return min(both, key=lambda d: rates[d])
    if not {lhs, rhs} <= set(MULTIPLIED):
        return None
    wide = [d for d in rates if holds(d, lhs) and holds(d, rhs)]
    integers = DTYPES[lhs].kind == DTYPES[rhs].kind == "int"
    return min(
        wide,
        key=lambda d: (integers and DTYPES[d].kind == "float", DTYPES[d].bits, -rates[d]),
        default=None,
    )


def refuse_unformatted(op: Gemm, rates: Mapping[str, int], chip: str) -> SystolicError:
    """The error for operands that no multiplier of a chip takes."""
    lhs, rhs = op.dtype, str(op.rhs_dtype)
    asked = lhs if lhs == rhs else f"{lhs} with rhs_dtype {rhs}"
    return SystolicError(
        f"{name_of(op)}: dtype {asked} must be one that the chip multiplies, or whose numbers such a one "
        f"holds; {chip} multiplies {', '.join(rates)}"
    )


def refuse_other_sums(op: Gemm, acc: str, chip: str) -> None:
    """Refuse sums and results in formats that the chip's accumulators, of format `acc`, do not give.

    Raises
    ------
    SystolicError
        For such an ``acc_dtype`` or ``out_dtype``.
    """
    default = accumulator_of(op.dtype, str(op.rhs_dtype))
    if op.acc_dtype not in (default, acc):
        raise SystolicError(f"{name_of(op)}: acc_dtype must be {acc} on {chip}, got {op.acc_dtype}")
    out = str(op.out_dtype)
    if (out != "int32") if default == "int32" else (DTYPES[out].kind != "float"):
        operands = " x ".join(dict.fromkeys((op.dtype, str(op.rhs_dtype))))
        raise SystolicError(
            f"{name_of(op)}: out_dtype {out} of a {operands} matmul is not modelled; use {default}"
        )


def upcast_notes(dtype: str, operand: str, multiplied: str) -> list[str]:
    """What the reader has to know where an operand is multiplied in another format than its own."""
    meet = {dtype, multiplied} == {"fp8_e4m3", "fp8_e5m2"}
    return [] if dtype == multiplied or meet else [f"{dtype} {operand} upcast to {multiplied}"]


def name_of(op: Gemm) -> str:
    """What error texts call a matmul."""
    return op.name or f"{op.m},{op.n},{op.k}"
