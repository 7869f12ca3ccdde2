"""The answer of a simulation: immutable, printable, and the same JSON for the same input."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..chips import Chip
from ..metrics import CAUSES, COUNTERS, STALLS, ratios_of
from ..result import Bytes, Check, Result, Total, is_matmul
from ..workload import Gemm, NotCovered, Workload
from .fits import Fits

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import Group

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Host:
    """What the simulating host contributed: the only part of a report that differs between runs.

    Attributes
    ----------
    wall_seconds
        The whole call.
    simulation_seconds
        Lowering, costing and composing on all chips, without comparison runs and checks.
    check_seconds
        The checks of values; None when they were off.
    simulated_cycles
        Cycles of all chips.
    """

    wall_seconds: float
    simulation_seconds: float
    check_seconds: float | None
    simulated_cycles: int

    @property
    def simulated_cycles_per_second(self) -> float:
        """Simulated cycles per second of host time."""
        return self.simulated_cycles / self.simulation_seconds


@dataclass(frozen=True, kw_only=True)
class ChipReport:
    """One workload on one chip.

    Attributes
    ----------
    chip
        The chip, overrides applied.
    fits
        What the run needs of its memory.
    rows
        Everything that takes time, in order; the rows add up to the totals.
    notes
        Lines for the reader.
    not_covered
        Work that is in no row.
    """

    chip: Chip
    fits: Fits
    rows: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    not_covered: tuple[NotCovered, ...] = ()

    @property
    def matmuls(self) -> tuple[Result, ...]:
        """The rows that are matmuls."""
        return tuple(row for row in self.rows if is_matmul(row))

    @property
    def totals(self) -> Total:
        """The rows added up."""
        return Total(rows=self.rows)

    @property
    def seconds(self) -> float:
        """Elapsed time."""
        return self.totals.cycles / self.chip.clock_hz

    @property
    def interval_seconds(self) -> float:
        """Time between two results of a steady stream: a TPU runs one step after the other."""
        return self.seconds

    @property
    def utilization(self) -> float | None:
        """Mean of the rows' utilization weighted by their cycles; idle time of vector rows counts."""
        cycles = self.totals.cycles
        if not cycles or not self.matmuls:
            return None
        return sum((row.utilization or 0.0) * row.cycles for row in self.matmuls) / cycles

    @property
    def mapped_utilization(self) -> float | None:
        """MACs done over those that the PEs which held work could have done."""
        slots = sum(row.mapped_pe_cycles for row in self.rows)
        return sum(row.array_macs for row in self.rows) / slots if slots else None

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(row.check is None or row.check.passed for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, one entry of ``chips`` in the JSON."""
        return {
            "chip": self.chip.name,
            "clock_hz": self.chip.clock_hz,
            "fits": {
                "bytes_needed": self.fits.bytes_needed,
                "bytes": self.fits.bytes,
                "chips_needed": self.fits.chips_needed,
                "weight_bytes": self.fits.weight_bytes,
                "kv_cache_bytes": self.fits.kv_cache_bytes,
                "activation_bytes": self.fits.activation_bytes,
            },
            "notes": list(self.notes),
            "not_covered": [{"op": missing.op, "share": missing.share} for missing in self.not_covered],
            "totals": self._totals_dict(),
            "matmuls": [_matmul_dict(row) for row in self.matmuls],
            "ops": [_op_dict(row) for row in self.rows],
        }

    def _totals_dict(self) -> dict[str, Any]:
        totals = self.totals
        return {
            "cycles": totals.cycles,
            "seconds": self.seconds,
            "interval_seconds": self.interval_seconds,
            "macs": sum(row.macs for row in self.rows),
            "array_macs": sum(row.array_macs for row in self.rows),
            "useful_macs": sum(row.useful_macs for row in self.rows),
            "padded_macs": sum(row.padded_macs for row in self.rows),
            "joules": None,
            "utilization": self.utilization,
            "mapped_utilization": self.mapped_utilization,
            "bound_by": totals.bound_by,
            "source": totals.source,
            "cycles_by_cause": _causes_dict(totals.cycles_by_cause),
            **_profile_dict(totals),
            "bytes": _bytes_dict(totals.bytes),
        }


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a workload costs on each of several chips.

    ``print(report)`` shows tables; ``to_dict``, ``to_json`` and ``to_dataframe`` give the figures.
    ``systolic explain METRIC`` defines each of them.
    """

    workload: Workload
    host: Host
    chips: tuple[ChipReport, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed on any chip; True as well when the checks were off."""
        return all(chip.passed for chip in self.chips)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data: the object that ``to_json`` writes."""
        work = self.workload
        return {
            "schema": SCHEMA,
            "workload": {
                "name": work.name,
                "phase": work.phase,
                "batch": work.batch,
                "seq": work.seq,
                "kv_len": work.kv_len or None,
                "parameters": work.parameters,
            },
            "host": {
                "wall_seconds": self.host.wall_seconds,
                "simulation_seconds": self.host.simulation_seconds,
                "check_seconds": self.host.check_seconds,
                "simulated_cycles_per_second": self.host.simulated_cycles_per_second,
            },
            "chips": [chip.to_dict() for chip in self.chips],
        }

    def to_json(self) -> str:
        """The report as JSON text; the same input gives the same text, ``host`` excepted."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def to_dataframe(self) -> DataFrame:
        """One row per chip and op, in order; columns are the JSON keys joined by dots.

        Columns are nullable: a matmul's figures are missing in the row of a vector op. Causes and
        traffic that do not occur in a row are 0.
        """
        import pandas as pd

        rows = []
        for chip in self.chips:
            for row in chip.rows:
                figures = _matmul_dict(row) if is_matmul(row) else _op_dict(row)
                rows.append({"chip": chip.chip.name, **_flat(figures)})
        frame = pd.DataFrame(rows).convert_dtypes()
        counted = [name for name in frame.columns if name.startswith(("cycles_by_cause.", "bytes."))]
        return frame.fillna(dict.fromkeys(counted, 0))

    def __str__(self) -> str:
        from .render import to_text

        return to_text(self)

    def __rich__(self) -> Group:
        from .render import renderable

        return renderable(self)


def _op_dict(row: Result) -> dict[str, Any]:
    return {
        "name": row.name,
        "kind": row.kind,
        "origin": row.op.origin,
        "layers": row.op.layers,
        "count": row.op.count,
        "cycles": row.cycles,
        "busy_cycles": row.busy_cycles,
        "seconds": row.seconds,
        "cycles_by_cause": _causes_dict(row.cycles_by_cause),
        **_profile_dict(row),
        "bytes": _bytes_dict(row.bytes),
        "joules": None,
        "bound_by": row.bound_by,
        "source": row.source,
    }


def _matmul_dict(row: Result) -> dict[str, Any]:
    gemm = row.op
    assert isinstance(gemm, Gemm)
    return {
        **_op_dict(row),
        "batch": gemm.batch,
        "m": gemm.m,
        "n": gemm.n,
        "k": gemm.k,
        "dtype": gemm.dtype,
        "rhs_dtype": gemm.rhs_dtype,
        "rhs_kind": gemm.rhs_kind,
        "macs": row.macs,
        "array_macs": row.array_macs,
        "useful_macs": row.useful_macs,
        "padded_macs": row.padded_macs,
        "utilization": row.utilization,
        "mapped_utilization": row.mapped_utilization,
        "min_dram_bytes": row.min_dram_bytes,
        "mapping": None if row.mapping is None else _plain(row.mapping),
        "precision": row.precision,
        "check": None if row.check is None else _check_dict(row.check),
    }


def _check_dict(check: Check) -> dict[str, Any]:
    return {
        "passed": check.passed,
        "max_error": _finite(check.max_error),
        "tolerance": _finite(check.tolerance),
        "compared": check.compared,
        "mode": check.mode,
        "rows": check.rows,
        "exact": check.exact,
        "error_vs_float64": _finite(check.error_vs_float64),
        "device": check.device,
        "overflows": check.overflows,
        "out_of_range": check.out_of_range,
    }


def _profile_dict(row: Result | Total) -> dict[str, dict[str, Any]]:
    """What a profiler would show; empty for a machine that has no warps."""
    return {
        "stalls": {name: row.stalls[name] for name in STALLS if name in row.stalls},
        "counters": {name: row.counters[name] for name in COUNTERS if name in row.counters},
        "ratios": ratios_of(row.counters),
    }


def _causes_dict(cycles_by_cause: Mapping[str, int]) -> dict[str, int]:
    return {cause: cycles_by_cause[cause] for cause in CAUSES if cause in cycles_by_cause}


def _bytes_dict(traffic: Bytes) -> dict[str, dict[str, dict[str, int]]]:
    return {
        level: {operand: {"read": t.read, "write": t.write} for operand, t in operands.items()}
        for level, operands in traffic.items()
    }


def _finite(value: float) -> float | None:
    """JSON has no word for nan and inf; a check that meets one has failed and says so elsewhere."""
    return value if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _flat(figures: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in figures.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
