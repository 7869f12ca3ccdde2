"""``systolic run``: simulate a model's matmuls on one chip or several."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import raise_if_any
from .bar import Bar
from .files import check_target, write_whole
from .model import load_work
from .options import Debug, Overrides, parse_counts, parse_on, parse_set, parse_tile

if TYPE_CHECKING:
    from ..engine.report import Report

STDOUT = "-"


def run(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A catalogue name (gpt2, llama-3-8b), a Hugging Face config.json, a SCALE-Sim topology "
            ".csv, M,N,K (512,768,768), a JAX function as file.py:function, or a file of StableHLO (.mlir, "
            ".mlirbc, .jaxexport).",
        ),
    ],
    on: Annotated[
        str, typer.Option(metavar="CHIP[,CHIP]", help="Catalogue names or .toml files; see systolic chips.")
    ] = "tpu-v4",
    phase: Annotated[
        str,
        typer.Option(
            metavar="prefill|decode|train", help="All tokens, the next one, or all of them and back."
        ),
    ] = "prefill",
    batch: Annotated[int, typer.Option(help="Sequences at once.")] = 1,
    seq: Annotated[
        int | None,
        typer.Option(
            help="Tokens per sequence in prefill and train. Default: 1024, or the model's positions."
        ),
    ] = None,
    kv_len: Annotated[
        int | None, typer.Option("--kv-len", help="Keys attended in decode, the new token included.")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Number format, as bf16. Default: the chip's native one."),
    ] = None,
    weight_dtype: Annotated[
        str | None,
        typer.Option(
            "--weight-dtype", metavar="FORMAT", help="Format of stored weights, as int4. Default: --dtype."
        ),
    ] = None,
    kv_dtype: Annotated[
        str | None,
        typer.Option(
            "--kv-dtype", metavar="FORMAT", help="Format of the KV cache, as fp8. Default: --dtype."
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="default|high|highest",
            help="Precision of float32 matmuls, in JAX's words. Default: what the model states.",
        ),
    ] = None,
    logits: Annotated[str, typer.Option(metavar="all|last", help="Positions that lm_head sees.")] = "all",
    causal: Annotated[
        bool | None,
        typer.Option(
            "--causal/--no-causal",
            help="Count apart the attention MACs outside the causal mask. Default: where there is one.",
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            metavar="SIDES:FORMAT",
            help="An argument of file.py:function, as 8x128:bf16; repeatable. Default: FUNCTION_args there.",
        ),
    ] = None,
    trips: Annotated[
        list[str] | None,
        typer.Option(
            "--trip", metavar="LOOP=COUNT", help="Iterations of a loop of unknown length; repeatable."
        ),
    ] = None,
    branches: Annotated[
        list[str] | None,
        typer.Option(
            "--branch",
            metavar="COND=INDEX",
            help="Branch of a cond. Default: that with most MACs; repeatable.",
        ),
    ] = None,
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
    kernel: Annotated[
        str | None,
        typer.Option(metavar="KERNEL", help="Pin the kernel of a GPU's matmuls. Default: the fastest."),
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
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Write the report as one page with tables and figures."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Simulate the matmuls of MODEL: cycles by cause, bytes by level, utilization, and a check of the values.

    Exit status: 0, or 1 when a check failed, or 2 for wrong input.
    """
    problems: list[str] = []
    places, changed = parse_on(on, problems), parse_set(overrides or [], problems)
    pinned = parse_tile(tile, problems)
    program: dict[str, Any] = {"arguments": arguments or []}
    for option, texts in (("trip", trips), ("branch", branches)):
        program["branches" if option == "branch" else "trips"] = parse_counts(option, texts or [], problems)
    raise_if_any(problems)
    if json not in (None, STDOUT):
        check_target(Path(json), "--json")
    if html is not None:
        check_target(Path(html), "--html")
    model_options: dict[str, Any] = {"phase": phase, "batch": batch, "seq": seq, "kv_len": kv_len}
    model_options |= {"dtype": dtype, "logits": logits, "causal": causal}
    choices: dict[str, Any] = {"mode": mode, "dataflow": dataflow, "tile": pinned, "order": order}
    choices |= {"kernel": kernel}
    choices |= {"check": check, "precision": precision, "overrides": changed}
    choices |= {"weight_dtype": weight_dtype, "kv_dtype": kv_dtype}

    from ..engine.simulation import simulate

    with Bar() as bar:
        work = load_work(model, model_options, program)
        report = simulate(work, on=places, **choices, progress=bar)
    if html is not None:
        from ..viz.report_page import report_html

        write_whole(Path(html), report_html(report))
    _deliver(report, json)
    if html is not None:
        print(f"systolic: wrote {html}", file=sys.stderr)
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
