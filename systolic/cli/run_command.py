"""``systolic run``: simulate a model's matmuls on one chip or several."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import raise_if_any
from .bar import Bar
from .files import check_target, write_whole
from .options import Debug, Overrides, parse_on, parse_set, parse_tile

if TYPE_CHECKING:
    from ..engine.report import Report

STDOUT = "-"


def run(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A catalogue name (gpt2, llama-3-8b), a Hugging Face config.json, or M,N,K (512,768,768).",
        ),
    ],
    on: Annotated[
        str, typer.Option(metavar="CHIP[,CHIP]", help="Catalogue names or .toml files; see systolic chips.")
    ] = "tpu-v4",
    phase: Annotated[
        str, typer.Option(metavar="prefill|decode", help="All tokens, or the next one.")
    ] = "prefill",
    batch: Annotated[int, typer.Option(help="Sequences at once.")] = 1,
    seq: Annotated[
        int | None,
        typer.Option(help="Tokens per sequence in prefill. Default: 1024, or the model's positions."),
    ] = None,
    kv_len: Annotated[
        int | None, typer.Option("--kv-len", help="Keys attended in decode, the new token included.")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Number format, as bf16. Default: the chip's native one."),
    ] = None,
    precision: Annotated[
        str,
        typer.Option(metavar="default|high|highest", help="Precision of float32 matmuls, in JAX's words."),
    ] = "default",
    logits: Annotated[str, typer.Option(metavar="all|last", help="Positions that lm_head sees.")] = "all",
    causal: Annotated[
        bool, typer.Option("--causal", help="Count apart the attention MACs outside the causal mask.")
    ] = False,
    dataflow: Annotated[
        str | None, typer.Option(metavar="ws|os|is", help="What stays in the PEs. Default: the chip's own.")
    ] = None,
    overrides: Overrides = None,
    tile: Annotated[
        str | None,
        typer.Option(metavar="M,N,K", help="Pin the on-chip block. Default: the mapper's choice."),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            metavar="mnk", help="Pin the loop order, outermost first. Default: the mapper's choice."
        ),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            metavar="tiled|stepped|bound",
            help="Whole tiles with exact timing, every register in every cycle, or a closed lower bound.",
        ),
    ] = "tiled",
    check: Annotated[
        str,
        typer.Option(
            metavar="auto|full|sample|off",
            help="Compare the chip's values with jnp.matmul; auto chooses by cost.",
        ),
    ] = "auto",
    json: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE", help="Write the report as JSON; - for standard output."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Simulate the matmuls of MODEL: cycles by cause, bytes by level, utilization, and a check of the values.

    Exit status: 0, or 1 when a check failed, or 2 for wrong input.
    """
    problems: list[str] = []
    places, changed = parse_on(on, problems), parse_set(overrides or [], problems)
    pinned = parse_tile(tile, problems)
    raise_if_any(problems)
    if json not in (None, STDOUT):
        check_target(Path(json), "--json")
    model_options: dict[str, Any] = {"phase": phase, "batch": batch, "seq": seq, "kv_len": kv_len}
    model_options |= {"dtype": dtype, "logits": logits, "causal": causal}
    choices: dict[str, Any] = {"mode": mode, "dataflow": dataflow, "tile": pinned, "order": order}
    choices |= {"check": check, "precision": precision, "overrides": changed}

    from ..engine.simulation import simulate
    from ..models import load_model

    with Bar() as bar:
        report = simulate(load_model(model, **model_options), places, **choices, progress=bar)
    _deliver(report, json)
    if not report.passed:
        raise typer.Exit(1)


def _deliver(report: Report, json: str | None) -> None:
    """Print the tables, or the JSON alone where it goes to standard output."""
    if json == STDOUT:
        sys.stdout.write(report.to_json())
        return
    from rich.console import Console

    from ..engine.render import show

    if json is not None:
        write_whole(Path(json), report.to_json())
    if sys.stdout.isatty():
        show(report, Console())
    else:
        sys.stdout.write(str(report))
    if json is not None:
        print(f"systolic: wrote {json}", file=sys.stderr)
