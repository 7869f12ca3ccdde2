"""What the arrays compute, bit for bit; no timing."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ... import dtypes
from ...chips.spec import TpuChip
from ...numerics.rounding import round_to
from ..base import Values
from .lowering import GemmStep

_ROWS_PER_TASK = 64


def values(step: GemmStep, chip: TpuChip, lhs: np.ndarray, rhs: np.ndarray) -> Values:
    """Values of the matmul for operands lhs (batch, m, k) and rhs (batch, k, n).

    Each PE multiplies, rounds, adds, rounds. Weight and input stationary start a chain at 0 in every
    array tile of k and the accumulators add chains in rising k; output stationary is one chain.
    """
    if step.mode == "stepped":
        return _stepped_values(step, chip, lhs, rhs)
    chain = lhs.shape[-1] if step.dataflow == "os" else chip.array.rows
    if dtypes.DTYPES[step.multiplied].kind == "int":
        return _integer_values(lhs, rhs, chain)
    a = np.ascontiguousarray(round_to(lhs.astype(np.float32, copy=False), step.multiplied))
    b = np.ascontiguousarray(round_to(rhs.astype(np.float32, copy=False), step.multiplied))
    out = np.empty((*lhs.shape[:2], rhs.shape[-1]), np.float32)
    _in_threads(a, b, chain, out)
    return Values(round_to(out, str(step.op.out_dtype)))


def _stepped_values(step: GemmStep, chip: TpuChip, lhs: np.ndarray, rhs: np.ndarray) -> Values:
    """The same values out of the registers of a stepped array."""
    from .stepped import step_matmul  # loads the compiler, which a tiled run does without

    is_float = dtypes.DTYPES[step.multiplied].kind == "float"
    blocks, overflows = [], 0
    for a, b in zip(lhs, rhs, strict=True):
        if is_float:
            a, b = (round_to(x.astype(np.float32, copy=False), step.multiplied) for x in (a, b))
        else:
            a, b = a.astype(np.int64), b.astype(np.int64)
        block, wraps = step_matmul(step, chip, a, b)
        blocks.append(block)
        overflows += wraps
    out = np.stack(blocks)
    return Values(round_to(out, str(step.op.out_dtype)) if is_float else out.astype(np.int32), overflows)


def _integer_values(lhs: np.ndarray, rhs: np.ndarray, chain: int) -> Values:
    """Integer sums in int32; where they might not fit, each wrap is counted."""
    out = np.empty((*lhs.shape[:2], rhs.shape[-1]), np.int32)
    largest = int(np.abs(lhs.astype(np.int64)).max()) * int(np.abs(rhs.astype(np.int64)).max())
    if largest * lhs.shape[-1] < 2**31:
        _in_threads(
            np.ascontiguousarray(lhs, dtype=np.int32), np.ascontiguousarray(rhs, dtype=np.int32), chain, out
        )
        return Values(out)
    from ...kernels.values import chain_sums_wrapping

    overflows = 0
    for i in range(lhs.shape[0]):
        wide = np.empty(out.shape[1:], np.int64)
        a, b = (np.ascontiguousarray(x[i], dtype=np.int64) for x in (lhs, rhs))
        overflows += chain_sums_wrapping(a, b, chain, -(2**31), 2**32, wide)
        out[i] = wide.astype(np.int32)
    return Values(out, overflows)


def _in_threads(a: np.ndarray, b: np.ndarray, chain: int, out: np.ndarray) -> None:
    """Fill `out` from several threads: rows are independent, so their number changes nothing."""
    from ...kernels.values import chain_sums  # here, since counting cycles needs no compiler

    rows = out.shape[1]
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    step = max(_ROWS_PER_TASK, -(-rows // threads))
    tasks = [(i, start) for i in range(out.shape[0]) for start in range(0, rows, step)]

    def run(task: tuple[int, int]) -> None:
        i, start = task
        chain_sums(a[i, start : start + step], b[i], chain, out[i, start : start + step])

    if len(tasks) == 1:
        run(tasks[0])
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, tasks))
