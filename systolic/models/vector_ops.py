"""Vector work between the matmuls of a transformer: how much arithmetic, how many elements.

Counts of one occurrence. Each arithmetic operation on an element (add, multiply, compare, select) and
each elementary function (exp, tanh, erf, reciprocal) is one vector operation: that is what a vector unit
with one such slot per lane issues. Work per row (the division and square root of a norm's statistics) is
1/width of an operation per element and left out. The counts are read off the defining formulas, cited at
each; a compiler may need more (polynomials for erf) but not fewer.

Which of them are fused: elementwise work on a matmul's result (bias, activation, gate product, residual)
runs as the result leaves the array. That is XLA's output fusion (openxla/xla, ``HloInstruction::FusionKind``:
"op's output is fused into the op itself"). Norms and softmax need whole rows before their first output,
and rotary positions pair elements half a head apart, so they run on their own.
"""

from __future__ import annotations

from dataclasses import replace

from ..workload import Gemm, VectorOp

OPS_PER_ELEMENT = {
    # Ba, Kiros, Hinton 2016 (arXiv 1607.06450), eq. 4: sum; subtract the mean; square, sum;
    # times 1/sigma, times gain, plus bias.
    "layernorm": 7,
    # Zhang, Sennrich 2019 (arXiv 1910.07467), eq. 4: square, sum; times 1/rms, times gain.
    "rmsnorm": 4,
    # Vaswani et al. 2017 (arXiv 1706.03762), eq. 1, in its overflow-free form: scale, mask; max,
    # subtract it, exp; sum; times 1/sum.
    "softmax": 7,
    # Su et al. 2021 (arXiv 2104.09864), eq. 34: x cos + rotated x sin.
    "rope": 3,
    # One each: a sum of two tensors, a bias per column, a term per score; a product with a constant, with
    # the gate, with a number per row.
    "add": 1,
    "bias": 1,
    "scores": 1,
    "multiply": 1,
    "gate": 1,
    "rows": 1,
    "relu": 1,
    # x / (1 + exp(-x)): negate, exp, add, reciprocal, multiply.
    "silu": 5,
    # Hendrycks, Gimpel 2016 (arXiv 1606.08415), x/2 (1 + erf(x / sqrt 2)): multiply, erf, add, two
    # multiplies.
    "gelu": 5,
    # Same, x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): cube 2, multiply, add, multiply, tanh, add,
    # two multiplies.
    "gelu_tanh": 9,
    "tanh": 1,
    # Gemma Team 2024 (arXiv 2408.00118), section 2: cap tanh(x / cap).
    "softcap": 3,
    # Shazeer et al. 2017 (arXiv 1701.06538), eq. 3: a softmax without scale and mask. DeepSeek-V3 (arXiv
    # 2412.19437, eq. 15) takes as many: a sigmoid is negate, exp, add, reciprocal; plus a bias. Each
    # expert that a token selects is one pass of comparisons on top.
    "route": 5,
    # Each selected expert's result times its weight, added up.
    "combine": 2,
    # Cross entropy and its gradient at once, softmax(x) - onehot: max, subtract it, exp; sum; times 1/sum;
    # subtract.
    "loss": 6,
    # Moves only.
    "gather": 0,
    "cache": 0,
    "permute": 0,
}
"""Vector operations per element."""

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""Names in configuration files -> formula in `OPS_PER_ELEMENT`."""


def gather(name: str, rows: int, width: int, table_rows: int) -> VectorOp:
    """Look-up of `rows` rows of a (table_rows, width) table, kept elsewhere where that is 0: only traffic."""
    elements = rows * width
    return _op(name, "gather", "gather", elements, read=elements, parameters=table_rows * width)


def norm(name: str, formula: str, rows: int, width: int) -> VectorOp:
    """Norm of `rows` rows; ``formula`` is layernorm (gain and bias) or rmsnorm (gain)."""
    parameters = width * (2 if formula == "layernorm" else 1)
    elements = rows * width
    return _op(name, "norm", formula, elements, read=elements + parameters, parameters=parameters)


def softmax(name: str, rows: int, keys: int) -> VectorOp:
    """Scaled, masked softmax over `keys` scores in each of `rows` rows."""
    return _op(name, "softmax", "softmax", rows * keys, read=rows * keys)


def rope(name: str, elements: int, angles: int) -> VectorOp:
    """Rotary positions on `elements` of q and k, with tables of `angles` cosines and as many sines."""
    return _op(name, "rope", "rope", elements, read=elements + 2 * angles)


def cache_write(name: str, elements: int) -> VectorOp:
    """New keys and values into the KV cache: a copy, since projections yield tokens first, caches heads."""
    return _op(name, "cache", "cache", elements, read=elements)


def add(name: str, elements: int) -> VectorOp:
    """Sum of two tensors of `elements` each."""
    return _op(name, "add", "add", elements, read=2 * elements)


def scale(name: str, elements: int) -> VectorOp:
    """A tensor times a constant."""
    return _op(name, "multiply", "multiply", elements, read=elements)


def table_add(name: str, elements: int, table: int) -> VectorOp:
    """A stored table of `table` elements (positions) added to a tensor, once to each sequence."""
    return _op(name, "add", "add", elements, read=elements + table, parameters=table)


def route(name: str, tokens: int, experts: int, active: int, parameters: int) -> VectorOp:
    """Scores of `experts` for each token, the best `active` of them selected; `parameters` are biases."""
    elements = tokens * experts
    op = _op(name, "softmax", "route", elements, read=elements + parameters, parameters=parameters)
    return replace(op, vector_ops=op.vector_ops + active, write_elements=2 * tokens * active)


def permute(name: str, read: int, written: int) -> VectorOp:
    """Rows copied into another order, some of them several times."""
    return replace(_op(name, "permute", "permute", written, read=read), write_elements=written)


def combine(name: str, tokens: int, active: int, width: int) -> VectorOp:
    """Results of the `active` experts of each token, weighted and added up."""
    elements = tokens * active * width
    op = _op(name, "add", "combine", elements, read=elements + tokens * active)
    return replace(op, write_elements=tokens * width)


def gated_activation(name: str, function: str, elements: int) -> VectorOp:
    """The activated first half of each row times its second half; `elements` is what that leaves."""
    op = _op(name, "activation", ACTIVATIONS[function], elements, read=2 * elements)
    return replace(op, vector_ops=op.vector_ops + OPS_PER_ELEMENT["multiply"], formula=f"gated {op.formula}")


def loss(name: str, rows: int, outputs: int) -> VectorOp:
    """Cross entropy over `outputs` logits in each of `rows` rows, and its gradient."""
    return _op(name, "softmax", "loss", rows * outputs, read=rows * outputs)


def bias(gemm: Gemm) -> VectorOp:
    """One bias per output column, added to the result of `gemm` as it leaves the array."""
    elements, biases = _results(gemm), gemm.batch * gemm.n
    op = _op(f"{gemm.name}.bias", "add", "bias", elements, read=elements + biases, parameters=biases)
    return replace(op, fused_into=gemm.name, side_elements=biases)


def residual(name: str, gemm: Gemm) -> VectorOp:
    """The residual stream added to the result of `gemm`."""
    return replace(add(name, _results(gemm)), fused_into=gemm.name, side_elements=_results(gemm))


def score_bias(name: str, gemm: Gemm, terms: int) -> VectorOp:
    """One of `terms` terms for head and distance added to each score, the result of `gemm`."""
    op = _op(name, "add", "scores", _results(gemm), read=_results(gemm) + terms)
    return replace(op, fused_into=gemm.name, side_elements=terms)


def activation(name: str, function: str, gemm: Gemm) -> VectorOp:
    """An activation function (name as in configuration files, or softcap) on the result of `gemm`."""
    elements = _results(gemm)
    op = _op(name, "activation", ACTIVATIONS.get(function, function), elements, read=elements)
    return replace(op, fused_into=gemm.name)


def gate_product(name: str, gemm: Gemm) -> VectorOp:
    """The result of `gemm` times the activated gate."""
    elements = _results(gemm)
    op = _op(name, "multiply", "gate", elements, read=2 * elements)
    return replace(op, fused_into=gemm.name, side_elements=elements)


def row_scale(name: str, gemm: Gemm) -> VectorOp:
    """Each row of the result of `gemm` times a number of its own."""
    elements = _results(gemm)
    op = _op(name, "multiply", "rows", elements, read=elements + gemm.m)
    return replace(op, fused_into=gemm.name, side_elements=gemm.m)


def _op(name: str, kind: str, formula: str, elements: int, *, read: int, parameters: int = 0) -> VectorOp:
    return VectorOp(
        name=name,
        kind=kind,
        elements=elements,
        vector_ops=OPS_PER_ELEMENT[formula],
        read_elements=read,
        write_elements=elements,
        parameters=parameters,
        formula=formula,
    )


def _results(gemm: Gemm) -> int:
    return gemm.batch * gemm.m * gemm.n
