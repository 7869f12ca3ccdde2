"""Models of Flax (linen and nnx) and Equinox go in as they are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import systolic
from systolic import Gemm, load_model
from systolic.models.jaxpr import count_function

from .gpt2_flax import Gpt2


def f32(*sides: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sides, jnp.float32)


def multiset(gemms: Any) -> Counter[tuple[int, frozenset[int], int]]:
    """(batch, {m, n}, k) of each matmul: which operand is transposed is the writer's choice."""
    found: Counter[tuple[int, frozenset[int], int]] = Counter()
    for gemm in gemms:
        found[gemm.batch, frozenset((gemm.m, gemm.n)), gemm.k] += gemm.count
    return found


TOKENS = jax.ShapeDtypeStruct((2, 128), jnp.int32)


def test_gpt2_in_flax_has_the_matmuls_of_the_configuration() -> None:
    model = Gpt2()
    variables = jax.eval_shape(model.init, jax.random.key(0), TOKENS)
    counted = count_function(model.apply, variables, TOKENS)
    expected = load_model("gpt2", batch=2, seq=128)
    assert multiset(counted.workload.gemms) == multiset(expected.gemms)
    assert counted.workload.macs == expected.macs
    assert counted.workload.parameters == expected.parameters == 124_439_808  # the published total

    def loss(variables: Any, tokens: Any) -> Any:
        return nn.log_softmax(model.apply(variables, tokens))[..., 0].mean()

    gradient = count_function(jax.jit(jax.value_and_grad(loss)), variables, TOKENS)
    assert gradient.workload.macs == 3 * expected.macs


def test_gpt2_in_flax_reads_as_a_model() -> None:
    model = Gpt2()
    variables = jax.eval_shape(model.init, jax.random.key(0), TOKENS)
    counted = count_function(model.apply, variables, TOKENS)
    rows = {g.name: g for g in counted.workload.gemms}
    for name, n in (("c_attn", 2304), ("c_proj", 768), ("c_fc", 3072), ("mlp_proj", 768)):
        gemm = rows[f"Gpt2.h_*.{name}"]
        assert (gemm.n, gemm.count, gemm.layers, gemm.rhs_kind) == (n, 12, 12, "weight")
    assert Counter(p.gemm.rhs_kind for p in counted.products) == {"weight": 49, "activation": 24}


class Mlp(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up, self.down = nnx.Linear(8, 32, rngs=rngs), nnx.Linear(32, 8, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.down(nnx.relu(self.up(x)))


def is_the_mlp(gemms: list[Gemm], parameters: int) -> bool:
    shapes = [(g.m, g.n, g.k, g.rhs_kind) for g in gemms]
    return shapes == [(5, 32, 8, "weight"), (5, 8, 32, "weight")] and parameters == 8 * 32 * 2 + 32 + 8


def test_nnx_modules_as_argument_closed_over_split_and_jitted() -> None:
    model = Mlp(nnx.Rngs(0))
    graph, state = nnx.split(model)
    ways: list[tuple[Any, ...]] = [
        (lambda m, x: m(x), model),
        (nnx.jit(lambda m, x: m(x)), model),
        (lambda state, x: nnx.merge(graph, state)(x), state),
        (model,),
    ]
    for fn, *arguments in ways:
        work = count_function(fn, *arguments, f32(5, 8)).workload
        assert is_the_mlp(list(work.gemms), work.parameters)


def test_the_gradient_of_an_nnx_module() -> None:
    model = Mlp(nnx.Rngs(0))

    def step(model: Mlp, x: Any) -> Any:
        return nnx.value_and_grad(lambda m: (m(x) ** 2).mean())(model)

    counted = count_function(step, model, f32(5, 8))
    assert Counter(p.direction for p in counted.products) == {"forward": 2, "backward": 3}


def test_equinox_modules_with_their_functions_as_leaves() -> None:
    model = eqx.nn.MLP(8, 8, 32, 1, key=jax.random.key(0))
    batched = lambda model, x: jax.vmap(model)(x)  # noqa: E731
    for fn in (batched, eqx.filter_jit(batched)):
        work = count_function(fn, model, f32(5, 8)).workload
        assert is_the_mlp(list(work.gemms), work.parameters)
    gradient = eqx.filter_value_and_grad(lambda model, x: (jax.vmap(model)(x) ** 2).mean())
    assert count_function(gradient, model, f32(5, 8)).workload.phase == "train"


def test_equinox_attention() -> None:
    attention = eqx.nn.MultiheadAttention(4, 16, key=jax.random.key(0))
    counted = count_function(lambda model, x: model(x, x, x), attention, f32(10, 16))
    assert Counter(p.gemm.rhs_kind for p in counted.products) == {"weight": 4, "activation": 2}
    assert counted.workload.macs == 4 * 10 * 16 * 16 + 2 * 10 * 10 * 16


def test_run_works_under_the_users_pytrees() -> None:
    """Integer-valued weights and inputs: every sum is exact, so the chip's values are JAX's."""
    model = eqx.nn.MLP(8, 8, 32, 1, activation=jax.nn.relu, key=jax.random.key(0))
    arrays, static = eqx.partition(model, eqx.is_array)
    rounded = eqx.combine(jax.tree.map(lambda a: jnp.round(4 * a), arrays), static)
    x = jnp.asarray(np.random.default_rng(0).integers(-4, 5, (5, 8)), jnp.float32)
    fn = lambda model, x: {"out": jax.vmap(model)(x), "model": model}  # noqa: E731
    out, report = systolic.run(fn, rounded, x)
    np.testing.assert_array_equal(out["out"], fn(rounded, x)["out"])
    assert out["model"].activation is rounded.activation
    assert [row.macs for row in report.chips[0].matmuls] == [5 * 32 * 8, 5 * 8 * 32]

    linen = nn.Dense(6)
    variables = jax.tree.map(lambda a: jnp.round(8 * a), linen.init(jax.random.key(0), x))
    np.testing.assert_array_equal(systolic.run(linen.apply, variables, x)[0], linen.apply(variables, x))
