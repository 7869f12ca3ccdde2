"""What a kernel computes, bit for bit; no timing."""

from __future__ import annotations

import numpy as np

from ...blocks.products import in_threads, integer_products
from ...chips.cpu import CpuChip
from ...dtypes import DTYPES
from ...numerics.rounding import integer_range, round_to
from ..base import Values
from .blocking import blocks_of
from .steps import GemmStep

SECONDS_PER_MAC = 7e-10
"""Host seconds that a check of these values takes for each MAC, on two cores, of the tile unit's sums."""


def values(step: GemmStep, chip: CpuChip, lhs: np.ndarray, rhs: np.ndarray) -> Values:
    """Values of a matmul step for operands lhs (batch, m, k) and rhs (batch, k, n).

    All kernels go through k in rising order. ``naive`` and ``reordered`` round the product, then the sum;
    ``simd`` rounds once (fused multiply-add); ``blocked`` does so in each block of k from zero, and adds the
    block's sum to the result; ``amx`` as :func:`systolic.kernels.tiles.tile_sums`.
    """
    if DTYPES[step.dtype].kind == "int":
        return Values(*integer_products(lhs, rhs, lhs.shape[-1], "int32"))
    a, b = (_entering(x, dtype) for x, dtype in ((lhs, step.op.dtype), (rhs, str(step.op.rhs_dtype))))
    return Values(_returned(_sums(step, chip, a, b), str(step.op.out_dtype)))


def _sums(step: GemmStep, chip: CpuChip, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Float sums of one kernel, float32 (batch, m, n)."""
    from ...kernels.fused import fma_sums
    from ...kernels.tiles import tile_sums
    from ...kernels.values import chain_sums

    depth = a.shape[-1]
    out = np.empty((*a.shape[:2], b.shape[-1]), np.float32)
    match step.kernel:
        case "naive" | "reordered":
            in_threads(a, b, lambda x, y, to: chain_sums(x, y, depth, to), out)
        case "simd":
            in_threads(a, b, fma_sums, out)
        case "blocked":
            part = np.empty_like(out)
            block = blocks_of(step.kernel, step.dtype, chip).k
            for k in range(0, depth, block):
                x, y = (np.ascontiguousarray(z) for z in (a[..., k : k + block], b[:, k : k + block]))
                in_threads(x, y, fma_sums, part if k else out)
                if k:
                    out += part
        case "amx":
            in_threads(a, b, tile_sums, out)
    return out


def _entering(x: np.ndarray, stored: str) -> np.ndarray:
    """An operand as the multipliers get it, rounded to its own format."""
    x = np.ascontiguousarray(x, np.float32)
    return x if DTYPES[stored].kind == "int" else round_to(x, stored)


def _returned(sums: np.ndarray, out_dtype: str) -> np.ndarray:
    """Float sums in the format of the result; those of integers are whole, and saturate."""
    if DTYPES[out_dtype].kind == "float":
        return round_to(sums, out_dtype)
    return np.clip(sums.astype(np.float64), *integer_range(out_dtype)).astype(np.int32)
