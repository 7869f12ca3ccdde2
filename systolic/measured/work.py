"""What a measured row ran: the workload that a chip is given for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from ..dtypes import canonical
from ..errors import SystolicError
from ..models import load_model
from ..models import vector_ops as vec
from ..workload import Gemm, Op, Workload
from .rows import Row

DTYPES = {"fp16_tc": "fp16", "fp8e4m3_128x128scale": "fp8_e4m3"}
"""Names that sources give to formats, and to formats with a choice of unit -> the format."""

MODELS: Mapping[str, tuple[str, Literal["all", "last"]]] = {
    "qwen3-8b": ("qwen3-8b", "last"),
    "bert_large": ("bert-large", "all"),
}
"""Model as a row names it -> its name in our catalogue, and the positions that its head sees."""

BERT = {"bert_base": 768, "bert_large": 1024, "bert_xlarge": 2048}
"""Width of the BERT blocks of PyTorchSim's artifact (its experiments/BERT.py): 512 tokens, heads of 64."""
BERT_TOKENS, BERT_HEAD = 512, 64

KINDS = {
    **dict.fromkeys(("matmul", "linear", "bmm", "addmm", "matmul_add"), "matmul"),
    **dict.fromkeys(("softmax", "layernorm", "norm"), "row op"),
    **dict.fromkeys(("gelu", "add_tensor", "act_gated"), "elementwise"),
    "attention": "attention",
    "model": "BERT block",
    **{phase: phase for phase in ("prefill", "decode", "train")},
}
"""Op of a row -> the kind that its error is told under."""


def kind_of(row: Row) -> str:
    """The kind of a row, its op where it has none."""
    return KINDS.get(row.op, row.op)


@dataclass(frozen=True)
class Warm:
    """What the device's last cache held when an op began.

    Attributes
    ----------
    activations
        Whether ops take the same inputs and result again and again: it holds them where all that an op
        touches fits.
    weight_copies
        Copies of the weights that took turns; 0: more than any cache holds.
    cache_bytes
        Size of that cache: copies that fit in it together stay there from one turn to the next.
    """

    activations: bool = False
    weight_copies: int = 0
    cache_bytes: int = 0

    def place(self, gemm: Gemm) -> Gemm:
        """The matmul with its operands where they lay."""
        copies = self.weight_copies * gemm.rhs_bytes
        weights = "chip" if gemm.rhs_kind == "weight" and 0 < copies <= self.cache_bytes else None
        touched = gemm.lhs_bytes + gemm.rhs_bytes + gemm.out_bytes
        activations = "chip" if self.activations and touched <= self.cache_bytes else None
        return replace(gemm, lhs_at=activations, rhs_at=weights, out_at=activations)


COLD = Warm()
"""Nothing of an op was there."""


def workload_of(row: Row, warm: Warm = COLD) -> Workload:
    """The workload that a row ran, all occurrences of it, with its operands where `warm` says they lay.

    Raises
    ------
    SystolicError
        If the row's op, its model or its number format is not simulated.
    """
    dtype = canonical(DTYPES.get(row.dtype, row.dtype))
    if row.op in ("prefill", "decode", "train"):
        return _model(row, dtype)
    ops = _ops(row)
    ops = [warm.place(op) if isinstance(op, Gemm) else op for op in ops]
    if row.count > 1:
        ops = [replace(op, count=op.count * row.count) for op in ops]
    return Workload(name=label_of(row), ops=tuple(ops)).with_dtype(dtype)


def label_of(row: Row) -> str:
    """A row in a few words, as tables name it."""
    if row.op in ("prefill", "decode", "train"):
        return f"{row.op} {row.batch} x {row.m}"
    sides = "x".join(str(side) for side in (row.m, row.n, row.k) if side)
    if not sides:
        return row.name or f"{row.op} {row.stage}"
    shape = f"{row.batch}x{sides}" if row.batch > 1 else sides
    return shape if KINDS.get(row.op) == "matmul" else f"{row.op} {shape}"


def _ops(row: Row) -> Sequence[Op]:
    if row.op in ("model", "attention") and row.name in BERT:
        return _bert_block(BERT[row.name])
    if row.op not in _BUILDERS or not row.m:
        raise SystolicError(f"op {row.name.partition('_')[0] or row.op!r} of measured rows is not simulated")
    return _BUILDERS[row.op](row)


