"""Arrays of a matmul in general position, arranged as (batch, m, k) by (batch, k, n) and back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ...models.trace.contraction import Contraction, Convolution, RaggedContraction

Multiply = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(batch, m, k), (batch, k, n) -> (batch, m, n)."""


def contract(dot: Contraction, lhs: np.ndarray, rhs: np.ndarray, multiply: Multiply) -> np.ndarray:
    """``dot_general``: dimensions of the result are batch, free of the lhs, free of the rhs."""
    lhs_free, rhs_free = dot.lhs_free(lhs.shape), dot.rhs_free(rhs.shape)
    sides = dot.sides(lhs.shape, rhs.shape)
    a = lhs.transpose(*dot.lhs_batch, *lhs_free, *dot.lhs_contract).reshape(sides.batch, sides.m, sides.k)
    b = rhs.transpose(*dot.rhs_batch, *dot.rhs_contract, *rhs_free).reshape(sides.batch, sides.k, sides.n)
    shape = [lhs.shape[d] for d in (*dot.lhs_batch, *lhs_free)] + [rhs.shape[d] for d in rhs_free]
    return multiply(a, b).reshape(shape)


def convolve(conv: Convolution, lhs: np.ndarray, rhs: np.ndarray, multiply: Multiply) -> np.ndarray:
    """``conv_general_dilated`` as one product per group: the input's windows by the weights."""
    groups = conv.feature_groups * conv.batch_groups
    images = lhs.transpose(conv.lhs_dims)
    weights = rhs.transpose(conv.rhs_dims)
    spatial = range(weights.ndim - 2)
    windows = _windows(conv, images, weights.shape, lhs.shape, rhs.shape)
    outputs = [conv.output_side(i, lhs.shape, rhs.shape) for i in spatial]
    window = prod(weights.shape[2:])
    batch = images.shape[0] // conv.batch_groups
    features = images.shape[1] // conv.feature_groups
    # windows: batch groups, batch, feature groups, features, output positions, taps
    windows = windows.reshape(
        conv.batch_groups, batch, conv.feature_groups, features, prod(outputs), window
    ).transpose(0, 2, 1, 4, 3, 5)
    a = windows.reshape(groups, batch * prod(outputs), features * window)
    b = weights.reshape(groups, -1, features * window).transpose(0, 2, 1)
    out = multiply(a, b).reshape(groups, batch, *outputs, -1)
    out = np.moveaxis(out, 0, -2).reshape(batch, *outputs, -1)  # groups beside the features of each
    out = np.moveaxis(out, -1, 1)
    return out.transpose(np.argsort(conv.out_dims))


def _windows(
    conv: Convolution,
    images: np.ndarray,
    weights: tuple[int, ...],
    lhs: tuple[int, ...],
    rhs: tuple[int, ...],
) -> np.ndarray:
    """(batch, features, output positions …, taps …) of the padded and dilated input."""
    spread = images
    for i, dilation in enumerate(conv.lhs_dilation):
        axis = 2 + i
        low, high = conv.padding[i]
        side = spread.shape[axis]
        dilated = (side - 1) * dilation + 1 if side else 0
        shape = list(spread.shape)
        shape[axis] = dilated
        wide = np.zeros(shape, spread.dtype)
        wide[(slice(None),) * axis + (slice(None, None, dilation),)] = spread
        pads = [(0, 0)] * spread.ndim
        pads[axis] = (max(low, 0), max(high, 0))
        wide = np.pad(wide, pads)
        spread = wide[(slice(None),) * axis + (slice(max(-low, 0), wide.shape[axis] - max(-high, 0)),)]
    rank = len(conv.strides)
    index: list[np.ndarray] = []
    for i in range(rank):
        outs = np.arange(conv.output_side(i, lhs, rhs)) * conv.strides[i]
        taps = np.arange(weights[2 + i]) * conv.rhs_dilation[i]
        shape = [1] * (2 * rank)
        shape[i], shape[rank + i] = outs.size, taps.size
        index.append((outs[:, None] + taps[None, :]).reshape(shape))
    everything: tuple[Any, ...] = (slice(None), slice(None), *index)
    windows: np.ndarray = spread[everything]
    return windows


def contract_groups(
    ragged: RaggedContraction, lhs: np.ndarray, rhs: np.ndarray, sizes: np.ndarray, multiply: Multiply
) -> np.ndarray:
    """``ragged_dot_general`` with groups of `sizes` along the ragged dimension, one after the other.

    Rows of the lhs behind the last group yield zeros.
    """
    inner, starts = ragged.inner, np.concatenate(([0], np.cumsum(sizes)))
    parts = []
    for group, (start, stop) in enumerate(pairwise(starts)):
        of_lhs = lhs.take(np.arange(start, stop), axis=ragged.lhs_ragged)
        if ragged.mode == "m":
            of_rhs = rhs.take(group, axis=ragged.rhs_group[0])
        else:
            at = ragged.dot.lhs_contract.index(ragged.lhs_ragged)
            of_rhs = rhs.take(np.arange(start, stop), axis=ragged.dot.rhs_contract[at])
        parts.append(contract(inner, of_lhs, of_rhs, multiply))
    if ragged.mode == "k":
        return np.stack(parts)
    axis = (*inner.lhs_batch, *inner.lhs_free(lhs.shape)).index(ragged.lhs_ragged)
    rest = lhs.shape[ragged.lhs_ragged] - int(starts[-1])
    shape = list(parts[0].shape)
    shape[axis] = rest
    return np.concatenate([*parts, np.zeros(shape, parts[0].dtype)], axis=axis)
