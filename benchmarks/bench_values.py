"""The values of a matmul in the array's own order and rounding, beside ``jnp.matmul`` on the same cores."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import systolic

from .conftest import Promise

QKV = systolic.Gemm(m=1024, n=2304, k=768, dtype="fp32", name="attn.qkv")


def test_value_kernel(benchmark: Any, promise: Promise) -> None:
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    lhs = rng.standard_normal((1, QKV.m, QKV.k), np.float32)
    rhs = rng.standard_normal((1, QKV.k, QKV.n), np.float32)
    hook = systolic.matmul_hook(systolic.load_chip("tpu-v4"))
    a, b = jnp.asarray(lhs[0]), jnp.asarray(rhs[0])
    jax_seconds = []

    def jax_first() -> None:  # in turns, so that both meet the same load of the machine
        started = perf_counter()
        jnp.matmul(a, b).block_until_ready()
        jax_seconds.append(perf_counter() - started)

    jax_first()
    jax_seconds.clear()
    benchmark.pedantic(hook.values, args=(QKV, lhs, rhs), setup=jax_first, warmup_rounds=2, rounds=15)
    ours = benchmark.stats.stats.median
    benchmark.extra_info["jnp.matmul, MAC/s"] = QKV.macs / median(jax_seconds)
    benchmark.extra_info["values, MAC/s"] = QKV.macs / ours
    promise("values over jnp.matmul fp32", 100 * median(jax_seconds) / ours, "% of its MAC/s", at_least=20)
