"""``simulate``: what a workload costs on each of several chips, and whether the values are right."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..chips import Chip, load_chip
from ..chips.tpu import DATAFLOWS
from ..errors import SystolicError, raise_if_any, shown
from ..machines.base import MODES, Mode, Options
from ..mapping.plan import ORDERS
from ..quantity import count_problem
from ..result import Result
from ..workload import PRECISIONS, Gemm, Workload
from .checking import CHECKS, check_rows
from .effort import announce_stepping
from .fits import memory_fit
from .hook import MatmulHook, machine_of
from .knobs import Rows, Setup, knob_notes
from .progress import Progress, Silent
from .report import ChipReport, Host, Report

if TYPE_CHECKING:
    from ..models.trace.arguments import Params

Where = str | os.PathLike[str] | Chip


def simulate(
    workload: Workload | Gemm | Sequence[Gemm] | Callable[..., Any],
    *args: Any,
    on: Where | Sequence[Where] = "tpu-v4",
    trips: Mapping[str, int] | None = None,
    branches: Mapping[str, int] | None = None,
    params: Params = None,
    mode: Mode = "tiled",
    dataflow: str | None = None,
    tile: tuple[int, int, int] | None = None,
    order: str | None = None,
    kernel: str | None = None,
    precision: str | None = None,
    weight_dtype: str | None = None,
    kv_dtype: str | None = None,
    check: str = "off",
    overrides: Mapping[str, object] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Simulate a workload, or the matmuls of any JAX function, on one chip or several.

    Parameters
    ----------
    workload
        From :func:`systolic.load_model`, or one matmul, or several that run in this order, or a JAX
        function.
    args
        The function's arguments: pytrees of arrays or ``jax.ShapeDtypeStruct``. For a workload, the
        chips may stand here.
    trips, branches, params
        What a function leaves open: see :func:`systolic.models.jaxpr.count_function`.
    on
        Catalogue names, paths of ``.toml`` files, or chips.
    mode
        ``tiled``: whole tiles scheduled with exact timing. ``stepped``: every register in every cycle.
        ``bound``: closed form, a lower bound.
    dataflow
        ``ws``, ``os`` or ``is`` instead of the chip's own.
    tile, order
        Pinned (m, n, k) sides of the on-chip block, elements, and loop order over blocks (outermost
        first, such as ``"mnk"``), instead of the mapper's choice.
    kernel
        Pinned kernel of the matmuls, on a machine that has several (a GPU), instead of its choice.
    precision
        ``default``, ``high`` or ``highest`` for every matmul, instead of what each of them states.
    weight_dtype, kv_dtype
        Number format in which weights, or the KV cache, are kept, instead of the workload's: see
        :meth:`systolic.workload.Workload.with_storage`.
    check
        Compare the values that the chip computes with ``jnp.matmul``: ``off``, ``sample``, ``full``, or
        ``auto`` (by cost; the notes say which it was).
    overrides
        Field path -> value, as ``{"array.rows": 64}``; laid over every chip of `on`.
    progress
        Receives announcements and the progress of long work.

    Raises
    ------
    SystolicError
        For a workload, a chip or a choice that is wrong or not modelled; all mistakes that can be
        found at once in one error.
    """
    started = perf_counter()
    options = choices(mode, dataflow, tile, order, kernel, precision, check)
    if callable(workload):
        from ..models.jaxpr import count_function

        work = count_function(workload, *args, trips=trips, branches=branches, params=params).workload
    else:
        on = _chips_of(args, on, trips, branches, params)
        work = as_workload(workload)
    if precision is not None:
        work = work.with_precision(precision)
    storage = {"weights": weight_dtype, "kv_cache": kv_dtype}
    setups = [_setup(work, where, overrides or {}, options, storage) for where in _places(on)]
    runs = [_run(setup, check, progress or Silent()) for setup in setups]
    chips = tuple(chip for chip, _, _ in runs)
    return Report(
        workload=work,
        chips=chips,
        host=Host(
            wall_seconds=perf_counter() - started,
            simulation_seconds=sum(seconds for _, seconds, _ in runs),
            check_seconds=None if check == "off" else sum(seconds for _, _, seconds in runs),
            simulated_cycles=sum(chip.totals.cycles for chip in chips),
        ),
    )


def _chips_of(args: Sequence[Any], on: Any, *of_functions: Any) -> Any:
    """The chips of a workload that is no function, which may stand behind it."""
    if len(args) > 1 or any(choice is not None for choice in of_functions):
        raise SystolicError(
            "arguments, trips, branches and params apply to a function, and the workload given is none"
        )
    return args[0] if args else on


def as_workload(work: Workload | Gemm | Sequence[Gemm]) -> Workload:
    """A workload from what :func:`simulate` takes; matmuls keep the number formats that they state.

    Raises
    ------
    SystolicError
        If it is neither a workload nor matmuls.
    """
    if isinstance(work, Workload):
        return work
    gemms = (work,) if isinstance(work, Gemm) else work
    if not isinstance(gemms, (list, tuple)) or not all(isinstance(g, Gemm) for g in gemms):
        raise SystolicError(
            f"workload must be a Workload, a Gemm, a list of Gemms or a function, got {shown(work)}; "
            "systolic.load_model(name) gives the workload of a model"
        )
    if not gemms:
        raise SystolicError("workload must hold at least one Gemm, got an empty list")
    named = tuple(g if g.name else replace(g, name=_default_name(i, len(gemms))) for i, g in enumerate(gemms))
    cached = [g for g in named if g.rhs_kind == "kv_cache"]
    return Workload(
        name=", ".join(dict.fromkeys(f"{g.m},{g.n},{g.k}" for g in named)),
        ops=named,
        dtype=named[0].dtype,
        kv_cache_elements=sum(g.count * g.batch * g.k * g.n for g in cached),
    )


