"""From how many tokens on a TPU computes faster than its memory brings weights.

    python sims/critical_batch.py

A weight is read once for all rows of a batch. With few rows the memory is the limit and more rows cost
nothing; with many the arrays are, and time grows with the rows. The two meet at

    peak MAC/s * bytes per weight / bandwidth

rows: 1350 on TPU v1 (the ridge of its roofline; Jouppi et al., ISCA 2017), 240 on TPU v5e (Austin et al., How
to Scale Your Model, 2025, All About Rooflines). Here the machine finds the point by itself: it runs one
row, where only weights cost, and a batch of half as much again as the formula says, where only rows do.
Each is the time that doubling the columns of the weight adds, so that latency, fill and drain, which are paid
once, drop out. As the formula assumes, activations stay on chip, transfers hide behind computing, and memory
reaches its peak bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass

import systolic
from systolic.dtypes import DTYPES

CHIPS = ("tpu-v1", "tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e")

SIDE = {8: 1024, 16: 4096}
"""Bits of a weight -> rows of the weight matrix; TPU v1 keeps 2024 rows of 1024 and their results on chip."""

ASSUMED = {"memory.dram.sustained_percent": 100, "policy.overlap": "double"}
"""What the formula takes for granted, whatever the chip's own figures are."""


@dataclass(frozen=True)
class Critical:
    """Rows at which weights and rows take equally long: by the formula, and as simulated."""

    chip: str
    formula: float
    simulated: float


def cycles(chip: systolic.Chip, m: int, n: int, k: int) -> int:
    """Cycles of one matmul whose activations stay on chip."""
    gemm = systolic.Gemm(m=m, n=n, k=k, dtype=chip.native_dtype, lhs_at="chip", out_at="chip")
    return systolic.simulate(gemm, on=chip).chips[0].totals.cycles


def critical(name: str) -> Critical:
    """The critical batch of one chip in its native format."""
    chip = systolic.load_chip(name, ASSUMED)
    bandwidth = chip.memory["dram"].bytes_per_s
    assert bandwidth is not None
    bits = DTYPES[chip.native_dtype].bits
    formula = chip.peak_macs_per_s(chip.native_dtype) * bits / 8 / bandwidth
    side, many = SIDE[bits], round(1.5 * formula)

    def added(m: int) -> int:
        return cycles(chip, m, 2 * side, side) - cycles(chip, m, side, side)

    return Critical(chip.name, formula, added(1) * many / added(many))


def main() -> None:
    """Print both numbers for each chip."""
    print(f"{'chip':<10} {'formula, rows':>13} {'simulated, rows':>15}")
    for found in map(critical, CHIPS):
        print(f"{found.chip:<10} {found.formula:13.0f} {found.simulated:15.0f}")


if __name__ == "__main__":
    main()
