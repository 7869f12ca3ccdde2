"""What the arrays compute, bit for bit; no timing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes
from ...blocks.products import in_threads, integer_products
from ...chips.tpu import TpuChip
from ...numerics.parts import PRODUCTS, interleave, parts_of, split
from ...numerics.rounding import integer_range, round_to
from ..base import Values
from .lowering import GemmStep

SECONDS_PER_MAC = 1.5e-10
"""Host seconds that a check of these values takes for each MAC, on two cores (GPT-2 small: 22 s)."""


def values(step: GemmStep, chip: TpuChip, lhs: np.ndarray, rhs: np.ndarray) -> Values:
    """Values of the matmul for operands lhs (batch, m, k) and rhs (batch, k, n).

    Each PE multiplies, rounds, adds, rounds. Weight and input stationary start a chain at 0 in every
    array tile of k and the accumulators add chains in rising k; output stationary is one chain. Where a
    product takes several passes, these follow one another within each tile of k (output stationary: within
    each element of k), smallest products first.
    """
    if step.mode == "stepped":
        return _stepped_values(step, chip, lhs, rhs)
    depth = lhs.shape[-1]
    chain = depth if step.dataflow == "os" else min(depth, chip.array.rows)
    if not step.formats.is_float:
        return Values(*integer_products(lhs, rhs, chain, step.formats.acc))
    a, b = entering_parts(step, lhs, rhs)
    pairs = PRODUCTS[step.formats.passes]
    if len(pairs) > 1:
        group = 1 if step.dataflow == "os" else chain
        chain *= len(pairs) if step.dataflow == "os" else 1
        a = [interleave(a, [i for i, _ in pairs], 2, group)]
        b = [interleave(b, [j for _, j in pairs], 1, group)]
    out = np.empty((*lhs.shape[:2], rhs.shape[-1]), np.float32)
    in_threads(a[0], b[0], _float_kernel(chain, step.formats.acc), out)
    return Values(returned(step, out))


def entering_parts(step: GemmStep, lhs: np.ndarray, rhs: np.ndarray) -> tuple[list[np.ndarray], ...]:
    """Both operands as they enter the multipliers: float32 parts, largest first, or one int64 part."""
    formats, op = step.formats, step.op
    if not formats.is_float:
        return [lhs.astype(np.int64)], [rhs.astype(np.int64)]

    def parts(x: np.ndarray, stored: str, entering: str) -> list[np.ndarray]:
        x = np.ascontiguousarray(x, np.float32)
        count = parts_of(formats.passes)
        if dtypes.DTYPES[stored].kind == "int":
            return [x, *([np.zeros_like(x)] * (count - 1))]
        return split(round_to(x, stored), count, entering)

    return parts(lhs, op.dtype, formats.lhs), parts(rhs, str(op.rhs_dtype), formats.rhs)


def returned(step: GemmStep, sums: np.ndarray) -> np.ndarray:
    """Float sums in the format of the result; those of integers are whole, and saturate."""
    out_dtype = step.formats.out
    if dtypes.DTYPES[out_dtype].kind == "float":
        return round_to(sums, out_dtype)
    return np.clip(sums.astype(np.float64), *integer_range(out_dtype)).astype(np.int32)


def _stepped_values(step: GemmStep, chip: TpuChip, lhs: np.ndarray, rhs: np.ndarray) -> Values:
    """The same values out of the registers of a stepped array."""
    from .stepped import step_matmul  # loads the compiler, which a tiled run does without

    blocks, overflows = [], 0
    a, b = entering_parts(step, lhs, rhs)
    for i in range(lhs.shape[0]):
        block, wraps = step_matmul(step, chip, [part[i] for part in a], [part[i] for part in b])
        blocks.append(block)
        overflows += wraps
    out = np.stack(blocks)
    return Values(returned(step, out) if step.formats.is_float else out.astype(np.int32), overflows)


def _float_kernel(chain: int, acc: str) -> Callable[..., Any]:
    """The kernel that sets out = A @ B in chains of `chain`, summed in format `acc`."""
    from ...kernels.values import chain_sums, chain_sums_rounding

    if acc == "fp32":
        return lambda a, b, out: chain_sums(a, b, chain, out)
    dropped = dtypes.DTYPES["fp32"].precision - dtypes.DTYPES[acc].precision
    return lambda a, b, out: chain_sums_rounding(a, b, chain, dropped, out)
