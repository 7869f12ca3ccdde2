"""``systolic.run``: the function's own values, every matmul computed by the chip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import systolic
from systolic import Report, SystolicError
from systolic.numerics.bounds import product_bound

RNG = np.random.default_rng(7)


def whole(*sides: int) -> jax.Array:
    """Float32 with whole values: bf16 holds them, and sums below 2**24 are exact in any order."""
    return jnp.asarray(RNG.integers(-8, 9, sides), jnp.float32)


def int8(*sides: int) -> jax.Array:
    return jnp.asarray(RNG.integers(-128, 128, sides), jnp.int8)


def conv(**choices: Any) -> Callable[[Any, Any], Any]:
    return lambda x, w: jax.lax.conv_general_dilated(x, w, **choices)


@jax.checkpoint
def block(w: Any, x: Any) -> Any:
    return jnp.round((x @ w) / 8) @ w


def newton(n: Any, x: Any) -> Any:
    return jax.lax.fori_loop(0, n, lambda _, c: jnp.round((c @ c) / 100), x)


def layers(ws: Any, x: Any) -> Any:
    return jax.lax.scan(lambda c, w: (jnp.round((c @ w) / 10), c[0]), x, ws, reverse=True)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "grouped queries": (
        lambda a, b: jnp.einsum("btkgd,bskd->bkgts", a, b),
        (whole(2, 5, 3, 4, 6), whole(2, 7, 3, 6)),
    ),
    "int8 that wraps": (jnp.matmul, (int8(5, 300), int8(300, 7))),
    "int8 to int32": (
        lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.int32),
        (int8(5, 300), int8(300, 7)),
    ),
    "outer product": (lambda a, b: jnp.einsum("i,j->ij", a, b), (whole(3), whole(4))),
    "grouped, dilated convolution": (
        conv(window_strides=(2, 1), padding="SAME", feature_group_count=4, rhs_dilation=(2, 2)),
        (whole(2, 8, 9, 10), whole(16, 2, 3, 3)),
    ),
    "transposed convolution": (
        conv(window_strides=(1, 1), padding=[(1, -1), (2, 3)], lhs_dilation=(2, 3)),
        (whole(2, 8, 9, 10), whole(16, 8, 3, 3)),
    ),
    "channels last, grouped batch": (
        conv(
            window_strides=(1, 1),
            padding="VALID",
            batch_group_count=2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        ),
        (whole(4, 9, 8, 3), whole(3, 3, 3, 6)),
    ),
    "gradient of a convolution": (
        jax.grad(lambda w, x: conv(window_strides=(2, 2), padding="SAME")(x, w).sum()),
        (whole(4, 3, 3, 3), whole(2, 3, 9, 9)),
    ),
    "ragged groups": (jax.lax.ragged_dot, (whole(11, 4), whole(3, 4, 5), jnp.array([5, 0, 4]))),
    "gradient of ragged groups": (
        jax.grad(lambda w, a, g: jax.lax.ragged_dot(a, w, g).sum()),
        (whole(3, 4, 5), whole(11, 4), jnp.array([5, 0, 6])),
    ),
    "a loop": (newton, (3, whole(4, 4))),
    "a branch": (
        lambda p, x, w: jax.lax.cond(p, lambda x: (x @ w) @ w, lambda x: x @ w, x),
        (True, whole(4, 4), whole(4, 4)),
    ),
    "a scan from behind": (layers, (whole(5, 4, 4), whole(3, 4))),
    "an empty scan": (lambda ws, x, w: (layers(ws, x), x @ w), (whole(0, 4, 4), whole(3, 4), whole(4, 2))),
    "a mapped branch": (
        jax.vmap(lambda p, x: jax.lax.cond(p, lambda x: x @ x, lambda x: x, x)),
        (jnp.array([True, False]), whole(2, 4, 4)),
    ),
    "gradient of a checkpoint": (
        jax.value_and_grad(lambda w, x: block(w, x).sum()),
        (whole(4, 4), whole(3, 4)),
    ),
    "a nested jit": (
        jax.jit(lambda x, w: jax.nn.relu(jax.jit(jnp.matmul)(x, w))),
        (whole(3, 4), whole(4, 5)),
    ),
    "pytrees": (
        lambda model, x: {"out": model["w"] @ x, "model": model},
        ({"w": whole(3, 4), "name": "text", "f": len}, whole(4)),
    ),
    "nothing inside": (lambda x, w: x[:, :0] @ w[:0] + (x @ w), (whole(3, 4), whole(4, 2))),
}


@pytest.mark.parametrize("chip", ["tpu-v4", "teaching-4x4"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_numbers_come_out_as_jax_has_them(name: str, chip: str) -> None:
    fn, args = PROGRAMS[name]
    expected = fn(*args)
    try:
        out, _ = systolic.run(fn, *args, on=chip)
    except SystolicError as error:
        assert "multiplies" in str(error)  # a format that the chip lacks is refused by name
        return
    for a, b in zip(jax.tree.leaves(out), jax.tree.leaves(expected), strict=True):
        if hasattr(b, "dtype"):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        else:
            assert a is b


def shapes(report: Report) -> list[tuple[int, ...]]:
    return [(r.op.m, r.op.n, r.op.k, r.op.count) for r in report.chips[0].matmuls]


def test_loops_and_branches_are_counted_as_they_ran() -> None:
    """Newton iterations until nothing changes: only the run knows how many."""

    def root(a: Any) -> Any:
        def step(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            i, _, x = state
            return i + 1, x, jax.lax.cond(i % 2 == 0, lambda x: x @ a, lambda x: (x @ a) @ a, x)

        start = (jnp.int32(0), jnp.zeros_like(a), jnp.eye(len(a)))
        return jax.lax.while_loop(lambda s: (jnp.abs(s[2]) < 100).all(), step, start)

    a = 2 * jnp.eye(3)
    (iterations, _, out), report = systolic.run(root, a)
    assert (int(iterations), float(out[0, 0])) == (5, 128.0)  # 2, 8, 16, 64, 128: 7 products
    assert sum(row.op.count for row in report.chips[0].matmuls) == 7
    assert report.chips[0].totals.cycles > 0


def test_ragged_groups_are_counted_by_their_sizes() -> None:
    _, report = systolic.run(jax.lax.ragged_dot, whole(11, 4), whole(4, 4, 5), jnp.array([5, 0, 1, 5]))
    assert sorted(shapes(report)) == [(1, 5, 4, 1), (5, 5, 4, 2)]


def test_s56_float32_on_a_tpu_is_one_bf16_pass() -> None:
    """jax-ml/jax #9973, #1856, #7010: it looked plain wrong, and was bf16."""
    a, b = jnp.array([[0.3744, 0.1656], [0.4707, 0.1663]]), jnp.array([[0.3946, 0.1186], [0.1569, 0.3145]])
    out, report = systolic.run(jnp.matmul, a, b)
    bf16 = [[0.17405128, 0.09669876], [0.21180916, 0.10805416]]
    np.testing.assert_allclose(out, bf16, rtol=1e-7)
    assert report.chips[0].matmuls[0].precision == (
        "bf16 -> fp32 -> fp32 (fp32 operands rounded to bf16, one pass)"
    )
    exact, _ = systolic.run(jnp.matmul, a, b, on="teaching-4x4")  # multiplies fp32
    np.testing.assert_allclose(exact, [[0.17372088, 0.09648504], [0.21183069, 0.10812637]], rtol=1e-6)


