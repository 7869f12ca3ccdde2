"""``systolic measure``: time the matmuls of a model on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import raise_if_any
from ..workload import PRECISIONS
from .bar import Bar
from .files import check_target
from .model import load_work
from .options import Debug, parse_counts

if TYPE_CHECKING:
    from ..measured.record import Measurement, Measurements


def measure(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A catalogue name, a config.json, a topology .csv, M,N,K, or a JAX function as "
            "file.py:function.",
        ),
    ],
    device: Annotated[
        str | None, typer.Option(metavar="cpu|gpu|tpu", help="Where. Default: one of each kind that JAX has.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="File of measurements to begin, or to go on with; written after every row."
        ),
    ] = None,
    phase: Annotated[
        str, typer.Option(metavar="prefill|decode|train", help="All tokens, the next one, or all and back.")
    ] = "prefill",
    batch: Annotated[int, typer.Option(help="Sequences at once.")] = 1,
    seq: Annotated[int | None, typer.Option(help="Tokens per sequence in prefill and train.")] = None,
    kv_len: Annotated[int | None, typer.Option("--kv-len", help="Keys attended in decode.")] = None,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Number format. Default: fp32 on a CPU, bf16 elsewhere."),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(metavar="default|high|highest", help="Of float32 matmuls, in JAX's words.")
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="SIDES:FORMAT", help="An argument of file.py:function; repeatable."),
    ] = None,
    trips: Annotated[
        list[str] | None,
        typer.Option("--trip", metavar="LOOP=COUNT", help="Iterations of a loop; repeatable."),
    ] = None,
    warm: Annotated[
        bool, typer.Option("--warm", help="The same inputs in every call, so that caches may hold them.")
    ] = False,
    spread: Annotated[
        float,
        typer.Option(
            metavar="PERCENT", help="Two medians, and the interval around them, have to agree so far."
        ),
    ] = 2.0,
    budget: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="For one matmul; after that it is too noisy for a number."),
    ] = 10.0,
    again: Annotated[bool, typer.Option("--again", help="Measure what the file holds already, too.")] = False,
    debug: Debug = False,
) -> None:
    """Time each distinct matmul of MODEL with JAX: compiled ahead, inputs in place, completion awaited.

    Compiling and transfers are told apart from the time. Calls take several sets of inputs in turn, so that
    caches are cold.
    """
    problems: list[str] = []
    program: dict[str, Any] = {"arguments": arguments or []}
    program |= {"trips": parse_counts("trip", trips or [], problems), "branches": {}}
    if precision not in (None, *PRECISIONS):
        problems.append(f"--precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    raise_if_any(problems)
    if out is not None:
        check_target(Path(out), "--out")
    model_options: dict[str, Any] = {
        "phase": phase,
        "batch": batch,
        "seq": seq,
        "kv_len": kv_len,
        "dtype": dtype,
    }
    model_options |= {"logits": "all", "causal": None}

    from ..measured.harness import Request
    from ..measured.harness import measure as measured

    request = Request(device=device, warm=warm, spread=spread / 100, budget_s=budget, again=again)
    work = load_work(model, model_options, program)
    if precision is not None:
        work = work.with_precision(precision)
    with Bar() as bar:
        content = measured(work, None if out is None else Path(out), request, progress=bar)
    sys.stdout.write(table(content))
    if out is not None:
        print(f"systolic: wrote {out}", file=sys.stderr)


def table(content: Measurements) -> str:
    """The rows as a person reads them."""
    lines: list[str] = []
    for session in content.sessions:
        settings = ", ".join(f"{name} {value}" for name, value in session.options.items())
        alone = f"a call alone {session.dispatch_us:.1f} us"
        lines.append(f"{session.device}: {session.clock} clock, {settings}, {alone}")
        lines += [f"  {asked}: computes in {seen}" for asked, seen in session.observed.items()]
        heads = (
            f"{'op':<16} {'batch×m×n×k':>22} {'dtype':>8} {'median':>10} {'95% interval':>21} {'GFLOP/s':>9}"
        )
        lines.append(f"  {heads}")
        lines += [f"  {_line(row)}" for row in content.rows if row.session == session.id]
    return "\n".join(lines) + "\n"


def _line(row: Measurement) -> str:
    from ..quantity import format_seconds

    shape = f"{f'{row.batch}×' if row.batch > 1 else ''}{row.m}×{row.n}×{row.k}"
    head = f"{row.name:<16} {shape:>22} {row.dtype:>8}"
    if row.median_us is None or row.lo_us is None or row.hi_us is None:
        return f"{head} {row.verdict}: medians {100 * row.spread:.1f}% apart after {row.repeats:,} calls"
    median, lo, hi = (format_seconds(1e-6 * time) for time in (row.median_us, row.lo_us, row.hi_us))
    rate = row.flop / row.median_us / 1e3
    return f"{head} {median:>10} {f'{lo} .. {hi}':>21} {rate:>9.1f} {row.alarm}".rstrip()
