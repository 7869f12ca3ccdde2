"""What is to be computed: counts, formats, bytes, and what is refused."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.errors import SystolicError
from systolic.workload import Gemm, VectorOp, Workload

from . import strategies


def gemm(**fields: Any) -> Gemm:
    return Gemm(**{"m": 2, "n": 3, "k": 4, **fields})


def vector_op(**fields: Any) -> VectorOp:
    given = {"elements": 8, "vector_ops": 1, "read_elements": 8, "write_elements": 8}
    return VectorOp(**{"name": "v", "kind": "add", **given, **fields})


def problems(make: Any, **fields: Any) -> tuple[str, ...]:
    with pytest.raises(SystolicError) as caught:
        make(**fields)
    return caught.value.problems


def test_counts() -> None:
    op = gemm(batch=5, count=7, masked_macs=10)
    assert op.macs == 2 * 3 * 4 * 5 * 7
    assert op.useful_macs == op.macs - 7 * 10
    assert op.parameters == 3 * 4 * 5 * 7
    assert gemm(rhs_kind="kv_cache").parameters == gemm(tied_to="embedding").parameters == 0


def test_numpy_integers_become_python_ints() -> None:
    """2**31 cubed does not fit 64 bits; kept as NumPy integers the product would wrap to 0."""
    side = np.int64(2**31)
    op = gemm(m=side, n=side, k=side, masked_macs=np.int32(3))
    assert {type(getattr(op, f)) for f in ("m", "n", "k", "batch", "count", "masked_macs")} == {int}
    assert op.macs == 2**93
    assert type(vector_op(elements=np.uint8(200), parameters=np.int8(3)).parameters) is int


@pytest.mark.parametrize("value", [4.0, np.float32(4), "4", None, True, [4]])
@pytest.mark.parametrize("field", ["m", "n", "k", "batch", "count", "layers"])
def test_what_is_no_count(field: str, value: object) -> None:
    (line,) = problems(gemm, **{field: value})
    assert line.startswith(f"Gemm.{field} must be a whole number > 0, got ")


def test_all_mistakes_of_a_gemm_at_once() -> None:
    wrong = {"m": 0, "k": -1, "rhs_kind": "bias", "layout": "xx", "precision": "low", "out_at": "disk"}
    assert problems(gemm, **wrong, dtype="bf17", rhs_dtype="int9", masked_macs=-1) == (
        "Gemm.m must be > 0, got 0",
        "Gemm.k must be > 0, got -1",
        "Gemm.masked_macs must be >= 0, got -1",
        "Gemm.rhs_kind must be one of weight, activation, kv_cache, got 'bias'",
        "Gemm.layout must be one of nn, nt, tn, tt, got 'xx'",
        "Gemm.precision must be one of default, high, highest, got 'low'",
        "Gemm.out_at must be one of memory, chip, stream or None, got 'disk'",
        "Gemm.dtype must be a number format, got 'bf17'; did you mean 'bf16'?",
        "Gemm.rhs_dtype must be a number format, got 'int9'; did you mean 'int8'?",
    )


def test_a_matmul_cannot_be_masked_altogether() -> None:
    assert gemm(masked_macs=23).useful_macs == 1
    assert problems(gemm, masked_macs=24) == ("Gemm.masked_macs must be < batch*m*n*k, got 24",)


@pytest.mark.parametrize(
    ("formats", "rhs", "acc", "out"),
    [
        ({"dtype": "bfloat16"}, "bf16", "fp32", "bf16"),
        ({"dtype": jnp.float32}, "fp32", "fp32", "fp32"),
        ({"dtype": "int8"}, "int8", "int32", "int32"),
        (
            {"dtype": "bf16", "rhs_dtype": "int4"},
            "int4",
            "fp32",
            "bf16",
        ),  # W4A16
        ({"dtype": "int8", "rhs_dtype": "bf16"}, "bf16", "fp32", "bf16"),
        ({"dtype": "bf16", "out_dtype": "fp32"}, "bf16", "fp32", "fp32"),
        ({"dtype": "fp16", "acc_dtype": "fp16"}, "fp16", "fp16", "fp16"),
        ({"dtype": "bf16", "rhs_kind": "kv_cache", "rhs_dtype": "fp8"}, "fp8_e4m3", "fp32", "bf16"),
    ],
)
def test_formats(formats: dict[str, Any], rhs: str, acc: str, out: str) -> None:
    op = gemm(**formats)
    assert (op.rhs_dtype, op.acc_dtype, op.out_dtype) == (rhs, acc, out)


@pytest.mark.parametrize(
    ("lhs", "rhs"), [("bf16", "bf16"), ("fp32", "fp32"), ("int8", "bf16"), ("bf16", "int8")]
)
def test_default_result_is_the_one_of_jax(lhs: str, rhs: str) -> None:
    names = {"bf16": jnp.bfloat16, "fp32": jnp.float32, "int8": jnp.int8}
    operands = [jax.ShapeDtypeStruct((2, 2), names[d]) for d in (lhs, rhs)]
    result = jax.eval_shape(jnp.matmul, *operands).dtype
    assert gemm(dtype=lhs, rhs_dtype=rhs).out_dtype == gemm(dtype=result).dtype


def test_floats_are_not_summed_in_integers() -> None:
    assert problems(gemm, dtype="int8", rhs_dtype="bf16", acc_dtype="int32") == (
        "Gemm.acc_dtype must be a float format for int8 x bf16, got 'int32'",
    )


def test_bytes_of_operands() -> None:
    """scalesim-project/SCALE-Sim issue 24: words were taken for bytes. 64 cubed, worked by hand."""
    op = gemm(m=64, n=64, k=64, dtype="bf16", out_dtype="fp32")
    assert (op.lhs_bytes, op.rhs_bytes, op.out_bytes) == (8192, 8192, 16384)
    op = gemm(m=64, n=64, k=64, dtype="int8")
    assert (op.lhs_bytes, op.rhs_bytes, op.out_bytes) == (4096, 4096, 16384)
    op = gemm(m=1, n=3, k=1, rhs_dtype="int4")
    assert op.rhs_bytes == 2  # three halves of a byte, packed


def test_vector_op_refuses_what_is_no_count() -> None:
    assert problems(vector_op, elements=0, vector_ops=0.0, read_elements=False, parameters=-1) == (
        "VectorOp.elements must be > 0, got 0",
        "VectorOp.vector_ops must be a whole number >= 0, got 0.0",
        "VectorOp.read_elements must be a whole number >= 0, got False",
        "VectorOp.parameters must be >= 0, got -1",
    )
    assert problems(vector_op, dtype=None)[0].startswith("VectorOp.dtype must be a number format, got None")


def test_workload_refuses_what_is_wrong() -> None:
    assert problems(Workload, name="w", ops=(), phase="eval", batch=0, seq=1.5, kv_len=-1, dtype="bf17") == (
        "Workload.batch must be > 0, got 0",
        "Workload.seq must be a whole number > 0, got 1.5",
        "Workload.kv_len must be >= 0, got -1",
        "Workload.ops must hold at least one op, got none in 'w'",
        "Workload.phase must be one of prefill, decode, train, got 'eval'",
        "Workload.dtype must be a number format, got 'bf17'; did you mean 'bf16'?",
    )


def test_workload_sums_its_ops() -> None:
    work = Workload(
        name="w",
        ops=(gemm(count=2, dtype="int8"), vector_op(parameters=5, dtype="fp32"), gemm(rhs_kind="kv_cache")),
        dtype="bfloat16",
        kv_cache_elements=7,
    )
    assert len(list(work.gemms)) == 2
    assert work.macs == 3 * 24
    assert work.parameters == 2 * 12 + 5
    assert work.weight_bytes == 2 * 12 + 5 * 4
    assert (work.dtype, work.kv_cache_bytes) == ("bf16", 14)
    assert work.activation_bytes == 2 * 8 * 4  # the vector op's, in fp32


def test_with_dtype_changes_every_operand() -> None:
    work = Workload(name="w", ops=(gemm(rhs_dtype="int4"), vector_op())).with_dtype("s8")
    assert work.dtype == "int8"
    assert work.ops == (gemm(dtype="int8"), vector_op(dtype="int8"))


@given(strategies.gemms())
def test_laws_of_a_gemm(op: Gemm) -> None:
    assert 0 < op.useful_macs <= op.macs
    assert op.macs == op.count * op.batch * op.m * op.n * op.k
    assert op.parameters in (0, op.count * op.batch * op.k * op.n)


@given(st.dictionaries(st.sampled_from(sorted(Gemm.__dataclass_fields__)), strategies.scalars(), max_size=6))
def test_any_fields_are_a_gemm_or_a_plain_error(fields: dict[str, object]) -> None:
    try:
        assert gemm(**fields).macs > 0
    except SystolicError as error:
        assert error.problems


def test_idle_ops_hold_parameters_and_do_nothing_else() -> None:
    """Two experts of 6 x 5 see a row, three do not: 5 matrices lie in memory, 2 are read."""
    seen = Gemm(name="moe.up", batch=2, m=1, n=5, k=6)
    idle = Gemm(name="moe.up.idle", batch=3, m=1, n=5, k=6)
    workload = Workload(name="w", ops=(seen,), idle=(idle,))
    assert (workload.macs, workload.parameters, workload.active_parameters) == (60, 150, 60)
    assert workload.weight_bytes == 2 * 150
    assert workload.with_dtype("int8").weight_bytes == 150
    assert list(workload.gemms) == [seen]


def test_what_training_keeps_is_activation_memory() -> None:
    gemm = Gemm(name="g", m=2, n=3, k=4)
    plain = Workload(name="w", ops=(gemm,), phase="train")
    kept = Workload(name="w", ops=(gemm,), phase="train", saved_elements=1000)
    assert kept.activation_bytes - plain.activation_bytes == 2000
    assert kept.with_dtype("fp32").activation_bytes - plain.with_dtype("fp32").activation_bytes == 4000


def test_weights_and_cache_in_formats_of_their_own() -> None:
    """Activations, results, embedding tables and what is tied to them stay as they are."""
    ops = (
        gemm(name="w", out_dtype="fp32"),
        gemm(name="tied", tied_to="embed"),
        gemm(name="qk", rhs_kind="kv_cache"),
        gemm(name="ab", rhs_kind="activation"),
        vector_op(name="cache", kind="cache"),
        vector_op(name="embed", kind="gather"),
    )
    work = Workload(name="w", ops=ops, idle=(gemm(name="idle"),))
    small = work.with_storage("int4", "fp8")
    found = {
        op.name: op.rhs_dtype if isinstance(op, Gemm) else op.write_dtype for op in (*small.ops, *small.idle)
    }
    assert found == {
        "w": "int4",
        "tied": "bf16",
        "qk": "fp8_e4m3",
        "ab": "bf16",
        "cache": "fp8_e4m3",
        "embed": None,
        "idle": "int4",
    }
    assert [(op.dtype, op.out_dtype) for op in small.gemms][:2] == [("bf16", "fp32"), ("bf16", "bf16")]
    assert work.with_storage() is work
    assert small.with_dtype("bf16") == work.with_dtype("bf16")


def test_storage_of_what_states_its_own_formats_is_refused() -> None:
    work = Workload(name="f", ops=(gemm(),), stored=(("fp32", 10),))
    with pytest.raises(SystolicError, match="f states the formats of its arguments; change them there"):
        work.with_storage("int4")
    with pytest.raises(SystolicError, match="weight_dtype must be a number format, got 'int5'"):
        Workload(name="w", ops=(gemm(),)).with_storage("int5")
