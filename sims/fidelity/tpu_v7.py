"""TPU v7 and v6e: large single matmuls, kernel time in the device's trace (yangwhale/gpu-tpu-pedia).

A v7 chip is two chiplets, each with a core and half of the HBM, and a device of its own. The source's other
times are the host's and hold about 120 us of dispatch per call; they are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import systolic
from systolic import Gemm, Workload

from .points import Point, rows_of, work_of

CHIPS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "TPUv7-chiplet": (
        "tpu-v7",
        {"cores": 1, "memory.dram.bytes": "96 GiB", "memory.dram.bytes_per_s": "3690 GB/s"},
    ),
    "TPUv6e-chip": ("tpu-v6e", {}),
}
"""Device of the file -> chip of the catalogue, and the part of it that was measured."""


def matmuls(folder: Path) -> list[Point]:
    """The traced matmuls, simulated."""
    found = []
    for row in rows_of("tpu_v6e_v7_gemm.csv", folder):
        if row["timing"] != "trace":
            continue
        name, part = CHIPS[row["device"]]
        chip = systolic.load_chip(name, part)
        batch, m, n, k = (int(row[side]) for side in ("batch", "M", "N", "K"))
        gemm = Gemm(name="matmul", batch=batch, m=m, n=n, k=k, dtype=row["dtype"])
        found.append(
            Point(
                name=f"{name} {m}x{n}x{k}",
                kind=name,
                measured=1e-6 * float(row["measured_us"]),
                simulated=systolic.simulate(gemm, on=chip).chips[0].seconds,
                work=work_of(Workload(name="matmul", ops=(gemm,)), chip),
            )
        )
    return found
