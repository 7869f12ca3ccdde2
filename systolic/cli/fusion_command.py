"""``systolic fusion``: what a JAX function launches and moves, op by op, eager and compiled."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import SystolicError, raise_if_any
from .options import Debug, parse_counts


def fusion(
    function: Annotated[str, typer.Argument(metavar="FILE.PY:FUNCTION", help="A JAX function.")],
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            metavar="SIDES:FORMAT",
            help="An argument, as 8x128:bf16; repeatable. Default: FUNCTION_args in the file.",
        ),
    ] = None,
    on: Annotated[str | None, typer.Option(metavar="CHIP", help="Chip for the times.")] = None,
    launch: Annotated[
        str | None, typer.Option(metavar="TIME", help="Launch overhead, as '5 us'. Default: the chip's.")
    ] = None,
    trips: Annotated[
        list[str] | None,
        typer.Option("--trip", metavar="LOOP=COUNT", help="Iterations of a loop of unknown length."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Kernels, bytes between them and time of FUNCTION: op by op, eager as JAX runs it, compiled by XLA."""
    problems: list[str] = []
    counts = parse_counts("trip", trips or [], problems)
    if not function.rpartition(":")[0].endswith(".py"):
        problems.append(f"fusion needs a JAX function as file.py:function, got {function!r}")
    if launch is not None and on is None:
        problems.append("--launch needs the chip that --on names")
    raise_if_any(problems)

    from ..engine.fusion import fusion_report
    from ..models.programs import load_function
    from ..quantity import parse_quantity

    overhead = None if launch is None else parse_quantity(launch, "time", "--launch")
    if overhead is not None and overhead < 0:
        raise SystolicError(f"--launch must be >= 0, got {launch!r}")
    fn, given = load_function(function, arguments or [])
    print(fusion_report(fn, *given, on=on, launch_ns=overhead, trips=counts), end="")
