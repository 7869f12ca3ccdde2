"""Choose a kernel for each matmul."""

from __future__ import annotations

from dataclasses import replace

from ...chips.cpu import CpuChip
from ...errors import SystolicError, shown
from ...workload import Gemm, Op, VectorOp, Workload
from ..base import Options, Precision
from .blocking import share_of
from .costing import core_cycles, gemm_cost
from .formats import format_of, precision_of
from .loops import body_of
from .steps import GemmStep, Kernel, Step, VectorStep


def lower(workload: Workload, chip: CpuChip, options: Options) -> tuple[Step, ...]:
    """Choose the kernel that takes the least time for each matmul, or take the one that is pinned.

    Raises
    ------
    SystolicError
        For a format that the chip does not multiply, and a kernel that it does not have.
    """
    options.refuse_all_but(("kernel",), chip.name)
    known = kernels_of(chip)
    if options.kernel is not None and options.kernel not in known:
        raise SystolicError(
            f"kernel must be one of {', '.join(known)} on {chip.name}, got {shown(options.kernel)}"
        )
    chosen: dict[Gemm, GemmStep] = {}
    return tuple(_step(op, chip, options, chosen) for op in workload.ops)


def kernels_of(chip: CpuChip) -> tuple[Kernel, ...]:
    """Kernels that a chip can run: ``amx`` where it has a tile unit."""
    plain: tuple[Kernel, ...] = ("naive", "reordered", "simd", "blocked")
    return (*plain, "amx") if chip.core.tile_macs else plain


def precision(step: GemmStep, chip: CpuChip) -> Precision:
    """Effective precision of a matmul step."""
    return precision_of(step, chip)


def tile_edges(step: GemmStep, chip: CpuChip) -> tuple[int, ...]:
    """Rows of the result at the edges of register blocks and of cores' parts, rising, at most 32."""
    rows, m = body_of(step.kernel, step.dtype, chip).rows, step.op.m
    share = share_of(step.op, chip).m
    starts = {*range(0, m, max(rows, 1)), *range(0, m, share)}
    edges = sorted({row for start in starts for row in (start, max(0, start - 1))} | {m - 1})
    return tuple(edges[:16] + edges[-16:]) if len(edges) > 32 else tuple(edges)


def _step(op: Op, chip: CpuChip, options: Options, chosen: dict[Gemm, GemmStep]) -> Step:
    if isinstance(op, VectorOp):
        return VectorStep(op=op, mode=options.mode)
    shape = replace(op, name="", origin="", count=1, layers=1, masked_macs=0, tied_to="")
    if shape not in chosen:
        chosen[shape] = _fastest(op, shape, chip, options)
    return replace(chosen[shape], op=op)


def _fastest(op: Gemm, shape: Gemm, chip: CpuChip, options: Options) -> GemmStep:
    """The step of the kernel with the fewest cycles in mode tiled; of equal ones the most elaborate."""
    if options.kernel is not None:
        pinned: Kernel = next(name for name in kernels_of(chip) if name == options.kernel)
        dtype, note = format_of(op, chip, tiles=pinned == "amx")
        return GemmStep(op=shape, mode=options.mode, kernel=pinned, dtype=dtype, note=note)
    best: tuple[int, GemmStep] | None = None
    for kernel in reversed(kernels_of(chip)):
        if kernel == "amx" and not {op.dtype, str(op.rhs_dtype)} <= set(chip.core.tile_macs):
            continue
        dtype, note = format_of(op, chip, tiles=kernel == "amx")
        if best is not None and core_cycles(shape, kernel, dtype, chip) >= best[0]:
            continue  # slower even where all operands lie in L1
        step = GemmStep(op=shape, mode="tiled", kernel=kernel, dtype=dtype, note=note)
        cycles = gemm_cost(step, chip).cycles
        if best is None or cycles < best[0]:
            best = cycles, step
    assert best is not None
    return replace(best[1], mode=options.mode)
