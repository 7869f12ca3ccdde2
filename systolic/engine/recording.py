"""One matmul of a workload, recorded for pictures: its registers, its schedule, its place in the model.

Everything comes from the machine that made the report; whoever draws it needs nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ..chips import Chip, load_chip
from ..chips.tpu import TpuChip
from ..dtypes import DTYPES
from ..errors import SystolicError, did_you_mean, shown
from ..machines.base import Options
from ..mapping.plan import array_work
from ..mapping.schedule import loop_counts
from ..numerics.inputs import generator, seeded_inputs
from ..quantity import format_bytes
from ..recorded import ArrayRecord, Slice
from ..result import Result, is_matmul
from ..workload import Gemm, Workload
from .hook import MatmulHook
from .progress import Progress, Silent
from .simulation import Where, as_workload, simulate

if TYPE_CHECKING:
    from ..machines.tpu import GemmStep

VALUES = ("digits", "normal")
PE_CLOCKS = 300_000
"""Up to this many PE clocks, and :data:`PES` PEs, every register of every clock is kept."""
PES = 1024
TILES = 100_000
"""Tiles of one array, of one occurrence, up to which it is recorded."""
CYCLES = 4096
"""Cycles that are recorded of an array that is counted by cells of PEs."""
SLICES = 4000
"""Slices of a schedule that are kept."""
ELEMENTS = 2**26
"""Elements of an operand beyond which values are not drawn for a picture."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The matmul under one dataflow.

    Attributes
    ----------
    row
        Its row of the report, all its occurrences.
    array
        The first array of the busiest core.
    slices
        The schedule of one occurrence on that core, memory ports and array, rising in time.
    slices_end
        Elapsed cycles up to which `slices` is complete.
    """

    row: Result
    array: ArrayRecord
    slices: tuple[Slice, ...]
    slices_end: int


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One matmul on one chip under one dataflow or several.

    Attributes
    ----------
    workload, chip
        What ran where.
    gemm
        The matmul.
    layer
        Which of its layers, counted from 0; None where it has one only.
    operands
        Where the operands come from, in words.
    runs
        One for each dataflow.
    rows
        All rows of the report under the first dataflow, in order.
    """

    workload: Workload
    chip: Chip
    gemm: Gemm
    layer: int | None
    operands: str
    runs: tuple[Run, ...]
    rows: tuple[Result, ...]


def record(
    workload: Workload | Gemm | Sequence[Gemm],
    *,
    on: Where = "teaching-4x4",
    matmul: str | None = None,
    layer: int | None = None,
    dataflows: Sequence[str] = (),
    lhs: np.ndarray | None = None,
    rhs: np.ndarray | None = None,
    values: str = "digits",
    seed: int = 0,
    overrides: Mapping[str, object] | None = None,
    progress: Progress | None = None,
) -> Recording:
    """Simulate a workload and record one of its matmuls.

    Parameters
    ----------
    workload, on, overrides
        As for :func:`systolic.simulate`; one chip, of kind ``tpu``.
    matmul
        Name of the matmul; needed where there are several.
    layer
        Which of the layers that have it, counted from 0.
    dataflows
        ``ws``, ``os``, ``is``; the chip's own where it is empty.
    lhs, rhs
        Operands (m, k) and (k, n), or with the batch in front, instead of drawn ones.
    values
        Drawn operands: ``digits``, whole numbers 1 to 9 that can be followed by eye, or ``normal``, N(0, 1).
    seed
        Of the drawn operands.
    progress
        Is told what is cut short, before the work begins.

    Raises
    ------
    SystolicError
        For what :func:`systolic.simulate` refuses; for a chip without a systolic array; for a matmul, a layer
        or operands that the workload does not have; for operands too large to draw.
    """
    chip, work = load_chip(on, overrides or {}), as_workload(workload)
    if not isinstance(chip, TpuChip):
        raise SystolicError(f"{chip.name} (kind {chip.kind}) has no systolic array to animate; take a TPU")
    if values not in VALUES:
        raise SystolicError(f"values must be one of {', '.join(VALUES)}, got {shown(values)}")
    flows = tuple(dataflows) or (chip.array.dataflow,)
    if len(set(flows)) < len(flows):
        raise SystolicError(f"dataflows must differ, got {','.join(flows)}")
    # One run for each dataflow; all mistakes of the simulation's own input come from the first.
    reports = [simulate(work, on=chip, dataflow=flow).chips[0] for flow in flows]
    chosen = [chosen_row(report.rows, matmul) for report in reports]
    gemm = chosen[0].op
    assert isinstance(gemm, Gemm)
    refuse_layer(gemm, layer)
    operands = _operands(gemm, lhs, rhs, values, seed)
    runs = tuple(
        _run(row, MatmulHook(chip, Options(dataflow=flow)).step(gemm), chip, operands, progress or Silent())
        for row, flow in zip(chosen, flows, strict=True)
    )
    drawn = f"{'digits 1 to 9' if values == 'digits' else 'N(0, 1)'}, seed {seed}"
    return Recording(
        workload=work,
        chip=chip,
        gemm=gemm,
        layer=layer if layer is not None else (0 if gemm.layers > 1 else None),
        operands="given" if lhs is not None and rhs is not None else drawn,
        runs=runs,
        rows=reports[0].rows,
    )


