"""What a CPU runs for the ops of a workload, with all choices made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...workload import Gemm, VectorOp
from ..base import Mode

Kernel = Literal["naive", "reordered", "simd", "blocked", "amx"]
LOOPS = ("naive", "reordered", "simd")
"""Kernels that walk the operands where they lie, the simplest first."""

KERNELS = (*LOOPS, "blocked", "amx")
"""All kernels; those after :data:`LOOPS` pack blocks of both operands first."""


@dataclass(frozen=True, kw_only=True)
class GemmStep:
    """A matmul: `op` with `kernel`, whose operands are multiplied in format `dtype`; `note` on formats."""

    op: Gemm
    mode: Mode
    kernel: Kernel
    dtype: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class VectorStep:
    """A pass over memory."""

    op: VectorOp
    mode: Mode


Step = GemmStep | VectorStep
