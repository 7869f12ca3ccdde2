"""Matmuls in general position: from dimension numbers to batch, m, n, k, and back to arrays.

Words are those of StableHLO (openxla/stablehlo, ``docs/spec.md``: dot_general, convolution).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import prod

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Sides:
    """One batched matmul: `batch` products of (m, k) by (k, n); `masked_macs` of all of them are on zeros
    that the program inserts, padding and dilation."""

    batch: int
    m: int
    n: int
    k: int
    masked_macs: int = 0

    @property
    def macs(self) -> int:
        """MACs of the whole batch."""
        return self.batch * self.m * self.n * self.k

    @property
    def swapped(self) -> Sides:
        """The transposed product."""
        return replace(self, m=self.n, n=self.m)


@dataclass(frozen=True)
class Contraction:
    """``dot_general``: which dimensions of its operands are batch, and which are summed over.

    `precision` is in JAX's words: default, high or highest.
    """

    lhs_batch: Shape
    rhs_batch: Shape
    lhs_contract: Shape
    rhs_contract: Shape
    precision: str = "default"

    def lhs_free(self, lhs: Shape) -> Shape:
        """Dimensions of the lhs that become rows."""
        return _others(len(lhs), self.lhs_batch, self.lhs_contract)

    def rhs_free(self, rhs: Shape) -> Shape:
        """Dimensions of the rhs that become columns."""
        return _others(len(rhs), self.rhs_batch, self.rhs_contract)

    def sides(self, lhs: Shape, rhs: Shape) -> Sides:
        """batch, m, n and k for operands of these shapes."""
        return Sides(
            batch=_sizes(lhs, self.lhs_batch),
            m=_sizes(lhs, self.lhs_free(lhs)),
            n=_sizes(rhs, self.rhs_free(rhs)),
            k=_sizes(lhs, self.lhs_contract),
        )

    def layout(self) -> str:
        """How the operands are stored: ``n`` as (m, k) or (k, n), ``t`` with k on the other side.

        A free dimension before the contracted ones makes the rhs transposed; contracted ones first make
        the lhs so.
        """
        lhs_transposed = _leads(self.lhs_contract, self.lhs_batch)
        rhs_transposed = not _leads(self.rhs_contract, self.rhs_batch)
        return ("t" if lhs_transposed else "n") + ("t" if rhs_transposed else "n")


@dataclass(frozen=True)
class Convolution:
    """``conv_general_dilated`` as an implicit matmul per group: rows are output positions, columns output
    features, the depth is input features times window.

    `lhs_dims`, `rhs_dims` and `out_dims` list the dimensions of each operand as (batch, feature, spatial
    …), the rhs as (output feature, input feature, spatial …).
    """

    lhs_dims: Shape
    rhs_dims: Shape
    out_dims: Shape
    strides: Shape
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: Shape
    rhs_dilation: Shape
    feature_groups: int = 1
    batch_groups: int = 1
    precision: str = "default"

    def sides(self, lhs: Shape, rhs: Shape) -> Sides:
        """One product per group; taps that meet padding or inserted zeros are counted as masked."""
        groups = self.feature_groups * self.batch_groups
        out_features, in_features, *window = (rhs[d] for d in self.rhs_dims)
        images = lhs[self.lhs_dims[0]] // self.batch_groups
        outputs = [self.output_side(i, lhs, rhs) for i in range(len(window))]
        columns = out_features // groups
        whole = Sides(groups, images * prod(outputs), columns, in_features * prod(window))
        taps = prod(self._real_taps(i, lhs, rhs) for i in range(len(window)))
        useful = groups * images * columns * in_features * taps
        return replace(whole, masked_macs=whole.macs - useful)

    def output_side(self, i: int, lhs: Shape, rhs: Shape) -> int:
        """Output positions along spatial dimension `i`."""
        padded = self._dilated(i, lhs) + sum(self.padding[i])
        window = (rhs[self.rhs_dims[2 + i]] - 1) * self.rhs_dilation[i] + 1
        return max(0, (padded - window) // self.strides[i] + 1)

    def _dilated(self, i: int, lhs: Shape) -> int:
        side = lhs[self.lhs_dims[2 + i]]
        return (side - 1) * self.lhs_dilation[i] + 1 if side else 0

    def _real_taps(self, i: int, lhs: Shape, rhs: Shape) -> int:
        """(output position, window tap) pairs along `i` that meet an element of the input."""
        last = self._dilated(i, lhs) - 1
        return sum(
            1
            for tap in range(rhs[self.rhs_dims[2 + i]])
            for out in range(self.output_side(i, lhs, rhs))
            if 0 <= (at := out * self.strides[i] + tap * self.rhs_dilation[i] - self.padding[i][0]) <= last
            and at % self.lhs_dilation[i] == 0
        )


@dataclass(frozen=True)
class RaggedContraction:
    """``ragged_dot_general``: a contraction whose lhs is cut into groups along one of its dimensions.

    Where that is a free dimension (`mode` ``"m"``) each group meets its own rhs; where it is contracted
    (``"k"``) each group yields a product of its own; where it is a batch dimension (``"batch"``) nothing
    changes. The sizes of the groups are data.
    """

    dot: Contraction
    lhs_ragged: int
    rhs_group: Shape

    @property
    def mode(self) -> str:
        """Where the ragged dimension lies."""
        if self.lhs_ragged in self.dot.lhs_contract:
            return "k"
        return "batch" if self.lhs_ragged in self.dot.lhs_batch else "m"

    @property
    def inner(self) -> Contraction:
        """The contraction of one group: without the rhs's group dimension."""
        if not self.rhs_group:
            return self.dot
        (group,) = self.rhs_group
        return replace(
            self.dot,
            rhs_batch=_without(self.dot.rhs_batch, group),
            rhs_contract=_without(self.dot.rhs_contract, group),
        )

    def group_shapes(self, lhs: Shape, rhs: Shape) -> tuple[Shape, Shape]:
        """Shapes of the operands with the group dimension dropped, all groups together."""
        return lhs, tuple(side for d, side in enumerate(rhs) if d not in self.rhs_group)

    def group_sides(self, lhs: Shape, rhs: Shape, length: int) -> Sides:
        """The product of a group that is `length` long along the ragged dimension."""
        lhs, rhs = self.group_shapes(lhs, rhs)
        whole = self.inner.sides(lhs, rhs)
        ragged = lhs[self.lhs_ragged]
        field = self.mode
        return replace(whole, **{field: getattr(whole, field) // ragged * length}) if ragged else whole

    def balanced(self, lhs: Shape, groups: int) -> Iterator[tuple[int, int]]:
        """(length, how many groups): as even as the length allows; groups of 0 are left out."""
        quotient, rest = divmod(lhs[self.lhs_ragged], groups)
        for length, times in ((quotient + 1, rest), (quotient, groups - rest)):
            if length and times:
                yield length, times


def _leads(dims: Shape, batch: Shape) -> bool:
    """Whether these are the first dimensions beside the batch ones."""
    return bool(dims) and min(dims) == next(d for d in count() if d not in batch)


def _without(dims: Shape, gone: int) -> Shape:
    return tuple(d - (d > gone) for d in dims if d != gone)


def _others(rank: int, *taken: Shape) -> Shape:
    return tuple(d for d in range(rank) if not any(d in dims for dims in taken))


def _sizes(shape: Sequence[int], dims: Sequence[int]) -> int:
    return prod(shape[d] for d in dims)