def test_s61_int8_that_jax_wraps_is_reported() -> None:
    """jax-ml/jax #4465: the sums are [[-3596, 5320], [-2262, 8844]], stored as int8."""
    a = jnp.array([[-44, -20], [-126, 6]], jnp.int8)
    b = jnp.array([[24, -75], [127, -101]], jnp.int8)
    out, report = systolic.run(jnp.matmul, a, b)
    np.testing.assert_array_equal(out, [[-12, -56], [42, -116]])
    assert any(note.startswith("4 integer results do not fit") for note in report.chips[0].notes)
    wide = lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.int32)  # noqa: E731
    np.testing.assert_array_equal(systolic.run(wide, a, b)[0], [[-3596, 5320], [-2262, 8844]])


def test_s60_a_row_has_the_same_values_in_any_batch() -> None:
    """jax-ml/jax #26308: not demanded of a device; the array's order of sums does not depend on m."""
    x, w = (jnp.asarray(RNG.standard_normal(s, np.float32)) for s in ((50, 300), (300, 7)))
    first = [np.asarray(systolic.run(jnp.matmul, x[:m], w)[0])[0] for m in (1, 2, 5, 50)]
    for row in first[1:]:
        np.testing.assert_array_equal(row, first[0])


def test_s62_the_sum_is_wide_and_the_result_is_rounded_once() -> None:
    """jax-ml/ml_dtypes #63, jax-ml/jax #17214: 257 ones; and -207.66406, rounded to -208."""
    wide = lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32)  # noqa: E731
    ones = jnp.ones((1, 257), jnp.bfloat16)
    assert systolic.run(jnp.matmul, ones, ones.T)[0].item() == 256
    assert systolic.run(wide, ones, ones.T)[0].item() == 257
    a, b = jnp.array([[-1.6171875, 0.5703125]], jnp.bfloat16), jnp.array([[127.0], [-4.0]], jnp.bfloat16)
    assert systolic.run(jnp.matmul, a, b)[0].item() == -208
    assert systolic.run(wide, a, b)[0].item() == pytest.approx(-207.66406, abs=1e-5)