def _default_name(index: int, total: int) -> str:
    return "matmul" if total == 1 else f"matmul.{index}"


def choices(
    mode: Any, dataflow: Any, tile: Any, order: Any, kernel: Any, precision: Any, check: Any
) -> Options:
    """The user's choices, checked.

    Raises
    ------
    SystolicError
        One line for each wrong one.
    """
    problems = [
        f"{name} must be one of {', '.join(allowed)}, got {shown(value)}"
        for name, value, allowed in (
            ("mode", mode, MODES),
            ("dataflow", DATAFLOWS[0] if dataflow is None else dataflow, DATAFLOWS),
            ("order", ORDERS[0] if order is None else order, ORDERS),
            ("precision", PRECISIONS[0] if precision is None else precision, PRECISIONS),
            ("check", check, CHECKS),
        )
        if value not in allowed
    ]
    if tile is not None:
        sides = tuple(tile) if isinstance(tile, Sequence) else ()
        if len(sides) != 3 or any(count_problem("tile", side) for side in sides):
            problems.append(f"tile must be three whole numbers > 0 (m, n, k), got {shown(tile)}")
    if kernel is not None and not isinstance(kernel, str):
        problems.append(f"kernel must be the name of a kernel, got {shown(kernel)}")
    raise_if_any(problems)
    pinned = None if tile is None else tuple(tile)
    return Options(mode=mode, dataflow=dataflow, tile=pinned, order=order, kernel=kernel)


def _places(on: Where | Sequence[Where]) -> Sequence[Where]:
    places = (on,) if isinstance(on, (str, os.PathLike, Chip)) else tuple(on)
    if not places:
        raise SystolicError("on must name at least one chip, got none; `systolic chips` lists them")
    return places


def _setup(
    work: Workload,
    on: Where,
    overrides: Mapping[str, object],
    options: Options,
    storage: Mapping[str, str | None],
) -> Setup:
    chip = load_chip(on, overrides)
    given = formatted(work, chip, storage["weights"], storage["kv_cache"])
    return Setup(workload=given, on=on, overrides=dict(overrides), options=options)


def _run(setup: Setup, check: str, progress: Progress) -> tuple[ChipReport, float, float]:
    """One chip: its report, and host seconds of the simulation and of the check."""
    chip, work = setup.chip, setup.workload
    if setup.options.mode == "stepped":
        tiled = replace(setup, options=replace(setup.options, mode="tiled"))
        announce_stepping(chip, _simulated(tiled)[1], progress)
    started = perf_counter()
    steps, rows = _simulated(setup)
    simulated = perf_counter()
    checked, check_notes = check_rows(rows, MatmulHook(chip, setup.options, steps), check, progress)
    done = perf_counter()
    fits = memory_fit(work, chip)
    turned = knob_notes(setup, rows, lambda other: _simulated(other)[1])
    notes = [*work.notes, *chip.notes, *_row_notes(rows), *check_notes, *turned]
    if fits.chips_needed > 1:
        held = f"{fits.chips_needed:,} chips would hold it"
        notes.insert(0, f"larger than the chip's memory, simulated as if resident; {held}")
    report = ChipReport(
        chip=chip, fits=fits, rows=checked, notes=tuple(dict.fromkeys(notes)), not_covered=work.not_covered
    )
    return report, simulated - started, done - simulated


def simulate_bare(work: Workload, chip: Chip, options: Options) -> ChipReport:
    """One workload on one chip, nothing but its rows: no check, no notes, no run without each choice.

    Parameters
    ----------
    work
        In the formats that it has on the chip: see :func:`formatted`.
    chip
        With all changes applied.
    options
        From :func:`choices`.

    Raises
    ------
    SystolicError
        For a combination that is not modelled or does not fit.
    """
    machine = machine_of(chip)
    steps = machine.lower(work, chip, options)
    rows = machine.compose(steps, [machine.cost(step, chip) for step in steps], chip)
    return ChipReport(chip=chip, fits=memory_fit(work, chip), rows=rows, not_covered=work.not_covered)


def formatted(work: Workload, chip: Chip, weight_dtype: str | None, kv_dtype: str | None) -> Workload:
    """A workload in the formats that it has on a chip: the chip's native one where it leaves that open."""
    given = work if work.dtype is not None else work.with_dtype(chip.native_dtype)
    return given.with_storage(weights=weight_dtype, kv_cache=kv_dtype)


def _simulated(setup: Setup) -> tuple[Sequence[Any], Rows]:
    """The steps of a setup, and its rows: no check, no notes."""
    chip = setup.chip
    machine = machine_of(chip)
    steps = machine.lower(setup.workload, chip, setup.options)
    return steps, machine.compose(steps, [machine.cost(step, chip) for step in steps], chip)


def _row_notes(rows: Sequence[Result]) -> list[str]:
    """The notes of all rows, each once, with the names of the ops that it is about."""
    names: dict[str, list[str]] = {}
    for row in rows:
        for note in row.notes:
            names.setdefault(note, []).append(row.name)
    return [f"{', '.join(of)}: {note}" for note, of in names.items()]
