"""Any JAX function as a workload.

Cases named S-… are public bug reports of FLOP counters and compilers, retold; each says whose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from systolic import Gemm, SystolicError
from systolic.models.jaxpr import count_function
from systolic.models.trace.program import Counted

SHAPES = jax.ShapeDtypeStruct


def f32(*sides: int) -> jax.ShapeDtypeStruct:
    return SHAPES(sides, jnp.float32)


def gemms(counted: Counted) -> list[Gemm]:
    return list(counted.workload.gemms)


def sides(counted: Counted) -> list[tuple[int, ...]]:
    """(batch, m, n, k, count) of each matmul."""
    return [(g.batch, g.m, g.n, g.k, g.count) for g in gemms(counted)]


def matmul(a: Any, b: Any) -> Any:
    return a @ b


def test_s49_a_dense_layer() -> None:
    """jax-ml/jax #20184, #16008, #22249: the compiler's cost analysis returned -1, or 511."""
    counted = count_function(
        lambda x, k, b: (x[:, None, :] @ k).squeeze() + b, f32(2, 73), f32(73, 256), f32(256)
    )
    assert counted.workload.macs == 37_376
    assert sides(counted) == [(1, 2, 256, 73, 1)]


def test_s50_a_scan_counts_every_iteration() -> None:
    """jax-ml/jax #18672, google/flax #3492: a loop over layers was counted once."""

    def layers(weights: Any, x: Any) -> Any:
        return jax.lax.scan(lambda carry, w: (carry @ w, None), x, weights)[0]

    counted = count_function(layers, f32(12, 16, 16), f32(8, 16))
    assert counted.workload.macs == 24_576
    assert sides(counted) == [(1, 8, 16, 16, 12)]
    assert counted.workload.parameters == 12 * 16 * 16


def repeated(n: Any, x: Any) -> Any:
    return jax.lax.fori_loop(0, n, lambda i, carry: carry @ carry, x)


@pytest.mark.parametrize("bound", [3, SHAPES((), jnp.int32)])
def test_s51_an_unknown_trip_count_is_asked_for(bound: object) -> None:
    with pytest.raises(
        SystolicError, match=r"one iteration has 64 MACs\); say it with --trip test_jaxpr.py:\d+=COUNT"
    ):
        count_function(repeated, bound, f32(4, 4))


def test_s51_a_given_trip_count_multiplies() -> None:
    line = repeated.__code__.co_firstlineno + 1
    counted = count_function(repeated, 3, f32(4, 4), trips={f"test_jaxpr.py:{line}": 7})
    assert sides(counted) == [(1, 4, 4, 4, 7)]
    with pytest.raises(SystolicError, match="trips must name one of the program's, got 'elsewhere'"):
        count_function(repeated, 3, f32(4, 4), trips={"elsewhere": 7})


@pytest.mark.parametrize(
    ("start", "step", "goes_on", "iterations"),
    [
        (0, 3, lambda i: i < 10, 4),
        (0, 3, lambda i: i <= 9, 4),
        (10, -1, lambda i: i > 0, 10),
        (10, -4, lambda i: i >= 2, 3),
        (0, 2, lambda i: i != 8, 4),
        (0, 1, lambda i: jnp.greater(5, i), 5),
        (5, 1, lambda i: i < 5, 0),
    ],
)
def test_a_counter_with_a_written_limit_tells_its_iterations(
    start: int, step: int, goes_on: Callable[[Any], Any], iterations: int
) -> None:
    """The same loop, run by Python, says how often."""
    i, runs = start, 0
    while goes_on(i):
        i, runs = i + step, runs + 1
    assert runs == iterations

    def loop(x: Any) -> Any:
        return (
            jax.lax.while_loop(lambda s: goes_on(s[0]), lambda s: (s[0] + step, s[1] @ s[1]), (start, x))[1]
            + x @ x
        )

    assert sum(g.count for g in gemms(count_function(loop, f32(4, 4)))) == iterations + 1


