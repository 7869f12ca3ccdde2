"""``systolic compare``: simulated beside measured time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..errors import raise_if_any
from .bar import Bar
from .files import check_target, write_whole
from .options import Debug, parse_on

if TYPE_CHECKING:
    from ..measured.comparison import Comparison

STDOUT = "-"


def compare(
    measured: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MEASURED]...",
            help="Files of measured times: what systolic measure writes, or a .csv. With --shipped: ids of "
            "shipped measurements; without any, all of them.",
        ),
    ] = None,
    shipped: Annotated[
        bool, typer.Option("--shipped", help="Compare with the measurements that ship with systolic.")
    ] = False,
    on: Annotated[
        str,
        typer.Option(
            metavar="CHIP[,CHIP]|auto", help="Chips to simulate; auto: the one that stands for each device."
        ),
    ] = "auto",
    sample: Annotated[
        str | None,
        typer.Option(
            metavar="N|all",
            help="Simulate at most N rows of each kind and group, spread over their times. Default: all rows "
            "of a file; with --shipped 2 on GPUs, all elsewhere.",
        ),
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="Print every row.")] = False,
    worst: Annotated[int, typer.Option(metavar="N", min=0, help="Print the N worst rows of each group.")] = 3,
    overview: Annotated[
        bool, typer.Option("--overview", help="Print the table of all groups, not each of them.")
    ] = False,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Write a page with plots that opens from disk."),
    ] = None,
    json: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="Write the comparison as JSON; - for standard output."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Hold simulated time beside measured time, row by row: errors, two rooflines, other tools, the noise.

    An error never spans two clocks, devices or number formats; what is left out is listed, and why.
    """
    problems: list[str] = []
    places = "auto" if on == "auto" else parse_on(on, problems)
    names = [name for text in measured or [] for name in text.split(",")] if shipped else list(measured or [])
    if not names and not shipped:
        problems.append("compare needs a file of measurements, or --shipped")
    limit = _limit(sample, shipped, problems)
    raise_if_any(problems)
    for path, option in ((html, "--html"), (json, "--json")):
        if path not in (None, STDOUT):
            check_target(Path(str(path)), option)

    from ..measured.compare_rows import compare as compared

    with Bar() as bar:
        files, ids = ([], names or True) if shipped else (names, False)
        comparison = compared(files or None, shipped=ids, on=places, sample=limit, progress=bar)
    _deliver(comparison, html, json, _text(comparison, rows, worst, overview))


def _limit(sample: str | None, shipped: bool, problems: list[str]) -> int | Literal["auto"] | None:
    """Rows of each kind and group that are simulated; None for all."""
    if sample is None:
        return "auto" if shipped else None
    if sample.isdecimal() and int(sample):
        return int(sample)
    if sample != "all":
        problems.append(f"--sample must be a whole number > 0, or all, got {sample!r}")
    return None


def _text(comparison: Comparison, rows: bool, worst: int, overview: bool) -> str:
    if overview:
        return comparison.to_overview()
    return comparison.to_text(rows=rows, worst=worst)


def _deliver(comparison: Comparison, html: str | None, json: str | None, text: str) -> None:
    """Print the tables, or the JSON alone where it goes to standard output; write the files."""
    if json == STDOUT:
        sys.stdout.write(comparison.to_json())
    else:
        sys.stdout.write(text)
    if json not in (None, STDOUT):
        write_whole(Path(str(json)), comparison.to_json())
        print(f"systolic: wrote {json}", file=sys.stderr)
    if html is not None:
        from ..viz.measured_page import comparison_html

        write_whole(Path(html), comparison_html(comparison))
        print(f"systolic: wrote {html}", file=sys.stderr)
