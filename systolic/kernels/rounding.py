"""Registers that keep fewer bits than fp32."""

from __future__ import annotations

from typing import Any

import numpy as np

from .compile import kernel


@kernel
def round_words(words: Any, dropped: int) -> None:
    """Round fp32 numbers to those without their lowest `dropped` bits, in place; to nearest, ties to even.

    Parameters
    ----------
    words
        Their encodings, uint32, one axis.
    dropped
        0 (nothing changes) to 23. The exponent stays that of fp32; beyond its range lies inf. NaN stays.
    """
    if dropped == 0:
        return
    # Each step is narrowed to 32 bits again, without which the loop runs at a fifth of its speed.
    one, shift = np.uint32(1), np.uint32(dropped)
    half = np.uint32((one << np.uint32(shift - one)) - one)
    keep = np.uint32(np.uint32(0x7FFFFFFF) ^ np.uint32(np.uint32(one << shift) - one))
    for i in range(words.size):
        word = words[i]
        size = np.uint32(word & np.uint32(0x7FFFFFFF))
        odd = np.uint32(np.uint32(size >> shift) & one)
        rounded = np.uint32(np.uint32(size + np.uint32(half + odd)) & keep)
        rounded = np.uint32(rounded | np.uint32(word & np.uint32(0x80000000)))
        words[i] = rounded if size <= np.uint32(0x7F800000) else word
