"""The reference product, by ``jnp.matmul`` on the device that JAX uses, and the comparison with it.

Nothing here is shared with what computes a machine's values: operands and results are rounded by
arithmetic of its own. jax is imported when a function runs, and ``jnp.matmul`` is looked up at each call.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import DTYPES
from ..numerics.bounds import Bound

if TYPE_CHECKING:
    import jax

_EVALUATION = 2.0**-22  # relative; the comparison's own roundings in fp32


@dataclass(frozen=True)
class Grid:
    """The numbers of a float format: `precision` significant bits, exponents from `emin`, up to `largest`.

    Without `has_inf`, what lies beyond is NaN.
    """

    precision: int
    emin: int
    largest: float
    has_inf: bool = True


@dataclass(frozen=True)
class Worst:
    """The element with the worst ratio of error to tolerance; it fails where the ratio exceeds 1."""

    ratio: float
    error: float
    tolerance: float


# IEEE 754-2019 table 3.5 (fp16); OCP 8-bit floating point specification 1.0, table 1 (fp8); bf16 and
# tf32 are fp32 with fewer significant bits. fp32 itself and integers need no rounding.
_GRIDS = {
    "bf16": Grid(8, -126, (2 - 2.0**-7) * 2.0**127),
    "tf32": Grid(11, -126, (2 - 2.0**-10) * 2.0**127),
    "fp16": Grid(11, -14, 65504.0),
    "fp8_e4m3": Grid(4, -6, 448.0, has_inf=False),
    "fp8_e5m2": Grid(3, -14, 57344.0),
}


def device() -> str:
    """The device on which the reference runs, in words."""
    import jax

    first = jax.devices()[0]
    return " ".join(dict.fromkeys((first.platform, first.device_kind)))


class Reference:
    """Products of one kind: operand formats, accumulator and result.

    Parameters
    ----------
    lhs_dtype, rhs_dtype
        Formats to which the operands are rounded first.
    acc_dtype, out_dtype
        Formats of the sums and of the result. Integer sums must be equal, wrapped as their format wraps.
    bound
        Allowed difference of the sums before the result is rounded; None for integers.
    """

    def __init__(
        self, lhs_dtype: str, rhs_dtype: str, acc_dtype: str, out_dtype: str, bound: Bound | None
    ) -> None:
        self.exact = DTYPES[acc_dtype].kind == "int"
        self._grids = {"lhs": _GRIDS.get(lhs_dtype), "rhs": _GRIDS.get(rhs_dtype)}
        self._acc_bits, self._out = DTYPES[acc_dtype].bits, _GRIDS.get(out_dtype)
        self._bound = bound
        # All numbers of an operand of at most 8 bits are bf16 numbers, and devices multiply bf16 faster.
        narrow = all(DTYPES[d].precision <= 8 and DTYPES[d].bits <= 16 for d in (lhs_dtype, rhs_dtype))
        self._operand = "int8" if self.exact else "bfloat16" if narrow else "float32"

    def operand(self, side: str, x: np.ndarray) -> tuple[jax.Array, jax.Array]:
        """Put an operand on the device, rounded as the chip rounds it, and its absolute value beside it."""
        import jax.numpy as jnp

        if self.exact:
            put = jnp.asarray(x)
            return put, put
        operand, size = _compiled()["operand"](jnp.asarray(x), self._grids[side], self._operand)
        return operand, size

    def compare(
        self, lhs: tuple[jax.Array, jax.Array], rhs: tuple[jax.Array, jax.Array], got: np.ndarray
    ) -> tuple[Worst, int]:
        """Compare `got` (batch, rows, columns) with the product of two operands from :meth:`operand`.

        Returns
        -------
        Worst, int
            The worst element, and how many results correctly left the range of their format.
        """
        compare = self._compare_exactly if self.exact else self._compare_within_bound
        return compare(lhs, rhs, got)

    def _compare_exactly(self, lhs: Any, rhs: Any, got: np.ndarray) -> tuple[Worst, int]:
        import jax.numpy as jnp

        want = np.asarray(
            jnp.matmul(lhs[0], rhs[0], preferred_element_type=jnp.int32, precision="highest"), np.int64
        )
        half = 1 << (self._acc_bits - 1)
        want = (want + half) % (2 * half) - half  # in whatever order they add up, sums wrap to the same
        if np.array_equal(got, want):
            return Worst(0.0, 0.0, 0.0), 0
        return Worst(np.inf, float(np.abs(got.astype(np.int64) - want).max()), 0.0), 0

    def _compare_within_bound(self, lhs: Any, rhs: Any, got: np.ndarray) -> tuple[Worst, int]:
        import jax.numpy as jnp

        assert self._bound is not None
        got = got.astype(np.float32, copy=False)  # integers may be summed as floats
        multiply = partial(jnp.matmul, preferred_element_type=jnp.float32, precision="highest")
        ref, size = multiply(lhs[0], rhs[0]), multiply(lhs[1], rhs[1])
        bound = self._bound.factor, self._bound.floor, self._out
        ratios, beyond = _compiled()["ratios"](ref, size, jnp.asarray(got), *bound)
        at = np.unravel_index(int(np.asarray(ratios).argmax()), ratios.shape)
        with np.errstate(all="ignore"):
            row = _judge(np, np.asarray(ref)[at], np.asarray(size)[at], got[at], *bound)
        return _worst_of_row(*row), int(beyond)


def _worst_of_row(ratio: np.ndarray, error: np.ndarray, tolerance: np.ndarray, miss: np.ndarray) -> Worst:
    i = int(ratio.argmax())
    if ratio[i] > 1 and error[i] <= tolerance[i]:  # near enough, yet what no allowed sum rounds to
        return Worst(float(ratio[i]), float(miss[i]), 0.0)
    return Worst(float(ratio[i]), float(error[i]), float(tolerance[i]))


@cache
def _compiled() -> dict[str, Any]:
    """The compiled functions: made at first use, since jax loads late."""
    import jax

    return {
        "operand": jax.jit(_operand, static_argnums=(1, 2)),
        "ratios": jax.jit(_ratios, static_argnums=5),
    }


def _operand(x: Any, grid: Grid | None, dtype: str) -> tuple[Any, Any]:
    import jax.numpy as jnp

    rounded = _round(jnp, x.astype(jnp.float32), grid).astype(dtype)
    return rounded, jnp.abs(rounded)


def _ratios(ref: Any, size: Any, got: Any, factor: Any, floor: Any, grid: Grid | None) -> tuple[Any, Any]:
    """Worst ratio of each row, and the count of results beyond the range of their format.

    Looking for the worst element here as well (an argmax) would take ten times as long.
    """
    import jax.numpy as jnp

    ratio = _judge(jnp, ref, size, got, factor, floor, grid)[0]
    return jnp.max(ratio, axis=-1), 0 if grid is None else jnp.sum(~jnp.isfinite(got))


def _judge(
    xp: Any, ref: Any, size: Any, got: Any, factor: Any, floor: Any, grid: Grid | None
) -> tuple[Any, ...]:
    """Of each element: error over tolerance, error, tolerance, and distance to the nearest right result.

    The sum lies within ref +- slack, slack = factor size + floor. Since rounding is monotonic, the
    result lies between these ends rounded to its format, and it must be a number of that format.
    The tolerance is the slack plus half a unit in the last place of the result. Where inf is right,
    the error counts as 0. `xp` is numpy or jax.numpy.
    """
    slack = factor * size + floor
    low, high = _round(xp, ref - slack, grid), _round(xp, ref + slack, grid)
    if grid is not None and not grid.has_inf:
        got = xp.where(xp.isnan(got) & xp.isinf(high), high, got)
        got = xp.where(xp.isnan(got) & xp.isinf(low), low, got)
    nearest = xp.clip(_round(xp, got, grid), low, high)
    right = nearest == got
    error = xp.where(right & xp.isinf(got), 0.0, xp.abs(got - ref))
    farthest = xp.abs(ref) + slack
    tolerance = slack + _EVALUATION * farthest
    if grid is not None:
        tolerance += 0.5 * _unit(xp, farthest, grid)[0]
    ratio = error / tolerance
    wrong = xp.where(xp.isnan(got), xp.inf, xp.where(ratio > 2, ratio, 2.0))
    return xp.where(right, xp.minimum(ratio, 1.0), wrong), error, tolerance, xp.abs(got - nearest)


def _round(xp: Any, x: Any, grid: Grid | None) -> Any:
    """Round float32 to a format's numbers, ties to even, subnormals kept, inf beyond its range."""
    if grid is None:
        return x
    unit, inverse = _unit(xp, x, grid)
    rounded = xp.rint(x * inverse) * unit
    return xp.where(xp.abs(rounded) > grid.largest, xp.copysign(xp.inf, rounded), rounded)


def _unit(xp: Any, x: Any, grid: Grid) -> tuple[Any, Any]:
    """One unit in the last place of x in a format, a power of two, and its inverse.

    It is at least fp32's smallest normal number, since devices flush what is smaller to zero.
    """
    exponent = ((x.view(xp.int32) >> 23) & 0xFF) - 127
    unit = xp.clip(exponent, max(grid.emin, grid.precision - 127), 127) - (grid.precision - 1)
    return ((127 + unit) << 23).view(xp.float32), ((127 - unit) << 23).view(xp.float32)
