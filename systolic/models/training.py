"""The backward pass: for C = A B, dA = dC B^T and dB = A^T dC, and the vector work between them.

No recomputation: what the forward pass yields is kept until the backward pass reads it. Vector ops run on
their own there, since each reads a kept result beside the gradient. The optimizer's step is not part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..workload import Gemm, Op, VectorOp

# (vector operations, kept tensors that are read beside the gradient of the result, tensors written) per
# element. Operations are counted as in `vector_ops`; statistics of rows (1/sigma, 1/sum) are kept.
GRADIENTS = {
    # z = (x - mean)/sigma is 2; gradient times gain; its sum; times z, sum; 1/sigma (g - a - z b) is 4;
    # dgain: times z, sum; dbias: sum.
    "layernorm": (13, 1, 1),
    # z = x/rms is 1; gradient times gain; times z, sum; 1/rms (g - z b) is 3; dgain: times z, sum.
    "rmsnorm": (9, 1, 1),
    # p (g - sum(g p)) times the scale: multiply, sum, subtract, multiply, multiply. Masked p are 0.
    "softmax": (5, 1, 1),
    "rope": (3, 0, 1),
    # Compare, select.
    "relu": (2, 1, 1),
    # s = 1 / (1 + exp(-x)) is 4; g s (1 + x (1 - s)) is 5.
    "silu": (9, 1, 1),
    # The normal distribution (multiply, erf, add, multiply) plus x times its density (square, multiply,
    # exp, multiply; multiply), add, times the gradient.
    "gelu": (11, 1, 1),
    # t = tanh(c x (1 + a x^2)) is 6; (1 + t)/2 is 2; 1 - t^2 is 2; c (1 + 3 a x^2) is 3; x/2 and two
    # products, add, times the gradient.
    "gelu_tanh": (18, 1, 1),
    # g (1 - t^2), of the kept t.
    "tanh": (3, 1, 1),
    # The same of t = y / cap: one more multiply.
    "softcap": (4, 1, 1),
    # The gradient passes through; the two that meet at the branch before are added.
    "add": (1, 1, 1),
    # A sum over rows, or over queries; next to nothing is written.
    "bias": (1, 0, 0),
    "scores": (1, 0, 0),
    "multiply": (1, 0, 1),
    # Both factors: g times the other one.
    "gate": (2, 2, 2),
    # g times the row's number; g times the value, summed.
    "rows": (3, 1, 1),
    # As a softmax without scale.
    "route": (4, 1, 1),
    # As for rows, of each selected expert's result.
    "combine": (3, 1, 1),
    # Rows added to the table's gradient.
    "gather": (1, 1, 1),
    # Copies of a row are added up.
    "permute": (1, 0, 1),
}
"""Formula of a vector op -> what its gradient takes."""

INPUTS = ("embed.patches", "embed.conv1")
"""Matmuls whose lhs is the model's input."""

_KEPT = ("softmax", "activation", "multiply", "norm", "rope", "permute")
"""Kinds of vector ops whose results the backward pass reads; sums are not among them."""


def backward(ops: Sequence[Op]) -> list[Op]:
    """Gradients of `ops`, the last one first; each matmul yields two of its own size.

    A matmul that begins a stack reads an image or a spectrogram, to which no gradient goes: it yields one.
    """
    gradients: list[Op] = []
    for op in reversed(ops):
        if isinstance(op, VectorOp):
            gradients += _of_vector(op)
            continue
        of_lhs, of_rhs = _of_gemm(op)
        gradients += [of_rhs] if op.name.endswith(INPUTS) else [of_lhs, of_rhs]
    return gradients


def saved_elements(ops: Iterable[Op]) -> int:
    """Elements of the results that the backward pass reads: of matmuls, and of vector ops but sums."""
    return sum(
        op.count * (op.batch * op.m * op.n if isinstance(op, Gemm) else op.write_elements)
        for op in ops
        if isinstance(op, Gemm) or op.kind in _KEPT
    )


def _of_gemm(gemm: Gemm) -> tuple[Gemm, Gemm]:
    """(gradient of the lhs, gradient of the rhs). A weight stays the rhs of the first."""
    lhs, rhs = _names(gemm)
    turned = "t" if gemm.layout[1] == "n" else "n"
    of_lhs = replace(
        gemm,
        name=f"{gemm.name}.{lhs}",
        n=gemm.k,
        k=gemm.n,
        layout=f"n{turned}",
        tied_to=gemm.tied_to or (gemm.name if gemm.rhs_kind == "weight" else ""),
    )
    of_rhs = replace(
        gemm,
        name=f"{gemm.name}.{rhs}",
        m=gemm.k,
        k=gemm.m,
        layout="tn",
        rhs_kind="activation",
        tied_to="",
    )
    return of_lhs, of_rhs


def _names(gemm: Gemm) -> tuple[str, str]:
    parts = gemm.name.split(".")
    if "qk" in parts:
        return "dq", "dk"
    return ("dp", "dv") if "pv" in parts else ("dx", "dw")


def _of_vector(op: VectorOp) -> list[VectorOp]:
    function = op.formula.removeprefix("gated ")
    if function not in GRADIENTS:  # the loss has its gradient already
        return []
    operations, kept, written = GRADIENTS[function]
    if op.formula != function:  # the other half of each row is a factor with a gradient of its own
        operations, kept, written = (
            a + b for a, b in zip(GRADIENTS[function], GRADIENTS["gate"], strict=True)
        )
        kept, written = kept - 1, written - 1  # one kept input serves both, and two are written
    stored = 0 if op.kind == "gather" else op.parameters // op.count
    writes = op.read_elements if op.kind == "permute" else written * op.elements + stored
    return [
        replace(
            op,
            name=f"{op.name}.grad",
            vector_ops=operations,
            read_elements=op.write_elements + kept * op.elements,
            write_elements=writes,
            fused_into="",
            side_elements=0,
            parameters=0,
        )
    ]
