"""Rounding of float32 arrays into a narrower number format, and back.

Values stay float32 (or become small integers); only the numbers that the format has remain.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ..dtypes import DTYPES
from ..errors import SystolicError

_ENCODED = {
    "fp16": np.dtype(np.float16),
    "fp8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
_CHUNK = 1 << 18  # elements; the temporaries of one chunk stay in the second-level cache


def round_to(x: np.ndarray, dtype: str) -> np.ndarray:
    """Round to the nearest number of a float format, ties to even; subnormals are kept.

    Parameters
    ----------
    x
        float32, any shape.
    dtype
        Canonical name of a float format.

    Returns
    -------
    ndarray
        float32 of the same shape; `x` itself for ``fp32``. What lies beyond the format's range
        becomes inf, or NaN in ``fp8_e4m3``, which has no inf (OCP 8-bit floating point
        specification 1.0, section 5.2.3, non-saturating mode). NaN stays NaN.

    Raises
    ------
    SystolicError
        If `dtype` is an integer format.
    """
    if DTYPES[dtype].kind != "float":
        raise SystolicError(f"dtype must be a float format to round to, got {dtype!r}; use quantize")
    if dtype == "fp32":
        return x
    if dtype in _ENCODED:
        with np.errstate(over="ignore", invalid="ignore"):
            return x.astype(_ENCODED[dtype]).astype(np.float32)
    return _drop_bits(x, 24 - DTYPES[dtype].precision)


def _drop_bits(x: np.ndarray, bits: int) -> np.ndarray:
    """Round float32 to the format that lacks its `bits` lowest mantissa bits (bf16: 16, tf32: 13).

    Such a format keeps the exponent of float32, so that adding just under half a unit (and the last
    kept bit, for ties to even) to the encoded word rounds it, subnormals and overflow included.
    This is 10 times faster than converting through ml_dtypes.
    """
    source = np.ascontiguousarray(x, np.float32).reshape(-1)
    out = np.empty_like(source)
    words, rounded = source.view(np.uint32), out.view(np.uint32)
    half, mask = np.uint32((1 << (bits - 1)) - 1), np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)
    for start in range(0, source.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        word = words[part] >> np.uint32(bits)
        word &= np.uint32(1)
        word += words[part]
        word += half
        np.bitwise_and(word, mask, out=rounded[part])
        nan = np.isnan(source[part])
        if nan.any():  # the addition may carry a NaN's mantissa into its sign
            out[part][nan] = np.nan
    return out.reshape(np.shape(x))


def quantize(x: np.ndarray, dtype: str, scale: float = 1.0) -> np.ndarray:
    """Multiply by `scale`, round to the nearest integer (ties to even), saturate at the range's ends.

    Parameters
    ----------
    x
        float32 without NaN, any shape.
    dtype
        Canonical name of an integer format.
    scale
        Integer steps per unit of `x`.

    Returns
    -------
    ndarray
        int8 (also for int4, whose values it holds one by one) or int32.
    """
    low, high = integer_range(dtype)
    steps = np.rint(x * np.float64(scale))
    return np.clip(steps, low, high).astype(np.int8 if DTYPES[dtype].bits <= 8 else np.int32)


def integer_range(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer format (two's complement).

    Raises
    ------
    SystolicError
        If `dtype` is a float format.
    """
    if DTYPES[dtype].kind != "int":
        raise SystolicError(f"dtype must be an integer format, got {dtype!r}; use round_to")
    half = 1 << (DTYPES[dtype].bits - 1)
    return -half, half - 1
