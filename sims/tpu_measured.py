"""How far simulated matmuls lie from measured ones, on TPU v3 and TPU v6e.

    python sims/tpu_measured.py           # errors per device
    python sims/tpu_measured.py --rows    # and one per matmul

Error of a row = |simulated - measured| / measured; MAPE is their mean. The chips are the catalogue's with its
sourced numbers and policies. Beside them stands a roofline with the same peak rate and sustained bandwidth,
max(MACs / peak, compulsory bytes / bandwidth), and the best of the tools whose predictions the source prints.
A model that does not beat the roofline would have a mechanism wrong. `data/README.md` says where the measured
times come from.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import systolic

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, kw_only=True)
class Series:
    """The measured rows of one device.

    Attributes
    ----------
    device, clock
        What was measured, and what its clock covers.
    file
        Name of the file in ``data``.
    unit
        Suffix of its columns of times.
    seconds
        What 1 of that unit is, s.
    peers
        Tools with a column of predictions.
    dtype
        Number format of the operands.
    chip, overrides
        The simulated chip.
    """

    device: str
    clock: str
    file: str
    unit: str
    seconds: float
    peers: tuple[str, ...]
    dtype: str
    chip: str
    overrides: Mapping[str, object] = field(default_factory=dict)


# One core of TPU v3 is a device of its own, with half of the chip's memory and of its bandwidth.
_V3_CORE = {"cores": 1, "memory.dram.bytes": "16 GiB", "memory.dram.bytes_per_s": "450 GB/s"}
_V3_PEERS = ("scalesim3", "mnpusim", "timeloop", "maestro")

SERIES = (
    *(
        Series(
            device="TPU v3, one core",
            clock="device cycles, single matmul",
            file="tpu_v3_gemm.csv",
            unit="cycles",
            seconds=1 / 940e6,
            peers=_V3_PEERS,
            dtype=dtype,  # the source does not say which; float32 is one pass in bf16 by default
            chip="tpu-v3",
            overrides=_V3_CORE,
        )
        for dtype in ("bf16", "fp32")
    ),
    Series(
        device="TPU v6e",
        clock="device time per matmul, chained",
        file="tpu_v6e_gemm.csv",
        unit="us",
        seconds=1e-6,
        peers=("cocossim",),
        dtype="bf16",
        chip="tpu-v6e",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One matmul: seconds measured, simulated, by the roofline, and by other tools."""

    gemm: systolic.Gemm
    measured: float
    simulated: float
    roofline: float
    compute_bound: bool
    peers: Mapping[str, float]


def points(series: Series) -> list[Point]:
    """Simulate each row of a series."""
    chip = systolic.load_chip(series.chip, series.overrides)
    with (DATA / series.file).open() as file:
        return [_point(series, chip, row) for row in csv.DictReader(file)]


def _point(series: Series, chip: systolic.Chip, row: Mapping[str, str]) -> Point:
    batch, m, n, k = (int(row[name]) for name in ("batch", "m", "n", "k"))
    gemm = systolic.Gemm(batch=batch, m=m, n=n, k=k, dtype=series.dtype)
    compute, memory = roofline_parts(gemm, chip)
    return Point(
        gemm=gemm,
        measured=float(row[f"measured_{series.unit}"]) * series.seconds,
        simulated=systolic.simulate(gemm, on=chip).chips[0].seconds,
        roofline=max(compute, memory),
        compute_bound=compute >= memory,
        peers={peer: float(row[f"{peer}_{series.unit}"]) * series.seconds for peer in series.peers},
    )


def roofline_parts(gemm: systolic.Gemm, chip: systolic.Chip) -> tuple[float, float]:
    """Seconds at the chip's peak rate in bf16, and of moving each operand once at its sustained bandwidth."""
    memory = chip.memory["dram"]
    assert memory.bytes_per_s is not None
    moved = gemm.lhs_bytes + gemm.rhs_bytes + gemm.out_bytes
    bandwidth = memory.bytes_per_s * memory.sustained_percent / 100
    return gemm.macs / chip.peak_macs_per_s("bf16"), moved / bandwidth


def error(measured: float, predicted: float) -> float:
    """Signed error of a prediction, %."""
    return 100 * (predicted / measured - 1)


def mape(rows: Sequence[Point], predicted: Callable[[Point], float]) -> float:
    """Mean of the rows' absolute errors, %."""
    return sum(abs(error(row.measured, predicted(row))) for row in rows) / len(rows)


def best_peer(rows: Sequence[Point]) -> str:
    """The other tool with the least MAPE on `rows`."""
    return min(rows[0].peers, key=lambda peer: mape(rows, lambda row: row.peers[peer]))


def print_rows(rows: Sequence[Point]) -> None:
    """One line per matmul."""
    print(
        f"{'batch×m×n×k':>20} {'measured us':>12} {'systolic us':>12} {'%':>6} {'roofline us':>12} {'%':>6}"
    )
    for row in rows:
        shape = "×".join(str(size) for size in (row.gemm.batch, row.gemm.m, row.gemm.n, row.gemm.k))
        predictions = (
            f"{1e6 * seconds:11.2f} {error(row.measured, seconds):+6.1f}"
            for seconds in (row.simulated, row.roofline)
        )
        print(f"{shape:>20} {1e6 * row.measured:12.2f}", *predictions)


def print_summary(series: Series, rows: Sequence[Point]) -> None:
    """MAPE of all rows, and of those that the roofline calls compute-bound and memory-bound."""
    peer = best_peer(rows)
    print(f"{series.device}, {series.dtype}; {series.clock}")
    print(
        f"{'MAPE, %':<13} {'rows':>4} {'systolic':>9} {'roofline':>9} {peer:>10}   systolic's mean error, %"
    )
    compute = [row for row in rows if row.compute_bound]
    memory = [row for row in rows if not row.compute_bound]
    parts = {"all": rows, "compute-bound": compute, "memory-bound": memory}
    for name, part in parts.items():
        if part:
            ours = mape(part, lambda row: row.simulated)
            roofline = mape(part, lambda row: row.roofline)
            theirs = mape(part, lambda row: row.peers[peer])
            mean = sum(error(row.measured, row.simulated) for row in part) / len(part)
            print(f"{name:<13} {len(part):4} {ours:9.1f} {roofline:9.1f} {theirs:10.1f}   {mean:+.1f}")


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", action="store_true", help="print each matmul too")
    show_rows = parser.parse_args().rows
    for number, series in enumerate(SERIES):
        rows = points(series)
        if number:
            print()
        print_summary(series, rows)
        if show_rows:
            print_rows(rows)


if __name__ == "__main__":
    main()
