"""Which ops of a workload a GPU runs as one kernel.

- ``none``: what libraries do. A bias is part of the matmul's epilogue (cuBLAS, hipBLASLt); every other op is
  a kernel that reads its operands from memory and writes its result there.
- ``xla``: elementwise work on a matmul's result is part of its epilogue as well (XLA's Triton and cuBLASLt
  fusions); norms and softmax are kernels that hold a row in registers.
- ``flash``: as ``xla``, and attention is one kernel (Dao et al. 2022, arXiv 2205.14135).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...workload import Gemm, Op, VectorOp


def fused(ops: Sequence[Op], fusion: str) -> tuple[Op, ...]:
    """The ops with ``fused_into`` only where this policy fuses; same number, same order."""
    if fusion != "none":
        return tuple(ops)
    return tuple(
        replace(op, fused_into="", side_elements=0)
        if isinstance(op, VectorOp) and op.fused_into and op.formula != "bias"
        else op
        for op in ops
    )


def attentions(ops: Sequence[Op]) -> dict[int, tuple[Gemm, VectorOp, Gemm]]:
    """Index of the first op -> the three ops of each attention that can be one kernel.

    A matmul whose results are all a softmax's operand, and the matmul that takes the softmax's result as lhs.
    """
    found = {}
    for i in range(len(ops) - 2):
        scores, softmax, values = ops[i : i + 3]
        if not (isinstance(scores, Gemm) and isinstance(softmax, VectorOp) and isinstance(values, Gemm)):
            continue
        whole = scores.batch * scores.m * scores.n == softmax.elements == values.batch * values.m * values.k
        same = scores.count == softmax.count == values.count
        if softmax.kind == "softmax" and whole and same and scores.batch == values.batch:
            found[i] = (scores, softmax, values)
    return found
