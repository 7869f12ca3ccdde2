"""Attention as ops: projections, positions, the KV cache, scores, the weighted sum, the way out.

A batch folds into m in the projections. In the scores each sequence and key-value head has keys of its
own, so ``batch = B * kv_heads`` and the query heads of a group share them: ``m = group * queries``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..workload import Gemm, Op, RhsKind
from . import vector_ops as vec
from .architecture import Attention, LatentAttention
from .matmuls import last_gemm, linear
from .passes import Pass


def self_attention(a: Attention | LatentAttention, hidden: int, run: Pass) -> list[Op]:
    """Attention among the tokens of one sequence, from the normed residual stream to the way out."""
    if isinstance(a, LatentAttention):
        return _latent(a, hidden, run)
    kv_width = a.kv_heads * a.head_dim
    ops = _projections(a, hidden, run)
    if a.head_norm:
        ops.append(vec.norm("attn.q_norm", a.head_norm, run.tokens * a.heads, a.head_dim))
        if not a.reuses_cache:
            ops.append(vec.norm("attn.k_norm", a.head_norm, run.tokens * a.kv_heads, a.head_dim))
    if a.rotary:
        turned = a.heads + (0 if a.reuses_cache else a.kv_heads)
        ops.append(vec.rope("attn.rope", run.tokens * turned * a.rotary, run.queries * a.rotary // 2))
    if run.cached and not a.reuses_cache:
        ops.append(vec.cache_write("attn.cache", 2 * run.tokens * kv_width))
    keys, masked = run.reach(a.window), run.masked_pairs(a.window)
    ops += _scores("attn", a, run, keys, masked)
    return [*ops, *linear("attn.out", run.tokens, hidden, a.heads * a.head_dim, "out" in a.biases)]


def cross_attention(a: Attention, hidden: int, run: Pass) -> list[Op]:
    """Attention to the encoder's result, `run.source` tokens; its keys and values are projected once."""
    ops: list[Op] = linear("cross.q", run.tokens, a.heads * a.head_dim, hidden, "q" in a.biases)
    if not run.source_cached:
        ops += cross_keys(a, hidden, run)
        if run.cached:
            elements = 2 * run.batch * run.source * a.kv_heads * a.head_dim
            ops.append(vec.cache_write("cross.cache", elements))
    ops += _scores("cross", a, run, run.source, 0)
    return [*ops, *linear("cross.out", run.tokens, hidden, a.heads * a.head_dim, "out" in a.biases)]


def cross_keys(a: Attention, hidden: int, run: Pass) -> list[Op]:
    """Projections of the encoder's result."""
    rows, width = run.batch * run.source, a.kv_heads * a.head_dim
    return [op for part in "kv" for op in linear(f"cross.{part}", rows, width, hidden, bias=part in a.biases)]


def _projections(a: Attention, hidden: int, run: Pass) -> list[Op]:
    q_width, kv_width = a.heads * a.head_dim, a.kv_heads * a.head_dim
    if a.fused:
        return linear("attn.qkv", run.tokens, q_width + 2 * kv_width, hidden, "q" in a.biases)
    widths = {"q": q_width} if a.reuses_cache else {"q": q_width, "k": kv_width, "v": kv_width}
    return [
        op
        for part, width in widths.items()
        for op in linear(f"attn.{part}", run.tokens, width, hidden, part in a.biases)
    ]


def _scores(prefix: str, a: Attention, run: Pass, keys: int, masked_pairs: int) -> list[Op]:
    """q K^T, softmax, P V. K is stored a row per key, so its product reads it transposed."""
    batch, rows = run.batch * a.kv_heads, a.group * run.queries
    masked = run.batch * a.heads * a.head_dim * masked_pairs
    kind: RhsKind = "kv_cache" if run.cached else "activation"
    product = partial(Gemm, batch=batch, m=rows, rhs_kind=kind, masked_macs=masked)
    qk = product(name=f"{prefix}.qk", n=keys, k=a.head_dim, layout="nt")
    ops: list[Op] = [qk]
    if a.softcap:
        ops.append(vec.activation(f"{prefix}.softcap", "softcap", qk))
    if a.score_bias:
        ops.append(vec.score_bias(f"{prefix}.distances", qk, a.heads * run.queries * keys))
    ops.append(vec.softmax(f"{prefix}.softmax", batch * rows, keys))
    return [*ops, product(name=f"{prefix}.pv", n=a.head_dim, k=keys)]


