"""Loops whose pace tells what a core can do: multiply-adds, a chain of known length, reads, a chase."""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from .compile import kernel

_FEATURES = llvmlite.binding.get_host_cpu_features()
FMA_LANES = 16 if _FEATURES.get("avx512f") else 8 if _FEATURES.get("fma") else 4
"""fp32 words of the widest vector that the host multiplies and adds."""
CHAINS = 12
"""Independent chains: more than the latency of a multiply-add times how many start per cycle."""
ROUND_CYCLES = 4
"""Cycles of a round of :func:`chain`: 3 to multiply and 1 for the exclusive or, on Intel since Nehalem and
AMD since Zen (uops.info)."""


def _plain_multiply_adds(rounds: int, factor: Any, term: Any) -> Any:
    """Twin of :func:`multiply_adds`, one lane a chain."""
    sums = np.arange(CHAINS, dtype=np.float64)
    for _ in range(rounds):
        sums = (sums * factor + term).astype(np.float32).astype(np.float64)
    return np.float32(sums.sum())


@intrinsic
def _llvm_multiply_adds(typing_context: Any, rounds: Any, factor: Any, term: Any) -> Any:
    return types.float32(types.int64, types.float32, types.float32), _emit_multiply_adds


def _emit_multiply_adds(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    single, index = ir.FloatType(), ir.IntType(64)
    vector = ir.VectorType(single, FMA_LANES)
    name = f"llvm.fma.v{FMA_LANES}f32"  # llvmlite names intrinsics of scalars only
    fused = builder.module.globals.get(name) or ir.Function(
        builder.module, ir.FunctionType(vector, [vector] * 3), name
    )
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), FMA_LANES), [0] * FMA_LANES)
    undefined, zero = ir.Constant(vector, ir.Undefined), ir.Constant(ir.IntType(32), 0)
    factor, term = (
        builder.shuffle_vector(builder.insert_element(undefined, arg, zero), undefined, lanes)
        for arg in args[1:]
    )
    entry, loop, done = builder.block, builder.append_basic_block("round"), builder.append_basic_block("sum")
    builder.branch(loop)
    builder.position_at_end(loop)
    count = builder.phi(index)
    count.add_incoming(ir.Constant(index, 0), entry)
    chains = [builder.phi(vector) for _ in range(CHAINS)]
    after = [builder.call(fused, [chain, factor, term]) for chain in chains]
    following = builder.add(count, ir.Constant(index, 1))
    count.add_incoming(following, loop)
    for start, (chain, result) in enumerate(zip(chains, after, strict=True)):
        chain.add_incoming(ir.Constant(vector, [float(start)] * FMA_LANES), entry)
        chain.add_incoming(result, loop)
    builder.cbranch(builder.icmp_signed("<", following, args[0]), loop, done)
    builder.position_at_end(done)
    total = ir.Constant(single, 0.0)
    for result in after:
        total = builder.fadd(total, builder.extract_element(result, zero))
    return total


multiply_adds = _plain_multiply_adds if numba.config.DISABLE_JIT else _llvm_multiply_adds
"""multiply_adds(rounds, factor, term): CHAINS vectors of FMA_LANES, each `rounds` times x = x · factor +
term, rounded once; returns the sum of their first lanes. Chain c begins with c.
"""


@kernel
def fma_rounds(rounds: int, factor: Any, term: Any) -> Any:
    """Run :func:`multiply_adds` (rounds > 0, float32 factor and term)."""
    return multiply_adds(rounds, factor, term)


@kernel
def chain(rounds: int, seed: Any) -> Any:
    """Return the end of a chain of ROUND_CYCLES cycles a round, on uint64, that no compiler shortens."""
    x = np.uint64(seed)
    for _ in range(rounds):
        x = np.uint64(x * np.uint64(6364136223846793005)) ^ np.uint64(x >> np.uint64(7))
    return x


@kernel
def read_words(words: Any, passes: int) -> int:
    """Read int64 `words` from first to last, `passes` times; return what depends on every one of them."""
    total = 0
    for turn in range(passes):
        part = 0
        for i in range(words.size):
            part ^= words[i]
        total += part ^ turn
    return total


@kernel
def follow(following: Any, start: int, steps: int) -> int:
    """Follow `following` (int64, an index at every index) for `steps` from `start`; return the last index."""
    at = start
    for _ in range(steps):
        at = following[at]
    return int(at)