def chosen_row(rows: Sequence[Result], name: str | None) -> Result:
    """The row of the matmul called `name`, or the only one.

    Raises
    ------
    SystolicError
        If there is none of this name, or more than one.
    """
    matmuls = [row for row in rows if is_matmul(row)]
    names = [row.name for row in matmuls]
    if name is None and len(matmuls) == 1:
        return matmuls[0]
    if name is None:
        raise SystolicError(
            f"matmul must name one of the workload's matmuls, got none; there are {', '.join(names)}"
        )
    if names.count(name) > 1:
        raise SystolicError(
            f"matmul {name!r} stands for {names.count(name)} different shapes here; animate one as M,N,K"
        )
    if name not in names:
        raise SystolicError(f"matmul must be one of the workload's, got {name!r}{did_you_mean(name, names)}")
    return matmuls[names.index(name)]


def refuse_layer(gemm: Gemm, layer: int | None) -> None:
    """Refuse a layer that has no such matmul."""
    if layer is not None and not 0 <= layer < gemm.layers:
        raise SystolicError(
            f"layer must be 0 to {gemm.layers - 1}, the layers that have {gemm.name}, got {layer}"
        )


def _operands(
    gemm: Gemm, lhs: np.ndarray | None, rhs: np.ndarray | None, values: str, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    shapes = {"lhs": (gemm.batch, gemm.m, gemm.k), "rhs": (gemm.batch, gemm.k, gemm.n)}
    for name, shape in shapes.items():
        if (elements := int(np.prod(shape, dtype=object))) > ELEMENTS:
            raise SystolicError(
                f"{gemm.name}: {name} must have at most {ELEMENTS:,} elements to be recorded, got "
                f"{elements:,} ({format_bytes(4 * elements)}); take a shorter --seq, or a part as M,N,K"
            )
    drawn = seeded_inputs(gemm, seed) if values == "normal" else _digits(gemm, shapes, seed)
    given = {"lhs": lhs, "rhs": rhs}
    out = []
    for (name, shape), own in zip(shapes.items(), drawn, strict=True):
        operand = given[name]
        if operand is None:
            out.append(own)
            continue
        wanted = shape if gemm.batch > 1 else shape[1:]
        if operand.shape != wanted and operand.shape != shape:
            sides, got = (" x ".join(map(str, each)) for each in (wanted, operand.shape))
            raise SystolicError(f"{name} must be {sides}, got {got}")
        operand = operand.reshape(shape)
        out.append(operand.astype(own.dtype))
    return out[0], out[1]


def _digits(gemm: Gemm, shapes: Mapping[str, tuple[int, ...]], seed: int) -> tuple[np.ndarray, ...]:
    """Whole numbers 1 to 9, or to what the format holds."""
    drawn = []
    for number, (name, shape) in enumerate(shapes.items()):
        kind = DTYPES[gemm.dtype if name == "lhs" else str(gemm.rhs_dtype)]
        largest = min(9, 2 ** (kind.bits - 1) - 1) if kind.kind == "int" else 9
        digits = generator(seed, number).integers(1, largest, shape, endpoint=True)
        drawn.append(digits.astype(np.float32 if kind.kind == "float" else np.int8))
    return tuple(drawn)


def _run(
    row: Result,
    step: GemmStep,
    chip: TpuChip,
    operands: tuple[np.ndarray, np.ndarray],
    progress: Progress,
) -> Run:
    from ..machines.tpu.recording import first_work, record_array

    _refuse_too_many_tiles(row, step)
    cycles, pes = step.mapped.cost.cycles, chip.array.rows * chip.array.cols
    by_cell = pes > PES
    window = CYCLES if by_cell else PE_CLOCKS // pes
    if first_work(step) + window < cycles:
        progress.announce(
            f"{row.name} takes {cycles:,} cycles of {pes:,} PEs; the array is shown in the first {window:,} "
            "in which it works, its schedule as a whole; for all registers take a smaller M,N,K"
        )
    array = record_array(step, chip, *operands, cycles=window, by_cell=by_cell)
    slices, end = _slices(step, cycles)
    return Run(row=row, array=array, slices=slices, slices_end=end)


def _refuse_too_many_tiles(row: Result, step: GemmStep) -> None:
    """Every tile of an array is laid out before the first is stepped."""
    problem, plan = step.mapped.split.busiest, step.mapped.plan
    tiles, _, _ = array_work(problem, plan.split, plan.tile)
    if (total := int(tiles) * prod(loop_counts(problem, plan))) > TILES:
        raise SystolicError(
            f"{row.name} must have at most {TILES:,} tiles of the array to be recorded, got {total:,}; take "
            "a smaller M,N,K, a shorter --seq, or a larger array"
        )


def _slices(step: GemmStep, cycles: int) -> tuple[tuple[Slice, ...], int]:
    """The schedule, and up to where it was kept."""
    from ..mapping.slices import array_slices, port_slices

    problem, plan = step.mapped.split.busiest, step.mapped.plan
    kept, end = list[Slice](), cycles
    for walk in (port_slices(problem, plan), array_slices(problem, plan)):
        part = list(islice(walk, SLICES + 1))
        if len(part) > SLICES:
            end = min(end, part.pop().start)
        kept += part
    kept = [replace(s, stop=min(s.stop, end)) for s in kept if s.start < end or (s.start == s.stop == end)]
    return tuple(sorted(kept, key=lambda s: (s.start, s.stop, s.unit))), end
