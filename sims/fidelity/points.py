"""Measured points beside predictions, errors over them, and rooflines to compare with."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import systolic
from systolic import Gemm, Workload

DATA = Path(__file__).parents[1] / "data"

FIT_STEPS = 40
"""Rates that a fit tries along each axis and round; each of three rounds looks closer around the best."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a roofline sees of a workload: per op, MACs over the peak rate and bytes over the bandwidth.

    Attributes
    ----------
    compute, memory
        Seconds of each op at the chip's peak and at its sustained bandwidth, each operand moved once.
    """

    compute: tuple[float, ...]
    memory: tuple[float, ...]

    @property
    def compute_bound(self) -> bool:
        """Whether arithmetic takes longer than moving each operand once."""
        return sum(self.compute) >= sum(self.memory)

    def roofline(self, rate: float = 1.0, bandwidth: float = 1.0) -> float:
        """Seconds, each op at the slower of the two; `rate` and `bandwidth` are shares of the chip's."""
        pairs = zip(self.compute, self.memory, strict=True)
        return sum(max(compute / rate, memory / bandwidth) for compute, memory in pairs)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measured row.

    Attributes
    ----------
    name, kind
        What was measured, in words; the group of rows it belongs to.
    measured, simulated
        Seconds.
    work
        What a roofline sees of it.
    peers
        Seconds that other tools predict.
    """

    name: str
    kind: str
    measured: float
    simulated: float
    work: Work
    peers: Mapping[str, float] = field(default_factory=dict)


Prediction = Callable[[Point], float]


def rows_of(name: str, folder: Path) -> list[dict[str, str]]:
    """The rows of a measured file, none where the folder has no such file."""
    if not (folder / name).exists():
        return []
    with (folder / name).open(newline="") as file:
        return list(csv.DictReader(file))


def work_of(workload: Workload, chip: systolic.Chip) -> Work:
    """What a roofline with the numbers of `chip` sees of `workload`."""
    dram = chip.memory["dram"]
    assert dram.bytes_per_s is not None
    bandwidth = dram.bytes_per_s * dram.sustained_percent / 100
    compute, memory = [], []
    for op in workload.ops:
        if isinstance(op, Gemm):
            lanes = "bf16" if op.dtype == "fp32" else op.dtype
            compute.append(op.macs / chip.peak_macs_per_s(lanes))
            moved = op.lhs_bytes + op.rhs_bytes + op.out_bytes
        else:
            compute.append(0.0)
            moved = op.side_bytes if op.fused_into else op.read_bytes + op.write_bytes
        memory.append(op.count * moved / bandwidth)
    return Work(compute=tuple(compute), memory=tuple(memory))


def error(measured: float, predicted: float) -> float:
    """Signed error of a prediction, %."""
    return 100 * (predicted / measured - 1)


@dataclass(frozen=True)
class Errors:
    """Mean, median and largest absolute error, and the mean signed one, %."""

    mape: float
    median: float
    worst: float
    mean: float

    @classmethod
    def of(cls, points: Sequence[Point], predict: Prediction) -> Errors:
        """Errors of a prediction over some points."""
        signed = [error(point.measured, predict(point)) for point in points]
        absolute = [abs(value) for value in signed]
        return cls(
            statistics.fmean(absolute), statistics.median(absolute), max(absolute), statistics.fmean(signed)
        )


def simulated(point: Point) -> float:
    """What systolic says."""
    return point.simulated


def roofline(point: Point) -> float:
    """What a roofline with the chip's own two numbers says."""
    return point.work.roofline()


def best_peer(points: Sequence[Point]) -> tuple[str, Prediction] | None:
    """The other tool with the least MAPE on `points`, among those that predict all of them."""
    names = set.intersection(*(set(point.peers) for point in points))

    def by(name: str) -> Prediction:
        return lambda point: point.peers[name]

    return min(
        ((name, by(name)) for name in sorted(names)),
        key=lambda peer: Errors.of(points, peer[1]).mape,
        default=None,
    )


def fitted_roofline(points: Sequence[Point]) -> tuple[float, float]:
    """(rate, bandwidth), as shares of the chip's, with the least MAPE on `points`: two fitted constants."""
    best, low, high = (1.0, 1.0), (0.3, 0.3), (1.5, 1.5)
    for _ in range(3):
        rates, bandwidths = (np.geomspace(low[i], high[i], FIT_STEPS) for i in (0, 1))
        pairs = [best, *((float(r), float(b)) for r in rates for b in bandwidths)]
        best = min(pairs, key=lambda pair: Errors.of(points, lambda p: p.work.roofline(*pair)).mape)
        spans = [(high[i] / low[i]) ** (1 / FIT_STEPS) for i in (0, 1)]
        low = (best[0] / spans[0], best[1] / spans[1])
        high = (best[0] * spans[0], best[1] * spans[1])
    return best
