"""Check a machine's values of one matmul against the reference product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ..dtypes import DTYPES
from ..errors import SystolicError
from ..numerics.bounds import product_bound
from ..numerics.inputs import draw_lhs, draw_rhs
from ..result import Check
from ..workload import Gemm
from .plan import CHECK_MODES, Block, blocks, describe, sampled_rows
from .reference import Reference, Worst, device

_FLOAT64_ROWS = 16


class EffectivePrecision(Protocol):
    """What a machine says of a matmul: formats at the multipliers, of the sums and of the result."""

    @property
    def lhs_dtype(self) -> str: ...
    @property
    def rhs_dtype(self) -> str: ...
    @property
    def acc_dtype(self) -> str: ...
    @property
    def out_dtype(self) -> str: ...
    @property
    def roundings(self) -> int: ...
    @property
    def passes(self) -> int: ...


class Computed(Protocol):
    """What a machine computed: (batch, rows, columns), float32 or int32, and sums that wrapped."""

    @property
    def out(self) -> np.ndarray: ...
    @property
    def overflows(self) -> int: ...


Compute = Callable[[np.ndarray, np.ndarray], Computed]
"""A machine's `values`, bound to a step and a chip: lhs (batch, rows, k), rhs (batch, k, columns)."""


def check_matmul(
    gemm: Gemm,
    precision: EffectivePrecision,
    compute: Compute,
    *,
    mode: str,
    tile_edges: Sequence[int] = (),
    occurrences: int | None = None,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Check:
    """Compare the values of a matmul, on seeded operands, with ``jnp.matmul``.

    Parameters
    ----------
    gemm
        The matmul.
    precision
        Its effective precision on the machine; the reference rounds the operands accordingly, and
        the allowed difference follows from it (see :mod:`systolic.numerics.bounds`).
    compute
        Yields the machine's values. It is called with some rows of the lhs and some columns of the
        rhs, as many as fit bounded memory.
    mode
        ``"full"``: every element of every occurrence, each with operands of its own. ``"sample"``:
        the first, last, tile-edge and eight seeded rows of the first occurrence.
    tile_edges
        Rows of the result at the edges of the machine's tiles; others are ignored.
    occurrences
        Compare so many of `gemm.count` instead.
    seed
        Of the operands and of the sampled rows.
    progress
        Called with the MACs checked since its last call.

    Returns
    -------
    Check
        `error_vs_float64` is over at most 16 of the sampled rows, in the first product of the
        first occurrence's batch.

    Raises
    ------
    SystolicError
        If the mode is unknown, there are not so many occurrences, the formats are not covered, or no
        error bound exists for so many roundings in the accumulator.
    """
    if mode not in CHECK_MODES:
        raise SystolicError(f"check must be one of {', '.join(CHECK_MODES)}, off, got {mode!r}")
    if occurrences is None:
        occurrences = gemm.count if mode == "full" else 1
    elif not 1 <= occurrences <= gemm.count:
        raise SystolicError(f"occurrences must be from 1 to count ({gemm.count}), got {occurrences!r}")
    reference = _reference(gemm, precision)
    sample = sampled_rows(gemm, tile_edges, seed)
    rows = np.arange(gemm.m) if mode == "full" else sample
    watched = sample[np.linspace(0, sample.size - 1, min(sample.size, _FLOAT64_ROWS)).astype(int)]

    outcome = _Outcome(watched)
    operands = _Operands(gemm, reference, seed)
    for block in blocks(gemm, rows, occurrences):
        lhs, rhs = operands.of(block)
        values = compute(lhs, rhs)
        assert values.out.shape == (*lhs.shape[:2], rhs.shape[2]), "values have the wrong shape"
        outcome.add(block, lhs, rhs, values, *reference.compare(operands.lhs, operands.rhs, values.out))
        if progress is not None:
            progress(values.out.size * gemm.k)
    return Check(
        passed=outcome.worst.ratio <= 1,
        max_error=outcome.worst.error,
        tolerance=outcome.worst.tolerance,
        compared=outcome.compared,
        mode=mode,
        exact=reference.exact,
        error_vs_float64=outcome.loss,
        device=device(),
        rows=describe(rows, gemm, occurrences),
        overflows=outcome.overflows,
        out_of_range=outcome.beyond,
    )


def _reference(gemm: Gemm, precision: EffectivePrecision) -> Reference:
    """The reference that stands against a machine of this precision."""
    p = precision
    acc_dtype = "int32" if _exact_integers(gemm, p) else p.acc_dtype
    if DTYPES[acc_dtype].kind == "int":
        if p.out_dtype != "int32":
            raise SystolicError(
                f"{gemm.name or 'matmul'}: integer sums are checked as int32, got result {p.out_dtype}; "
                "switch the check off"
            )
        return Reference(p.lhs_dtype, p.rhs_dtype, acc_dtype, p.out_dtype, None)
    bound = product_bound(
        k=gemm.k,
        roundings=p.roundings,
        acc_dtype=p.acc_dtype,
        passes=p.passes,
        part_dtype=p.lhs_dtype,
    )
    # With several passes the operands enter in parts that add up to the whole, as far as `bound` says.
    lhs, rhs = (p.lhs_dtype, p.rhs_dtype) if p.passes == 1 else (gemm.dtype, str(gemm.rhs_dtype))
    return Reference(lhs, rhs, p.acc_dtype, p.out_dtype, bound)


def _exact_integers(gemm: Gemm, precision: EffectivePrecision) -> bool:
    """Whether floats add up integers that none of them rounds: no sum of so many products is too large."""
    operands, acc = [DTYPES[precision.lhs_dtype], DTYPES[precision.rhs_dtype]], DTYPES[precision.acc_dtype]
    if acc.kind == "int" or any(d.kind == "float" for d in operands):
        return False
    largest = gemm.k << (sum(d.bits for d in operands) - 2)
    return largest <= 1 << acc.precision


class _Operands:
    """The operands of the current block, drawn and put on the device when they change."""

    def __init__(self, gemm: Gemm, reference: Reference, seed: int) -> None:
        self._gemm, self._reference, self._seed = gemm, reference, seed
        self._drawn: dict[str, tuple[Any, np.ndarray]] = {}
        self.lhs: Any = None
        self.rhs: Any = None

    def of(self, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """Both operands as drawn; `lhs` and `rhs` then hold them as the reference takes them."""
        place = (self._gemm, self._seed, block.occurrence, block.batch)
        key = (block.occurrence, block.batch, block.rows[0])
        if self._drawn.get("lhs", (None,))[0] != key:
            drawn = draw_lhs(*place, block.rows)
            self._drawn["lhs"], self.lhs = (key, drawn), self._reference.operand("lhs", drawn)
        key = (block.occurrence, block.batch, block.strip)
        if self._drawn.get("rhs", (None,))[0] != key:
            drawn = draw_rhs(*place, block.strip)
            self._drawn["rhs"], self.rhs = (key, drawn), self._reference.operand("rhs", drawn)
        return self._drawn["lhs"][1], self._drawn["rhs"][1]


class _Outcome:
    """What the blocks compared so far add up to."""

    def __init__(self, watched: np.ndarray) -> None:
        self._watched = watched
        self.worst = Worst(-1.0, 0.0, 0.0)
        self.compared = self.overflows = self.beyond = 0
        self.loss = 0.0

    def add(
        self, block: Block, lhs: np.ndarray, rhs: np.ndarray, values: Computed, worst: Worst, beyond: int
    ) -> None:
        """Take in one block."""
        self.worst = max(self.worst, worst, key=lambda w: w.ratio)
        self.compared += values.out.size
        self.overflows += values.overflows
        self.beyond += beyond
        if block.occurrence == 0 and block.batch.start == 0:
            at = np.flatnonzero(np.isin(block.rows, self._watched))
            if at.size:
                exact = lhs[0, at].astype(np.float64) @ rhs[0].astype(np.float64)
                self.loss = float(np.maximum(self.loss, np.abs(values.out[0, at] - exact).max()))
