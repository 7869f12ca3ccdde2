"""Cycles and on-chip reads of a serial array beside those of SCALE-Sim v3, on 240 small matmuls.

    python sims/scalesim_counts.py

16 matmuls on five arrays (4x4 to 32x8) in three dataflows, memory never in the way. `data/README.md` says how
SCALE-Sim was run. What differs has a name:

- Its report prints the index of the last line of its schedule, counted from 0, and so one cycle less than the
  schedule has. The schedule's own length is compared.
- Output stationary, its schedule leaves out the R cycles per tile in which results shift out; the formula
  that it publishes, 2R + C + T - 2 per tile, has them (scalesim-project/scale-sim-v3, issue 4).
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


def main() -> None:
    """Count the rows that agree, by dataflow."""
    rows, cycles, reads = Counter[str](), Counter[str](), Counter[str]()
    with DATA.open() as file:
        for row in csv.DictReader(file):
            matmul = run(row).chips[0].matmuls[0]
            onchip = matmul.bytes["vmem"]
            dataflow = row["dataflow"]
            rows[dataflow] += 1
            cycles[dataflow] += matmul.cycles == scalesim_cycles(row)
            theirs = int(row["ifmap_reads"]), int(row["filter_reads"])
            reads[dataflow] += (onchip["lhs"].read, onchip["rhs"].read) == theirs
    print(f"{'dataflow':<9} {'rows':>4} {'equal cycles':>12} {'equal reads':>11}")
    for dataflow in rows:
        print(f"{dataflow:<9} {rows[dataflow]:4} {cycles[dataflow]:12} {reads[dataflow]:11}")


if __name__ == "__main__":
    main()
