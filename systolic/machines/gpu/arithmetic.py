"""What a kernel computes, bit for bit; no timing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...blocks.products import in_threads, integer_products
from ...chips.gpu import GpuChip
from ...dtypes import DTYPES
from ...numerics.rounding import integer_range, round_to
from ...workload import Gemm
from ..base import Values
from .formats import Formats, promoted
from .steps import AttentionStep, GemmStep

SECONDS_PER_MAC = 7e-10
"""Host seconds that a check of these values takes for each MAC, on two cores, on tensor cores."""

NEVER = 1 << 40
"""More products than any sum has."""


def values(step: GemmStep | AttentionStep, chip: GpuChip, lhs: np.ndarray, rhs: np.ndarray) -> Values:
    """Values of a matmul step for operands lhs (batch, m, k) and rhs (batch, k, n)."""
    slices = step.plan.split_k if isinstance(step, GemmStep) else 1
    assert isinstance(step.op, Gemm)
    return products(step.formats, chip, slices, (step.op.dtype, str(step.op.rhs_dtype)), lhs, rhs)


def products(
    formats: Formats, chip: GpuChip, slices: int, stored: tuple[str, str], lhs: np.ndarray, rhs: np.ndarray
) -> Values:
    """Products of operands lhs (batch, m, k) and rhs (batch, k, n) in a kernel's order and precision.

    A scalar lane adds one product after the other, each with a fused multiply-add; a tensor core adds groups
    of products (:mod:`systolic.kernels.fused`). Both go through k in rising order. A split k is cut into
    `slices` equal parts (the last one takes what is left), whose sums are added in fp32 in rising k.

    Parameters
    ----------
    formats
        Of the matmul.
    chip
        Its tensor cores decide how many products are added at once, and which bits survive.
    slices
        Parts of k that different thread blocks sum.
    stored
        Formats in which lhs and rhs lie in memory.
    """
    if not formats.is_float:
        return Values(*integer_products(lhs, rhs, lhs.shape[-1], formats.acc))
    a = _entering(lhs, stored[0], formats.lhs)
    b = _entering(rhs, stored[1], formats.rhs)
    depth = a.shape[-1]
    part = -(-depth // slices)
    total: np.ndarray | None = None
    for k0 in range(0, depth, part):
        out = np.empty((*a.shape[:2], b.shape[-1]), np.float32)
        x = np.ascontiguousarray(a[..., k0 : k0 + part])
        y = np.ascontiguousarray(b[:, k0 : k0 + part])
        in_threads(x, y, _kernel(formats, chip), out)
        total = out if total is None else total + out
    assert total is not None
    return Values(_returned(total, formats.out))


def _entering(x: np.ndarray, stored: str, entering: str) -> np.ndarray:
    """An operand as the multipliers get it: rounded to its own format, and to that of the multipliers."""
    x = np.ascontiguousarray(x, np.float32)
    if DTYPES[stored].kind == "int":
        return x
    return round_to(round_to(x, stored), entering)


def _returned(sums: np.ndarray, out_dtype: str) -> np.ndarray:
    """Float sums in the format of the result; those of integers are whole, and saturate."""
    if DTYPES[out_dtype].kind == "float":
        return round_to(sums, out_dtype)
    return np.clip(sums.astype(np.float64), *integer_range(out_dtype)).astype(np.int32)


def _kernel(formats: Formats, chip: GpuChip) -> Callable[..., Any]:
    """The kernel that sets out = A @ B for one slice of k."""
    from ...kernels.fused import exponents, fma_sums, fused_sums

    align = chip.tensor.align.get(formats.multiplied) if formats.tensor else None
    if align is None:
        return fma_sums
    group = chip.tensor.group[formats.multiplied]
    keep = DTYPES[formats.acc].precision - 1
    promote = promoted(formats, chip) or NEVER
    lowest = _lowest_exponent(formats.multiplied)

    def run(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        of_a, of_b = np.empty(a.shape, np.int32), np.empty(b.shape, np.int32)
        exponents(a, lowest, of_a)
        exponents(b, lowest, of_b)
        fused_sums(a, b, of_a, of_b, group, align, keep, promote, out)

    return run


def _lowest_exponent(dtype: str) -> int:
    """Exponent of a float format's smallest normal number: 2 - 2**(e - 1) with e bits of exponent."""
    return 2 - (1 << (DTYPES[dtype].exponent - 1))