def test_s52_grouped_queries_read_each_key_once() -> None:
    """The einsum puts k first, which swaps the roles of M and N; k is 2 * 16 * 8 * 64 = 16,384 elements."""
    counted = count_function(
        lambda q, k: jnp.einsum("btkgd,bskd->bkgts", q, k), f32(2, 16, 8, 4, 64), f32(2, 16, 8, 64)
    )
    (gemm,) = gemms(counted)
    assert (gemm.batch, {gemm.m, gemm.n}, gemm.k, gemm.macs) == (16, {16, 64}, 64, 1_048_576)
    assert gemm.batch * gemm.k * min(gemm.m, gemm.n) == 16_384


def test_s53_a_shared_operand_of_a_vmap_folds_into_m() -> None:
    """Batching questions in ARM-software/SCALE-Sim #34."""
    shared = count_function(jax.vmap(matmul, in_axes=(0, None)), f32(5, 3, 4), f32(4, 6))
    assert sides(shared) == [(1, 15, 6, 4, 1)]
    assert shared.workload.parameters == 24
    mapped = count_function(jax.vmap(matmul), f32(5, 3, 4), f32(5, 4, 6))
    assert sides(mapped) == [(5, 3, 6, 4, 1)]
    assert mapped.workload.parameters == 120


def test_a_broadcast_operand_folds_like_a_shared_one() -> None:
    def fn(x: Any, w: Any) -> Any:
        return jnp.einsum("bij,bjk->bik", x, jnp.broadcast_to(w, (5, *w.shape)))

    assert sides(count_function(fn, f32(5, 3, 4), f32(4, 6))) == [(1, 15, 6, 4, 1)]


def test_s54_duplicate_work_is_counted_as_written() -> None:
    """jax-ml/jax #13956: the compiler merges it, so its count would be 1."""
    assert sides(count_function(lambda a: (a @ a) + (a @ a), f32(2048, 2048))) == [(1, 2048, 2048, 2048, 2)]


@jax.checkpoint
def two_matmuls(x: Any, w: Any) -> Any:
    return (x @ w) @ w


def test_s55_recomputed_and_backward_matmuls_are_labelled() -> None:
    """jax-ml/jax #2737: 2 forward, 1 recomputed, 3 backward of 1,024 MACs each; the sum needs no forward."""
    counted = count_function(jax.grad(lambda w, x: two_matmuls(x, w).sum()), f32(8, 8), f32(16, 8))
    directions = [p.direction for p in counted.traced]
    assert directions == ["forward"] * 2 + ["recomputed"] + ["backward"] * 3
    assert sum(p.gemm.macs for p in counted.traced) == 6_144
    assert (counted.traced_count, counted.live_count) == (6, 4)
    assert any("6 matmuls traced (6,144 MACs), 4 live" in note for note in counted.workload.notes)
    line = two_matmuls.__wrapped__.__code__.co_firstlineno + 2
    assert {p.source for p in counted.traced} == {f"test_jaxpr.py:{line} (two_matmuls)"}


def test_forward_and_backward_add_up_to_three_times_forward() -> None:
    def loss(params: Any, x: Any) -> Any:
        with jax.named_scope("net"):
            for w in params:
                x = jax.nn.gelu(x @ w)
        return (x**2).sum()

    params, x = [f32(8, 8)] * 3, f32(16, 8)
    forward = count_function(loss, params, x)
    both = count_function(jax.jit(jax.value_and_grad(loss, argnums=(0, 1))), params, x)
    assert both.workload.macs == 3 * forward.workload.macs
    backward = [p for p in both.products if p.direction == "backward"]
    assert {p.gemm.name for p in backward} == {"net (backward)"}
    assert sorted(p.gemm.rhs_kind for p in backward) == ["activation"] * 3 + ["weight"] * 3
    assert both.workload.phase == "train"


