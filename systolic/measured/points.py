"""Measured points beside predictions, errors over them, and rooflines to compare with."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..chips import Chip
from ..workload import Gemm, Workload

FIT_STEPS = 40
"""Rates that a fit tries along each axis and round; each of three rounds looks closer around the best."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a roofline sees of a workload: per op, MACs over the peak rate and bytes over the bandwidth.

    Attributes
    ----------
    compute, memory
        Seconds of each op at the chip's peak and at its sustained bandwidth, each operand moved once.
    launches
        Kernels that start, as a roofline with launches counts them: one per op that is not fused.
    """

    compute: tuple[float, ...]
    memory: tuple[float, ...]
    launches: int = 1

    @property
    def compute_bound(self) -> bool:
        """Whether arithmetic takes longer than moving each operand once."""
        return sum(self.compute) >= sum(self.memory)

    def roofline(self, rate: float = 1.0, bandwidth: float = 1.0, launch: float = 0.0) -> float:
        """Seconds, each op at the slower of the two; `rate` and `bandwidth` are shares of the chip's.

        `launch` seconds pass for each kernel.
        """
        pairs = zip(self.compute, self.memory, strict=True)
        return (
            sum(max(compute / rate, memory / bandwidth) for compute, memory in pairs) + self.launches * launch
        )


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
    phase
        ``prefill``, ``decode``, ``train``, or ``""`` where the row does not say.
    bound_by
        What the simulation says it is bound by.
    """

    name: str
    kind: str
    measured: float
    simulated: float
    work: Work
    peers: Mapping[str, float] = field(default_factory=dict)
    phase: str = ""
    bound_by: str = ""


Prediction = Callable[[Point], float]


def work_of(workload: Workload, chip: Chip) -> Work:
    """What a roofline with the numbers of `chip` sees of `workload`."""
    dram = chip.memory["dram"]
    bandwidth = float("inf")
    if dram.bytes_per_s is not None:
        bandwidth = dram.bytes_per_s * dram.sustained_percent / 100
    compute, memory, launches = [], [], 0
    for op in workload.ops:
        if isinstance(op, Gemm):
            multiplied = op.dtype if op.dtype in chip.formats else chip.native_dtype
            compute.append(op.macs / chip.peak_macs_per_s(multiplied))
            places = ((op.lhs_bytes, op.lhs_at), (op.rhs_bytes, op.rhs_at), (op.out_bytes, op.out_at))
            moved = sum(size for size, at in places if at != "chip")
        else:
            compute.append(0.0)
            moved = op.side_bytes if op.fused_into else op.read_bytes + op.write_bytes
        memory.append(op.count * moved / bandwidth)
        launches += 0 if getattr(op, "fused_into", "") else op.count
    return Work(compute=tuple(compute), memory=tuple(memory), launches=launches)


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
    rate, bandwidth, _ = _fit(points, launches=(0.0,))
    return rate, bandwidth


def fitted_roofline_with_launch(points: Sequence[Point]) -> tuple[float, float, float]:
    """(rate, bandwidth, seconds of a launch) with the least MAPE on `points`: three fitted constants."""
    shortest = min(point.measured / max(1, point.work.launches) for point in points)
    return _fit(points, launches=tuple(shortest * step / 8 for step in range(9)))


def _fit(points: Sequence[Point], launches: Sequence[float]) -> tuple[float, float, float]:
    """The best of a grid of shares of rate and bandwidth that closes in three times, for each launch time."""
    compute, memory, starts = _flat(points)
    kernels = np.array([point.work.launches for point in points])
    measured = np.array([point.measured for point in points])

    def mapes(pairs: np.ndarray, launch: float) -> np.ndarray:
        slower = np.maximum(compute / pairs[:, :1], memory / pairs[:, 1:])
        times = np.add.reduceat(slower, starts, axis=1) + kernels * launch
        # Of rates that make no difference to these rows, the chip's own.
        nearest = 1e-12 * np.abs(np.log(pairs)).sum(axis=1)
        return np.asarray(np.abs(times / measured - 1).mean(axis=1) + nearest)

    found = []
    for launch in launches:
        best, low, high = np.ones(2), np.full(2, 0.3), np.full(2, 1.5)
        least = np.inf
        for _ in range(3):
            rates, bandwidths = (np.geomspace(low[i], high[i], FIT_STEPS) for i in (0, 1))
            grid = np.stack(np.meshgrid(rates, bandwidths, indexing="ij"), axis=-1).reshape(-1, 2)
            pairs = np.concatenate([best[None], grid])
            scores = mapes(pairs, launch)
            at = int(scores.argmin())
            least, best = float(scores[at]), pairs[at]
            spans = (high / low) ** (1 / FIT_STEPS)
            low, high = best / spans, best * spans
        found.append((least, launch, best))
    _, launch, best = min(found, key=lambda fit: fit[:2])
    return float(best[0]), float(best[1]), launch


def _flat(points: Sequence[Point]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute and memory seconds of all ops of all points in a row, and where each point begins."""
    lengths = [len(point.work.compute) for point in points]
    compute = np.array([value for point in points for value in point.work.compute])
    memory = np.array([value for point in points for value in point.work.memory])
    return compute, memory, np.cumsum([0, *lengths[:-1]])
