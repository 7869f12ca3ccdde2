"""Number formats of a matmul on an array: what is stored, multiplied, summed and returned.

Operands travel at their own width and are turned into the multiplied format, or cut into parts, on their way
into the array. That costs no cycles here: the vector work of it is not charged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...chips.tpu import TpuChip
from ...dtypes import DTYPES, accumulator_of, holds
from ...numerics.formats import multiplied_format, refuse_other_sums, refuse_unformatted, upcast_notes
from ...numerics.parts import PASSES, parts_of
from ...workload import Gemm
from ..base import Precision


@dataclass(frozen=True, kw_only=True)
class Formats:
    """How the numbers of a matmul go through an array.

    Attributes
    ----------
    lhs, rhs
        Formats whose numbers enter the multipliers.
    multiplied
        Format of the multipliers; it holds the numbers of both.
    acc, out
        Formats of the sums and of the result.
    passes
        How often each array tile runs: 3 or 6 where fp32 operands enter as 2 or 3 parts.
    note
        What differs from what was asked, or "".
    """

    lhs: str
    rhs: str
    multiplied: str
    acc: str
    out: str
    passes: int = 1
    note: str = ""

    @property
    def is_float(self) -> bool:
        """Whether the array multiplies floats."""
        return DTYPES[self.multiplied].kind == "float"

    def precision(self, sums: int) -> Precision:
        """Effective precision where a product takes part in at most so many sums, all passes together.

        A sum is formed in fp32 before its register rounds it. What the two roundings of a narrower register
        exceed one by is counted in its own roundings, doubled to be on the safe side.
        """
        exact = 2 * DTYPES[self.multiplied].precision <= DTYPES["fp32"].precision
        roundings = sums + (0 if exact else 1)
        if self.acc != "fp32" and self.is_float:
            narrower = DTYPES["fp32"].unit_roundoff / DTYPES[self.acc].unit_roundoff
            roundings = sums + 1 + int(2 * (sums + 1) * narrower)
        return Precision(
            lhs_dtype=self.lhs,
            rhs_dtype=self.rhs,
            acc_dtype=self.acc,
            out_dtype=self.out,
            roundings=roundings,
            passes=self.passes,
            note=self.note,
        )


def formats_of(op: Gemm, chip: TpuChip) -> Formats:
    """The formats of a matmul on a chip.

    A format that the array does not multiply is upcast (:mod:`systolic.numerics.formats` says to which). fp32
    is rounded to bf16, or cut into parts by the precision asked for.

    Raises
    ------
    SystolicError
        For formats that the chip has no multiplier for.
    """
    lhs, rhs = op.dtype, str(op.rhs_dtype)
    multiplied = multiplied_format(lhs, rhs, chip.array.lanes)
    splits = multiplied is None and "fp32" in (lhs, rhs) and "bf16" in chip.array.lanes
    if splits and all(d == "fp32" or holds("bf16", d) for d in (lhs, rhs)):
        multiplied = "bf16"
    if multiplied is None:
        raise refuse_unformatted(op, chip.array.lanes, chip.name)
    acc = chip.array.acc_dtype(multiplied)
    refuse_other_sums(op, acc, chip.name)
    passes = PASSES[op.precision] if splits else 1
    entering = {d: "bf16" if splits and d == "fp32" else d for d in (lhs, rhs)}
    return Formats(
        lhs=entering[lhs],
        rhs=entering[rhs],
        multiplied=multiplied,
        acc=acc,
        out=str(op.out_dtype),
        passes=passes,
        note=", ".join(_notes(lhs, rhs, multiplied, passes, acc)),
    )


def _notes(lhs: str, rhs: str, multiplied: str, passes: int, acc: str) -> Iterable[str]:
    which = {lhs: "operands"} if lhs == rhs else {lhs: "lhs", rhs: "rhs"}
    if multiplied == "bf16" and "fp32" in which:
        cut = f"as {parts_of(passes)} bf16 parts, {passes} passes"
        yield f"fp32 {which.pop('fp32')} {'rounded to bf16, one pass' if passes == 1 else cut}"
    for dtype, operand in which.items():
        yield from upcast_notes(dtype, operand, multiplied)
    if accumulator_of(lhs, rhs) == "int32" and DTYPES[acc].kind == "float":
        yield f"integer sums in {acc}, exact up to 2^{DTYPES[acc].precision}"
