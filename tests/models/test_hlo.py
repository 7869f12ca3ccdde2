"""StableHLO from ``jax.export`` gives the workload of the function that was exported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import export

from systolic import SystolicError
from systolic.models.hlo import count_file
from systolic.models.jaxpr import count_function
from systolic.models.trace.program import Counted


def f32(*sides: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sides, jnp.float32)


def layers(params: Any, x: Any) -> Any:
    def layer(carry: Any, w: Any) -> Any:
        with jax.named_scope("layer"):
            return jax.nn.gelu(carry @ w), None

    return jax.nn.softmax(jax.lax.scan(layer, x, params["w"])[0] @ params["head"])


def loss(params: Any, x: Any) -> Any:
    return (layers(params, x) ** 2).sum()


PARAMS = {"w": f32(3, 8, 8), "head": f32(8, 5)}

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "layers": (layers, (PARAMS, f32(16, 8))),
    "gradient": (jax.value_and_grad(loss, argnums=(0, 1)), (PARAMS, f32(16, 8))),
    "convolution": (
        lambda x, w: jax.lax.conv_general_dilated(
            x, w, (1, 2), "SAME", rhs_dilation=(2, 1), feature_group_count=2
        ),
        (f32(2, 4, 9, 10), f32(6, 2, 3, 3)),
    ),
    "integers": (
        lambda x, w: jnp.dot(x, w, preferred_element_type=jnp.int32),
        (jax.ShapeDtypeStruct((4, 8), jnp.int8), jax.ShapeDtypeStruct((8, 2), jnp.int8)),
    ),
    "attention": (lambda q, k, v: jax.nn.dot_product_attention(q, k, v), (f32(1, 16, 4, 8),) * 3),
    "highest": (lambda x, w: jnp.dot(x, w, precision="highest"), (f32(4, 8), f32(8, 2))),
}


def shapes(counted: Counted) -> list[tuple[Any, ...]]:
    return sorted(
        (
            g.batch,
            min(g.m, g.n),
            max(g.m, g.n),
            g.k,
            g.dtype,
            g.out_dtype,
            g.precision,
            g.masked_macs,
            g.count,
        )
        for g in (p.gemm for p in counted.products)
    )


def write(path: Path, exported: export.Exported) -> Path:
    match path.suffix:
        case ".mlir":
            path.write_text(exported.mlir_module())
        case ".mlirbc":
            path.write_bytes(exported.mlir_module_serialized)
        case _:
            path.write_bytes(exported.serialize())
    return path


@pytest.mark.parametrize("suffix", [".mlir", ".mlirbc", ".jaxexport"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_exported_function_has_the_matmuls_of_the_function(tmp_path: Path, name: str, suffix: str) -> None:
    fn, args = PROGRAMS[name]
    exported = export.export(jax.jit(fn))(*args)
    counted = count_file(write(tmp_path / f"file{suffix}", exported))
    assert shapes(counted) == shapes(count_function(fn, *args))
    assert counted.workload.not_covered == ()


def test_names_lines_and_parameters_travel_with_the_text(tmp_path: Path) -> None:
    exported = export.export(jax.jit(layers))(PARAMS, f32(16, 8))
    counted = count_file(write(tmp_path / "file.mlir", exported))
    first = counted.products[0]
    assert first.gemm.name == "layer"
    assert first.source == f"test_hlo.py:{layers.__code__.co_firstlineno + 3}"
    assert [p.gemm.rhs_kind for p in counted.products] == ["weight", "weight"]
    assert counted.workload.parameters == 3 * 64 + 40


def test_branches_and_loops_of_unknown_length(tmp_path: Path) -> None:
    def fn(n: Any, p: Any, x: Any) -> Any:
        y = jax.lax.fori_loop(0, n, lambda _, c: c @ c, x)
        return jax.lax.cond(p, lambda x: x @ x @ x, lambda x: x @ x, y)

    integer, flag = jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((), jnp.bool_)
    path = write(tmp_path / "file.mlirbc", export.export(jax.jit(fn))(integer, flag, f32(4, 4)))
    line = fn.__code__.co_firstlineno + 1
    with pytest.raises(SystolicError, match=f"--trip test_hlo.py:{line}=COUNT"):
        count_file(path)
    counted = count_file(path, trips={f"test_hlo.py:{line}": 5})
    assert counted.workload.macs == (5 + 2) * 64
    assert any("branch 1" in note and "128 MACs" in note for note in counted.workload.notes)


def test_a_call_out_of_the_program_is_named(tmp_path: Path) -> None:
    exported = export.export(jax.jit(lambda x, w: jnp.linalg.cholesky(x @ w)))(f32(4, 4), f32(4, 4))
    counted = count_file(write(tmp_path / "file.mlir", exported))
    assert [missing.op for missing in counted.workload.not_covered] == ["custom_call lapack_spotrf_ffi"]


@pytest.mark.parametrize("content", [b"", b"module {", b"ML\xefR nonsense", b"\xff\xfe\x00", b"hello"])
def test_what_is_no_stablehlo_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file.mlir").write_bytes(content)
    with pytest.raises(SystolicError, match=r"file\.mlir: "):
        count_file(tmp_path / "file.mlir")
    with pytest.raises(SystolicError, match="cannot be read"):
        count_file(tmp_path / "none.mlir")
