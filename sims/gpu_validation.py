"""How far simulated time lies from measured time, on GPUs.

    python sims/gpu_validation.py                   # 40 rows of each device and format
    python sims/gpu_validation.py --sample all      # every row
    python sims/gpu_validation.py --only xla_gemm   # one file
    python sims/gpu_validation.py --rows            # and one line per measured row
    python sims/gpu_validation.py --picture F.png   # predicted over measured time of every row
    python sims/gpu_validation.py --data FOLDER     # other rows, in files of the same names

Error of a row = |simulated - measured| / measured; MAPE is their mean, mean the signed one. The clocks of the
files differ, so nothing is averaged across them; where a clock holds the start of each op from the host, what
it adds is read off the shortest row of the file (of another op, or below the rows that are judged). Constants
of a chip that were fitted to measured rows say so in its sources (`systolic chips NAME`); there are three at
most, its sustained clock, its share of DRAM's peak and the time of a launch.

Beside ours stand a roofline with the same chip numbers; one with three constants fitted to the very rows at
hand (shares of peak and bandwidth, and a launch), which a model that explains them must beat; and the best of
the tools whose predictions the sources print. `fidelity/gpu.py` says which rows stand together,
`systolic/measured/shipped/sources.toml` where they come from, `ablation.py` what each mechanism contributes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from fidelity import gpu
from fidelity.picture import draw

from systolic.measured.points import Errors, Point, fitted_roofline_with_launch, simulated
from systolic.measured.tables import by_kind, row_table, summary

SAMPLE = 40
"""Rows of each device and format, unless told otherwise."""

SIZES = ((100e-6, "under 100 us"), (1e-3, "0.1 to 1 ms"), (float("inf"), "over 1 ms"))
"""Measured seconds below which a row belongs to a size -> its name."""


def parts_of(points: Sequence[Point]) -> dict[str, list[Point]]:
    """All points; by what binds a roofline; by measured time."""
    parts = by_kind(points)
    below = 0.0
    for limit, name in SIZES:
        parts[name] = [point for point in points if below <= point.measured < limit]
        below = limit
    return {
        name: group for name, group in parts.items() if group and (name == "all" or group != parts["all"])
    }


def lines(part: gpu.Part, points: Sequence[Point], show_rows: bool) -> Iterable[str]:
    """The table of a part."""
    if not points:
        return [part.title, "no rows"]
    rate, bandwidth, launch = fitted_roofline_with_launch(points)
    fitted = {"3 constants": lambda point: point.work.roofline(rate, bandwidth, launch)}
    ours = Errors.of(points, simulated).mape
    kept = "kept" if ours <= part.bar else "missed"
    return [
        f"{part.title}: {ours:.1f}%, bar {part.bar:.0f}%: {kept}",
        *summary(parts_of(points), fitted),
        f"3 constants: {100 * rate:.0f}% of the peak, {100 * bandwidth:.0f}% of the sustained bandwidth, "
        f"{1e6 * launch:.1f} us for each kernel",
        *(row_table(points) if show_rows else []),
    ]


def _sample(text: str) -> int | None:
    return None if text == "all" else int(text)


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--sample", type=_sample, default=SAMPLE, help="rows of each device and format, or all"
    )
    parser.add_argument("--only", help="one file of measured rows")
    parser.add_argument("--rows", action="store_true", help="print each measured row too")
    parser.add_argument("--picture", type=Path, help="draw predicted over measured time into this file")
    parser.add_argument("--data", type=Path, help="folder of other measured files; default: those that ship")
    given = parser.parse_args()
    drawn = {}
    for part in gpu.PARTS:
        if given.only in (None, part.source):
            points = gpu.points(part, given.data, given.sample)
            print("\n".join(lines(part, points, given.rows)), end="\n\n", flush=True)
            drawn[part.title] = points
    if given.picture is not None:
        draw(drawn, given.picture)


if __name__ == "__main__":
    main()
