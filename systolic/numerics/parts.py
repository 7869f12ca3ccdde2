"""fp32 numbers as sums of narrower parts, and which products of parts make up a product.

Precision ``high`` multiplies fp32 in 3 passes of bf16 and ``highest`` in 6 (docstring of
``jax.lax.Precision``). The products and their order, smallest first, are those of ``RewriteF32ToBF16X3`` and
``RewriteF32ToBF16X6`` in OpenXLA's ``dot_algorithm_rewriter.cc``. Each part here is the rest rounded to
nearest, as in Triton's ``BF16DotTC``, which is at least as close as XLA's truncation.
"""

from __future__ import annotations

import numpy as np

from .rounding import round_to

PASSES = {"default": 1, "high": 3, "highest": 6}
"""Requested precision -> passes of an fp32 product."""

PRODUCTS: dict[int, tuple[tuple[int, int], ...]] = {
    1: ((0, 0),),
    3: ((1, 0), (0, 1), (0, 0)),
    6: ((1, 1), (0, 2), (2, 0), (0, 1), (1, 0), (0, 0)),
}
"""Passes -> (part of the lhs, part of the rhs) of each, in order; part 0 is the largest."""


def parts_of(passes: int) -> int:
    """Parts of an operand that takes so many passes."""
    return 1 + max(i for i, _ in PRODUCTS[passes])


def split(x: np.ndarray, count: int, dtype: str) -> list[np.ndarray]:
    """Numbers of a float format that add up to `x`, as nearly as so many can; largest first.

    Parameters
    ----------
    x
        float32, any shape.
    count
        How many parts.
    dtype
        Canonical name of their format.

    Returns
    -------
    list of ndarray
        float32, each of the shape of `x`. Where the first part is not finite the others are 0.
    """
    parts = [round_to(x, dtype)]
    if count > 1:
        with np.errstate(invalid="ignore"):
            rest = np.where(np.isfinite(parts[0]), x - parts[0], np.float32(0))
        parts += split(rest, count - 1, dtype)
    return parts


def interleave(parts: list[np.ndarray], order: list[int], axis: int, group: int) -> np.ndarray:
    """Parts along a reduction axis: for each `group` of its elements, the parts in `order`.

    Parameters
    ----------
    parts
        Equal shapes.
    order
        Indices of parts, one for each pass.
    axis
        The axis; it grows by len(order), and by zeros that fill up its last group.
    group
        Elements that stay together.
    """
    length = parts[0].shape[axis]
    groups = -(-length // group)
    fill = [(0, 0)] * parts[0].ndim
    fill[axis] = (0, groups * group - length)
    shape = (*parts[0].shape[:axis], groups, group, *parts[0].shape[axis + 1 :])
    cut = [np.pad(part, fill).reshape(shape) for part in parts]
    stacked = np.stack([cut[i] for i in order], axis=axis + 1)
    return np.ascontiguousarray(stacked.reshape(*shape[:axis], -1, *shape[axis + 2 :]))
