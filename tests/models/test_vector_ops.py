"""Vector operations per element, counted in the jaxpr of each defining formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from systolic.models.vector_ops import ACTIVATIONS, OPS_PER_ELEMENT, softmax

ROWS, WIDTH = 3, 8
X = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32)
VEC = jax.ShapeDtypeStruct((WIDTH,), jnp.float32)
MASK = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.bool_)

# A unit with one slot takes two operations for a division: a reciprocal and a multiply.
COST = {"div": 2, "broadcast_in_dim": 0, "concatenate": 0, "slice": 0}


def layernorm(x: Any, gain: Any, bias: Any) -> Any:
    centred = x - jnp.sum(x, -1, keepdims=True) / WIDTH
    variance = jnp.sum(centred * centred, -1, keepdims=True) / WIDTH
    return centred * jax.lax.rsqrt(variance + 1e-5) * gain + bias


def rmsnorm(x: Any, gain: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) / WIDTH + 1e-5) * gain


def softmax_formula(x: Any, mask: Any) -> Any:
    scores = jax.lax.select(mask, x * 0.125, jnp.full_like(x, -1e9))
    weights = jnp.exp(scores - jnp.max(scores, -1, keepdims=True))
    return weights * (1 / jnp.sum(weights, -1, keepdims=True))


def rope(x: Any, cos: Any, signed_sin: Any) -> Any:
    rotated = jnp.concatenate([x[:, WIDTH // 2 :], x[:, : WIDTH // 2]], -1)
    return x * cos + rotated * signed_sin


def gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * (x * x * x))))


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
    "add": (lambda x, y: x + y, (X, X)),
    "multiply": (lambda x, y: x * y, (X, X)),
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


@pytest.mark.parametrize("name", ["gelu", "gelu_new", "silu", "relu"])
def test_formulas_are_the_functions_they_are_named_after(name: str) -> None:
    library = {
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "gelu_new": jax.nn.gelu,
        "silu": jax.nn.silu,
        "relu": jax.nn.relu,
    }
    x = jnp.linspace(-4, 4, 33)
    assert jnp.allclose(FORMULAS[ACTIVATIONS[name]][0](x), library[name](x), atol=1e-5)


def test_softmax_reads_and_writes_all_scores() -> None:
    op = softmax("attn.softmax", rows=12, keys=5)
    assert (op.elements, op.read_elements, op.write_elements, op.fused_into) == (60, 60, 60, "")