def test_both_branches_of_a_cond_are_shown() -> None:
    def fn(p: Any, x: Any, w: Any) -> Any:
        with jax.named_scope("gate"):
            return jax.lax.cond(p, lambda x: (x @ w) @ w, lambda x: x @ w, x)

    args = SHAPES((), jnp.bool_), f32(8, 8), f32(8, 8)
    counted = count_function(fn, *args)
    assert sides(counted) == [(1, 8, 8, 8, 2)]
    (note,) = (n for n in counted.workload.notes if "branch 0" in n)
    assert "1 matmuls of 1x8,8,8, 512 MACs" in note
    assert "2 matmuls of 1x8,8,8, 1,024 MACs" in note
    assert sides(count_function(fn, *args, branches={"gate": 0})) == [(1, 8, 8, 8, 1)]
    with pytest.raises(SystolicError, match="must be from 0 to 1, got 2"):
        count_function(fn, *args, branches={"gate": 2})


def test_what_an_unknown_loop_hides_is_still_named() -> None:
    def fn(n: Any, x: Any, w: Any) -> Any:
        return jax.lax.fori_loop(0, n, lambda _, c: jnp.linalg.cholesky(c), x), x @ w

    counted = count_function(fn, SHAPES((), jnp.int32), f32(4, 4), f32(4, 4))
    place = f"test_jaxpr.py:{fn.__code__.co_firstlineno + 1}"
    assert [missing.op for missing in counted.workload.not_covered] == [
        "cholesky",
        f"vector work of the loop at {place}, whose iterations are unknown",
    ]


def test_a_loop_that_never_runs_holds_nothing() -> None:
    def fn(x: Any, w: Any) -> Any:
        branch = lambda c: jax.lax.cond(c.sum() > 0, lambda c: c @ c, lambda c: c, c)  # noqa: E731
        return jax.lax.fori_loop(0, 0, lambda _, c: branch(c), x) @ w

    assert sides(count_function(fn, f32(4, 4), f32(4, 2))) == [(1, 4, 2, 4, 1)]


def test_a_mapped_cond_runs_both_branches() -> None:
    """A batch may take either, so JAX computes both and selects."""
    fn = jax.vmap(lambda p, x: jax.lax.cond(p, lambda x: x @ x, lambda x: x @ x.T @ x, x))
    counted = count_function(fn, SHAPES((3,), jnp.bool_), f32(3, 4, 4))
    assert counted.workload.macs == 3 * 3 * 4**3


def test_dead_code_is_told_from_live() -> None:
    def fn(x: Any, w: Any) -> Any:
        unused = x @ w
        return (x @ w @ w, unused)[0]

    counted = count_function(fn, f32(4, 8), f32(8, 8))
    assert (counted.traced_count, counted.live_count) == (3, 2)


def test_custom_derivatives_are_looked_into() -> None:
    @jax.custom_vjp
    def product(x: Any, w: Any) -> Any:
        return x @ w

    product.defvjp(lambda x, w: (x @ w, (x, w)), lambda saved, g: (g @ saved[1].T, saved[0].T @ g))
    plain = count_function(product, f32(4, 8), f32(8, 2))
    assert sides(plain) == [(1, 4, 2, 8, 1)]
    both = count_function(jax.value_and_grad(lambda w, x: product(x, w).sum()), f32(8, 2), f32(4, 8))
    assert [(p.direction, p.gemm.m, p.gemm.n, p.gemm.k) for p in both.products] == [
        ("forward", 4, 2, 8),
        ("backward", 8, 2, 4),
    ]
    relu = jax.custom_jvp(lambda x: x @ x)
    relu.defjvp(lambda primals, tangents: (relu(*primals), primals[0] @ tangents[0]))
    assert sides(count_function(relu, f32(4, 4))) == [(1, 4, 4, 4, 1)]


