"""Convolutions as matmuls, exactly: one product per group, on windows unfolded into rows."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import raise_if_any
from ..quantity import count_problem
from ..workload import Gemm


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """A two-dimensional convolution.

    Attributes
    ----------
    name
        Name of the layer.
    height, width, channels
        Sides of the input, elements; its channels.
    filter_height, filter_width, filters
        Sides of a filter, elements; filters of all groups together.
    stride_height, stride_width
        Elements between two windows.
    padding_height, padding_width
        Zeros added on each of the two sides of an axis.
    groups
        Parts that the channels and the filters are cut into; as many as channels is depthwise.

    Raises
    ------
    SystolicError
        If a size is no count, a filter is larger than the padded input or no larger than the padding, or
        the groups do not divide the channels and the filters.
    """

    name: str
    height: int
    width: int
    channels: int
    filter_height: int
    filter_width: int
    filters: int
    stride_height: int = 1
    stride_width: int = 1
    padding_height: int = 0
    padding_width: int = 0
    groups: int = 1

    def __post_init__(self) -> None:
        paddings = ("padding_height", "padding_width")
        problems = [
            line
            for field, value in vars(self).items()
            if field != "name"
            for line in count_problem(field, value, 0 if field in paddings else 1)
        ]
        raise_if_any(problems or self._mismatches())

    def _mismatches(self) -> list[str]:
        problems = [
            f"{field} must be <= {side} + 2 x {padding}, the padded input, got {size}"
            for field, size, side, padding in (
                ("filter_height", self.filter_height, self.height, self.padding_height),
                ("filter_width", self.filter_width, self.width, self.padding_width),
            )
            if size > side + 2 * padding
        ]
        problems += [
            f"{field} must be < the filter's {size}, lest a window hold padding alone, got {padding}"
            for field, size, padding in (
                ("padding_height", self.filter_height, self.padding_height),
                ("padding_width", self.filter_width, self.padding_width),
            )
            if padding >= size
        ]
        return problems + [
            f"groups must divide {field} ({value}), got {self.groups}"
            for field, value in (("channels", self.channels), ("filters", self.filters))
            if value % self.groups
        ]

    @property
    def output_height(self) -> int:
        """Windows along the height; a rest of the input that holds no whole window is left out."""
        return _windows(self.height, self.filter_height, self.stride_height, self.padding_height)

    @property
    def output_width(self) -> int:
        """Windows along the width."""
        return _windows(self.width, self.filter_width, self.stride_width, self.padding_width)

    def gemm(self, images: int = 1, origin: str = "") -> Gemm:
        """The matmul on `images` images: a row per window, a column per filter, a depth per element of it.

        MACs on padding are part of it, and counted as masked: no input stands behind them.
        """
        windows = self.output_height * self.output_width
        depth, columns = self.channels // self.groups, self.filters // self.groups
        real = _real_taps(
            self.height, self.filter_height, self.stride_height, self.padding_height
        ) * _real_taps(self.width, self.filter_width, self.stride_width, self.padding_width)
        taps = windows * self.filter_height * self.filter_width
        return Gemm(
            name=self.name,
            batch=self.groups,
            m=images * windows,
            n=columns,
            k=self.filter_height * self.filter_width * depth,
            masked_macs=self.groups * images * columns * depth * (taps - real),
            origin=origin,
        )


def _windows(side: int, size: int, stride: int, padding: int) -> int:
    return (side + 2 * padding - size) // stride + 1


def _real_taps(side: int, size: int, stride: int, padding: int) -> int:
    """(window, element of it) pairs along one axis that meet the input and not its padding."""
    windows = _windows(side, size, stride, padding)
    # Window w starts w * stride - padding into the input: the first ones reach over its near end, by less
    # each time, and the last ones over its far end, by more.
    near = min(windows, -(-padding // stride))
    first = max(0, (side + padding - size) // stride + 1)
    far, reach = max(0, windows - first), first * stride - padding + size - side
    over_near = near * padding - stride * near * (near - 1) // 2
    over_far = far * reach + stride * far * (far - 1) // 2
    return windows * size - over_near - over_far
