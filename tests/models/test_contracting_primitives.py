"""Never a silent zero: whatever multiplies and adds up two arrays is counted or named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core.primitives
import jax.numpy as jnp
import pytest
from jax import lax

from systolic.models.jaxpr import count_function
from systolic.models.trace import primitives
from systolic.models.trace.jax_params import MATMULS
from systolic.models.trace.program import Counted

INNER = {"scan", "while", "cond", "custom_linear_solve", "shard_map", "pallas_call"}
"""Primitives that hold programs and have a rule of their own."""


def f32(*sides: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sides, dtype)


X, W, IMAGE, KERNEL = f32(8, 4), f32(4, 6), f32(1, 4, 8, 8), f32(6, 4, 3, 3)
FP8, SCALE = f32(64, 64, dtype=jnp.float8_e4m3fn), f32(64, 2, dtype=jnp.float8_e8m0fnu)

CONTRACTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    # name: function, arguments, MACs by hand
    "dot": (lax.dot, (X, W), 192),
    "dot of vectors": (lax.dot, (f32(4), f32(4)), 4),
    "dot_general": (lambda x, w: lax.dot_general(x, w, (((1,), (0,)), ((), ()))), (X, W), 192),
    "batch_matmul": (lax.batch_matmul, (f32(3, 8, 4), f32(3, 4, 6)), 576),
    "scaled_dot": (
        lambda a, b, s: lax.scaled_dot(a, b, lhs_scale=s, preferred_element_type=jnp.float32),
        (FP8, FP8, SCALE),
        64**3,
    ),
    "ragged_dot": (lax.ragged_dot, (X, f32(2, 4, 6), f32(2, dtype=jnp.int32)), 192),
    "conv": (lambda x, k: lax.conv(x, k, (1, 1), "VALID"), (IMAGE, KERNEL), 36 * 6 * 4 * 9),
    "conv_with_general_padding": (
        lambda x, k: lax.conv_with_general_padding(x, k, (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1)),
        (IMAGE, KERNEL),
        64 * 6 * 4 * 9,
    ),
    "conv_transpose": (
        lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")),
        (IMAGE, KERNEL),
        256 * 6 * 4 * 9,
    ),
    "conv_general_dilated_local": (
        lambda x, k: lax.conv_general_dilated_local(x, k, (1, 1), "VALID", (3, 3)),
        (IMAGE, f32(6, 36, 6, 6)),
        36 * 6 * 36 + 36 * 36 * 9,  # and the windows, which JAX cuts out with a convolution
    ),
    "conv_general_dilated_patches": (
        lambda x: lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "VALID"),
        (IMAGE,),
        36 * 36 * 9,  # a group per feature
    ),
    "tensordot": (lambda a, b: jnp.tensordot(a, b, 2), (f32(5, 2, 3), f32(2, 3, 7)), 210),
    "inner": (jnp.inner, (X, X), 8 * 8 * 4),
    "vdot": (jnp.vdot, (f32(9), f32(9)), 9),
    "kron": (jnp.kron, (f32(2, 2), f32(3, 3)), 0),
    "convolve": (jnp.convolve, (f32(8), f32(3)), 30),
}


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_every_contraction_is_counted(name: str) -> None:
    fn, args, macs = CONTRACTIONS[name]
    counted = count_function(fn, *args)
    if macs:
        assert counted.workload.macs == macs
    else:  # an outer product: one multiply per element, nothing is added up
        assert counted.workload.ops[0].elements == jax.eval_shape(fn, *args).size
    assert counted.workload.not_covered == ()


def named(counted: Counted) -> dict[str, float | None]:
    return {missing.op: missing.share for missing in counted.workload.not_covered}


SQUARE, COLUMNS = f32(6, 6), f32(6, 3)
SOLVERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "triangular_solve": (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True), (SQUARE, COLUMNS)),
    "cholesky": (lax.linalg.cholesky, (SQUARE,)),
    "cholesky_update": (lax.linalg.cholesky_update, (SQUARE, f32(6))),
    "lu": (lax.linalg.lu, (SQUARE,)),
    "qr": (lax.linalg.qr, (SQUARE,)),
    "householder_product": (lax.linalg.householder_product, (SQUARE, f32(6))),
    "symmetric_product": (lax.linalg.symmetric_product, (COLUMNS, SQUARE)),
    "eigh": (lax.linalg.eigh, (SQUARE,)),
    "eig": (lax.linalg.eig, (SQUARE,)),
    "svd": (lax.linalg.svd, (SQUARE,)),
    "schur": (lax.linalg.schur, (SQUARE,)),
    "hessenberg": (lax.linalg.hessenberg, (SQUARE,)),
    "tridiagonal": (lax.linalg.tridiagonal, (SQUARE,)),
    "tridiagonal_solve": (lax.linalg.tridiagonal_solve, (*[f32(6)] * 3, COLUMNS)),
    "fft": (jnp.fft.rfft, (f32(64),)),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_every_factorisation_is_named(name: str) -> None:
    fn, args = SOLVERS[name]
    both = count_function(lambda x, w, *args: (x @ w, fn(*args)), X, W, *args)
    assert name in named(both)


def test_the_share_of_a_known_solver_is_that_of_its_macs() -> None:
    """n^2 / 2 MACs per right side: 6 * 6 / 2 * 3 = 54 beside 192 of the matmul."""
    fn, args = SOLVERS["triangular_solve"]
    counted = count_function(lambda x, w, *args: (x @ w, fn(*args)), X, W, *args)
    assert named(counted)["triangular_solve"] == pytest.approx(54 / (54 + 192))


def test_what_cannot_be_looked_into_is_named() -> None:
    def fn(x: Any, w: Any) -> Any:
        return jax.pure_callback(lambda y: y, f32(8, 6), x @ w)

    assert named(count_function(fn, X, W)) == {"pure_callback": None}


def test_every_primitive_of_jax_has_a_rule_or_is_named() -> None:
    """A new release of JAX that adds a primitive which takes two arrays has to be sorted in here."""
    modules = (lax, lax.linalg, jax.extend.core.primitives)
    found = {getattr(m, n).name for m in modules for n in dir(m) if n.endswith("_p")}
    not_covered = set(SOLVERS) | {"ormqr", "lu_pivots_to_permutation", "approx_top_k", "top_k", "sort"}
    not_covered |= {"igamma_grad_a", "random_gamma", "random_bits", "random_fold_in", "random_split"}
    not_covered |= {"rng_bit_generator", "rng_uniform", "threefry2x32", "custom_lin", "stage"}
    not_covered |= {"all_gather", "all_to_all", "pmax", "pmin", "ppermute", "psum", "ragged_all_to_all"}
    ruled = set(MATMULS) | INNER | primitives.CALLS | primitives.SCALAR_PROGRAMS
    assert {n for n in found - ruled - not_covered if not primitives.is_known(n)} == set()
