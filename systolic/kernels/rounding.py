"""Registers that keep fewer bits than fp32."""

from __future__ import annotations

from typing import Any

import numpy as np

from .compile import kernel


@kernel
def round_words(numbers: Any, words: Any, dropped: int) -> None:
    """Round numbers to those without their lowest `dropped` bits, in place; to nearest, ties to even.

    Parameters
    ----------
    numbers
        float32, one axis.
    words
        The same memory as uint32.
    dropped
        0 (nothing changes) to 23. The exponent stays that of fp32; beyond its range lies inf.
    """
    if dropped == 0:
        return
    shift, one = np.uint32(dropped), np.uint32(1)
    half = (one << (shift - one)) - one
    keep = ~((one << shift) - one)
    for i in range(words.size):
        if numbers[i] == numbers[i]:  # adding might carry the mantissa of a NaN into its sign
            words[i] = (words[i] + half + ((words[i] >> shift) & one)) & keep
