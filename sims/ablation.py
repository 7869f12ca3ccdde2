"""What each mechanism of a model contributes: the error against measured time with it switched off.

    python sims/ablation.py                 # all mechanisms of the TPU
    python sims/ablation.py --gpu           # of the GPU
    python sims/ablation.py --data FOLDER   # on other rows, in files of the same names and columns

One line per mechanism, one column per group of measured rows of `tpu_validation.py`: MAPE in %, for TPU v1
the mean distance of the weight stall from the counters in points of matrix cycles. Each line changes one
thing in the catalogue's chips; "-" stands where a chip has no such thing. The steps of Qwen3-8B are
compared without the constants of the serving stack. For the GPU a column is a file and device of
`gpu_validation.py` in which tensor cores multiply, of which some rows are taken, evenly spaced in the order
of their times.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fidelity import gpu, tpu_v1, tpu_v3, tpu_v6e

import systolic
from systolic.chips.kinds import values_of
from systolic.chips.tpu import TpuChip
from systolic.measured.points import Errors, Point, simulated

Overrides = Mapping[str, object]

MECHANISMS: Mapping[str, Overrides] = {
    "all of them": {},
    "sustained share of bandwidth": {"memory.dram.sustained_percent": 100},
    "latency of memory": {"memory.dram.latency_ns": 0},
    "whole bursts": {"memory.dram.burst_bytes": 1},
    "loads behind the running block": {"policy.overlap": "none"},
    "weights shift behind a tile": {"array.convention": "serial"},
    "time that weights take to shift": {"array.weight_rows": "all"},
    "on-chip port": {"memory.vmem.bytes_per_s": "unlimited"},
    "limit of one op's blocks": {"policy.block_bytes": "unlimited"},
    "weights come tile by tile": {"policy.block_tiles": "unlimited"},
    "weights ahead of their matmul": {"policy.prefetch": "none"},
    "activations on chip": {"policy.activations": "dram"},
    "what the compiler fuses": {"policy.fusion": "none"},
}
"""Mechanism -> what switches it off."""

COLUMNS = (
    "v1 stall",
    "v3 matmul",
    "v3 attn",
    "v3 BERT",
    "v3 rows",
    "v6e M>256",
    "v6e rest",
    "prefill",
    "decode",
)


GPU_MECHANISMS: Mapping[str, Overrides] = {
    "all of them": {},
    "sustained share of bandwidth": {"memory.dram.sustained_percent": 100},
    "bandwidth of memory": {"memory.dram.bytes_per_s": "unlimited"},
    "latency of memory": {"memory.dram.latency_ns": 0},
    "capacity of L2": {"memory.l2.bytes": "64 GiB"},
    "bandwidth of L2": {"memory.l2.bytes_per_cycle": "unlimited"},
    "latency of L2": {"memory.l2.latency_cycles": 1, "memory.l2.far_latency_cycles": 1},
    "latency of shared memory": {"memory.shared.latency_cycles": 1},
    "latency of tensor cores": {"tensor.latency": 1},
    "most blocks of an SM": {"sm.max_ctas": 1},
    "launches": {"launch_ns": 0},
}
"""Mechanism of the GPU -> what switches it off."""

GPU_SAMPLE = 8
"""Rows of each device and format."""


def gpu_table(folder: Path | None) -> Iterable[str]:
    """A line per mechanism, a column per part of the measured rows."""
    parts = [part for part in gpu.PARTS if part.below_us == float("inf") and part.dtypes != ("fp32",)]
    names = [f"{part.source.split('_')[0][:9]} {part.devices[0].split('-')[0]}" for part in parts]
    yield f"{'without':<32}" + "".join(f"{name:>16}" for name in names)
    for mechanism, changed in GPU_MECHANISMS.items():
        figures = []
        for part in parts:
            found = gpu.points(part, folder, GPU_SAMPLE, changed)
            figures.append(f"{Errors.of(found, simulated).mape:.1f}" if found else "-")
        yield f"{mechanism:<32}" + "".join(f"{figure:>16}" for figure in figures)


def errors(overrides: Overrides, folder: Path | None) -> list[float | None]:
    """The figures of one line, in the order of `COLUMNS`."""
    v1, v3, v6e = (on(chip, overrides) for chip in ("tpu-v1", "tpu-v3", "tpu-v6e"))
    found: list[float | None] = [None if v1 is None else _stall(tpu_v1.apps(folder, v1))]
    points = None if v3 is None else tpu_v3.points(folder, v3)
    found += [_mape(points, kind) for kind in ("matmul", "attention", "BERT block", "row op")]
    points = None if v6e is None else tpu_v6e.matmuls(folder, v6e)
    found += [_mape(points, kind) for kind in ("M > 256", "M <= 256")]
    points = None if v6e is None else [step.point for step in tpu_v6e.steps(folder, v6e)]
    return found + [_mape(points, kind) for kind in ("prefill", "decode")]


def on(chip: str, overrides: Overrides) -> Overrides | None:
    """The overrides as they are for a chip of the catalogue; None where they change nothing there."""
    of_catalogue = systolic.load_chip(chip)
    assert isinstance(of_catalogue, TpuChip)
    rows = of_catalogue.array.rows
    given = {path: rows if value == "all" else value for path, value in overrides.items()}
    unchanged = values_of(systolic.load_chip(chip, given)) == values_of(of_catalogue)
    return None if given and unchanged else given


def _mape(points: Sequence[Point] | None, kind: str) -> float | None:
    rows = [point for point in points or () if point.kind == kind]
    return Errors.of(rows, simulated).mape if rows else None


def _stall(apps: Sequence[tpu_v1.App]) -> float | None:
    off = [abs(app.simulated.stall - app.measured.stall) for app in apps if app.measured is not None]
    return sum(off) / len(off) if off else None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of other measured files; default: those that ship")
    parser.add_argument("--gpu", action="store_true", help="the GPU model instead of the TPU's")
    given = parser.parse_args()
    folder = given.data
    if given.gpu:
        for line in gpu_table(folder):
            print(line, flush=True)
        return
    print(f"{'without':<32}" + "".join(f"{column:>11}" for column in COLUMNS))
    for name, overrides in MECHANISMS.items():
        figures = ("-" if value is None else f"{value:.1f}" for value in errors(overrides, folder))
        print(f"{name:<32}" + "".join(f"{figure:>11}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
