"""Measured matmuls and models on GPUs: which rows stand under one figure, and the same work simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import systolic
from systolic.chips import Chip
from systolic.measured.compare_rows import points_of
from systolic.measured.points import Point
from systolic.measured.rows import Row
from systolic.measured.sources import device_of, read_measured, shipped_rows, shipped_sources

TINY_US = 20
"""Rows of the graph's clock below this have a figure of their own: launches of neighbours overlap in them."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Rows that one error may speak of.

    Attributes
    ----------
    source, devices, dtypes, ops, stage
        Of the rows; `stage` as the row says it, None for any.
    at_least_us, below_us
        Measured times that belong here: below some multiple of what its clock adds a row says little of the
        kernel.
    floor_ops
        Ops of the same device in the same file whose shortest rows tell what the clock adds to each row
        beside the kernel: the mean of what these rows take longer than their simulated time. Empty: it adds
        nothing.
    changed
        Fields of the chips that the source states otherwise than the catalogue.
    bar
        MAPE that the model is meant to keep, %.
    """

    source: str
    devices: tuple[str, ...]
    dtypes: tuple[str, ...]
    ops: tuple[str, ...] = ("matmul",)
    stage: str | None = None
    at_least_us: float = 0.0
    below_us: float = float("inf")
    floor_ops: tuple[str, ...] = ()
    changed: Mapping[str, Any] = field(default_factory=dict, hash=False)
    bar: float

    @property
    def title(self) -> str:
        """The part in a line."""
        if self.below_us < float("inf"):
            times = f", under {self.below_us:.0f} us"
        else:
            times = f", from {self.at_least_us:.0f} us" if self.at_least_us else ""
        return f"{self.source}: {', '.join(self.devices)}, {', '.join(self.dtypes)}{times}"

    def holds(self, row: Row) -> bool:
        """Whether a row belongs here."""
        return (
            row.device in self.devices
            and row.dtype in self.dtypes
            and row.op in self.ops
            and self.stage in (None, row.stage)
            and self.at_least_us <= row.measured_us < self.below_us
        )


def _graph(device: str, bar: float) -> tuple[Part, Part]:
    """Linear layers replayed from a graph: long rows, and those of the length of a launch."""
    long = Part(
        source="aiconfigurator_gemm", devices=(device,), dtypes=("bf16",), at_least_us=TINY_US, bar=bar
    )
    return long, replace(long, at_least_us=0, below_us=TINY_US, bar=15)


PARTS: tuple[Part, ...] = (
    *_graph("A100-SXM-80GB", 8),
    *_graph("H100-SXM-80GB", 5),
    *_graph("H200-SXM", 5),
    *_graph("B200-SXM", 10),
    *_graph("L40S", 10),
    Part(source="xla_gemm", devices=("H100", "B200"), dtypes=("bf16", "tf32"), floor_ops=("matmul",), bar=12),
    *(
        Part(
            source="neusight_gemm",
            devices=("V100-PCIe-32GB", "T4", "A100-40GB-PCIe", "A100-80GB-PCIe"),
            dtypes=("fp32",),
            ops=(op,),
            at_least_us=250,
            floor_ops=(op,),
            bar=12,
        )
        for op in ("bmm", "linear")
    ),
    Part(
        source="vidur_layer_ops",
        devices=("A100-80GB", "A40", "H100"),
        dtypes=("fp16",),
        at_least_us=20,
        bar=12,
    ),
    Part(
        source="llmcompass",
        devices=("A100",),
        dtypes=("fp16",),
        floor_ops=("gelu", "softmax"),
        changed={
            "clock_hz": "1410 MHz"
        },  # its largest matmul takes less than 1300 MHz allow at the full rate
        bar=5,
    ),
    Part(
        source="llmcompass",
        devices=("MI210",),
        dtypes=("fp16",),
        floor_ops=("gelu", "softmax"),
        changed={"clock_hz": "1400 MHz", "boost_hz": "1400 MHz"},  # as its authors held it
        bar=9,
    ),
    Part(
        source="neusight_models",
        devices=("P100-PCIe", "V100-PCIe-32GB", "T4", "A100-40GB-PCIe", "H100-SXM-80GB", "L4", "MI210"),
        dtypes=("fp32",),
        ops=("prefill",),
        stage="",
        bar=10,
    ),
)
"""What is compared. Each file has a clock of its own, so no figure spans two of them."""


def points(
    part: Part,
    folder: Path | None = None,
    sample: int | None = None,
    changed: Mapping[str, Any] | None = None,
) -> list[Point]:
    """Rows of a part, simulated; no row whose device then has no chip, or whose work is not simulated.

    Parameters
    ----------
    part
        Which rows.
    folder
        Other measured files of the same names; None: those that ship.
    sample
        At most so many rows of each device and format, evenly spaced in the order of their times.
    changed
        Fields of the chips to set.
    """
    found = []
    for device in part.devices:
        for dtype in part.dtypes:
            rows = [r for r in _rows(part.source, folder) if part.holds(r)]
            rows = [r for r in rows if (r.device, r.dtype) == (device, dtype)]
            if rows:
                chip = chip_of(device, {**part.changed, **(changed or {})})
                added = _added(part, _rows(part.source, folder), device, chip)
                simulated = points_of(spaced(rows, sample), chip, shipped_sources().get(part.source))
                found += [replace(point, simulated=point.simulated + added) for point in simulated]
    return found


def _added(part: Part, rows: Sequence[Row], device: str, chip: Chip) -> float:
    """Seconds that the clock adds to each row, by the shortest row of each op that tells it."""
    added = []
    for op in part.floor_ops:
        told = [row for row in rows if row.device == device and row.op == op]
        if told:
            shortest = min(told, key=lambda row: row.measured_us)
            (point,) = points_of([shortest], chip, shipped_sources().get(part.source))
            added.append(max(0.0, point.measured - point.simulated))
    return fmean(added) if added else 0.0


def spaced(rows: Sequence[Row], sample: int | None) -> Sequence[Row]:
    """At most `sample` of the rows, evenly spaced in the order of their times."""
    ordered = sorted(rows, key=lambda row: row.measured_us)
    if sample is None or len(ordered) <= sample:
        return ordered
    return [ordered[(2 * at + 1) * len(ordered) // (2 * sample)] for at in range(sample)]


def chip_of(device: str, changed: Mapping[str, Any]) -> Chip:
    """The chip that stands for a device, with some fields set."""
    known = device_of(device)
    return systolic.load_chip(known.chip, {**known.set, **changed})


@cache
def _rows(source: str, folder: Path | None) -> tuple[Row, ...]:
    return shipped_rows(source) if folder is None else read_measured(folder / f"{source}.csv").rows