def _matmul(row: Row) -> Gemm:
    # Each product of a batch has an rhs of its own, which no layer keeps as its weights.
    weights = row.batch == 1 and row.op != "bmm"
    return Gemm(
        name="matmul",
        batch=row.batch,
        m=row.m,
        n=row.n,
        k=row.k,
        layout=row.layout,
        precision=row.precision or "default",
        rhs_kind="weight" if weights else "activation",
    )


def _with_bias(row: Row) -> list[Op]:
    gemm = _matmul(row)
    return [gemm, vec.bias(gemm)]


def _accumulated(row: Row) -> list[Op]:
    """C = A B + C."""
    gemm = _matmul(row)
    return [gemm, vec.residual("add", gemm)]


def _gelu(row: Row) -> list[Op]:
    alone = vec.activation("gelu", "gelu", Gemm(m=row.m, n=row.n or 1, k=1))
    return [replace(alone, fused_into="")]


_BUILDERS: dict[str, Callable[[Row], Sequence[Op]]] = {
    "matmul": lambda row: [_matmul(row)],
    "bmm": lambda row: [_matmul(row)],
    "linear": _with_bias,
    "addmm": _with_bias,
    "matmul_add": _accumulated,
    "softmax": lambda row: [vec.softmax("softmax", row.batch * row.m, row.n)],
    "layernorm": lambda row: [vec.norm("norm", "layernorm", row.m, row.n)],
    "norm": lambda row: [vec.norm("norm", "rmsnorm", row.m, row.n)],
    "gelu": _gelu,
    "add_tensor": lambda row: [vec.add("add", row.m * row.n)],
    "act_gated": lambda row: [vec.gated_activation("activation", "silu", row.m * row.n)],
    "attention": lambda row: _attention(row.batch, row.m, row.k),
}


def _attention(heads: int, tokens: int, head: int) -> list[Op]:
    return [
        Gemm(name="qk", batch=heads, m=tokens, n=tokens, k=head, rhs_kind="activation", layout="nt"),
        vec.softmax("softmax", heads * tokens, tokens),
        Gemm(name="pv", batch=heads, m=tokens, n=head, k=tokens, rhs_kind="activation"),
    ]


def _bert_block(hidden: int) -> list[Op]:
    """Attention and an MLP four times as wide with ReLU, each followed by the residual and a norm."""

    def linear(name: str, outputs: int, inputs: int) -> Gemm:
        return Gemm(name=name, m=BERT_TOKENS, n=outputs, k=inputs)

    def closed(gemm: Gemm) -> list[Op]:
        norm = vec.norm(f"{gemm.name}.norm", "layernorm", BERT_TOKENS, hidden)
        return [gemm, vec.bias(gemm), vec.residual(f"{gemm.name}.add", gemm), norm]

    projections = [linear(name, hidden, hidden) for name in ("q", "k", "v")]
    up = linear("up", 4 * hidden, hidden)
    return [
        *(op for gemm in projections for op in (gemm, vec.bias(gemm))),
        *_attention(hidden // BERT_HEAD, BERT_TOKENS, BERT_HEAD),
        *closed(linear("out", hidden, hidden)),
        *(up, vec.bias(up), vec.activation("relu", "relu", up)),
        *closed(linear("down", hidden, 4 * hidden)),
    ]


def _model(row: Row, dtype: str) -> Workload:
    if row.name not in MODELS:
        raise SystolicError(f"model {row.name!r} of measured rows is not in the catalogue")
    if row.stage:
        raise SystolicError("a fused or distributed variant of a model is not simulated")
    work = _pass(row.name, row.op, row.batch, row.m, dtype)
    if not row.precision:
        return work
    ops = (replace(op, precision=row.precision) if isinstance(op, Gemm) else op for op in work.ops)
    return replace(work, ops=tuple(ops))


@cache
def _pass(model: str, phase: str, batch: int, length: int, dtype: str) -> Workload:
    seq, keys = (None, length) if phase == "decode" else (length, None)
    name, logits = MODELS[model]
    return load_model(name, phase=phase, batch=batch, seq=seq, kv_len=keys, dtype=dtype, logits=logits)