def test_s63_a_result_out_of_range_is_flagged() -> None:
    """cupy/cupy #6566: eight products of 100 by 100 are 80,000, more than fp16 holds."""
    a = jnp.full((1, 8), 100.0, jnp.float16)
    fp16 = {"array.lanes.fp16": 1}
    wide = lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32)  # noqa: E731
    assert systolic.run(wide, a, a.T, overrides=fp16)[0].item() == 80_000
    out, report = systolic.run(jnp.matmul, a, a.T, overrides=fp16)
    assert np.isinf(out).all()
    assert any("1 results lie beyond the range" in note for note in report.chips[0].notes)


def test_s64_integers_that_no_array_multiplies_are_refused() -> None:
    """stonne-simulator/stonne #27: they gave nonsense through the float path."""
    column, row = jnp.array([[3], [0], [1], [2]]), jnp.array([[0, 2, 2, 3]])
    with pytest.raises(SystolicError, match="dtype int32 must be one that the chip multiplies"):
        systolic.run(jnp.matmul, column, row)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_floats_lie_within_the_bound_of_the_precision(dtype: Any) -> None:
    """Both round the operands to bf16 and add up in fp32; the orders differ."""
    a, b = (jnp.asarray(RNG.standard_normal(s, np.float32), jnp.bfloat16) for s in ((30, 500), (500, 20)))
    out, _ = systolic.run(
        lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32), a.astype(dtype), b.astype(dtype)
    )
    wide_a, wide_b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    bound = product_bound(k=500, roundings=132, acc_dtype="fp32")  # chains of 128, four of them added
    allowed = bound.factor * (np.abs(wide_a) @ np.abs(wide_b)) + bound.floor
    difference = np.abs(np.asarray(out) - wide_a @ wide_b)
    assert (difference <= allowed).all()
    assert difference.max() > 0


def test_a_dead_matmul_is_not_computed() -> None:
    _, report = systolic.run(lambda x, w: (x @ w @ w, x @ w @ w @ w)[0], whole(2, 3), whole(3, 3))
    assert shapes(report) == [(2, 3, 3, 2)]


def test_a_second_run_sees_new_values_and_new_closures() -> None:
    w = whole(3, 3)
    closed = lambda x: x @ w  # noqa: E731
    x = whole(2, 3)
    np.testing.assert_array_equal(systolic.run(closed, x)[0], x @ w)
    w = w + 1
    np.testing.assert_array_equal(systolic.run(closed, x)[0], x @ w)
    np.testing.assert_array_equal(systolic.run(closed, x + 1)[0], (x + 1) @ w)
    first, second = (systolic.run(jnp.matmul, x, w)[1].to_dict()["chips"] for _ in range(2))
    assert first == second


def test_what_jax_computes_is_named() -> None:
    a = jnp.asarray(RNG.integers(0, 9, (3, 3)), jnp.uint8)
    out, report = systolic.run(lambda x, w, a: (x @ w, a @ a), whole(2, 3), whole(3, 2), a)
    np.testing.assert_array_equal(out[1], a @ a)
    chip = report.chips[0]
    assert any(
        n == "dot_general of uint8 x uint8: its matmuls were computed by JAX, not by the chip"
        for n in chip.notes
    )
    assert [missing.share for missing in chip.not_covered] == [27 / (27 + 12)]


def test_values_are_needed() -> None:
    with pytest.raises(SystolicError, match="run needs arrays with values"):
        systolic.run(jnp.matmul, jax.ShapeDtypeStruct((2, 3), jnp.float32), whole(3, 2))


def test_patching_the_reference_leaves_the_values_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = whole(2, 3), whole(3, 2)
    expected = np.asarray(x) @ np.asarray(w)
    fn = jax.jit(lambda x, w: jax.lax.dot(x, w))
    monkeypatch.setattr(jnp, "matmul", lambda *_, **__: pytest.fail("the chip computes, not jnp.matmul"))
    np.testing.assert_array_equal(systolic.run(fn, x, w)[0], expected)
