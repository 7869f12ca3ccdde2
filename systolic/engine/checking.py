"""Checks the values of all matmuls of a run against ``jnp.matmul``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from ..errors import SystolicError
from ..quantity import format_count, format_seconds
from ..result import Result
from ..workload import Gemm
from .effort import WORTH_ANNOUNCING_SECONDS
from .hook import MatmulHook
from .knobs import Rows
from .progress import Progress

CHECKS = ("off", "auto", "sample", "full")
SEED = 0
"""Of the operands and of the sampled rows: the same input gives the same report."""


@dataclass(frozen=True)
class _Planned:
    """One matmul to check: its place among the rows, and the work that takes."""

    index: int
    gemm: Gemm
    edges: tuple[int, ...]
    compared_rows: int
    occurrences: int

    @property
    def macs(self) -> int:
        """MACs whose values are compared."""
        return self.occurrences * self.gemm.batch * self.compared_rows * self.gemm.n * self.gemm.k


def check_rows(rows: Rows, hook: MatmulHook, check: str, progress: Progress) -> tuple[Rows, list[str]]:
    """Give each matmul its :class:`~systolic.result.Check`.

    Parameters
    ----------
    rows
        The rows of a run.
    hook
        Computes the values; it knows the steps of the run.
    check
        One of `CHECKS`; ``auto`` chooses by cost.
    progress
        Hears before it starts of a check that takes long, and then how far it is.

    Returns
    -------
    rows, notes
        The rows with their checks; which check ``auto`` chose, and which matmuls cannot be checked.
    """
    if check == "off":
        return rows, []
    from ..check import choose_mode

    notes = []
    automatic = check == "auto"
    if automatic:
        gemms = (row.op for row in rows if isinstance(row.op, Gemm))
        check, reason = choose_mode(gemms, seconds_per_mac=hook.machine.SECONDS_PER_MAC)
        notes.append(reason)
    planned = list(_planned(rows, hook, check))
    _announce(planned, check, hook, progress)
    progress.start(f"check {check}", sum(each.macs for each in planned))
    checked = list(rows)
    for each in planned:
        try:
            checked[each.index] = _checked(rows[each.index], each, hook, check, progress)
        except SystolicError as error:
            if not automatic:
                raise
            notes += [f"not checked: {problem}" for problem in error.problems]
    return tuple(checked), notes


def _planned(rows: Rows, hook: MatmulHook, check: str) -> Iterator[_Planned]:
    from ..check.plan import sampled_rows

    for index, row in enumerate(rows):
        if not isinstance(gemm := row.op, Gemm):
            continue
        edges = hook.tile_edges(gemm)
        if check == "full":
            yield _Planned(index, gemm, edges, gemm.m, gemm.count)
        else:
            yield _Planned(index, gemm, edges, len(sampled_rows(gemm, edges, SEED)), 1)


def _checked(row: Result, planned: _Planned, hook: MatmulHook, check: str, progress: Progress) -> Result:
    from ..check import check_matmul

    gemm = planned.gemm
    outcome = check_matmul(
        gemm,
        hook.precision(gemm),
        partial(hook.values, gemm),
        mode=check,
        tile_edges=planned.edges,
        seed=SEED,
        progress=progress.advance,
    )
    return replace(row, check=outcome)


def _announce(planned: list[_Planned], check: str, hook: MatmulHook, progress: Progress) -> None:
    from ..check import estimate_seconds

    parts = [
        replace(each.gemm, m=each.compared_rows, count=each.occurrences, masked_macs=0) for each in planned
    ]
    seconds = estimate_seconds(parts, hook.machine.SECONDS_PER_MAC)
    if seconds < WORTH_ANNOUNCING_SECONDS:
        return
    cheaper = "check sample compares some rows of each" if check == "full" else "check off leaves it out"
    progress.announce(
        f"check {check} of {format_count(sum(each.macs for each in planned))}MAC takes about "
        f"{format_seconds(seconds)}; {cheaper}"
    )
