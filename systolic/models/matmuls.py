"""Linear layers as ops, and ops under another name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..workload import Gemm, Op
from . import vector_ops as vec


def linear(name: str, rows: int, outputs: int, inputs: int, bias: bool = False, batch: int = 1) -> list[Op]:
    """A matmul with a weight (inputs, outputs), and the bias that is added to its result."""
    gemm = Gemm(name=name, batch=batch, m=rows, n=outputs, k=inputs)
    return [gemm, vec.bias(gemm)] if bias else [gemm]


def last_gemm(ops: list[Op]) -> Gemm:
    """The matmul that later ops are fused into."""
    return next(op for op in reversed(ops) if isinstance(op, Gemm))


def renamed(op: Op, rename: Callable[[str], str]) -> Op:
    """`op` under another name, and whatever it refers to as well."""
    if isinstance(op, Gemm):
        return replace(op, name=rename(op.name), tied_to=op.tied_to and rename(op.tied_to))
    return replace(op, name=rename(op.name), fused_into=op.fused_into and rename(op.fused_into))
