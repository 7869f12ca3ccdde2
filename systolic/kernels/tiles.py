"""Sums as AMX forms them: blocks of 32 products of bf16 numbers, in two chains of fused multiply-adds."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from .compile import kernel

BLOCK = 32
SMALLEST_NORMAL = np.float32(2.0**-126)


def _plain_fma(a: Any, b: Any, c: Any) -> Any:
    """Twin of :func:`fma`, for factors of at most 12 significant bits."""
    with np.errstate(all="ignore"):
        product = float(a) * float(b)
        total = product + float(c)
        # What float64 lost of the sum, exactly (Knuth's TwoSum); an odd last bit marks it, so that rounding
        # to float32 cannot meet a tie that is none (rounding to odd: Boldo and Melquiond, IEEE Transactions
        # on Computers 57(4), 2008).
        back = total - product
        lost = (product - (total - back)) + (float(c) - back)
        word = np.float64(total).view(np.int64)
        if np.isfinite(lost) and lost != 0 and word & 1 == 0:
            word += 1 if (lost > 0) == (total > 0) else -1
        return np.float32(np.int64(word).view(np.float64))


@intrinsic
def _llvm_fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    return types.float32(types.float32, types.float32, types.float32), _emit_fma


def _emit_fma(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind = ir.FloatType()
    function = builder.module.declare_intrinsic("llvm.fma", [kind], ir.FunctionType(kind, [kind] * 3))
    return builder.call(function, args)


fma = _plain_fma if numba.config.DISABLE_JIT else _llvm_fma
"""fma(a, b, c): a · b + c in float32, rounded once."""


@kernel
def tile_sums(a: Any, b: Any, out: Any) -> None:
    """Compute ``out = a @ b`` as TDPBF16PS does, block after block of k.

    In each block of 32 k, the products at even k are one chain of fused multiply-adds from zero, those at odd
    k another; the sum of the two is added to the accumulator. Subnormal operands and results count as zero.

    Parameters
    ----------
    a, b
        float32 (m, k) and (k, n) that hold bf16 numbers.
    out
        float32 (m, n).
    """
    m, k_all = a.shape
    chains = np.empty((2, b.shape[1]), np.float32)
    for i in range(m):
        out[i] = 0
        for k0 in range(0, k_all, BLOCK):
            chains[:] = 0
            for k in range(k0, min(k0 + BLOCK, k_all)):
                left, chain = _flushed(a[i, k]), chains[(k - k0) % 2]
                for j in range(b.shape[1]):
                    chain[j] = _flushed(fma(left, _flushed(b[k, j]), chain[j]))
            for j in range(b.shape[1]):
                both = _flushed(np.float32(chains[0, j] + chains[1, j]))
                out[i, j] = _flushed(np.float32(out[i, j] + both))


@kernel
def _flushed(number: Any) -> Any:
    return np.float32(0) * number if abs(number) < SMALLEST_NORMAL else number
