"""``run``: a JAX function with every matmul computed by a simulated chip, and the rest by JAX."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...chips import Chip, load_chip
from ...errors import SystolicError
from ...machines.base import Options
from ...models.trace.events import Choices
from .memory import known_hook, known_report, traced_once
from .runner import NUMBERS, Runner

if TYPE_CHECKING:
    from ...models.trace.arguments import Params
    from ..report import Report


def run(
    fn: Callable[..., Any],
    *args: Any,
    on: str | os.PathLike[str] | Chip = "tpu-v4",
    dataflow: str | None = None,
    overrides: Mapping[str, object] | None = None,
    params: Params = None,
) -> tuple[Any, Report]:
    """Run a JAX function with every matmul computed by the simulated chip, and the rest by JAX.

    Parameters
    ----------
    fn, args
        The function and its arguments: pytrees of arrays.
    on
        One chip: a catalogue name, the path of a ``.toml`` file, or a chip.
    dataflow, overrides, params
        As for :func:`systolic.simulate`.

    Returns
    -------
    out, report
        What the function returns, and the report of the same run: loops are counted as they ran, branches
        as they were taken.

    Raises
    ------
    SystolicError
        If an argument has no values, or the chip refuses a matmul.

    Notes
    -----
    As under ``jax.jit``, a function is traced once for arguments of the same shapes; one that closes over
    arrays is traced anew each time.
    """
    chip, options = load_chip(on, overrides or {}), Options(dataflow=dataflow)
    traced = traced_once(fn, args, params)
    arrays = traced.inputs(args)
    if any(not hasattr(leaf, "__array__") and not isinstance(leaf, NUMBERS) for leaf in arrays):
        raise SystolicError("run needs arrays with values; systolic.simulate takes jax.ShapeDtypeStruct")
    runner = Runner(known_hook(chip, options))
    results = runner.run(traced.program.live, arrays)
    work = traced.count(Choices(observed=runner.observed)).workload
    work = replace(work, notes=(*work.notes, *runner.notes()))
    return traced.rebuild(results), known_report(work, chip, options)
