"""Number formats of a matmul on a CPU, and the roundings of each kernel's sums."""

from __future__ import annotations

from ...chips.cpu import CpuChip
from ...dtypes import DTYPES, accumulator_of
from ...numerics.formats import multiplied_format, refuse_other_sums, refuse_unformatted, upcast_notes
from ...workload import Gemm
from ..base import Precision
from .blocking import blocks_of
from .steps import GemmStep

TILE_BLOCK = 32
"""Products of bf16 numbers of one TDPBF16PS and element: two chains of 16 (:mod:`systolic.kernels.tiles`)."""


def format_of(op: Gemm, chip: CpuChip, *, tiles: bool) -> tuple[str, str]:
    """Format that the operands are multiplied in, and a note where it is not their own.

    Raises
    ------
    SystolicError
        For formats that the vector lanes (or the tile unit, with `tiles`) do not multiply.
    """
    lhs, rhs = op.dtype, str(op.rhs_dtype)
    rates = dict(chip.core.tile_macs) if tiles else {"fp32": chip.macs_per_cycle("fp32")}
    found = multiplied_format(lhs, rhs, rates)
    if found is None:
        raise refuse_unformatted(op, rates, chip.name)
    acc = accumulator_of(found)
    refuse_other_sums(op, acc, chip.name)
    which = {lhs: "operands"} if lhs == rhs else {lhs: "lhs", rhs: "rhs"}
    notes = [note for dtype, operand in which.items() for note in upcast_notes(dtype, operand, found)]
    if accumulator_of(lhs, rhs) == "int32" and DTYPES[acc].kind == "float":
        notes.append(f"integer sums in {acc}, exact up to 2^{DTYPES[acc].precision}")
    if found == "bf16":
        notes.append("subnormals count as zero")
    return found, ", ".join(notes)


def precision_of(step: GemmStep, chip: CpuChip) -> Precision:
    """Effective precision: most roundings that a product meets, in its kernel's own order of sums."""
    k = step.op.k
    match step.kernel:
        case "naive" | "reordered":
            roundings = k + 1  # its own, and one for each sum
        case "simd":
            roundings = k
        case "blocked":
            deep = min(k, blocks_of(step.kernel, step.dtype, chip).k)
            roundings = deep + -(-k // deep)
        case "amx":
            roundings = TILE_BLOCK // 2 + 1 + -(-k // TILE_BLOCK)
    return Precision(
        lhs_dtype=step.op.dtype,
        rhs_dtype=str(step.op.rhs_dtype),
        acc_dtype=accumulator_of(step.dtype),
        out_dtype=str(step.op.out_dtype),
        roundings=roundings,
        note=step.note,
    )
