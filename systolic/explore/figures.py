"""The figures of a point: what a sweep keeps of a simulation."""

from __future__ import annotations

from typing import Any

from ..chips import Chip
from ..engine.fits import memory_fit
from ..engine.report import ChipReport
from ..workload import Gemm, Workload

LEVELS = ("dram", "cmem", "vmem", "acc", "l2", "l1", "shared")
FIGURES = (
    "seconds",
    "cycles",
    "clock_hz",
    "macs",
    "array_macs",
    "padded_macs",
    "utilization",
    "mapped_utilization",
    "flop_per_s",
    "peak_flop_per_s",
    "bound_by",
    "source",
    *(f"bytes.{level}" for level in LEVELS),
    "chips_needed",
)
"""Names of the figures, in the order of the table; ``systolic explain`` defines them."""


def figures_of(report: ChipReport, work: Workload) -> dict[str, Any]:
    """Name -> value for each of :data:`FIGURES`; None where the chip has no such level."""
    chip, totals = report.chip, report.totals
    cycles, seconds = totals.cycles, report.seconds
    macs = sum(row.macs for row in report.rows)
    traffic = totals.bytes
    return {
        "seconds": seconds,
        "cycles": cycles,
        "clock_hz": chip.clock_hz,
        "macs": macs,
        "array_macs": sum(row.array_macs for row in report.rows),
        "padded_macs": sum(row.padded_macs for row in report.rows),
        "utilization": report.utilization,
        "mapped_utilization": report.mapped_utilization,
        "flop_per_s": 2 * macs / seconds if seconds else None,
        "peak_flop_per_s": _peak(chip, work),
        "bound_by": totals.bound_by,
        "source": totals.source,
        **{
            f"bytes.{level}": sum(t.total for t in traffic[level].values()) if level in traffic else None
            for level in LEVELS
        },
        "chips_needed": memory_fit(work, chip).chips_needed,
    }


def _peak(chip: Chip, work: Workload) -> float | None:
    dtype = next((op.dtype for op in work.ops if isinstance(op, Gemm)), None)
    return None if dtype is None else 2.0 * float(chip.peak_macs_per_s(dtype))
