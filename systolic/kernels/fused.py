"""Sums of products as the multipliers of a GPU form them: fused multiply-adds, and fused dot products.

A scalar lane rounds once per multiply-add. A tensor core takes a group of products and the running sum,
aligns all of them to the largest exponent, cuts off what lies below its last place, adds what is left
exactly, and cuts the sum to its register (Fasi, Higham, Mikaitis and Pranesh, PeerJ Computer Science 7:e330,
2021; Xie et al., MMA-Sim, arXiv 2511.10909; Khattak and Mikaitis, arXiv 2512.07004). Nothing else decides the
bits: not the tiles, not the order of thread blocks, not threads of this machine.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from .compile import kernel

ROWS, COLS = 16, 128
"""Sides of the block of sums that is formed at once: it stays in the first-level cache."""

_LOWEST = 2.0**-126
_EXPONENT = np.int64(0x7FF0000000000000)


def _plain_fma(a: Any, b: Any, c: Any) -> Any:
    """Twin of :func:`fma`: rounded to odd in float64, where a sum's error is known, then to float32."""
    product, addend = np.float64(a) * np.float64(b), np.float64(c)
    high = product + addend
    part = high - product
    low = (product - (high - part)) + (addend - part)
    if np.isfinite(high) and low != 0 and not high.view(np.int64) & 1:
        high = np.nextafter(high, np.copysign(np.inf, low))
    return np.float32(high)


def _plain_trunc(x: Any) -> Any:
    """Twin of :func:`trunc`."""
    return np.trunc(x)


@intrinsic
def _llvm_fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float32(types.float32, types.float32, types.float32), emit


