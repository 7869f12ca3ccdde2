"""One forward pass of a dense decoder as a :class:`~systolic.workload.Workload`.

Ops stand in the order in which one layer runs; each op of a layer is one row with ``count = layers``.
A batch folds into m wherever it shares the rhs (all linear layers); in attention each sequence and
key-value head has keys of its own, so ``batch = B * kv_heads`` and the query heads of a group share them:
``m = group * queries``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from ..workload import Gemm, Op, VectorOp, Workload
from . import vector_ops as vec
from .config import TransformerConfig


@dataclass(frozen=True, kw_only=True)
class Pass:
    """The run of a model that is simulated.

    Attributes
    ----------
    batch, queries, keys
        Sequences; tokens that each processes; keys that its last token attends, itself included.
    logits
        Positions that lm_head sees: ``"all"``, or the ``"last"`` of each sequence.
    causal
        Whether MACs outside the causal mask and the window are counted as masked.
    """

    batch: int
    queries: int
    keys: int
    logits: Literal["all", "last"] = "all"
    causal: bool = False

    @property
    def tokens(self) -> int:
        """Rows of the residual stream."""
        return self.batch * self.queries


def forward(config: TransformerConfig, run: Pass, *, phase: str, notes: tuple[str, ...] = ()) -> Workload:
    """The workload of one pass.

    Parameters
    ----------
    config, run
        The model and what is run on it; the caller has checked `run` against the model's positions.
    phase
        ``"prefill"`` or ``"decode"``, for the report.
    notes
        Lines for the reader, beside those of the model and of attention.
    """
    layer = _attention(config, run) + _mlp(config, run)
    ops = _embedding(config, run) + [_repeat(op, config.layers) for op in layer] + _head(config, run)
    return Workload(
        name=config.name,
        ops=tuple(replace(op, origin=config.source) for op in ops),
        phase=phase,
        batch=run.batch,
        seq=run.queries,
        kv_len=run.keys,
        kv_cache_elements=2 * config.layers * run.batch * config.kv_heads * config.head_dim * run.keys,
        notes=(*config.notes, *notes, *_attention_notes(config, run)),
    )


def _embedding(c: TransformerConfig, run: Pass) -> list[Op]:
    ops: list[Op] = [vec.gather("embed", run.tokens, c.hidden, c.vocab)]
    if c.learned_positions:
        assert c.positions is not None
        ops.append(vec.gather("embed.positions", run.queries, c.hidden, c.positions))
        ops.append(vec.add("embed.add", run.tokens * c.hidden))
    return ops


def _attention(c: TransformerConfig, run: Pass) -> list[Op]:
    tokens, q_width, kv_width = run.tokens, c.heads * c.head_dim, c.kv_heads * c.head_dim
    ops: list[Op] = [vec.norm("attn.norm", c.norm, tokens, c.hidden)]
    if c.fused_qkv:
        ops += _linear("attn.qkv", tokens, q_width + 2 * kv_width, c.hidden, c.qkv_bias)
    else:
        for name, width in (("attn.q", q_width), ("attn.k", kv_width), ("attn.v", kv_width)):
            ops += _linear(name, tokens, width, c.hidden, c.qkv_bias)
    if c.qk_norm:
        ops.append(vec.norm("attn.q_norm", "rmsnorm", tokens * c.heads, c.head_dim))
        ops.append(vec.norm("attn.k_norm", "rmsnorm", tokens * c.kv_heads, c.head_dim))
    if not c.learned_positions:
        ops.append(vec.rope("attn.rope", tokens * (q_width + kv_width), run.queries * c.head_dim // 2))
    ops.append(vec.cache_write("attn.cache", 2 * tokens * kv_width))
    ops += _scores(c, run)
    out = _linear("attn.out", tokens, c.hidden, q_width, c.out_bias)
    return [*ops, *out, vec.residual("attn.add", _gemm(out))]


def _scores(c: TransformerConfig, run: Pass) -> list[Op]:
    """q K^T, softmax, P V. K is stored a row per key, so its product reads it transposed."""
    batch, rows = run.batch * c.kv_heads, c.group * run.queries
    masked = batch * c.group * c.head_dim * _masked_pairs(c, run) if run.causal else 0
    product = partial(Gemm, batch=batch, m=rows, rhs_kind="kv_cache", masked_macs=masked)
    qk = product(name="attn.qk", n=run.keys, k=c.head_dim, layout="nt")
    pv = product(name="attn.pv", n=c.head_dim, k=run.keys)
    return [qk, vec.softmax("attn.softmax", batch * rows, run.keys), pv]


def _mlp(c: TransformerConfig, run: Pass) -> list[Op]:
    ops: list[Op] = [vec.norm("mlp.norm", c.norm, run.tokens, c.hidden)]
    up = _linear("mlp.up", run.tokens, c.intermediate, c.hidden, c.mlp_bias)
    if c.gated:
        gate = _linear("mlp.gate", run.tokens, c.intermediate, c.hidden, c.mlp_bias)
        ops += [*gate, vec.activation("mlp.act", c.activation, _gemm(gate))]
        ops += [*up, vec.gate_product("mlp.product", _gemm(up))]
    else:
        ops += [*up, vec.activation("mlp.act", c.activation, _gemm(up))]
    down = _linear("mlp.down", run.tokens, c.hidden, c.intermediate, c.mlp_bias)
    return [*ops, *down, vec.residual("mlp.add", _gemm(down))]


def _head(c: TransformerConfig, run: Pass) -> list[Op]:
    rows = run.tokens if run.logits == "all" else run.batch
    head = Gemm(name="lm_head", m=rows, n=c.vocab, k=c.hidden)
    if c.tied:  # the table holds a row per word, so the product reads it transposed
        head = replace(head, tied_to="embed", layout="nt")
    return [vec.norm("final.norm", c.norm, run.tokens, c.hidden), head]


def _linear(name: str, rows: int, outputs: int, inputs: int, with_bias: bool) -> list[Op]:
    gemm = Gemm(name=name, m=rows, n=outputs, k=inputs)
    return [gemm, vec.bias(gemm)] if with_bias else [gemm]


def _gemm(linear: list[Op]) -> Gemm:
    gemm = linear[0]
    assert isinstance(gemm, Gemm)
    return gemm


def _repeat(op: Op, layers: int) -> Op:
    """`op` once in each layer. A Gemm's parameters follow from its count, a VectorOp's are stored."""
    if isinstance(op, VectorOp):
        return replace(op, count=layers, layers=layers, parameters=layers * op.parameters)
    return replace(op, count=layers, layers=layers)


def _masked_pairs(c: TransformerConfig, run: Pass) -> int:
    """(query, key) pairs of one head outside the causal mask and, where all layers have it, the window."""
    window = c.window if c.window is not None and c.window_layers == c.layers else run.keys

    def seen_up_to(position: int) -> int:
        """Pairs inside, over the queries at positions 1 to `position`: sum of min(p, window)."""
        ramp = min(position, window)
        return ramp * (ramp + 1) // 2 + (position - ramp) * window

    return run.queries * run.keys - (seen_up_to(run.keys) - seen_up_to(run.keys - run.queries))


def _attention_notes(c: TransformerConfig, run: Pass) -> list[str]:
    notes = []
    if run.queries > 1:
        inside = "useful_macs counts those inside the mask" if run.causal else "causal counts them apart"
        notes.append(f"attention runs dense: macs include those outside the causal mask ({inside})")
    if c.window is not None and run.keys > c.window:
        masked = run.causal and c.window_layers == c.layers
        notes.append(
            f"attention runs dense over {run.keys} keys, and the KV cache holds as many, though "
            f"{c.window_layers} of {c.layers} layers have a sliding window of {c.window}"
            + (" (useful_macs leaves the rest out)" if masked else "")
        )
    return notes
