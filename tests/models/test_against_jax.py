"""A decoder written in JAX, traced: its parameters and its dot products are those of the workload."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import pytest

from systolic.models import load_model
from systolic.models.config import TransformerConfig, read_config

from .configs import TINY_GPT2, TINY_GQA, write

CASES = {
    "gpt2": (TINY_GPT2, {}),
    "gqa": (TINY_GQA, {}),
    "untied": (TINY_GQA, {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True}),
    "qwen2": (TINY_GQA, {"model_type": "qwen2"}),
    "qwen3": (TINY_GQA, {"model_type": "qwen3"}),
}

Params = dict[str, Any]


def shaped(*sides: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sides, jnp.float32)


def linear_params(inputs: int, outputs: int, bias: bool) -> Params:
    return {"w": shaped(inputs, outputs)} | ({"b": shaped(outputs)} if bias else {})


def norm_params(c: TransformerConfig) -> Params:
    return {"gain": shaped(c.hidden)} | ({"b": shaped(c.hidden)} if c.norm == "layernorm" else {})


def layer_params(c: TransformerConfig) -> Params:
    q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim
    params = {"n1": norm_params(c), "n2": norm_params(c), "out": linear_params(q, c.hidden, c.out_bias)}
    if c.fused_qkv:
        params["qkv"] = linear_params(c.hidden, q + 2 * kv, c.qkv_bias)
    else:
        params |= {x: linear_params(c.hidden, q if x == "q" else kv, c.qkv_bias) for x in "qkv"}
    if c.qk_norm:
        params |= {"qn": {"gain": shaped(c.head_dim)}, "kn": {"gain": shaped(c.head_dim)}}
    for name in ("gate", "up") if c.gated else ("up",):
        params[name] = linear_params(c.hidden, c.intermediate, c.mlp_bias)
    return params | {"down": linear_params(c.intermediate, c.hidden, c.mlp_bias)}


def model_params(c: TransformerConfig) -> Params:
    params: Params = {"embed": shaped(c.vocab, c.hidden), "final": norm_params(c)}
    if c.learned_positions:
        assert c.positions is not None
        params["positions"] = shaped(c.positions, c.hidden)
    if not c.tied:
        params["head"] = shaped(c.hidden, c.vocab)
    return params | {"layers": [layer_params(c) for _ in range(c.layers)]}


def linear(p: Params, x: Any) -> Any:
    y = x @ p["w"]
    return y + p["b"] if "b" in p else y


def normed(p: Params, x: Any) -> Any:
    if "b" in p:
        x = x - x.mean(-1, keepdims=True)
    x = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p["gain"]
    return x + p["b"] if "b" in p else x


def attend(c: TransformerConfig, p: Params, x: Any) -> Any:
    batch, seq, _ = x.shape
    q_width, kv_width = c.heads * c.head_dim, c.kv_heads * c.head_dim
    if c.fused_qkv:
        q, k, v = jnp.split(linear(p["qkv"], x), (q_width, q_width + kv_width), -1)
    else:
        q, k, v = (linear(p[name], x) for name in "qkv")
    q = q.reshape(batch, seq, c.kv_heads, c.heads // c.kv_heads, c.head_dim)
    k, v = (t.reshape(batch, seq, c.kv_heads, c.head_dim) for t in (k, v))
    if c.qk_norm:
        q, k = normed(p["qn"], q), normed(p["kn"], k)
    weights = jax.nn.softmax(jnp.einsum("btkgd,bskd->bkgts", q, k) / math.sqrt(c.head_dim))
    return linear(p["out"], jnp.einsum("bkgts,bskd->btkgd", weights, v).reshape(batch, seq, q_width))


def decoder(c: TransformerConfig, params: Params, tokens: Any) -> Any:
    x = params["embed"][tokens]
    if c.learned_positions:
        x = x + params["positions"][: tokens.shape[1]]
    for p in params["layers"]:
        x = x + attend(c, p, normed(p["n1"], x))
        y = normed(p["n2"], x)
        up = linear(p["up"], y)
        up = jax.nn.silu(linear(p["gate"], y)) * up if c.gated else jax.nn.gelu(up)
        x = x + linear(p["down"], up)
    return normed(params["final"], x) @ (params["embed"].T if c.tied else params["head"])


def dot_products(jaxpr: Any) -> Counter[tuple[int, frozenset[int], int]]:
    """(batch, {rows, columns}, depth) of each dot product; JAX may swap the two sides of one."""
    found: Counter[tuple[int, frozenset[int], int]] = Counter()
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            (left, right), (left_batch, right_batch) = eqn.params["dimension_numbers"]
            lhs, rhs = (v.aval.shape for v in eqn.invars)
            batch, depth = (math.prod(lhs[i] for i in dims) for dims in (left_batch, left))
            rows = math.prod(lhs) // (batch * depth)
            columns = math.prod(rhs) // math.prod(rhs[i] for i in (*right_batch, *right))
            found[batch, frozenset((rows, columns)), depth] += 1
        for value in eqn.params.values():
            if isinstance(value, jax.extend.core.ClosedJaxpr):
                found += dot_products(value.jaxpr)
    return found


@pytest.mark.parametrize("case", CASES)
def test_parameters_and_dot_products_are_those_that_jax_sees(tmp_path: Path, case: str) -> None:
    config, changes = CASES[case]
    path = write(tmp_path, config, **changes)
    c = read_config(path, name=case, source="")
    params = model_params(c)
    tokens = jax.ShapeDtypeStruct((3, 10), jnp.int32)
    traced = dot_products(jax.make_jaxpr(lambda p, t: decoder(c, p, t))(params, tokens).jaxpr)

    workload = load_model(path, batch=3, seq=10)
    counted: Counter[tuple[int, frozenset[int], int]] = Counter()
    for gemm in workload.gemms:
        counted[gemm.batch, frozenset((gemm.m, gemm.n)), gemm.k] += gemm.count
    assert counted == traced
    assert workload.parameters == sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))
