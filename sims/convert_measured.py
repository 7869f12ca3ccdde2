"""Make the files of measurements that ship with the package from the public collection that they come from.

    python sims/convert_measured.py FOLDER              # writes systolic/measured/shipped/*.csv
    python sims/convert_measured.py FOLDER --out OTHER  # somewhere else

FOLDER holds CSV files with the names and columns that `systolic/measured/originals.py` reads. What is left
out, and why, stands in `systolic/measured/shipped/sources.toml`; this script does it.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from systolic.measured.originals import READERS, read_original
from systolic.measured.rows import Row, csv_text
from systolic.measured.sources import SHIPPED

TPU_V1 = {
    "tpu_v1_workloads.csv": None,
    "tpu_v1_counters.csv": (
        *("app", "array_active_pct", "useful_macs_pct_peak", "unused_macs_pct", "weight_stall_pct"),
        *("weight_shift_pct", "non_matrix_pct", "teraops_measured"),
    ),
}
"""Tables that hold no times -> the columns that are of use (None: all)."""


def ships(name: str, row: Row) -> bool:
    """Whether a row may ship: of the source without a licence only the traced bf16 matmuls do."""
    return name != "tpu_v6e_v7_gemm.csv" or (row.clock == "kernel" and row.dtype == "bf16")


def table(path: Path, columns: tuple[str, ...] | None) -> str:
    """A table as it is, cut to some of its columns."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    kept = columns or tuple(rows[0])
    return "".join(",".join(line) + "\n" for line in (kept, *([row[c] for c in kept] for row in rows)))


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the collection")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="where to write")
    given = parser.parse_args()
    texts = {}
    for name in READERS:
        rows = [row for row in read_original(given.folder / name).rows if ships(name, row)]
        texts[name] = csv_text(rows)
        print(f"{name:<28} {len(rows):6} rows")
    texts |= {name: table(given.folder / name, columns) for name, columns in TPU_V1.items()}
    for name, text in texts.items():
        (given.out / name).write_text(text)


if __name__ == "__main__":
    main()
