"""What DRAM gives of its peak: a stream, steps through memory, random accesses; and that beside TPUs.

    python sims/dram_bandwidth.py

Refresh takes tRFC of every tREFI, and opening rows hides behind data as long as neighbours in memory lie in
the same row: a stream reaches the peak less the refreshes. A row of a matrix block is a short stream; random
accesses open a row each and wait for tFAW, the time that four activations need.

The second table holds streams of weights on a TPU whose DRAM is stepped against the vendor's bandwidth. On
TPU v4, 997 of 1200 GB/s were measured with both cores reading (ayaka14732, tpu-v4-latency-numbers).
"""

from __future__ import annotations

import numpy as np

import systolic
from systolic.blocks.dram import Dram
from systolic.chips.dram import dram_parts, load_dram_part

ACCESSES = 12_000
CHIPS = ("tpu-v1", "tpu-v3", "tpu-v4", "tpu-v5p", "tpu-v6e")


def share_of_peak(dram: Dram, addresses: np.ndarray) -> float:
    """Bandwidth of reading these addresses over the peak."""
    run = dram.run(addresses)
    return run.read_bytes * dram.part.clock_hz / run.cycles / dram.peak_bytes_per_s


def shares(name: str) -> tuple[float, float, float, float]:
    """Of the peak, four channels: 1 - tRFC / tREFI; a stream; 512 bytes in every 24 KiB; random accesses."""
    dram = Dram(part=load_dram_part(name), channels=4)
    timing, unit = dram.part.timing, dram.part.access_bytes
    count = 4 * ACCESSES
    places = np.arange(count) * unit
    random = np.random.default_rng(0).integers(0, dram.bytes // unit, count) * unit
    return (
        1 - timing.rfc / timing.refi,
        share_of_peak(dram, places),
        share_of_peak(dram, places // 512 * 24_576 + places % 512),
        share_of_peak(dram, random),
    )


def stream_share(name: str) -> float:
    """Bandwidth of a matrix-vector product on a chip with its DRAM stepped, over what its vendor prints."""
    chip = systolic.load_chip(name, {"memory.dram.model": "timing"})
    gemm = systolic.Gemm(m=1, n=8192, k=8192, dtype=chip.native_dtype, lhs_at="chip", out_at="chip")
    row = systolic.simulate(gemm, on=chip).chips[0].totals
    printed = chip.memory["dram"].bytes_per_s
    assert printed is not None
    return gemm.rhs_bytes * chip.clock_hz / row.cycles / printed


def main() -> None:
    print(f"{'part':12}{'less refresh %':>16}{'stream %':>12}{'steps %':>12}{'random %':>12}")
    for name in dram_parts():
        print(
            f"{name:12}"
            + "".join(f"{100 * s:{w}.1f}" for s, w in zip(shares(name), (16, 12, 12, 12), strict=True))
        )
    print(f"\n{'chip':12}{'part':>12}{'channels':>10}{'printed GB/s':>14}{'stepped %':>12}")
    for name in CHIPS:
        memory = systolic.load_chip(name).memory["dram"]
        assert memory.bytes_per_s is not None
        print(
            f"{name:12}{memory.part:>12}{memory.channels:>10}{memory.bytes_per_s / 1e9:>14.0f}"
            f"{100 * stream_share(name):>12.1f}"
        )


if __name__ == "__main__":
    main()
