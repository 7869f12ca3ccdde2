"""Vector operations per element, counted in the jaxpr of each defining formula and of its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from systolic.models.training import GRADIENTS
from systolic.models.vector_ops import ACTIVATIONS, OPS_PER_ELEMENT, route, softmax

ROWS, WIDTH = 3, 8
X = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32)
VEC = jax.ShapeDtypeStruct((WIDTH,), jnp.float32)
ROW = jax.ShapeDtypeStruct((ROWS, 1), jnp.float32)
MASK = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.bool_)
C, A = 0.7978845608, 0.044715

# A unit with one slot takes two operations for a division: a reciprocal and a multiply.
COST = {"div": 2, "broadcast_in_dim": 0, "concatenate": 0, "slice": 0}


def layernorm(x: Any, gain: Any, bias: Any) -> Any:
    centred = x - jnp.sum(x, -1, keepdims=True) / WIDTH
    variance = jnp.sum(centred * centred, -1, keepdims=True) / WIDTH
    return centred * jax.lax.rsqrt(variance + 1e-5) * gain + bias


def rmsnorm(x: Any, gain: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) / WIDTH + 1e-5) * gain


def unscaled_softmax(x: Any) -> Any:
    weights = jnp.exp(x - jnp.max(x, -1, keepdims=True))
    return weights * (1 / jnp.sum(weights, -1, keepdims=True))


def softmax_formula(x: Any, mask: Any) -> Any:
    return unscaled_softmax(jax.lax.select(mask, x * 0.125, jnp.full_like(x, -1e9)))


def rope(x: Any, cos: Any, signed_sin: Any) -> Any:
    rotated = jnp.concatenate([x[:, WIDTH // 2 :], x[:, : WIDTH // 2]], -1)
    return x * cos + rotated * signed_sin


def gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + jnp.tanh(C * (x + A * (x * x * x))))


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + jax.lax.erf(x * 0.7071067812))


FORMULAS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "layernorm": (layernorm, (X, VEC, VEC)),
    "rmsnorm": (rmsnorm, (X, VEC)),
    "softmax": (softmax_formula, (X, MASK)),
    "rope": (rope, (X, X, X)),
    "gelu_tanh": (gelu_tanh, (X,)),
    "gelu": (gelu, (X,)),
    "silu": (lambda x: x / (1 + jnp.exp(-x)), (X,)),
    "relu": (lambda x: jax.lax.max(x, 0.0), (X,)),
    "tanh": (jnp.tanh, (X,)),
    "softcap": (lambda x: 50 * jnp.tanh(x * 0.02), (X,)),
    "add": (lambda x, y: x + y, (X, X)),
    "bias": (lambda x, b: x + b, (X, VEC)),
    "scores": (lambda x, terms: x + terms, (X, X)),
    "multiply": (lambda x: x * 0.5, (X,)),
    "gate": (lambda x, y: x * y, (X, X)),
    "rows": (lambda x, row: x * row, (X, ROW)),
    "route": (unscaled_softmax, (X,)),
    "combine": (lambda x, row: jnp.sum(x * row, 0), (X, ROW)),
    "loss": (lambda x, onehot: unscaled_softmax(x) - onehot, (X, X)),
}


def layernorm_gradient(x: Any, gain: Any, _: Any, g: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def from_kept(x: Any, mean: Any, scale: Any, gain: Any, g: Any) -> Any:
        z = (x - mean) * scale
        weighted = g * gain
        a = jnp.sum(weighted, -1, keepdims=True) / WIDTH
        b = jnp.sum(weighted * z, -1, keepdims=True) / WIDTH
        return scale * (weighted - a - z * b), jnp.sum(g * z, 0), jnp.sum(g, 0)

    return from_kept, (x, mean, scale, gain, g)


def rmsnorm_gradient(x: Any, gain: Any, g: Any) -> Any:
    scale = jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def from_kept(x: Any, scale: Any, gain: Any, g: Any) -> Any:
        z = x * scale
        weighted = g * gain
        b = jnp.sum(weighted * z, -1, keepdims=True) / WIDTH
        return scale * (weighted - z * b), jnp.sum(g * z, 0)

    return from_kept, (x, scale, gain, g)


def softmax_gradient(x: Any, mask: Any, g: Any) -> Any:
    p = softmax_formula(x, mask)
    return (lambda p, g: (p * (g - jnp.sum(g * p, -1, keepdims=True)) * 0.125,)), (p, g)


def route_gradient(x: Any, g: Any) -> Any:
    return (lambda p, g: (p * (g - jnp.sum(g * p, -1, keepdims=True)),)), (unscaled_softmax(x), g)


def rope_gradient(x: Any, cos: Any, sin: Any, g: Any) -> Any:
    turned = jnp.concatenate([sin[:, WIDTH // 2 :], sin[:, : WIDTH // 2]], -1)
    return (lambda g, cos, turned: (rope(g, cos, turned),)), (g, cos, turned)


def silu_gradient(x: Any, g: Any) -> Any:
    def from_kept(x: Any, g: Any) -> Any:
        s = jax.lax.integer_pow(1 + jnp.exp(-x), -1)  # a reciprocal
        return (g * s * (1 + x * (1 - s)),)

    return from_kept, (x, g)


def gelu_gradient(x: Any, g: Any) -> Any:
    def from_kept(x: Any, g: Any) -> Any:
        below = 0.5 * (1 + jax.lax.erf(x * 0.7071067812))
        density = jnp.exp(x * x * -0.5) * 0.3989422804
        return (g * (below + x * density),)

    return from_kept, (x, g)


def gelu_tanh_gradient(x: Any, g: Any) -> Any:
    def from_kept(x: Any, g: Any) -> Any:
        square = x * x
        t = jnp.tanh(C * (x * (1 + A * square)))
        slope = (1 - t * t) * (C * (1 + 3 * A * square))
        return (g * ((1 + t) * 0.5 + 0.5 * x * slope),)

    return from_kept, (x, g)


def softcap_gradient(x: Any, g: Any) -> Any:
    def from_kept(y: Any, g: Any) -> Any:
        t = y * 0.02
        return (g * (1 - t * t),)

    return from_kept, (50 * jnp.tanh(x * 0.02), g)


BACKWARD: dict[str, Callable[..., Any]] = {
    "layernorm": layernorm_gradient,
    "rmsnorm": rmsnorm_gradient,
    "softmax": softmax_gradient,
    "route": route_gradient,
    "rope": rope_gradient,
    "silu": silu_gradient,
    "gelu": gelu_gradient,
    "gelu_tanh": gelu_tanh_gradient,
    "relu": lambda x, g: ((lambda x, g: (jax.lax.select(x > 0, g, jnp.zeros_like(g)),)), (x, g)),
    "tanh": lambda x, g: ((lambda t, g: (g * (1 - t * t),)), (jnp.tanh(x), g)),
    "softcap": softcap_gradient,
    "bias": lambda _, b, g: ((lambda g: (g, jnp.sum(g, 0))), (g,)),
    "multiply": lambda _, g: ((lambda g: (g * 0.5,)), (g,)),
    "gate": lambda x, y, g: ((lambda x, y, g: (g * y, g * x)), (x, y, g)),
    "rows": lambda x, row, g: (
        (lambda x, row, g: (g * row, jnp.sum(g * x, -1, keepdims=True))),
        (x, row, g),
    ),
}


def whole_size_operations(function: Callable[..., Any], arguments: tuple[Any, ...]) -> int:
    """Operations that touch every element of X; work per row is left out."""
    equations = jax.make_jaxpr(function)(*arguments).jaxpr.eqns
    return sum(
        COST.get(eqn.primitive.name, 1)
        for eqn in equations
        if any(getattr(v.aval, "size", 0) == ROWS * WIDTH for v in (*eqn.invars, *eqn.outvars))
    )


def test_every_count_has_a_formula() -> None:
    assert set(FORMULAS) == {name for name, ops in OPS_PER_ELEMENT.items() if ops}
    assert set(ACTIVATIONS.values()) <= set(FORMULAS)


@pytest.mark.parametrize("name", FORMULAS)
def test_count_is_that_of_the_formula(name: str) -> None:
    assert OPS_PER_ELEMENT[name] == whole_size_operations(*FORMULAS[name])


def test_everything_but_the_loss_and_the_cache_has_a_gradient() -> None:
    """The loss yields its own; training writes no cache. Sums, moves and weighted sums are plain."""
    assert set(GRADIENTS) == set(OPS_PER_ELEMENT) - {"loss", "cache"}
    assert set(GRADIENTS) - set(BACKWARD) == {"add", "scores", "combine", "gather", "permute"}


@pytest.mark.parametrize("name", BACKWARD)
def test_gradient_is_right_and_counted(name: str) -> None:
    """The formula gives what ``jax.vjp`` gives, and takes the operations of the table."""
    function, shapes = FORMULAS[name]
    rng = np.random.default_rng(0)
    inputs = [
        jnp.asarray(rng.random(s.shape) < 0.7)
        if s.dtype == jnp.bool_
        else jnp.asarray(rng.standard_normal(s.shape, np.float32))
        for s in shapes
    ]
    g = jnp.asarray(rng.standard_normal((ROWS, WIDTH), np.float32))
    formula, kept = BACKWARD[name](*inputs, g)
    ours = jax.jit(formula)(*kept)
    theirs = jax.jit(lambda *args: jax.vjp(function, *args)[1](g))(*inputs)
    for mine, reference in zip(ours, theirs, strict=False):
        np.testing.assert_allclose(mine, reference, rtol=1e-3, atol=1e-4)
    assert GRADIENTS[name][0] == whole_size_operations(formula, kept)


@pytest.mark.parametrize("name", ["gelu", "gelu_new", "silu", "relu", "tanh"])
def test_formulas_are_the_functions_they_are_named_after(name: str) -> None:
    library = {
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "gelu_new": jax.nn.gelu,
        "silu": jax.nn.silu,
        "relu": jax.nn.relu,
        "tanh": jnp.tanh,
    }
    x = jnp.linspace(-4, 4, 33)
    assert jnp.allclose(FORMULAS[ACTIVATIONS[name]][0](x), library[name](x), atol=1e-5)


def test_softmax_reads_and_writes_all_scores() -> None:
    op = softmax("attn.softmax", rows=12, keys=5)
    assert (op.elements, op.read_elements, op.write_elements, op.fused_into) == (60, 60, 60, "")


def test_route_selects_by_passes_of_comparisons() -> None:
    op = route("moe.route", tokens=10, experts=8, active=2, parameters=8)
    assert (op.elements, op.vector_ops, op.read_elements, op.write_elements) == (80, 5 + 2, 88, 40)
