"""Group ops, choose formats, kernels and tiles."""

from __future__ import annotations

from dataclasses import replace

from ...chips.gpu import GpuChip
from ...dtypes import DTYPES
from ...errors import SystolicError, shown
from ...workload import Gemm, Op, VectorOp, Workload
from ..base import Options, Precision
from .attention import attention_of
from .formats import Formats, formats_of, precision_of
from .fusing import attentions, fused
from .plan import KERNELS, TENSOR_KERNELS, Plan, Problem
from .steps import Attention, AttentionStep, GemmStep, Step, VectorStep
from .timing import choose

SCALAR_KERNELS = tuple(kernel for kernel in KERNELS if kernel not in TENSOR_KERNELS)
"""Kernels that multiply on the scalar lanes."""


def lower(workload: Workload, chip: GpuChip, options: Options) -> tuple[Step, ...]:
    """Fuse ops, and choose formats, kernel and tile for each matmul. Equal matmuls share one choice.

    Raises
    ------
    SystolicError
        For a format that the chip does not multiply, a kernel that it does not have, and a tile that
        does not fit an SM.
    """
    lowering = _Lowering(chip, options)
    ops = fused(workload.ops, chip.policy.fusion)
    kernels = attentions(ops) if lowering.flash else {}
    steps: list[Step] = []
    for i, op in enumerate(ops):
        if i in kernels:
            steps += lowering.attention(attention_of(*kernels[i], chip))
        elif len(steps) == i:
            steps.append(lowering.step(op))
    return tuple(steps)


def precision(step: GemmStep | AttentionStep, chip: GpuChip) -> Precision:
    """Effective precision of a matmul step."""
    assert isinstance(step.op, Gemm)
    slices = step.plan.split_k if isinstance(step, GemmStep) else 1
    return precision_of(step.formats, chip, step.op.k, slices)


def tile_edges(step: GemmStep | AttentionStep, chip: GpuChip) -> tuple[int, ...]:
    """Rows of the result at the edges of thread blocks' tiles, rising, at most 32."""
    assert isinstance(step.op, Gemm)
    side = step.plan.tile[0] if isinstance(step, GemmStep) else step.attention.rows
    m = step.op.m
    edges = sorted({row for start in range(0, m, side) for row in (start, min(m, start + side) - 1)})
    return tuple(edges[:16] + edges[-16:]) if len(edges) > 32 else tuple(edges)


def problem_of(op: Gemm, formats: Formats) -> Problem:
    """One occurrence of a matmul as a kernel meets it."""
    return Problem(
        m=op.m,
        n=op.n,
        k=op.k,
        batch=op.batch,
        multiplied=formats.multiplied,
        lhs_bits=DTYPES[op.dtype].bits,
        rhs_bits=DTYPES[str(op.rhs_dtype)].bits,
        out_bits=DTYPES[str(op.out_dtype)].bits,
        layout=op.layout,
        lhs_in_l2=op.lhs_at == "chip",
        rhs_in_l2=op.rhs_at == "chip",
        out_in_l2=op.out_at == "chip",
    )


def kernels_of(chip: GpuChip) -> tuple[str, ...]:
    """Kernels that a chip can run: those of its tensor cores' generation, and those that need none."""
    tensor = {"none": (), "wgmma": ("tensor", "warpgroup"), "tcgen05": ("tensor", "tcgen05")}
    return (*SCALAR_KERNELS, *tensor.get(chip.tensor.instruction, ("tensor",)))


class _Lowering:
    """One chip and the user's choices; remembers the plans it has made."""

    def __init__(self, chip: GpuChip, options: Options) -> None:
        options.refuse_all_but(("tile", "kernel"), chip.name)
        known = kernels_of(chip)
        if options.kernel is not None and options.kernel not in known:
            raise SystolicError(
                f"kernel must be one of {', '.join(known)} on {chip.name}, got {shown(options.kernel)}"
            )
        self.chip = chip
        self.options = options
        self._plans: dict[Gemm, Plan] = {}

    @property
    def flash(self) -> bool:
        """Whether attention is one kernel; a pinned kernel or tile is a matmul's own."""
        pinned = self.options.kernel is not None or self.options.tile is not None
        return self.chip.policy.fusion == "flash" and not pinned

    def step(self, op: Op) -> Step:
        """The step of an op by itself."""
        if isinstance(op, VectorOp):
            return VectorStep(op=op, mode=self.options.mode)
        kernel = self.options.kernel
        formats = formats_of(op, self.chip, scalar=kernel in SCALAR_KERNELS)
        shape = replace(op, name="", origin="", count=1, layers=1, masked_macs=0, tied_to="")
        if shape not in self._plans:
            self._plans[shape] = choose(
                problem_of(op, formats), self.chip, kernel=kernel, tile=self.options.tile
            )
        return GemmStep(op=op, formats=formats, mode=self.options.mode, plan=self._plans[shape])

    def attention(self, attention: Attention) -> list[Step]:
        """The three steps of fused attention."""
        formats = [formats_of(op, self.chip) for op in (attention.scores, attention.values)]
        return [
            AttentionStep(op=op, attention=attention, formats=each, mode=self.options.mode)
            for op, each in (
                (attention.scores, formats[0]),
                (attention.softmax, formats[0]),
                (attention.values, formats[1]),
            )
        ]
