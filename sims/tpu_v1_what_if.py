"""TPU v1's what-if study: what more bandwidth, a faster clock or a larger matrix unit would have given.

    python sims/tpu_v1_what_if.py

Section 7 of the TPU v1 paper (Jouppi et al., In-Datacenter Performance Analysis of a Tensor Processing Unit,
ISCA 2017, figure 11) scales each of the three from 0.25 to 4 times, for six programs, in its own model. It
finds that four times the bandwidth makes the programs three times as fast in the mean; that clock alone helps
MLPs and LSTMs hardly at all; and that a larger matrix unit makes the mean slightly worse, as in LSTM1, whose
600 x 600 weights take nine steps of a 256 x 256 unit, 18 us, but four steps of a 512 x 512 one, 32 us.

Of the programs it prints (table 1) layers, weights and batch, no shapes. Here each fully connected program is
so many equal square layers: MLP0 5 of 2,000 x 2,000 for a batch of 200, MLP1 4 of 1,118 x 1,118 for 168; of
LSTM1 its 600 x 600 for 96. The other three programs need shapes that are not printed. Accumulators and
on-chip memory stay as they are.

What differs: the paper's model loads whole tiles of weights, which costs LSTM1 18 / 32 = 0.56 of its speed
with a 512 x 512 unit; the simulated chip reads only the weights that there are, and pays for the longer fill.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import systolic

CHIP = "tpu-v1"
PROGRAMS = {"MLP0": "200,2000,2000", "MLP1": "168,1118,1118", "LSTM1": "96,600,600"}
SCALES = (0.25, 0.5, 1, 2, 4)


def axes_of(chip: Any) -> dict[str, dict[str, list[Any]]]:
    """What is scaled -> its axis."""
    clock, rate = chip.clock_hz, chip.memory["dram"].bytes_per_s
    return {
        "memory": {"memory.dram.bytes_per_s": [int(rate * s) for s in SCALES]},
        "clock": {"clock_hz": [int(clock * s) for s in SCALES]},
        "matrix": {"array.rows, array.cols": [[int(256 * s), int(256 * s)] for s in SCALES]},
    }


def speeds(scaled: str, model: str, folder: Path) -> list[float]:
    """Speed at each scale over that of the chip as it is."""
    axis = axes_of(systolic.load_chip(CHIP))[scaled]
    design = {"on": CHIP, "model": model, "axes": axis}
    table = systolic.sweep(design, store=folder / "what_if.sqlite", workers=1).to_dataframe()
    seconds = list(table["seconds"])
    return [seconds[SCALES.index(1)] / each for each in seconds]


def main() -> None:
    print(f"{'scaled':8}{'program':9}" + "".join(f"{f'{s:g}x':>8}" for s in SCALES))
    table: dict[str, list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for scaled in ("memory", "clock", "matrix"):
            for program, model in PROGRAMS.items():
                found = speeds(scaled, model, Path(folder))
                table.setdefault(scaled, []).append(found)
                print(f"{scaled:8}{program:9}" + "".join(f"{speed:8.2f}" for speed in found))
    for scaled, scale, paper in (
        ("memory", 4, "3, in the mean of all six"),
        ("clock", 4, "almost 1 for MLPs and LSTMs"),
        ("matrix", 2, "slightly below 1 in the mean of all six"),
    ):
        found = [row[SCALES.index(scale)] for row in table[scaled]]
        print(f"{scaled} {scale}x: {sum(found) / len(found):.2f} in the mean of these; paper: {paper}")


if __name__ == "__main__":
    main()
