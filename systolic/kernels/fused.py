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

LOWEST = np.int32(-126)
"""Exponent of fp32's smallest normal number."""

EXPONENT = np.int64(0x7FF0000000000000)
"""Bits of a float64's exponent."""


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
def exponents(x: Any, lowest: int, out: Any) -> None:
    """Set out to the exponent of the power of two below each |x|, `lowest` at least; -126 where x is 0.

    Parameters
    ----------
    x, out
        float32 and int32 of the same shape, two axes.
    lowest
        Exponent of the smallest normal number of the operands' format: subnormal ones have it too.
    """
    for i in range(x.shape[0]):
        words = x[i].view(np.int32)
        for j in range(x.shape[1]):
            exponent = max((words[j] >> 23 & 0xFF) - 127, lowest)
            out[i, j] = exponent if x[i, j] != 0 else LOWEST


@kernel
def fused_sums(
    a: Any, b: Any, a_exp: Any, b_exp: Any, group: int, align: int, keep: int, promote: int, out: Any
) -> None:
    """Set out = A @ B as tensor cores do, in groups of products in rising k.

    Parameters
    ----------
    a, b, out
        (m, k), (k, n) and (m, n), C-contiguous float32; operands with at most 12 significant bits.
    a_exp, b_exp
        Of :func:`exponents`: a product is aligned by the sum of its operands' exponents, not by its own.
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
    registers, terms = np.zeros((ROWS, COLS)), np.zeros(COLS)
    top, places, unit = np.zeros(COLS, np.int32), np.zeros(COLS), np.zeros(COLS)
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
                    register = registers[i - i0]
                    _align(register, a_exp[i, k0:k1], b_exp[k0:k1, j0:j1], align, top, places, unit)
                    _add(register, a[i, k0:k1], b[k0:k1, j0:j1], places, terms)
                    _cut(terms, unit, keep, register)
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
def _align(register: Any, a_exp: Any, b_exp: Any, align: int, top: Any, places: Any, unit: Any) -> None:
    """Set unit to the last place that aligned terms keep, and places to its inverse; top is scratch."""
    bits = register.view(np.int64)
    for j in range(register.size):
        exponent = np.int32((bits[j] >> 52 & 0x7FF) - 1023)
        # What is not finite stays so without being aligned.
        top[j] = max(exponent, LOWEST) if exponent < 1024 else LOWEST
    for k in range(a_exp.size):
        exponent, row = a_exp[k], b_exp[k]
        for j in range(row.size):
            top[j] = max(top[j], np.int32(exponent + row[j]))
    upward, downward = places.view(np.int64), unit.view(np.int64)
    for j in range(top.size):
        upward[j] = np.int64(1023 + align - top[j]) << 52
    for j in range(top.size):
        downward[j] = np.int64(1023 - align + top[j]) << 52


@kernel
def _add(register: Any, a: Any, b: Any, places: Any, terms: Any) -> None:
    """Set terms to the sum of the aligned products and register, in units of the last place."""
    for j in range(register.size):
        terms[j] = trunc(register[j] * places[j])
    for k in range(a.size):
        word, row = np.float64(a[k]), b[k]
        for j in range(row.size):
            terms[j] += trunc(word * np.float64(row[j]) * places[j])


@kernel
def _cut(terms: Any, unit: Any, keep: int, register: Any) -> None:
    """Set register to the sums, without what lies below `keep` fraction bits; inf beyond fp32's range."""
    mask = np.int64(-1) << np.int64(52 - keep)
    smallest, finest = 2.0**LOWEST, 2.0 ** (keep - LOWEST)
    for j in range(register.size):
        register[j] = terms[j] * unit[j]
    bits = register.view(np.int64)
    for j in range(register.size):
        # The mask would make inf of some NaN.
        bits[j] = bits[j] & mask if bits[j] & EXPONENT != EXPONENT else bits[j]
    for j in range(register.size):
        word = register[j]
        word = trunc(word * finest) / finest if abs(word) < smallest else word
        register[j] = np.copysign(np.inf, word) if abs(word) >= 2.0**128 else word
