"""``systolic calibrate``: a chip file with the few open constants fitted to measured time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import raise_if_any
from .bar import Bar
from .files import check_target, write_whole
from .options import Debug


def calibrate(
    measured: Annotated[
        str,
        typer.Argument(metavar="MEASURED", help="A file of measured times, or the id of shipped ones."),
    ],
    chip: Annotated[
        str,
        typer.Option("--chip", metavar="CHIP", help="What to start from: a catalogue name or a .toml file."),
    ],
    out: Annotated[str, typer.Option("--out", metavar="FILE.toml", help="The chip file to write.")],
    fit: Annotated[
        float, typer.Option("--fit", metavar="SHARE", help="Share of the rows to fit on; the rest judges.")
    ] = 0.5,
    debug: Debug = False,
) -> None:
    """Fit sustained clock, share of bandwidth and, where there is one, launch time of CHIP to measured rows.

    The error is judged on rows that the fit has not seen, beside a roofline with as many constants.
    """
    target = Path(out)
    raise_if_any([] if target.suffix == ".toml" else [f"--out must name a .toml file, got {out!r}"])
    check_target(target, "--out")

    from datetime import date

    from ..measured.calibration import base_beside
    from ..measured.calibration import calibrate as fitted

    with Bar() as bar:
        result = fitted(measured, chip, fit=fit, progress=bar)
    sys.stdout.write(str(result))
    write_whole(target, result.to_toml(target.stem, base_beside(chip, target), date.today().isoformat()))
    print(f"systolic: wrote {out}", file=sys.stderr)
