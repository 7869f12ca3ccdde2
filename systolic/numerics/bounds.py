"""How far two ways of adding up the same products may lie apart.

All bounds are for C = A B with a reduction of length k, per element of C, as a multiple of
(\\|A\\| \\|B\\|), the product of the absolute values: N. J. Higham, Accuracy and Stability of Numerical
Algorithms, 2nd edition (SIAM 2002), section 3.1 (gamma_n) and 3.5 (matrix multiplication).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..dtypes import DTYPES
from ..errors import SystolicError

REFERENCE_ROUNDOFF = 2.0**-23
"""Largest relative error of one operation of the reference, an fp32 matmul of some device.

Twice fp32's unit roundoff, since matrix units may truncate or round to odd where a CPU rounds to
nearest: Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ
Computer Science 7:e330 (2021), and BFMMLA in the Arm Architecture Reference Manual."""

_SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
_SMALLEST_SUBNORMAL = {"fp16": 2.0**-24}  # of accumulators whose underflow exceeds fp32's


def gamma(n: int, unit_roundoff: float) -> float:
    """gamma_n = n u / (1 - n u): the relative error that n roundings may add up to.

    Raises
    ------
    SystolicError
        If n u >= 1, where no such bound exists.
    """
    nu = n * unit_roundoff
    if not 0 <= nu < 1:
        raise SystolicError(
            f"no error bound exists for {n} roundings of relative size {unit_roundoff:.3g} (their product "
            "must be < 1); use a wider accumulator or switch the check off"
        )
    return nu / (1 - nu)


def split_error(passes: int, unit_roundoff: float) -> float:
    """Relative error of a product whose operands enter as sums of narrower parts.

    Parameters
    ----------
    passes
        1: operands enter as they are. 3: as two parts each, without the product of the two low
        parts. 6: as three parts each, without the three smallest products.
    unit_roundoff
        Of the parts' format, u. A part holds its operand up to a relative u, so that what is left
        out is at most u^2 (3 passes: low x low, and the rest of either operand) or u^3 (6 passes:
        middle x low twice, and the rest of either operand), times (1 + u) for each part.

    Raises
    ------
    SystolicError
        If there is no such scheme.
    """
    u = unit_roundoff
    if passes == 1:
        return 0.0
    if passes == 3:
        return 3 * u**2 * (1 + u) ** 2
    if passes == 6:
        return (4 * u**3 + u**4) * (1 + u) ** 4
    raise SystolicError(f"passes must be 1, 3 or 6, got {passes!r}")


@dataclass(frozen=True)
class Bound:
    """|chip - reference| <= `factor` * (|A| |B|) + `floor`, before the result is rounded.

    (|A| |B|) is itself computed by the reference in fp32; its error is allowed for in `factor`.
    """

    factor: float
    floor: float


def product_bound(
    *, k: int, roundings: int, acc_dtype: str, passes: int = 1, part_dtype: str = "bf16"
) -> Bound:
    """Bound on the difference between a chip's sums and an fp32 reference, both in any order.

    Parameters
    ----------
    k
        Reduction length.
    roundings
        Most roundings in `acc_dtype` that a product meets on its way into the finished sum, its own
        included unless it is exact.
    acc_dtype
        Canonical name of the format of the sums, a float.
    passes, part_dtype
        Into how many parts of which format the operands are cut: see :func:`split_error`.

    Returns
    -------
    Bound
        Its floor covers underflow: half the accumulator's smallest subnormal for each product
        (sums do not underflow), and fp32's smallest normal number for each operation of a
        reference that flushes subnormals to zero.

    Raises
    ------
    SystolicError
        If so many roundings in `acc_dtype` have no bound.
    """
    part = DTYPES[part_dtype].unit_roundoff
    spread = 1.0 if passes == 1 else (1 + part) ** 6  # parts that differ in sign exceed their sum
    chip = gamma(roundings, DTYPES[acc_dtype].unit_roundoff) * spread
    reference = gamma(k, REFERENCE_ROUNDOFF)
    ends = 4 * DTYPES["fp32"].unit_roundoff  # the bound's own evaluation in fp32: 2 sums, 2 products
    factor = (chip + split_error(passes, part) + reference + ends) / (1 - reference)
    smallest = _SMALLEST_SUBNORMAL.get(acc_dtype, 0.0)
    return Bound(factor, passes * k * (smallest / 2 + 2 * _SMALLEST_NORMAL))
