"""Convolutions as matmuls: the same values as ``lax.conv``, and counts from public bug reports."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.errors import SystolicError
from systolic.models.convolution import Convolution


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    """Small layers of any stride, padding and number of groups, whose filters fit."""
    groups = draw(st.integers(1, 3))
    size = st.integers(1, 3)
    filters = draw(st.tuples(size, size))
    paddings = [draw(st.integers(0, f - 1)) for f in filters]
    sides = [draw(st.integers(max(1, f - 2 * p), 6)) for f, p in zip(filters, paddings, strict=True)]
    return Convolution(
        name="drawn",
        height=sides[0],
        width=sides[1],
        channels=groups * draw(size),
        filter_height=filters[0],
        filter_width=filters[1],
        filters=groups * draw(size),
        stride_height=draw(size),
        stride_width=draw(size),
        padding_height=paddings[0],
        padding_width=paddings[1],
        groups=groups,
    )


def reference_output(c: Convolution, images: int) -> tuple[int, ...]:
    """Shape that JAX gives the layer: (images, height, width, filters)."""
    x = jax.ShapeDtypeStruct((images, c.height, c.width, c.channels), np.float32)
    depth = c.channels // c.groups
    w = jax.ShapeDtypeStruct((c.filter_height, c.filter_width, depth, c.filters), np.float32)
    shape: tuple[int, ...] = jax.eval_shape(lambda x, w: _conv(c, x, w), x, w).shape
    return shape


def _conv(c: Convolution, x: Any, w: Any) -> Any:
    return jax.lax.conv_general_dilated(
        x,
        w,
        (c.stride_height, c.stride_width),
        ((c.padding_height,) * 2, (c.padding_width,) * 2),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=c.groups,
    )


def as_matmul(c: Convolution, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, int]:
    """The layer by unfolding windows and multiplying, group by group; how many products met no padding."""
    gemm = c.gemm(len(x))
    padding = ((0, 0), (c.padding_height,) * 2, (c.padding_width,) * 2, (0, 0))
    padded, real = np.pad(x, padding), np.pad(np.ones_like(x), padding)
    depth, columns = c.channels // c.groups, c.filters // c.groups
    out, met = [], 0
    for g in range(c.groups):
        rows, mask = (
            np.stack(
                [
                    t[
                        image,
                        h * c.stride_height : h * c.stride_height + c.filter_height,
                        v * c.stride_width : v * c.stride_width + c.filter_width,
                        g * depth : (g + 1) * depth,
                    ].ravel()
                    for image in range(len(x))
                    for h in range(c.output_height)
                    for v in range(c.output_width)
                ]
            )
            for t in (padded, real)
        )
        weights = w[..., g * columns : (g + 1) * columns].reshape(-1, columns)
        assert (rows.shape, weights.shape) == ((gemm.m, gemm.k), (gemm.k, gemm.n))
        out.append(rows @ weights)
        met += int(mask.sum()) * columns
    return np.concatenate(out, -1), met


@given(convolutions(), st.integers(1, 2))
@settings(max_examples=60)
def test_shapes_are_those_that_jax_gives(c: Convolution, images: int) -> None:
    gemm = c.gemm(images)
    assert reference_output(c, images) == (images, c.output_height, c.output_width, c.filters)
    assert (gemm.batch, gemm.batch * gemm.n) == (c.groups, c.filters)
    assert gemm.m == images * c.output_height * c.output_width
    weights = c.filter_height * c.filter_width * c.channels // c.groups * c.filters
    assert gemm.parameters == weights


@given(convolutions(), st.integers(1, 2), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_macs_on_padding_are_masked(c: Convolution, images: int, seed: int) -> None:
    """Counted by unfolding a tensor of ones with padding of zeros."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, (images, c.height, c.width, c.channels)).astype(np.float32)
    w = rng.integers(-3, 4, (c.filter_height, c.filter_width, c.channels // c.groups, c.filters))
    out, met = as_matmul(c, x, w.astype(np.float32))
    gemm = c.gemm(images)
    assert gemm.useful_macs == met
    assert out.shape == (gemm.m, c.filters)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_values_are_those_of_a_convolution(groups: int) -> None:
    c = Convolution(
        name="c",
        height=7,
        width=6,
        channels=4,
        filter_height=3,
        filter_width=2,
        filters=8,
        stride_height=2,
        padding_height=1,
        padding_width=1,
        groups=groups,
    )
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (2, 7, 6, 4)).astype(np.float32)
    w = rng.integers(-3, 4, (3, 2, 4 // groups, 8)).astype(np.float32)
    ours, _ = as_matmul(c, x, w)
    theirs = np.asarray(jax.jit(lambda x, w: _conv(c, x, w))(x, w))
    np.testing.assert_array_equal(ours, theirs.reshape(-1, c.filters))


def test_strides_differ_per_axis() -> None:
    """ARM-software/SCALE-Sim 40: 8 x 8 x 2, 3 x 3, 4 filters, strides 2 and 1."""
    c = Convolution(
        name="c", height=8, width=8, channels=2, filter_height=3, filter_width=3, filters=4, stride_height=2
    )
    gemm = c.gemm()
    assert (c.output_height, c.output_width) == (3, 6)
    assert (gemm.m, gemm.n, gemm.k, gemm.macs) == (18, 4, 18, 1_296)


def test_depthwise_is_one_layer() -> None:
    """ARM-software/SCALE-Sim 38 and 45: 82,944 MACs is the dense layer; it came out as 16 layers."""
    c = Convolution(
        name="c", height=8, width=8, channels=16, filter_height=3, filter_width=3, filters=16, groups=16
    )
    gemm = c.gemm()
    assert (c.output_height, c.output_width, c.filters) == (6, 6, 16)
    assert (gemm.batch, gemm.m, gemm.n, gemm.k, gemm.macs) == (16, 36, 1, 9, 5_184)


def test_what_cannot_be_is_refused() -> None:
    sizes: dict[str, Any] = {"name": "c", "height": 4, "width": 4, "channels": 6, "filters": 4}
    with pytest.raises(SystolicError) as caught:
        Convolution(**sizes, filter_height=7, filter_width=5, padding_height=1, groups=4)
    assert list(caught.value.problems) == [
        "filter_height must be <= 4 + 2 x 1, the padded input, got 7",
        "filter_width must be <= 4 + 2 x 0, the padded input, got 5",
        "groups must divide channels (6), got 4",
    ]
    with pytest.raises(SystolicError, match="stride_width must be > 0, got 0"):
        Convolution(**sizes, filter_height=1, filter_width=1, stride_width=0)
    with pytest.raises(SystolicError, match="padding_width must be < the filter's 2, lest a window hold"):
        Convolution(**sizes, filter_height=1, filter_width=2, padding_width=2)