def test_a_sharded_body_counts_the_work_of_every_device() -> None:
    fn = jax.shard_map(
        lambda x, w: jax.lax.psum(x @ w, "x"),
        mesh=AbstractMesh((4,), ("x",)),
        in_specs=(PartitionSpec(None, "x"), PartitionSpec("x", None)),
        out_specs=PartitionSpec(),
    )
    counted = count_function(fn, f32(8, 16), f32(16, 4))
    assert sides(counted) == [(1, 8, 4, 4, 4)]
    assert any("4 devices" in note for note in counted.workload.notes)
    assert [missing.op for missing in counted.workload.not_covered] == ["psum_invariant"]


def test_a_pallas_kernel_runs_once_per_step_of_its_grid() -> None:
    from jax.experimental import pallas as pl

    def kernel(x: Any, w: Any, out: Any) -> None:
        out[...] = jnp.dot(x[...], w[...])

    def fn(x: Any, w: Any) -> Any:
        return pl.pallas_call(
            kernel,
            out_shape=f32(64, 64),
            grid=(4, 2),
            in_specs=[
                pl.BlockSpec((16, 32), lambda i, j: (i, 0)),
                pl.BlockSpec((32, 32), lambda i, j: (0, j)),
            ],
            out_specs=pl.BlockSpec((16, 32), lambda i, j: (i, j)),
        )(x, w)

    counted = count_function(fn, f32(64, 32), f32(32, 64))
    assert sides(counted) == [(1, 16, 32, 32, 8)]
    assert counted.workload.macs == 64 * 64 * 32
    assert gemms(counted)[0].rhs_kind == "weight"


def test_ragged_groups_are_taken_as_equally_long_and_said_so() -> None:
    fn = jax.lax.ragged_dot
    counted = count_function(fn, f32(11, 4), f32(3, 4, 5), SHAPES((3,), jnp.int32))
    assert sides(counted) == [(1, 4, 5, 4, 2), (1, 3, 5, 4, 1)]
    assert any("3 groups taken as equally long" in note for note in counted.workload.notes)
    gradient = jax.grad(lambda w, x, g: fn(x, w, g).sum())
    backward = count_function(gradient, f32(3, 4, 5), f32(11, 4), SHAPES((3,), jnp.int32))
    assert sides(backward) == [(1, 4, 5, 4, 2), (1, 4, 5, 3, 1)]


