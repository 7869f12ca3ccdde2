"""What the compiler makes of rows that are reduced before they are used: softmax and norms.

Each statistic of a row (its largest element, a sum) has to be known before the row's first result.

- ``none``: an op holds whole rows on chip, reads them once and writes them once.
- ``xla``: rows are not held. Each statistic is a pass over memory, and so is the elementwise rest, unless
  the pass rides on a matmul: the first statistic on the one that makes the operand, as its results leave
  the array; the rest of a softmax on the one that takes its result, as its operand enters. On TPU v3 a
  softmax by itself moves 16.0 bytes per float32 element, three reads and one write, and attention as a
  whole takes what this rule says (artifact of PyTorchSim).
- ``flash``: as ``xla``, but attention is a kernel of its own: scores never leave the chip, and the softmax
  works on them between the two matmuls (Dao et al. 2022, arXiv 2205.14135).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...workload import Gemm, Op, VectorOp

STATISTICS = {"softmax": 2, "layernorm": 2, "rmsnorm": 1, "norm": 1}
"""Statistics per row, by formula or kind: largest and sum of exponentials; mean and variance; mean square."""


def fuse(ops: Sequence[Op], fusion: str) -> tuple[Op, ...]:
    """The ops of a workload as a compiler of this kind leaves them; same number, same order."""
    fused = list(ops)
    for i, op in enumerate(ops):
        if not isinstance(op, VectorOp) or op.fused_into or _statistics(op) == 0:
            continue
        before, after = _maker(fused, i), _taker(fused, i)
        if fusion == "flash" and before is not None and after is not None:
            maker, taker = fused[before], fused[after]
            assert isinstance(maker, Gemm) and isinstance(taker, Gemm)
            fused[before] = replace(maker, out_at="stream")
            fused[i] = replace(op, fused_into=maker.name, side_elements=0)
            fused[after] = replace(taker, lhs_at="stream")
        elif fusion != "none":
            fused[i] = _in_passes(op, made=before is not None, taken=after is not None)
    return tuple(fused)


def _statistics(op: VectorOp) -> int:
    return STATISTICS.get(op.formula, STATISTICS.get(op.kind, 0))


def _maker(ops: Sequence[Op], i: int) -> int | None:
    """Index of the matmul just before op i whose results, all of them, op i works on."""
    op = ops[i]
    for j in range(i - 1, -1, -1):
        maker = ops[j]
        if isinstance(maker, VectorOp) and maker.fused_into:
            continue
        if isinstance(maker, Gemm) and isinstance(op, VectorOp):
            whole = maker.batch * maker.m * maker.n == op.elements and maker.count == op.count
            return j if whole else None
        return None
    return None


def _taker(ops: Sequence[Op], i: int) -> int | None:
    """Index of the matmul just behind a softmax that takes its result as lhs."""
    op, taker = ops[i], ops[i + 1] if i + 1 < len(ops) else None
    if isinstance(taker, Gemm) and isinstance(op, VectorOp) and op.kind == "softmax":
        fits = taker.batch * taker.m * taker.k == op.elements and taker.count == op.count
        return i + 1 if fits else None
    return None


def _in_passes(op: VectorOp, *, made: bool, taken: bool) -> VectorOp:
    """`op` with a pass over its operand for each statistic, and for the rest, that rides on no matmul."""
    passes = _statistics(op) - made + (not taken)
    extra = op.read_elements - op.elements
    return replace(
        op,
        read_elements=passes * op.elements + max(0, extra),
        write_elements=0 if taken else op.write_elements,
    )
