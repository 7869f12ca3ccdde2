"""Values of matmuls that do not depend on the kind of chip: exact integer sums, and rows in threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..numerics.rounding import integer_range

_ROWS_PER_TASK = 64


def integer_products(lhs: np.ndarray, rhs: np.ndarray, chain: int, acc: str) -> tuple[np.ndarray, int]:
    """Products of integers, summed in an integer format; where sums might not fit it, each wrap is counted.

    Parameters
    ----------
    lhs, rhs
        (batch, m, k) and (batch, k, n), integers.
    chain
        Products of a chain of sums, > 0; it matters for the count of wraps alone.
    acc
        Format of the sums.

    Returns
    -------
    out, overflows
        int32 (batch, m, n); wraps of sums.
    """
    out = np.empty((*lhs.shape[:2], rhs.shape[-1]), np.int32)
    low, high = integer_range(acc)
    largest = int(np.abs(lhs.astype(np.int64)).max()) * int(np.abs(rhs.astype(np.int64)).max())
    if largest * lhs.shape[-1] <= high:
        from ..kernels.values import chain_sums  # here, since counting cycles needs no compiler

        narrow = [np.ascontiguousarray(x, dtype=np.int32) for x in (lhs, rhs)]
        in_threads(narrow[0], narrow[1], lambda a, b, out: chain_sums(a, b, chain, out), out)
        return out, 0
    from ..kernels.values import chain_sums_wrapping

    overflows = 0
    for i in range(lhs.shape[0]):
        wide = np.empty(out.shape[1:], np.int64)
        a, b = (np.ascontiguousarray(x[i], dtype=np.int64) for x in (lhs, rhs))
        overflows += chain_sums_wrapping(a, b, chain, low, high - low + 1, wide)
        out[i] = wide.astype(np.int32)
    return out, overflows


def in_threads(a: np.ndarray, b: np.ndarray, kernel: Callable[..., Any], out: np.ndarray) -> None:
    """Fill `out` from several threads: rows are independent, so their number changes nothing.

    Parameters
    ----------
    a, b, out
        (batch, m, k), (batch, k, n) and (batch, m, n).
    kernel
        Called as ``kernel(rows of a[i], b[i], the same rows of out[i])``.
    """
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
