"""Number formats of a matmul on a GPU: what is stored, multiplied, summed and returned, and on which pipe.

Operands are turned into the multiplied format on their way from shared memory; that costs no cycles here.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...chips.gpu import GpuChip
from ...dtypes import DTYPES, accumulator_of
from ...numerics.formats import multiplied_format, refuse_other_sums, refuse_unformatted, upcast_notes
from ...workload import Gemm
from ..base import Precision

SCALAR = {"float": "fp32", "int": "int32"}
"""Format of the sums of the scalar lanes."""


@dataclass(frozen=True, kw_only=True)
class Formats:
    """How the numbers of a matmul go through an SM.

    Attributes
    ----------
    lhs, rhs
        Formats whose numbers enter the multipliers.
    multiplied
        Format of the multipliers; it holds the numbers of both.
    tensor
        Whether tensor cores multiply; else the scalar lanes do, by fused multiply-adds in fp32, or in int32.
    acc, out
        Formats of the sums and of the result.
    note
        What differs from what was asked, or "".
    """

    lhs: str
    rhs: str
    multiplied: str
    tensor: bool
    acc: str
    out: str
    note: str = ""

    @property
    def is_float(self) -> bool:
        """Whether floats are multiplied."""
        return DTYPES[self.multiplied].kind == "float"


def formats_of(op: Gemm, chip: GpuChip, *, scalar: bool = False) -> Formats:
    """The formats of a matmul on a chip.

    An fp32 matmul is rounded to tf32 where the tensor cores have it, unless its precision is ``highest``:
    what JAX does on GPUs (documentation of ``jax.lax.Precision``). A format that the chip does not multiply
    is upcast (:mod:`systolic.numerics.formats` says to which).

    Parameters
    ----------
    op, chip
        The matmul and the chip.
    scalar
        Whether a kernel without tensor cores is pinned.

    Raises
    ------
    SystolicError
        For formats that the chip has no multiplier for.
    """
    lhs, rhs = op.dtype, str(op.rhs_dtype)
    rates = dict(chip.sm.macs)
    if scalar:
        multiplied, tensor = "fp32" if accumulator_of(lhs, rhs) == "fp32" else "int8", False
        acc = SCALAR[DTYPES[multiplied].kind]
        rounded = False
    else:
        rounded = "fp32" in (lhs, rhs) and "tf32" in rates and op.precision != "highest"
        asked = ["tf32" if rounded and d == "fp32" else d for d in (lhs, rhs)]
        found = multiplied_format(asked[0], asked[1], rates)
        if found is None:
            raise refuse_unformatted(op, rates, chip.name)
        multiplied, tensor = found, found in chip.tensor.group
        acc = chip.tensor.acc_dtype(multiplied) if tensor else SCALAR[DTYPES[multiplied].kind]
    refuse_other_sums(op, acc, chip.name)
    entering = {d: "tf32" if rounded and d == "fp32" else d for d in (lhs, rhs)}
    notes = ["fp32 operands rounded to tf32"] if rounded else []
    if not scalar:
        which = {lhs: "operands"} if lhs == rhs else {lhs: "lhs", rhs: "rhs"}
        notes += [n for d, operand in which.items() for n in upcast_notes(entering[d], operand, multiplied)]
    if accumulator_of(lhs, rhs) == "int32" and DTYPES[acc].kind == "float":
        notes.append(f"integer sums in {acc}, exact up to 2^{DTYPES[acc].precision}")
    return Formats(
        lhs=entering[lhs],
        rhs=entering[rhs],
        multiplied=multiplied,
        tensor=tensor,
        acc=acc,
        out=str(op.out_dtype),
        note=", ".join(notes),
    )


def precision_of(formats: Formats, chip: GpuChip, k: int, slices: int) -> Precision:
    """Effective precision of sums over k products, cut into `slices` that are added in fp32.

    A tensor core's group of L products cuts L + 1 terms, each at the `align`-th fraction bit of the largest,
    which is at most the sum of all sizes; then it cuts the sum to its register. In units of the accumulator's
    roundoff u = 2**-p that is (L + 1) 2**(p - align) + 2 roundings of what is summed so far.
    """
    depth = -(-k // slices)
    acc = formats.acc
    roundings = depth
    if formats.tensor and formats.is_float:
        group = chip.tensor.group[formats.multiplied]
        align = chip.tensor.align.get(formats.multiplied)
        bits = DTYPES[acc].precision
        promote = promoted(formats, chip) or depth
        groups = -(-min(depth, promote) // group)
        if align is not None:
            roundings = groups * (
                -(-((group + 1) << max(0, bits - align)) // (1 << max(0, align - bits))) + 2
            )
        # Sums in fp32 round less than a narrower register by the ratio of their units.
        wider = 2.0 ** (bits - DTYPES["fp32"].precision)
        roundings += int((-(-depth // promote) + slices) * wider) + 1
    elif formats.is_float:
        roundings += slices
    return Precision(
        lhs_dtype=formats.lhs,
        rhs_dtype=formats.rhs,
        acc_dtype=acc,
        out_dtype=formats.out,
        roundings=roundings,
        note=formats.note,
    )


def promoted(formats: Formats, chip: GpuChip) -> int | None:
    """Products after which the register is added to a sum in fp32; None where it is as wide as that."""
    if not formats.tensor or formats.acc in ("fp32", "int32"):
        return None
    every, group = chip.policy.promote_k, chip.tensor.group[formats.multiplied]
    return None if every is None else -(-every // group) * group
