"""``systolic explain``: what a number means and how it is computed."""

from __future__ import annotations

import textwrap
from typing import Annotated

import typer

from ..metrics import METRICS, Metric, find
from .options import Debug

_WIDTH = 100


def explain(
    metric: Annotated[
        str | None,
        typer.Argument(help="A name in a report, such as cycles, or a JSON path such as totals.bytes."),
    ] = None,
    debug: Debug = False,
) -> None:
    """What a number in a report means, its unit, and how it is computed; without METRIC, all of them."""
    if metric is not None:
        print("\n\n".join(_whole(found) for found in find(metric)))
        return
    names = max(map(len, METRICS))
    units = max(len(each.unit) for each in METRICS.values())
    for each in METRICS.values():
        print(f"{each.name:{names}}  {each.unit:{units}}  {each.meaning}")


def _whole(metric: Metric) -> str:
    unit = f" [{metric.unit}]" if metric.unit else ""
    where = f"In the JSON: {', '.join(metric.paths)}." if metric.paths else "In the printed tables only."
    lines = [f"{metric.name}{unit}", metric.meaning, *([metric.how] if metric.how else []), where]
    return "\n  ".join(textwrap.fill(line, _WIDTH, subsequent_indent="    ") for line in lines)