def _latent(a: LatentAttention, hidden: int, run: Pass) -> list[Op]:
    """Latent attention. Keys and values of the pass itself are expanded; cached latents never are.

    The product of query and key is then taken in the space of the latent, and so is the weighted sum:
    the expanding matrices are absorbed by the query and the result (DeepSeek-V2, section 2.1.2).
    """
    tokens, latent = run.tokens, a.kv_rank + a.rope_dim
    q_width = a.heads * (a.nope_dim + a.rope_dim)
    if a.q_rank is None:
        ops = linear("attn.q", tokens, q_width, hidden)
    else:
        ops = linear("attn.q_down", tokens, a.q_rank, hidden, "q_down" in a.biases)
        ops.append(vec.norm("attn.q_norm", "rmsnorm", tokens, a.q_rank))
        ops += linear("attn.q_up", tokens, q_width, a.q_rank)
    ops += linear("attn.kv_down", tokens, latent, hidden, "kv_down" in a.biases)
    ops.append(vec.norm("attn.kv_norm", "rmsnorm", tokens, a.kv_rank))
    ops.append(vec.rope("attn.rope", tokens * (a.heads + 1) * a.rope_dim, run.queries * a.rope_dim // 2))
    if run.cached:
        ops.append(vec.cache_write("attn.cache", tokens * latent))
    ops += _expanded(a, run) if run.fresh else _absorbed(a, run)
    return [*ops, *linear("attn.out", tokens, hidden, a.heads * a.value_dim, "out" in a.biases)]


def _expanded(a: LatentAttention, run: Pass) -> list[Op]:
    """Keys and values of every head from the latents of this pass; they are not cached."""
    batch, pairs = run.batch * a.heads, run.batch * a.heads * run.masked_pairs(None)
    width = a.nope_dim + a.rope_dim
    product = partial(Gemm, batch=batch, m=run.queries, rhs_kind="activation")
    return [
        *linear("attn.kv_up", run.tokens, a.heads * (a.nope_dim + a.value_dim), a.kv_rank),
        product(name="attn.qk", n=run.keys, k=width, layout="nt", masked_macs=pairs * width),
        vec.softmax("attn.softmax", batch * run.queries, run.keys),
        product(name="attn.pv", n=a.value_dim, k=run.keys, masked_macs=pairs * a.value_dim),
    ]


def _absorbed(a: LatentAttention, run: Pass) -> list[Op]:
    """All heads share one latent per key; the halves of the expanding matrix work on q and on the result."""
    rows, pairs = a.heads * run.queries, run.batch * a.heads * run.masked_pairs(None)
    width = a.kv_rank + a.rope_dim
    product = partial(Gemm, batch=run.batch, m=rows, rhs_kind="kv_cache")
    k_up = last_gemm(linear("attn.k_up", run.tokens, a.kv_rank, a.nope_dim, batch=a.heads))
    v_up = last_gemm(linear("attn.v_up", run.tokens, a.value_dim, a.kv_rank, batch=a.heads))
    return [
        k_up,
        product(name="attn.qk", n=run.keys, k=width, layout="nt", masked_macs=pairs * width),
        vec.softmax("attn.softmax", run.batch * rows, run.keys),
        product(name="attn.pv", n=a.kv_rank, k=run.keys, masked_macs=pairs * a.kv_rank),
        replace(v_up, layout="nt"),
    ]
