"""Transformers written in JAX as the papers write them, sized by a :class:`Model`; for tracing alone."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp

from systolic.models.architecture import (
    Attention,
    Frames,
    Head,
    LatentAttention,
    Layers,
    Mlp,
    Model,
    Moe,
    Patches,
    Stack,
    Tokens,
)

Params = dict[str, Any]
Dots = Counter[tuple[int, frozenset[int], int]]


def shaped(*sides: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sides, jnp.float32)


# ---------------------------------------------------------------- parameters


def linear_params(inputs: int, outputs: int, bias: bool = False, batch: int = 0) -> Params:
    matrix = (batch, inputs, outputs) if batch else (inputs, outputs)
    return {"w": shaped(*matrix)} | ({"b": shaped(outputs)} if bias else {})


def norm_params(formula: str, width: int) -> Params:
    return {"gain": shaped(width)} | ({"b": shaped(width)} if formula == "layernorm" else {})


def attention_params(a: Attention, hidden: int) -> Params:
    q, kv = a.heads * a.head_dim, a.kv_heads * a.head_dim
    params = {"out": linear_params(q, hidden, "out" in a.biases)}
    if a.fused:
        params["qkv"] = linear_params(hidden, q + 2 * kv, "q" in a.biases)
    else:
        params |= {x: linear_params(hidden, q if x == "q" else kv, x in a.biases) for x in "qkv"}
    if a.head_norm:
        params |= {x: norm_params(a.head_norm, a.head_dim) for x in ("qn", "kn")}
    return params


def latent_params(a: LatentAttention, hidden: int) -> Params:
    q = a.heads * (a.nope_dim + a.rope_dim)
    params = {
        "kv_down": linear_params(hidden, a.kv_rank + a.rope_dim),
        "kv_norm": norm_params("rmsnorm", a.kv_rank),
        "k_up": shaped(a.heads, a.kv_rank, a.nope_dim),
        "v_up": shaped(a.heads, a.kv_rank, a.value_dim),
        "out": linear_params(a.heads * a.value_dim, hidden),
    }
    if a.q_rank is None:
        return params | {"q": linear_params(hidden, q)}
    down, up = linear_params(hidden, a.q_rank), linear_params(a.q_rank, q)
    return params | {"q_down": down, "q_norm": norm_params("rmsnorm", a.q_rank), "q_up": up}


def mlp_params(mlp: Mlp, hidden: int, batch: int = 0) -> Params:
    params = {"down": linear_params(mlp.width, hidden, mlp.bias, batch)}
    if mlp.fused and mlp.gated:
        return params | {"gate_up": linear_params(hidden, 2 * mlp.width, mlp.bias, batch)}
    names = ("gate", "up") if mlp.gated else ("up",)
    return params | {name: linear_params(hidden, mlp.width, mlp.bias, batch) for name in names}


def moe_params(moe: Moe, hidden: int) -> Params:
    params = {
        "router": linear_params(hidden, moe.experts),
        "experts": mlp_params(moe.expert, hidden, moe.experts),
    }
    if moe.router_bias:
        params["bias"] = shaped(moe.experts)
    if moe.shared:
        params["shared"] = mlp_params(moe.shared, hidden)
    if moe.shared_router:
        params["shared_router"] = linear_params(hidden, 1)
    return params


def layer_params(stack: Stack, kind: Layers, hidden: int) -> Params:
    if isinstance(kind.attention, LatentAttention):
        params = {"attn": latent_params(kind.attention, hidden)}
    else:
        params = {"attn": attention_params(kind.attention, hidden)}
    if kind.cross:
        params["cross"] = attention_params(kind.cross, hidden) | {"norm": norm_params(stack.norm, hidden)}
    norms = {"pre": 2, "post": 2, "sandwich": 4, "parallel": 1}[stack.arrangement]
    params["norms"] = [norm_params(stack.norm, hidden) for _ in range(norms)]
    part = kind.feed_forward
    return params | {"ff": moe_params(part, hidden) if isinstance(part, Moe) else mlp_params(part, hidden)}


def stack_params(stack: Stack, hidden: int) -> Params:
    part, params = stack.embedding, Params()
    if isinstance(part, Patches):
        params |= {"patches": linear_params(part.elements, hidden, part.bias), "class": shaped(hidden)}
        params["positions"] = shaped(part.tokens, hidden)
    elif isinstance(part, Frames):
        params |= {"conv1": linear_params(3 * part.bins, hidden, True)}
        params |= {"conv2": linear_params(3 * hidden, hidden, True), "positions": shaped(part.tokens, hidden)}
    else:
        rows = {"positions": part.positions, "types": part.types, "table": 0 if part.shared else part.vocab}
        params |= {name: shaped(count, hidden) for name, count in rows.items() if count}
        params |= {"norm": norm_params(stack.norm, hidden)} if part.norm else {}
    if stack.distance_buckets:
        params["distances"] = shaped(stack.distance_buckets, stack.layers[0].attention.heads)
    if stack.final_norm:
        params["final"] = norm_params(stack.norm, hidden)
    kinds = [kind for kind in stack.layers for _ in range(kind.count)]
    return params | {"layers": [layer_params(stack, kind, hidden) for kind in kinds]}


def head_params(head: Head) -> Params:
    params = linear_params(head.inputs, head.outputs, head.bias)
    if head.tied:
        del params["w"]
    return params | ({"norm": norm_params(head.norm, head.outputs)} if head.norm else {})


def model_params(model: Model) -> Params:
    stacks = {"encoder": model.encoder, "decoder": model.decoder}
    params = {name: stack_params(stack, model.hidden) for name, stack in stacks.items() if stack}
    return params | {"heads": [head_params(head) for head in model.heads]}


# ---------------------------------------------------------------- forward


def linear(p: Params, x: Any) -> Any:
    y = x @ p["w"]
    return y + p["b"] if "b" in p else y


def normed(p: Params, x: Any) -> Any:
    if "b" in p:
        x = x - x.mean(-1, keepdims=True)
    x = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p["gain"]
    return x + p["b"] if "b" in p else x


def attend(a: Attention, p: Params, x: Any, source: Any, distances: Any = 0.0) -> Any:
    batch, seq, _ = x.shape
    q_width, kv_width = a.heads * a.head_dim, a.kv_heads * a.head_dim
    if a.fused:
        q, k, v = jnp.split(linear(p["qkv"], x), (q_width, q_width + kv_width), -1)
    else:
        q, k, v = linear(p["q"], x), linear(p["k"], source), linear(p["v"], source)
    q = q.reshape(batch, seq, a.kv_heads, a.group, a.head_dim)
    k, v = (t.reshape(batch, -1, a.kv_heads, a.head_dim) for t in (k, v))
    if a.head_norm:
        q, k = normed(p["qn"], q), normed(p["kn"], k)
    scores = jnp.einsum("btkgd,bskd->bkgts", q, k) / math.sqrt(a.head_dim)
    if a.softcap:
        scores = 50 * jnp.tanh(scores / 50)
    weights = jax.nn.softmax(scores + distances)
    return linear(p["out"], jnp.einsum("bkgts,bskd->btkgd", weights, v).reshape(batch, seq, q_width))


def attend_latents(a: LatentAttention, p: Params, x: Any) -> Any:
    batch, seq, _ = x.shape
    q = (
        linear(p["q"], x)
        if a.q_rank is None
        else linear(p["q_up"], normed(p["q_norm"], linear(p["q_down"], x)))
    )
    q = q.reshape(batch, seq, a.heads, a.nope_dim + a.rope_dim)
    latent, k_rope = jnp.split(linear(p["kv_down"], x), (a.kv_rank,), -1)
    up = jnp.concatenate([p["k_up"], p["v_up"]], -1).transpose(1, 0, 2).reshape(a.kv_rank, -1)
    expanded = (normed(p["kv_norm"], latent) @ up).reshape(batch, seq, a.heads, a.nope_dim + a.value_dim)
    k, v = jnp.split(expanded, (a.nope_dim,), -1)
    k = jnp.concatenate([k, jnp.broadcast_to(k_rope[:, :, None], (*k.shape[:3], a.rope_dim))], -1)
    weights = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k))
    return linear(p["out"], jnp.einsum("bhts,bshd->bthd", weights, v).reshape(batch, seq, -1))


def attend_cached_latents(a: LatentAttention, p: Params, x: Any, cache: Any) -> Any:
    """The absorbed form; `cache` is (batch, keys, kv_rank + rope_dim), the new token included."""
    batch, seq, _ = x.shape
    q = (
        linear(p["q"], x)
        if a.q_rank is None
        else linear(p["q_up"], normed(p["q_norm"], linear(p["q_down"], x)))
    )
    q = q.reshape(batch, seq, a.heads, a.nope_dim + a.rope_dim)
    latent, rope = jnp.split(linear(p["kv_down"], x), (a.kv_rank,), -1)
    cache = cache.at[:, -1:].set(jnp.concatenate([normed(p["kv_norm"], latent), rope], -1))
    q_latent = jnp.einsum("bthd,hrd->bthr", q[..., : a.nope_dim], p["k_up"])
    q = jnp.concatenate([q_latent, q[..., a.nope_dim :]], -1)
    weights = jax.nn.softmax(jnp.einsum("bthr,bsr->bhts", q, cache))
    mixed = jnp.einsum("bhts,bsr->bthr", weights, cache[..., : a.kv_rank])
    return linear(p["out"], jnp.einsum("bthr,hrd->bthd", mixed, p["v_up"]).reshape(batch, seq, -1))


def feed(mlp: Mlp, p: Params, x: Any) -> Any:
    if mlp.gated and mlp.fused:
        gate, up = jnp.split(linear(p["gate_up"], x), 2, -1)
        return linear(p["down"], jax.nn.silu(gate) * up)
    up = linear(p["up"], x)
    return linear(p["down"], jax.nn.silu(linear(p["gate"], x)) * up if mlp.gated else jax.nn.gelu(up))


def mix(moe: Moe, p: Params, x: Any) -> Any:
    """Experts on the rows that an even spread gives them; which rows those are changes no shape."""
    rows = x.reshape(-1, x.shape[-1])
    weights = jax.nn.softmax(linear(p["router"], rows))
    least, more = divmod(len(rows) * moe.active, moe.experts)
    total, start = jnp.zeros_like(rows), 0
    for experts, seen in ((more, least + 1), (moe.experts - more, least)):
        if experts and seen:
            part = jax.tree.map(lambda t, n=experts, at=start: t[at : at + n], p["experts"])
            index = jnp.arange(experts * seen) % len(rows)
            out = feed(moe.expert, part, rows[index].reshape(experts, seen, -1)).reshape(experts * seen, -1)
            total = total.at[index].add(out * weights[index, :1])
        start += experts
    if moe.shared:
        shared = feed(moe.shared, p["shared"], rows)
        total = total + (
            jax.nn.sigmoid(linear(p["shared_router"], rows)) * shared if moe.shared_router else shared
        )
    return total.reshape(x.shape)


def embed(stack: Stack, p: Params, data: Any) -> Any:
    part = stack.embedding
    if isinstance(part, Patches):
        x = linear(p["patches"], data)
        first = jnp.broadcast_to(p["class"], (x.shape[0], 1, x.shape[2]))
        return jnp.concatenate([first, x], 1) + p["positions"]
    if isinstance(part, Frames):  # (batch, 2 tokens, bins), unfolded into windows of three
        for name, stride in (("conv1", 1), ("conv2", 2)):
            padded = jnp.pad(data, ((0, 0), (1, 1), (0, 0)))
            length = data.shape[1] // stride
            windows = [padded[:, i : i + data.shape[1] : stride][:, :length] for i in range(3)]
            data = jax.nn.gelu(linear(p[name], jnp.concatenate(windows, -1)))
        return data + p["positions"]
    x = p["table"][data]
    if part.positions:
        x = x + p["positions"][: data.shape[1]]
    if part.types:
        x = x + p["types"][jnp.zeros_like(data)]
    return normed(p["norm"], x) if part.norm else x


def run_stack(stack: Stack, p: Params, x: Any, source: Any = None) -> Any:
    distances = jnp.sum(p["distances"]) if stack.distance_buckets else 0.0
    kinds = [kind for kind in stack.layers for _ in range(kind.count)]
    for kind, q in zip(kinds, p["layers"], strict=True):
        norms = iter(q["norms"])

        def attention(y: Any, kind: Layers = kind, q: Params = q) -> Any:
            if isinstance(kind.attention, LatentAttention):
                return attend_latents(kind.attention, q["attn"], y)
            return attend(kind.attention, q["attn"], y, y, distances)

        def feed_forward(y: Any, kind: Layers = kind, q: Params = q) -> Any:
            part = kind.feed_forward
            return mix(part, q["ff"], y) if isinstance(part, Moe) else feed(part, q["ff"], y)

        if stack.arrangement == "parallel":
            y = normed(next(norms), x)
            x = x + attention(y) + feed_forward(y)
            continue
        x = half(stack, norms, attention, x)
        if kind.cross:
            x = x + attend(kind.cross, q["cross"], normed(q["cross"]["norm"], x), source)
        x = half(stack, norms, feed_forward, x)
    return normed(p["final"], x) if stack.final_norm else x


def half(stack: Stack, norms: Any, body: Any, x: Any) -> Any:
    if stack.arrangement == "post":
        return normed(next(norms), x + body(x))
    if stack.arrangement == "sandwich":
        inner = body(normed(next(norms), x))
        return x + normed(next(norms), inner)
    return x + body(normed(next(norms), x))


def apply(model: Model, params: Params, data: Any, source_data: Any = None) -> list[Any]:
    """Results of the heads behind those of the stack (one row of each sequence, and all)."""
    last = "decoder" if model.decoder else "encoder"
    table = params[last].get("table")
    source = None
    if model.encoder and model.decoder:
        shared = getattr(model.encoder.embedding, "shared", False)
        tables = {"table": table} if shared else {}
        source = run_stack(
            model.encoder, params["encoder"], embed(model.encoder, params["encoder"] | tables, source_data)
        )
    stack = model.decoder or model.encoder
    assert stack is not None
    x = run_stack(stack, params[last], embed(stack, params[last], data), source)
    results = [x[:, 0], x]
    for head, p in zip(model.heads, params["heads"], strict=True):
        # A head reads the one before it; the first one of sequences, or of tokens, reads the stack.
        y = next(y for y in reversed(results) if y.ndim == (2 if head.rows == "sequences" else 3))
        y = y @ (table.T if head.tied else p["w"])
        y = y + p["b"] if "b" in p else y
        results.append(normed(p["norm"], jax.nn.gelu(y)) if head.norm else y)
    return results


# ---------------------------------------------------------------- what JAX sees


def dot_products(jaxpr: Any) -> Dots:
    """(batch, {rows, columns}, depth) of each dot product; JAX may swap the two sides of one."""
    found: Dots = Counter()
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


def inputs_of(model: Model, batch: int, seq: int) -> tuple[Any, ...]:
    """What `apply` reads, as shapes: tokens, patches or frames of the last stack, then of the first."""

    def data(stack: Stack) -> Any:
        part = stack.embedding
        if isinstance(part, Patches):
            return shaped(batch, part.count, part.elements)
        if isinstance(part, Frames):
            return shaped(batch, 2 * part.tokens, part.bins)
        assert isinstance(part, Tokens)
        return jax.ShapeDtypeStruct((batch, seq), jnp.int32)

    return tuple(data(stack) for stack in (model.decoder, model.encoder) if stack)
