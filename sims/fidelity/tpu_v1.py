"""TPU v1: six production applications and the chip's counters (Jouppi et al., ISCA 2017, tables 1 and 3).

The paper prints how many layers an application has, its weights, its batch and the MACs per byte of weight,
not the layers themselves. Each application is therefore simulated as equal layers with these totals:

- MLPs and LSTMs: square matrices on a batch of rows. The elementwise layers of the LSTMs are no matmuls.
- CNN0: 3 x 3 convolutions with as many channels in as out; a position of the board is a row.
- CNN1: its four fully connected layers hold 90% of the weights (in VGG-16, a network of that time and size,
  it is 89%), its convolutions the rest; a block of 512 x 256 weights meets at most 2048 rows, half of the
  accumulators, at a time. The paper says that about half of the array idles in the convolutions, and also
  prints MACs, weights and counters; these exclude one another (1750 x 100 M MACs on half an array are active
  cycles for which even 100 M of fully connected weights would stall too little). Filled arrays are assumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import Path

import systolic
from systolic import Gemm
from systolic.engine.report import ChipReport

from .rows import table_of

FC_SHARE = 0.9
"""Share of CNN1's weights in its fully connected layers; see the module's text."""

ROWS_AT_A_TIME = 2048
"""Half of the 4096 accumulators of a column: the other half drains (Jouppi et al., ISCA 2017)."""

FOUR_TIMES = {
    "bandwidth": {"memory.dram.bytes_per_s": "136 GB/s"},
    "clock": {"clock_hz": "2800 MHz", "memory.vmem.bytes_per_s": "1433600 MB/s"},
}
"""The paper's what-if: weight memory, or the clock and all that runs on it, four times as fast."""


@dataclass(frozen=True, kw_only=True)
class Counters:
    """Shares of the matrix unit's time, %: computing, waiting for weights, shifting them in."""

    active: float
    stall: float
    shift: float


@dataclass(frozen=True, kw_only=True)
class App:
    """An application: its share of the deployed mix, its matmuls, its counters as measured and simulated.

    `measured` is None where the file has no counters.
    """

    name: str
    weight: float
    layers: tuple[Gemm, ...]
    measured: Counters | None
    simulated: Counters

    def faster(self, what: str) -> float:
        """How many times as fast it runs with four times the bandwidth, or the clock."""
        return _run(self.layers, {}).seconds / _run(self.layers, FOUR_TIMES[what]).seconds


def _layers(row: Mapping[str, str]) -> tuple[Gemm, ...]:
    """The matmuls of an application, equal ones counted."""
    weights, batch = float(row["weights_M"]) * 1e6, int(row["batch"])
    dense, conv = int(row["fc_layers"]), int(row["conv_layers"])
    if not conv:
        side = round(sqrt(weights / dense))
        return (_layer("fc", batch, side, side, dense),)
    macs = float(row["ops_per_weight_byte"]) * weights
    if not dense:
        channels = round(sqrt(weights / conv / 9))
        return (_layer("conv", round(macs / weights), channels, 9 * channels, conv),)
    side = round(sqrt(FC_SHARE * weights / dense))
    rows = (macs - batch * dense * side**2) / ((1 - FC_SHARE) * weights)
    blocks = round((1 - FC_SHARE) * weights / (512 * 256))
    times = ceil(rows / ROWS_AT_A_TIME)
    return (
        _layer("fc", batch, side, side, dense),
        _layer("conv", round(rows / times), 256, 512, blocks * times),
    )


def _layer(name: str, m: int, n: int, k: int, count: int) -> Gemm:
    return Gemm(name=name, m=m, n=n, k=k, count=count, dtype="int8")


def apps(folder: Path | None, overrides: Mapping[str, object] | None = None) -> list[App]:
    """All applications of the two files; `overrides` change the chip."""
    counters = {row["app"]: row for row in table_of("tpu_v1_counters.csv", folder)}
    rows = table_of("tpu_v1_workloads.csv", folder)
    kinds = [row["app"].rstrip("01") for row in rows]
    return [
        App(
            name=row["app"],
            weight=float(row["deployed_pct_by_type"]) / kinds.count(kind),
            layers=_layers(row),
            measured=_measured(counters.get(row["app"])),
            simulated=_simulated(_layers(row), overrides or {}),
        )
        for row, kind in zip(rows, kinds, strict=True)
    ]


def _measured(row: Mapping[str, str] | None) -> Counters | None:
    if row is None:
        return None
    names = ("array_active_pct", "weight_stall_pct", "weight_shift_pct")
    return _shares(*(float(row[name]) for name in names))


def _simulated(layers: Sequence[Gemm], overrides: Mapping[str, object]) -> Counters:
    causes = _run(layers, overrides).totals.cycles_by_cause
    stall = causes.get("stall_dram", 0) + causes.get("stall_latency", 0)
    return _shares(causes["compute"], stall, causes.get("weight_load", 0))


def _shares(active: float, stall: float, shift: float) -> Counters:
    """As shares of the three together: what else the chip does is no matmul."""
    whole = (active + stall + shift) / 100
    return Counters(active=active / whole, stall=stall / whole, shift=shift / whole)


def _run(layers: Sequence[Gemm], overrides: Mapping[str, object]) -> ChipReport:
    return systolic.simulate(layers, on="tpu-v1", overrides=overrides).chips[0]


def steps(side: int) -> int:
    """Array tiles that a 600 x 600 matrix takes on an array of `side` x `side`."""
    overrides = {"array.rows": side, "array.cols": side}
    gemm = Gemm(m=96, n=600, k=600, dtype="int8")
    mapping = systolic.simulate(gemm, on="tpu-v1", overrides=overrides).chips[0].matmuls[0].mapping
    assert mapping is not None
    blocks: Mapping[str, int] = mapping["blocks"]
    return blocks["n"] * blocks["k"]
