"""A workload on one chip as slices on one time axis, from the schedules that made its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..chips import Chip, load_chip
from ..chips.tpu import TpuChip
from ..errors import SystolicError
from ..machines.base import Occurrence, Options
from ..result import Result
from ..workload import Workload
from .simulation import Where


@dataclass(frozen=True, kw_only=True)
class Unrolled:
    """A run, op after op.

    Attributes
    ----------
    workload, chip
        What ran where.
    rows
        The rows of its report.
    most_slices
        How many slices there are at most.
    occurrences
        Every occurrence of every op, in order; can be read once.
    """

    workload: Workload
    chip: Chip
    rows: tuple[Result, ...]
    most_slices: int
    occurrences: Iterator[Occurrence]


def unroll(
    workload: Workload,
    *,
    on: Where = "tpu-v4",
    dataflow: str | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Unrolled:
    """Simulate a workload, and walk through what its units do.

    Parameters
    ----------
    workload, on, dataflow, overrides
        As for :func:`systolic.simulate`; one chip, of kind ``tpu``.

    Raises
    ------
    SystolicError
        For what :func:`systolic.simulate` refuses, and for a chip of another kind.
    """
    chip = load_chip(on, overrides or {})
    if not isinstance(chip, TpuChip):
        raise SystolicError(f"{chip.name} (kind {chip.kind}) has no timeline of units yet; take a TPU")
    from ..machines import tpu

    work = workload if workload.dtype is not None else workload.with_dtype(chip.native_dtype)
    steps = tpu.lower(work, chip, Options(dataflow=dataflow))
    results = [tpu.cost(step, chip) for step in steps]
    rows = tpu.compose(steps, results, chip)
    return Unrolled(
        workload=work,
        chip=chip,
        rows=rows,
        most_slices=tpu.most_slices(steps, chip),
        occurrences=tpu.timeline(steps, results, rows, chip),
    )
