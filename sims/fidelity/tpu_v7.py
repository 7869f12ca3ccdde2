"""TPU v7 and v6e: large single matmuls, kernel time in the device's trace (yangwhale/gpu-tpu-pedia).

A v7 chip is two chiplets, each with a core and half of the HBM, and a device of its own. The source's other
times are the host's and hold about 120 us of dispatch per call; they are left out.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from systolic.measured.compare_rows import points_of
from systolic.measured.points import Point
from systolic.measured.sources import device_of

from .rows import rows_of

DEVICES = ("TPUv7-chiplet", "TPUv6e-chip")


def matmuls(folder: Path | None) -> list[Point]:
    """The traced matmuls, simulated."""
    rows = [row for row in rows_of("tpu_v6e_v7_gemm", folder) if row.clock == "kernel"]
    found = []
    for device in DEVICES:
        chip = device_of(device).load()
        of_device = points_of((row for row in rows if row.device == device), chip)
        found += [replace(p, name=f"{chip.name} {p.name}", kind=chip.name) for p in of_device]
    return found
