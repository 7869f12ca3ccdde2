"""One matmul of a workload on a GPU, recorded for pictures: warps of an SM, blocks over the SMs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..chips import Chip, load_chip
from ..chips.gpu import GpuChip
from ..errors import SystolicError
from ..machines.base import Options
from ..recorded import BlockWaves, WarpRecord
from ..result import Result
from ..workload import Gemm, Workload
from .hook import MatmulHook
from .recording import chosen_row, refuse_layer
from .simulation import Where, as_workload, simulate


@dataclass(frozen=True, kw_only=True)
class WarpRecording:
    """One matmul on one GPU.

    Attributes
    ----------
    workload, chip
        What ran where.
    row
        The matmul's row of the report, all its occurrences.
    layer
        Which of its layers, counted from 0; None where it has one only.
    warps
        One SM of the kernel's first wave.
    waves
        How the kernel's blocks fill the SMs.
    """

    workload: Workload
    chip: Chip
    row: Result
    layer: int | None
    warps: WarpRecord
    waves: tuple[BlockWaves, ...]

    @property
    def gemm(self) -> Gemm:
        """The matmul."""
        assert isinstance(self.row.op, Gemm)
        return self.row.op


def record_gpu(
    workload: Workload | Gemm | Sequence[Gemm],
    *,
    on: Where = "teaching-gpu",
    matmul: str | None = None,
    layer: int | None = None,
    kernel: str | None = None,
    tile: tuple[int, int, int] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> WarpRecording:
    """Simulate a workload on a GPU and record one of its matmuls.

    Parameters
    ----------
    workload, on, overrides, kernel, tile
        As for :func:`systolic.simulate`; one chip, of kind ``gpu``.
    matmul, layer
        As for :func:`systolic.engine.recording.record`.

    Raises
    ------
    SystolicError
        For what :func:`systolic.simulate` refuses; for a chip that is no GPU; for a matmul or a layer that
        the workload does not have.
    """
    from ..machines.gpu import GemmStep
    from ..machines.gpu.recording import block_waves, record_warps

    chip, work = load_chip(on, overrides or {}), as_workload(workload)
    if not isinstance(chip, GpuChip):
        raise SystolicError(f"{chip.name} (kind {chip.kind}) has no warps to record; take a GPU")
    report = simulate(work, on=chip, kernel=kernel, tile=tile).chips[0]
    row = chosen_row(report.rows, matmul)
    gemm = row.op
    assert isinstance(gemm, Gemm)
    refuse_layer(gemm, layer)
    step = MatmulHook(chip, Options(kernel=kernel, tile=tile)).step(gemm)
    assert isinstance(step, GemmStep)
    return WarpRecording(
        workload=work,
        chip=chip,
        row=row,
        layer=layer if layer is not None else (0 if gemm.layers > 1 else None),
        warps=record_warps(step, chip),
        waves=block_waves(step, chip),
    )
