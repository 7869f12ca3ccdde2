"""Matmuls on a device of JAX: compiled ahead, inputs in place, completion awaited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from ..errors import SystolicError, raise_if_any
from ..workload import Gemm

JAX_NAMES = {
    "fp32": "float32",
    "tf32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "int8": "int8",
    "int4": "int4",
    "int32": "int32",
}
"""Number format -> JAX's name. tf32 is float32 at default precision, on devices that multiply it so."""

PROBED_BITS = 23
PROBE_SIDE = 256
"""Fraction bits of float32, which the probe tries; sides of its matrices, so that the device takes the
kernels that it takes for matmuls."""

OBSERVED = {23: "fp32", 10: "tf32", 7: "bf16"}
"""Fraction bits that survive a multiplication by 1 -> the format that has them."""


def devices(kind: str | None) -> list[Any]:
    """One device of each kind that JAX has, or of the kind asked for.

    Raises
    ------
    SystolicError
        If JAX has no such device; the text names those that it has.
    """
    import jax

    there: dict[str, Any] = {}
    for platform in ("cpu", "gpu", "tpu"):
        try:
            there[platform] = jax.devices(platform)[0]
        except RuntimeError:
            continue
    if kind is None:
        return list(there.values())
    if kind not in there:
        raise SystolicError(f"--device must be one that JAX has here ({', '.join(there)}), got {kind!r}")
    return [there[kind]]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A compiled matmul and its inputs on a device.

    Attributes
    ----------
    call
        Runs it on the inputs whose turn it is, and returns when the result is there.
    compile_s, transfer_s
        Seconds that compiling, and bringing the inputs, took.
    rotated_bytes
        Bytes of all inputs together.
    """

    call: Callable[[int], object]
    compile_s: float
    transfer_s: float
    rotated_bytes: int


def prepare(gemm: Gemm, device: Any, *, copies: int, seed: int) -> Prepared:
    """Compile a matmul for a device and put `copies` sets of inputs there, N(0, 1) from `seed`.

    Raises
    ------
    SystolicError
        If the device does not multiply the format.
    """
    import jax

    wait: Any = jax.block_until_ready
    shapes = _shapes(gemm)
    names = [_name(dtype) for dtype in (gemm.dtype, str(gemm.rhs_dtype), str(gemm.out_dtype))]
    begun = perf_counter()
    try:
        struct: Any = jax.ShapeDtypeStruct
        there = jax.sharding.SingleDeviceSharding(device)
        arguments = [struct(s, name, sharding=there) for s, name in zip(shapes, names[:2], strict=True)]
        compiled = jax.jit(_product(gemm, names[2])).lower(*arguments).compile()
    except Exception as error:  # whatever the compiler of a device raises for a format that it lacks
        reason = str(error).splitlines()[0][:200]
        raise SystolicError(
            f"{device.device_kind}: no matmul of {gemm.dtype} x {gemm.rhs_dtype}: {reason}"
        ) from error
    compiled_at = perf_counter()
    random = np.random.default_rng(seed)
    plain = [
        [_random(random, s, name) for s, name in zip(shapes, names[:2], strict=True)] for _ in range(copies)
    ]
    ready = perf_counter()
    sets = [[jax.device_put(array, device) for array in inputs] for inputs in plain]
    wait(sets)
    moved = perf_counter()

    def call(number: int) -> object:
        return compiled(*sets[number % copies]).block_until_ready()

    size = sum(array.nbytes for inputs in plain for array in inputs)
    return Prepared(call=call, compile_s=compiled_at - begun, transfer_s=moved - ready, rotated_bytes=size)


def observed_precision(device: Any, dtype: str, precision: str) -> str:
    """The format that a device's matmul in `dtype` is seen to use inside.

    A matrix whose first column is 1 + 2**-t, times one whose first row is 1, gives the column back as far as
    the multipliers keep t fraction bits; all other products are 0, so that nothing is rounded in the sums.
    """
    import jax
    import jax.numpy as jnp

    if dtype not in ("fp32", "tf32"):
        return dtype
    side = PROBE_SIDE
    lhs, rhs = np.zeros((PROBED_BITS, side, side), np.float32), np.zeros((side, side), np.float32)
    rhs[0] = 1
    lhs[:, :, 0] = 1 + 2.0 ** -np.arange(1, PROBED_BITS + 1)[:, None]
    product = jax.jit(lambda a, b: jnp.matmul(a, b, precision=precision))
    kept = 0
    for bits in range(1, PROBED_BITS + 1):
        operands = (jax.device_put(array, device) for array in (lhs[bits - 1], rhs))
        if np.asarray(product(*operands))[0, 0] == lhs[bits - 1, 0, 0]:
            kept = bits
    return OBSERVED.get(kept, f"{kept} fraction bits")


def _product(gemm: Gemm, out: str) -> Callable[[Any, Any], Any]:
    """What is timed: one dot_general with the layouts and formats of the matmul."""
    import jax

    contracting = ((1 if gemm.layout[0] == "t" else 2,), (2 if gemm.layout[1] == "t" else 1,))

    def product(lhs: Any, rhs: Any) -> Any:
        dims = (contracting, ((0,), (0,)))
        wide = out if out in ("int32", "float32") else None
        done = jax.lax.dot_general(lhs, rhs, dims, precision=gemm.precision, preferred_element_type=wide)
        return done.astype(out)

    if gemm.batch > 1:
        return product
    return lambda lhs, rhs: product(lhs[None], rhs[None])[0]


def _shapes(gemm: Gemm) -> list[tuple[int, ...]]:
    lead = (gemm.batch,) if gemm.batch > 1 else ()
    lhs = (gemm.k, gemm.m) if gemm.layout[0] == "t" else (gemm.m, gemm.k)
    rhs = (gemm.n, gemm.k) if gemm.layout[1] == "t" else (gemm.k, gemm.n)
    return [(*lead, *lhs), (*lead, *rhs)]


def _name(dtype: str) -> str:
    if dtype not in JAX_NAMES:
        raise_if_any([f"dtype {dtype} has no name in JAX; use one of {', '.join(JAX_NAMES)}"])
    return JAX_NAMES[dtype]


def _random(random: np.random.Generator, shape: tuple[int, ...], name: str) -> Any:
    import jax.numpy as jnp

    dtype = jnp.dtype(name)
    if name.startswith("int"):
        return random.integers(-8, 8, shape).astype(np.int8).astype(dtype)
    return random.standard_normal(shape, np.float32).astype(dtype)