@intrinsic
def _llvm_trunc(typing_context: Any, x: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        double = ir.DoubleType()
        return builder.call(builder.module.declare_intrinsic("llvm.trunc", [double]), args)

    return types.float64(types.float64), emit


fma = _plain_fma if numba.config.DISABLE_JIT else _llvm_fma
"""fma(a, b, c) -> a * b + c of float32, rounded once."""

trunc = _plain_trunc if numba.config.DISABLE_JIT else _llvm_trunc
"""trunc(x) -> the whole number next to a float64 on the side of 0; inf and NaN stay."""


@kernel
def fma_sums(a: Any, b: Any, out: Any) -> None:
    """Set out = A @ B, each element one chain of fused multiply-adds from 0 in rising k.

    Parameters
    ----------
    a, b, out
        (m, k), (k, n) and (m, n), C-contiguous float32.
    """
    m, depth = a.shape
    n = b.shape[1]
    out[:] = 0
    for j0 in range(0, n, COLS):
        j1 = min(n, j0 + COLS)
        for i in range(m):
            row = out[i, j0:j1]
            for k in range(depth):
                word, words = a[i, k], b[k, j0:j1]
                for j in range(j1 - j0):
                    row[j] = fma(word, words[j], row[j])


@kernel
def scales(x: Any, lowest: float, out: Any) -> None:
    """Set out to the power of two below each |x|, `lowest` at least; 2**-126 where x is 0.

    Parameters
    ----------
    x, out
        float32 and float64 of the same shape, two axes.
    lowest
        Smallest normal number of the operands' format: subnormal ones have its exponent.
    """
    for i in range(x.shape[0]):
        bits = x[i].astype(np.float64).view(np.int64)
        for j in range(x.shape[1]):
            bits[j] &= _EXPONENT
        powers = bits.view(np.float64)
        for j in range(x.shape[1]):
            scale = max(powers[j], lowest) if x[i, j] != 0 else _LOWEST
            out[i, j] = scale if scale <= 2.0**128 else 2.0**128


@kernel
def fused_sums(
    a: Any, b: Any, a_scale: Any, b_scale: Any, group: int, align: int, keep: int, promote: int, out: Any
) -> None:
    """Set out = A @ B as tensor cores do, in groups of products in rising k.

    Parameters
    ----------
    a, b, out
        (m, k), (k, n) and (m, n), C-contiguous float32; operands with at most 12 significant bits.
    a_scale, b_scale
        Powers of two below the operands, of :func:`scales`: a product is aligned by the sum of its operands'
        exponents, not by its own.
    group
        Products that are added at once.
    align
        Fraction bits that an aligned term keeps; the rest is cut off.
    keep
        Fraction bits of the register of sums; the rest is cut off.
    promote
        Products, whole groups, after which the register is added to a sum in fp32 and begins anew at 0.
    """
    m, depth = a.shape
    n = b.shape[1]
    total = np.zeros((ROWS, COLS), np.float32)
    registers, top, terms = np.zeros((ROWS, COLS)), np.zeros(COLS), np.zeros(COLS)
    for j0 in range(0, n, COLS):
        j1 = min(n, j0 + COLS)
        for i0 in range(0, m, ROWS):
            i1 = min(m, i0 + ROWS)
            total[:] = 0
            registers[:] = 0
            for k0 in range(0, depth, group):
                k1 = min(depth, k0 + group)
                if k0 > 0 and k0 % promote == 0:
                    _promote(registers, total)
                for i in range(i0, i1):
                    _align(registers[i - i0], a_scale[i, k0:k1], b_scale[k0:k1, j0:j1], 2.0**align, top)
                    _add(registers[i - i0], a[i, k0:k1], b[k0:k1, j0:j1], top, terms)
                    _cut(terms, top, keep, registers[i - i0])
            _promote(registers, total)
            out[i0:i1, j0:j1] = total[: i1 - i0, : j1 - j0]


@kernel
def _promote(registers: Any, total: Any) -> None:
    """Add the registers to the fp32 sums, and clear them."""
    for i in range(ROWS):
        for j in range(COLS):
            total[i, j] = total[i, j] + np.float32(registers[i, j])
            registers[i, j] = 0


@kernel
def _align(register: Any, a_scale: Any, b_scale: Any, places: float, top: Any) -> None:
    """Set top to what brings the last place that aligned terms keep to 1."""
    bits, powers = register.view(np.int64), top.view(np.int64)
    for j in range(register.size):
        power = bits[j] & _EXPONENT
        powers[j] = power if power != _EXPONENT else 0  # what is not finite stays so without being aligned
    for j in range(register.size):
        top[j] = max(top[j], _LOWEST)
    for k in range(a_scale.size):
        scale, row = np.float64(a_scale[k]), b_scale[k]
        for j in range(row.size):
            top[j] = max(top[j], scale * row[j])
    for j in range(top.size):
        top[j] = places / top[j]


@kernel
def _add(register: Any, a: Any, b: Any, top: Any, terms: Any) -> None:
    """Set terms to the sum of the aligned products and register, in units of the last place."""
    for j in range(register.size):
        terms[j] = trunc(register[j] * top[j])
    for k in range(a.size):
        word, row = np.float64(a[k]), b[k]
        for j in range(row.size):
            terms[j] += trunc(word * np.float64(row[j]) * top[j])


@kernel
def _cut(terms: Any, top: Any, keep: int, register: Any) -> None:
    """Set register to the sums, without what lies below `keep` fraction bits; inf beyond fp32's range."""
    mask = np.int64(-1) << np.int64(52 - keep)
    finest = 2.0 ** (126 + keep)
    for j in range(register.size):
        register[j] = terms[j] / top[j]
    bits = register.view(np.int64)
    for j in range(register.size):
        if bits[j] & _EXPONENT != _EXPONENT:  # the mask would make inf of some NaN
            bits[j] &= mask
    for j in range(register.size):
        if abs(register[j]) < _LOWEST:
            register[j] = trunc(register[j] * finest) / finest
        elif abs(register[j]) >= 2.0**128:
            register[j] = np.copysign(np.inf, register[j])
