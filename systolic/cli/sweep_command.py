"""``systolic sweep``: simulate all points of a design space, or go on where a sweep stood."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import SystolicError
from .bar import Bar
from .files import check_target, whole_file, write_whole
from .options import Debug

if TYPE_CHECKING:
    pass


def sweep(
    file: Annotated[str, typer.Argument(metavar="SWEEP.toml", help="The axes, constraints and workload.")],
    store: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="SQLite file that keeps outcomes. Default: SWEEP.sqlite."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes. Default: one for each CPU.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="tcp://HOST:PORT", help="Evaluate on the workers of a Dask cluster."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the file, say how many points there are, and stop.")
    ] = False,
    csv: Annotated[str | None, typer.Option("--csv", metavar="FILE", help="Write the table as CSV.")] = None,
    parquet: Annotated[
        str | None, typer.Option("--parquet", metavar="FILE", help="Write the table as Parquet.")
    ] = None,
    html: Annotated[
        str | None,
        typer.Option(
            "--html", metavar="FILE", help="Write a page with Pareto front, heat map and sensitivity."
        ),
    ] = None,
    pareto: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y",
            help="The front of two columns, both to be small; -X where large is good. "
            "Default: search.minimize and maximize, or seconds and bytes.dram.",
        ),
    ] = None,
    heat: Annotated[
        str | None,
        typer.Option(metavar="X,Y", help="The two axes of the heat map. Default: those that matter most."),
    ] = None,
    figure: Annotated[
        str, typer.Option(metavar="COLUMN", help="What heat map and sensitivity show.")
    ] = "seconds",
    debug: Debug = False,
) -> None:
    """Simulate all points of SWEEP.toml on all CPUs or a cluster, and keep what is done.

    The same command goes on where it was stopped or killed. Exit status: 0, or 1 when points failed, or 2 for
    wrong input.
    """
    if workers is not None and workers < 1:
        raise SystolicError(f"--workers must be a whole number > 0, got {workers}")
    for path, option in ((csv, "--csv"), (parquet, "--parquet"), (html, "--html")):
        if path is not None:
            check_target(Path(path), option)

    from ..explore.design import read_design
    from ..explore.views import View

    design = read_design(file)
    view = View.asked(design, pareto=pareto, heat=heat, figure=figure)
    if dry_run:
        from ..explore.running import planned

        print(f"{design.name}: {planned(design):,} points; columns: {', '.join(design.columns)}")
        return

    from ..explore.running import sweep as swept

    where = Path(store) if store is not None else Path(file).with_suffix(".sqlite")
    with Bar() as bar:
        done = swept(design, store=where, workers=workers, scheduler=scheduler, progress=bar)
    sys.stdout.write(view.text(done))
    _write(csv, done.to_csv)
    _write(parquet, done.to_parquet)
    if html is not None:
        from ..viz.sweep_page import sweep_html

        write_whole(Path(html), sweep_html(view.shown(done)))
        print(f"systolic: wrote {html}", file=sys.stderr)
    if done.counts[1]:
        raise typer.Exit(1)


def _write(path: str | None, write: Callable[[Path], None]) -> None:
    if path is None:
        return
    with whole_file(Path(path)) as target:
        write(target)
    print(f"systolic: wrote {path}", file=sys.stderr)
