"""A Llama-3-70B decoder in JAX, its 80 layers written out one by one; shapes only."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

WIDTH, WIDE, LAYERS, HEADS, KV_HEADS, HEAD, VOCAB, LENGTH = 8192, 28672, 80, 64, 8, 128, 128256, 4096

Params = dict[str, Any]


def shaped(*sides: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sides, jnp.bfloat16)


def layer_params() -> Params:
    return {
        "q": shaped(WIDTH, HEADS * HEAD),
        "k": shaped(WIDTH, KV_HEADS * HEAD),
        "v": shaped(WIDTH, KV_HEADS * HEAD),
        "out": shaped(HEADS * HEAD, WIDTH),
        "gate": shaped(WIDTH, WIDE),
        "up": shaped(WIDTH, WIDE),
        "down": shaped(WIDE, WIDTH),
        "norms": shaped(2, WIDTH),
    }


def normed(x: Any, gain: Any) -> Any:
    scale = jax.lax.rsqrt((x.astype(jnp.float32) ** 2).mean(-1, keepdims=True) + 1e-5)
    return x * scale.astype(x.dtype) * gain


def layer(p: Params, x: Any) -> Any:
    batch, length, _ = x.shape
    y = normed(x, p["norms"][0])
    q, k, v = ((y @ p[name]).reshape(batch, length, -1, HEAD) for name in "qkv")
    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + mixed.reshape(batch, length, -1) @ p["out"]
    y = normed(x, p["norms"][1])
    return x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]


def model(params: Params, tokens: Any) -> Any:
    x = params["embed"][tokens]
    for i, p in enumerate(params["layers"]):
        with jax.named_scope(f"layer_{i}"):
            x = layer(p, x)
    return normed(x, params["norm"]) @ params["head"]


def model_args() -> tuple[Params, Any]:
    params = {
        "embed": shaped(VOCAB, WIDTH),
        "layers": [layer_params() for _ in range(LAYERS)],
        "norm": shaped(WIDTH),
        "head": shaped(WIDTH, VOCAB),
    }
    return params, jax.ShapeDtypeStruct((1, LENGTH), jnp.int32)
