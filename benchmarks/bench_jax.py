"""JAX functions: a large one traced and simulated, and one run on the simulated chip beside plain JAX."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import systolic

from .bench_commands import systolic as command
from .conftest import Promise

DECODER = Path(__file__).with_name("decoder_70b.py")


def test_70b_decoder(benchmark: Any, promise: Promise) -> None:
    arguments = ("run", f"{DECODER}:model", "--on", "tpu-v5p", "--check", "off")
    peak = benchmark.pedantic(command, args=arguments, rounds=3)
    promise("70B decoder written in JAX on tpu-v5p", benchmark.stats.stats.median, "s", at_most=10)
    promise("70B decoder written in JAX, memory", peak, "B", at_most=1.5e9)


def test_gpt2_on_the_chip(benchmark: Any, promise: Promise) -> None:
    """GPT-2 small in Flax, batch 1, sequence 128: after a first run of both, in turns."""
    import jax
    import jax.numpy as jnp

    from tests.models.gpt2_flax import Gpt2

    model, tokens = Gpt2(), jnp.arange(128)[None]
    variables = model.init(jax.random.key(0), tokens)
    plain = jax.jit(model.apply)
    jax_seconds = []

    def jax_first() -> None:
        started = perf_counter()
        plain(variables, tokens).block_until_ready()
        jax_seconds.append(perf_counter() - started)

    jax_first()
    jax_seconds.clear()
    benchmark.pedantic(
        systolic.run, args=(model.apply, variables, tokens), setup=jax_first, warmup_rounds=1, rounds=7
    )
    ratio = benchmark.stats.stats.median / median(jax_seconds)
    promise("systolic.run over jitted JAX, GPT-2", ratio, "x", at_most=5)
