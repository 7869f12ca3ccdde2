"""What the arrays compute, bit for bit; no timing."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ... import dtypes
from ...chips.tpu import TpuChip
from ...numerics.parts import PRODUCTS, interleave, parts_of, split
from ...numerics.rounding import integer_range, round_to
from ..base import Values
from .lowering import GemmStep

_ROWS_PER_TASK = 64


def values(step: GemmStep, chip: TpuChip, lhs: np.ndarray, rhs: np.ndarray) -> Values:
    """Values of the matmul for operands lhs (batch, m, k) and rhs (batch, k, n).

    Each PE multiplies, rounds, adds, rounds. Weight and input stationary start a chain at 0 in every
    array tile of k and the accumulators add chains in rising k; output stationary is one chain. Where a
    product takes several passes, these follow one another within each tile of k (output stationary: within
    each element of k), smallest products first.
    """
    if step.mode == "stepped":
        return _stepped_values(step, chip, lhs, rhs)
    depth = lhs.shape[-1]
    chain = depth if step.dataflow == "os" else min(depth, chip.array.rows)
    if not step.formats.is_float:
        return _integer_values(lhs, rhs, chain, step.formats.acc)
    a, b = entering_parts(step, lhs, rhs)
    pairs = PRODUCTS[step.formats.passes]
    if len(pairs) > 1:
        group = 1 if step.dataflow == "os" else chain
        chain *= len(pairs) if step.dataflow == "os" else 1
        a = [interleave(a, [i for i, _ in pairs], 2, group)]
        b = [interleave(b, [j for _, j in pairs], 1, group)]
    out = np.empty((*lhs.shape[:2], rhs.shape[-1]), np.float32)
    _in_threads(a[0], b[0], _float_kernel(chain, step.formats.acc), out)
    return Values(returned(step, out))


def entering_parts(step: GemmStep, lhs: np.ndarray, rhs: np.ndarray) -> tuple[list[np.ndarray], ...]:
    """Both operands as they enter the multipliers: float32 parts, largest first, or one int64 part."""
    formats, op = step.formats, step.op
    if not formats.is_float:
        return [lhs.astype(np.int64)], [rhs.astype(np.int64)]

    def parts(x: np.ndarray, stored: str, entering: str) -> list[np.ndarray]:
        x = np.ascontiguousarray(x, np.float32)
        count = parts_of(formats.passes)
        if dtypes.DTYPES[stored].kind == "int":
            return [x, *([np.zeros_like(x)] * (count - 1))]
        return split(round_to(x, stored), count, entering)

    return parts(lhs, op.dtype, formats.lhs), parts(rhs, str(op.rhs_dtype), formats.rhs)


def returned(step: GemmStep, sums: np.ndarray) -> np.ndarray:
    """Float sums in the format of the result; those of integers are whole, and saturate."""
    out_dtype = step.formats.out
    if dtypes.DTYPES[out_dtype].kind == "float":
        return round_to(sums, out_dtype)
    return np.clip(sums.astype(np.float64), *integer_range(out_dtype)).astype(np.int32)


def _stepped_values(step: GemmStep, chip: TpuChip, lhs: np.ndarray, rhs: np.ndarray) -> Values:
    """The same values out of the registers of a stepped array."""
    from .stepped import step_matmul  # loads the compiler, which a tiled run does without

    blocks, overflows = [], 0
    a, b = entering_parts(step, lhs, rhs)
    for i in range(lhs.shape[0]):
        block, wraps = step_matmul(step, chip, [part[i] for part in a], [part[i] for part in b])
        blocks.append(block)
        overflows += wraps
    out = np.stack(blocks)
    return Values(returned(step, out) if step.formats.is_float else out.astype(np.int32), overflows)


def _integer_values(lhs: np.ndarray, rhs: np.ndarray, chain: int, acc: str) -> Values:
    """Integer sums; where they might not fit the accumulator, each wrap is counted."""
    out = np.empty((*lhs.shape[:2], rhs.shape[-1]), np.int32)
    low, high = integer_range(acc)
    largest = int(np.abs(lhs.astype(np.int64)).max()) * int(np.abs(rhs.astype(np.int64)).max())
    if largest * lhs.shape[-1] <= high:
        from ...kernels.values import chain_sums  # here, since counting cycles needs no compiler

        narrow = [np.ascontiguousarray(x, dtype=np.int32) for x in (lhs, rhs)]
        _in_threads(narrow[0], narrow[1], lambda a, b, out: chain_sums(a, b, chain, out), out)
        return Values(out)
    from ...kernels.values import chain_sums_wrapping

    overflows = 0
    for i in range(lhs.shape[0]):
        wide = np.empty(out.shape[1:], np.int64)
        a, b = (np.ascontiguousarray(x[i], dtype=np.int64) for x in (lhs, rhs))
        overflows += chain_sums_wrapping(a, b, chain, low, high - low + 1, wide)
        out[i] = wide.astype(np.int32)
    return Values(out, overflows)


def _float_kernel(chain: int, acc: str) -> Callable[..., Any]:
    """The kernel that sets out = A @ B in chains of `chain`, summed in format `acc`."""
    from ...kernels.values import chain_sums, chain_sums_rounding

    if acc == "fp32":
        return lambda a, b, out: chain_sums(a, b, chain, out)
    dropped = dtypes.DTYPES["fp32"].precision - dtypes.DTYPES[acc].precision
    return lambda a, b, out: chain_sums_rounding(a, b, chain, dropped, out)


def _in_threads(a: np.ndarray, b: np.ndarray, kernel: Callable[..., Any], out: np.ndarray) -> None:
    """Fill `out` from several threads: rows are independent, so their number changes nothing."""
    rows = out.shape[1]
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    step = max(_ROWS_PER_TASK, -(-rows // threads))
    tasks = [(i, start) for i in range(out.shape[0]) for start in range(0, rows, step)]

    def run(task: tuple[int, int]) -> None:
        i, start = task
        kernel(a[i, start : start + step], b[i], out[i, start : start + step])

    if len(tasks) == 1:
        run(tasks[0])
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, tasks))