@pytest.mark.parametrize(
    ("window", "choices", "useful"),
    [
        ((3, 3), {"padding": "VALID"}, 14 * 14 * 9),
        ((3, 3), {"padding": "SAME"}, (3 * 16 - 2) ** 2),
        ((3, 3), {"padding": "SAME", "feature_group_count": 4}, (3 * 16 - 2) ** 2),
        ((3, 3), {"padding": "VALID", "rhs_dilation": (2, 2)}, 12 * 12 * 9),
        # Every other input of the transposed convolution is an inserted zero: 31 positions, 29 outputs.
        ((3, 3), {"padding": ((0, 0),) * 2, "lhs_dilation": (2, 2)}, (15 * 2 + 14 * 1) ** 2),
    ],
)
def test_convolutions_are_implicit_matmuls(
    window: tuple[int, int], choices: dict[str, Any], useful: int
) -> None:
    """`useful` taps per pair of features meet an input, worked out by hand."""
    groups = choices.get("feature_group_count", 1)
    fn = lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), **choices)  # noqa: E731
    x, w = f32(2, 8, 16, 16), f32(12, 8 // groups, *window)
    (gemm,) = gemms(count_function(fn, x, w))
    out = jax.eval_shape(fn, x, w).shape
    assert (gemm.batch, gemm.m, gemm.n, gemm.k) == (
        groups,
        2 * out[2] * out[3],
        12 // groups,
        8 // groups * 9,
    )
    assert gemm.useful_macs == 2 * 12 * (8 // groups) * useful


def test_attention_of_jax_nn_shares_keys_among_a_group_of_queries() -> None:
    counted = count_function(
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        f32(1, 16, 8, 4),
        *[f32(1, 16, 2, 4)] * 2,
    )
    assert [(g.batch, {g.m, g.n}, g.k) for g in gemms(counted)] == [(2, {64, 16}, 4), (2, {64, 4}, 16)]
    assert {g.rhs_kind for g in gemms(counted)} == {"activation"}


def test_formats_and_precision_come_from_the_program() -> None:
    lhs, rhs = SHAPES((4, 8), jnp.int8), SHAPES((8, 2), jnp.int8)
    (wide,) = gemms(count_function(lambda x, w: jnp.dot(x, w, preferred_element_type=jnp.int32), lhs, rhs))
    assert (wide.dtype, wide.acc_dtype, wide.out_dtype) == ("int8", "int32", "int32")
    narrow = count_function(matmul, lhs, rhs)
    assert any("the program stores the sums as int8" in note for note in narrow.workload.notes)
    bf16 = SHAPES((4, 4), jnp.bfloat16)
    (sums,) = gemms(
        count_function(lambda x, w: jnp.dot(x, w, preferred_element_type=jnp.float32), bf16, bf16)
    )
    assert (sums.dtype, sums.out_dtype) == ("bf16", "fp32")
    exact = lambda x, w: jnp.dot(x, w, precision="highest")  # noqa: E731
    assert gemms(count_function(exact, f32(4, 4), f32(4, 4)))[0].precision == "highest"


def test_a_format_that_no_chip_multiplies_is_named_with_its_share() -> None:
    def fn(x: Any, w: Any, a: Any) -> Any:
        return x @ w, jnp.dot(a, a)

    counted = count_function(fn, f32(4, 4), f32(4, 4), SHAPES((4, 4), jnp.uint8))
    (missing,) = counted.workload.not_covered
    assert missing.op == "fn: matmul of uint8 x uint8"
    assert missing.share == 0.5


def roles(fn: Callable[..., Any], *args: Any, **choices: Any) -> list[str]:
    return [p.gemm.rhs_kind for p in count_function(fn, *args, **choices).products]


def test_a_weight_is_what_comes_from_the_model_whatever_its_side() -> None:
    model, x = {"w": f32(6, 4)}, f32(4, 3)
    counted = count_function(lambda params, x: params["w"] @ x, model, x)
    assert sides(counted) == [(1, 3, 6, 4, 1)]  # the product of the transposed operands
    assert roles(lambda params, x: params["w"] @ x, model, x) == ["weight"]
    assert roles(lambda one, two: two @ one["w"].T, model, f32(3, 4)) == ["weight"]
    assert roles(lambda one, two: one @ two, f32(3, 4), f32(4, 6), params="one") == ["weight"]
    assert sides(count_function(matmul, f32(3, 4), f32(4, 6), params=0)) == [(1, 6, 3, 4, 1)]
    with pytest.raises(SystolicError, match="params must name arguments, got 'c'"):
        roles(matmul, f32(3, 4), f32(4, 6), params="c")


def test_what_is_computed_from_data_is_no_weight() -> None:
    def scores(params: Any, x: Any) -> Any:
        q, k = x @ params["q"], x @ params["k"]
        return q @ k.T

    assert roles(scores, {"q": f32(4, 4), "k": f32(4, 4)}, f32(8, 4)) == ["weight", "weight", "activation"]


def test_weights_that_are_cast_sliced_or_updated_stay_weights() -> None:
    def cast(params: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, x: x @ params[i].astype(jnp.bfloat16), x)

    assert roles(cast, f32(3, 4, 4), SHAPES((2, 4), jnp.bfloat16)) == ["weight"]

    def training(params: Any, x: Any) -> Any:
        gradient = jax.grad(lambda params: (x @ params).sum())
        return jax.lax.fori_loop(0, 5, lambda _, p: p - 0.1 * gradient(p) * (x @ p).sum(), params)

    assert roles(training, f32(4, 4), f32(2, 4)) == ["activation", "weight"]


def test_arrays_that_a_function_closes_over_are_weights() -> None:
    w = jnp.ones((4, 6))
    counted = count_function(lambda x: x @ w, f32(3, 4))
    assert gemms(counted)[0].rhs_kind == "weight"
    assert counted.workload.parameters == 24


def test_a_cache_is_read_as_a_cache() -> None:
    def decode(params: Any, cache: Any, x: Any, at: Any) -> Any:
        keys = jax.lax.dynamic_update_slice(cache["k"], (x @ params["k"])[:, None], (0, at, 0))
        return jnp.einsum("bd,bsd->bs", x @ params["q"], keys), {"k": keys}

    params = {"q": f32(4, 4), "k": f32(4, 4)}
    counted = count_function(decode, params, {"k": f32(2, 32, 4)}, f32(2, 4), SHAPES((), jnp.int32))
    assert [p.gemm.rhs_kind for p in counted.products] == ["weight", "weight", "kv_cache"]
    assert counted.workload.kv_cache_elements == 2 * 32 * 4


def test_a_shared_weight_counts_once_as_a_parameter() -> None:
    def tied(params: Any, x: Any) -> Any:
        for _ in range(3):
            x = x @ params["w"]
        return x @ params["embed"].T

    counted = count_function(tied, {"w": f32(4, 4), "embed": f32(10, 4)}, f32(2, 4))
    assert counted.workload.parameters == 16 + 40


def test_layers_written_one_by_one_are_one_row() -> None:
    def fn(params: Any, x: Any) -> Any:
        for i, (up, down) in enumerate(params):
            with jax.named_scope(f"layer_{i}"):
                x = jax.nn.relu(x @ up) @ down
        return x

    counted = count_function(fn, [(f32(4, 16), f32(16, 4))] * 5, f32(2, 4))
    assert [(g.name, g.count, g.layers, g.n) for g in gemms(counted)] == [
        ("layer_* #1", 5, 5, 16),
        ("layer_* #2", 5, 5, 4),
    ]


def test_a_function_that_holds_no_work_is_refused() -> None:
    with pytest.raises(SystolicError, match="nothing to simulate"):
        count_function(lambda x: x.T, f32(3, 4))
    with pytest.raises(SystolicError, match="missing a required argument: 'b'"):
        count_function(matmul, f32(3, 4))


def test_scalars_and_empty_products_are_no_work() -> None:
    counted = count_function(lambda x, w: x[:0] @ w + (x @ w).sum(), f32(3, 4), f32(4, 2))
    assert sides(counted) == [(1, 3, 2, 4, 1)]


@pytest.mark.parametrize("seed", range(20))
def test_any_dot_general_has_the_macs_of_its_definition(seed: int) -> None:
    """MACs are the elements of the result times those summed over, for any dimension numbers."""
    rng = np.random.default_rng(seed)
    batch, free_l, free_r, deep = (rng.integers(1, 5, rng.integers(0, 3)).tolist() for _ in range(4))
    left, right = rng.permutation(len(batch + free_l + deep)), rng.permutation(len(batch + free_r + deep))
    lhs, rhs = np.array(batch + deep + free_l, int)[left], np.array(batch + deep + free_r, int)[right]
    where_l, where_r = np.argsort(left).tolist(), np.argsort(right).tolist()
    b, c = len(batch), len(deep)
    numbers = ((where_l[b : b + c], where_r[b : b + c]), (where_l[:b], where_r[:b]))
    fn = lambda x, y: jax.lax.dot_general(x, y, numbers)  # noqa: E731
    args = f32(*lhs.tolist()), f32(*rhs.tolist())
    out = jax.eval_shape(fn, *args)
    assert count_function(fn, *args).workload.macs == out.size * int(np.prod(deep))
