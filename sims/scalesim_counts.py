"""Cycles, on-chip traffic and use of a serial array beside those of SCALE-Sim v3, on 240 small matmuls.

    python sims/scalesim_counts.py

16 matmuls on five arrays (4x4 to 32x8) in three dataflows, memory never in the way. `data/README.md` says how
SCALE-Sim was run. Compared are the length of its per-cycle schedule, the words that its array asks of the
on-chip memory, the sums that it hands over, and the part of its PEs that hold work. What differs has a name.

A convention of its own:

- Output stationary, its schedule leaves out the R cycles per tile in which results shift out; the formula
  that it publishes, 2R + C + T - 2 per tile, has them (scalesim-project/scale-sim-v3, issue 4).
- Sums of every tile along k go to the result's memory, and on to DRAM; here they are added up in
  accumulators, and only finished results go on.

A fault of its report:

- `total_cycles` is the index of the schedule's last line, counted from 0: one short, once per matmul. The use
  that it works out from it is too high by as much.
- The use that it works out tile by tile divides by C - 1 cycles too many, weight and input stationary.
- Output stationary, it reports R + C words per tile more than its schedule writes (SCALE-Sim issue 166).
- In 14 of the rows its DRAM receives C - 1 words more than were written: padding of half-filled lines.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import systolic

DATA = Path(__file__).parent / "data" / "scalesim_v3.csv"


@cache
def array(rows: int, cols: int) -> systolic.Chip:
    """A chip with one serial array, and a memory that never stands in the way."""
    return systolic.load_chip("teaching-4x4", {"array.rows": rows, "array.cols": cols})


def run(row: Mapping[str, str]) -> systolic.Report:
    """The row's matmul on its array, in words of one byte, as SCALE-Sim has them."""
    m, n, k = (int(row[name]) for name in "mnk")
    gemm = systolic.Gemm(m=m, n=n, k=k, dtype="int8")
    chip = array(int(row["rows"]), int(row["cols"]))
    return systolic.simulate(gemm, on=chip, dataflow=row["dataflow"], tile=(m, n, k))


def scalesim_cycles(row: Mapping[str, str]) -> int:
    """Length of SCALE-Sim's schedule, and output stationary the shifting out that it leaves out."""
    tiles = int(row["row_folds"]) * int(row["col_folds"])
    return int(row["demand_lines"]) + (tiles * int(row["rows"]) if row["dataflow"] == "os" else 0)


def agreements(row: Mapping[str, str]) -> dict[str, bool]:
    """What is compared -> whether both have the same figure."""
    (matmul,) = run(row).chips[0].matmuls
    onchip, sums = matmul.bytes["vmem"], matmul.bytes["acc"]["psum"]
    used = 100 * matmul.array_macs / (matmul.array_macs + matmul.padded_macs)
    return {
        "cycles": matmul.cycles == scalesim_cycles(row),
        "lhs reads": onchip["lhs"].read == int(row["ifmap_reads"]),
        "rhs reads": onchip["rhs"].read == int(row["filter_reads"]),
        "sums": sums.write == 4 * int(row["ofmap_writes_trace"]),  # int32
        "PEs used": abs(used - float(row["mapping_eff_pct"])) < 1e-6,  # as printed
    }


def main() -> None:
    """Count the rows, and those in which a figure is the same on both sides, by dataflow."""
    rows, equal = Counter[str](), Counter[tuple[str, str]]()
    with DATA.open() as file:
        for row in csv.DictReader(file):
            rows[row["dataflow"]] += 1
            for figure, agrees in agreements(row).items():
                equal[row["dataflow"], figure] += agrees
    figures = list(dict.fromkeys(figure for _, figure in equal))
    print("dataflow  rows  equal:", *(f"{figure:>9}" for figure in figures))
    for dataflow, number in rows.items():
        print(f"{dataflow:<8} {number:5}        ", *(f"{equal[dataflow, figure]:9}" for figure in figures))


if __name__ == "__main__":
    main()
