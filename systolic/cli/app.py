"""The commands together, and how each of them may end."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from ..errors import SystolicError
from . import (
    animate_command,
    calibrate_command,
    chips_command,
    compare_command,
    explain_command,
    fusion_command,
    measure_command,
    run_command,
    sweep_command,
    trace_command,
)
from .options import DEBUG

app = typer.Typer(
    name="systolic",
    help="What a transformer's matmuls cost on a systolic array, cycle by cycle and byte by byte, "
    "and whether the result is right.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("run")(run_command.run)
app.command("animate")(animate_command.animate)
app.command("trace")(trace_command.trace)
app.command("chips")(chips_command.chips)
app.command("explain")(explain_command.explain)
app.command("fusion")(fusion_command.fusion)
app.command("measure")(measure_command.measure)
app.command("compare")(compare_command.compare)
app.command("sweep")(sweep_command.sweep)
app.command("calibrate")(calibrate_command.calibrate)

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 + SIGINT."""


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Print the version or the help where no command is given."""
    if version:
        from .. import __version__

        print(f"systolic {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a check failed, 2 wrong input, 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = _status(given)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has gone; the flush at exit must not find the pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)


def _status(arguments: list[str]) -> int:
    """Run one command; say what went wrong in one line per problem; return the exit status."""
    try:
        status = typer.main.get_command(app)(arguments, prog_name="systolic", standalone_mode=False)
    except SystolicError as error:
        if DEBUG in arguments:
            traceback.print_exc()
        return _refuse(*error.problems)
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except Exception as error:
        # Usage errors of the parser; their class has no public name in every release of typer.
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "systolic"
        return _refuse(f"{error.format_message().rstrip('.')}; see {command} --help")
    if status == INTERRUPTED:
        print("systolic: interrupted; nothing half-written was left", file=sys.stderr)
    return status or 0


def _refuse(*problems: str) -> int:
    for problem in problems:
        print(f"systolic: {problem}", file=sys.stderr)
    return 2
