"""What a GPU runs for the ops of a workload, with all choices made."""

from __future__ import annotations

from dataclasses import dataclass

from ...workload import Gemm, VectorOp
from ..base import Mode
from .formats import Formats
from .plan import Plan


@dataclass(frozen=True, kw_only=True)
class GemmStep:
    """A matmul: one kernel, or one and a reduction where k is split.

    Attributes
    ----------
    op
        The matmul.
    formats
        How its numbers go through an SM.
    mode
        Which engine times it.
    plan
        Kernel and tiles.
    """

    op: Gemm
    formats: Formats
    mode: Mode
    plan: Plan


@dataclass(frozen=True, kw_only=True)
class VectorStep:
    """A kernel of the scalar lanes; or, where `op` is fused, a part of a matmul's epilogue."""

    op: VectorOp
    mode: Mode


@dataclass(frozen=True, kw_only=True)
class Attention:
    """One kernel for both matmuls of attention and the softmax between them.

    Attributes
    ----------
    scores, softmax, values
        The three ops.
    rows, keys
        Sides of the tile of scores that an SM works on at once.
    """

    scores: Gemm
    softmax: VectorOp
    values: Gemm
    rows: int
    keys: int


@dataclass(frozen=True, kw_only=True)
class AttentionStep:
    """One of the three ops of a fused attention kernel: `op` is one of those of `attention`."""

    op: Gemm | VectorOp
    attention: Attention
    formats: Formats
    mode: Mode


Step = GemmStep | VectorStep | AttentionStep
