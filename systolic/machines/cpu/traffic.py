"""Bytes through the ports of main memory and the caches, all cores together."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import ceil

from ...blocks.cache import CacheHierarchy
from ...blocks.nest import Matrices, naive, reordered
from ...chips.caches import Cache
from ...chips.cpu import LEVELS, CpuChip
from ...dtypes import DTYPES
from ...result import Traffic
from ...workload import Gemm
from .blocking import Blocks, Share, blocks_of
from .loops import body_of
from .steps import LOOPS, Kernel

Bytes = dict[str, dict[str, Traffic]]

MOST_ACCESSES = 1 << 24
"""Accesses of one row of the result that are stepped; of a longer row a part is, and scaled."""


def bytes_of(op: Gemm, kernel: Kernel, dtype: str, chip: CpuChip, share: Share, whole: bool) -> Bytes:
    """Traffic of one occurrence of a matmul.

    Parameters
    ----------
    op, kernel, dtype, chip, share
        The matmul, what runs it, the format that it is multiplied in, and the busiest core's part.
    whole
        Whether a nest is stepped to the end; else its first two rows are, and the others are as the second.
    """
    if kernel in LOOPS:
        return _walked(op, kernel, chip, share, whole)
    return _packed(op, dtype, chip, share, blocks_of(kernel, dtype, chip), kernel)


def compulsory(op: Gemm) -> dict[str, Traffic]:
    """Every operand read once, the result written once."""
    return {
        "lhs": Traffic(op.lhs_bytes, 0),
        "rhs": Traffic(op.rhs_bytes, 0),
        "out": Traffic(0, op.out_bytes),
    }


def accesses_of(op: Gemm, kernel: Kernel) -> int:
    """Loads and stores of a loop nest, one for each element."""
    per_mac = 2 if kernel == "naive" else 3
    return op.batch * op.m * op.n * op.k * per_mac


def _walked(op: Gemm, kernel: Kernel, chip: CpuChip, share: Share, whole: bool) -> Bytes:
    """Operands walked where they lie, through the caches of one core and its part of L3."""
    size = max(1, DTYPES[op.dtype].bits // 8)
    caches = _caches_of_one_core(chip, share.cores)
    rows = share.m if whole else min(2, share.m)
    part = 1 if whole else max(1, ceil(share.n * op.k * 3 / MOST_ACCESSES))
    n = ceil(share.n / part)
    first = _stepped(kernel, op.layout, rows if whole else 1, n, op.k, size, caches)
    both = _stepped(kernel, op.layout, rows, n, op.k, size, caches) if rows > 1 and not whole else first
    runs = share.matmuls * share.cores * part
    least = compulsory(op)
    macs = op.batch * op.m * op.n * op.k
    l1 = {
        "lhs": Traffic((macs if kernel == "naive" else op.batch * op.m * op.k) * size, 0),
        "rhs": Traffic(macs * size, 0),
        "out": Traffic(0, op.out_bytes)
        if kernel == "naive"
        else Traffic(macs * size, max(macs * size, op.out_bytes)),
    }
    table: Bytes = {}
    for level, (at_first, at_both) in zip(("l2", "l3", "dram"), zip(first, both, strict=True), strict=True):
        repeats = 0 if whole else max(0, share.m - 1)
        # A part of a row does not show what is left of rhs for the next row: all of it is loaded again.
        later = at_first if part > 1 else tuple(b - a for a, b in zip(at_first, at_both, strict=True))
        read, written = (runs * (a + repeats * b) for a, b in zip(at_first, later, strict=True))
        again = Traffic(max(0, read - op.lhs_bytes - op.rhs_bytes), max(0, written - op.out_bytes))
        table[level] = {**least, "other": again}
    table["l1"] = l1
    return {level: table[level] for level in LEVELS}


def _caches_of_one_core(chip: CpuChip, cores: int) -> tuple[tuple[int, int, int], ...]:
    """(bytes, ways, line bytes) of L1, L2 and one core's equal part of L3."""
    found = []
    for level in ("l1", "l2", "l3"):
        cache = chip.memory[level]
        unit = cache.ways * cache.line_bytes
        held = cache.bytes // (cores if level == "l3" else 1)
        found.append((max(unit, held // unit * unit), cache.ways, cache.line_bytes))
    return tuple(found)


@lru_cache(maxsize=256)
def _stepped(
    kernel: Kernel,
    layout: str,
    m: int,
    n: int,
    k: int,
    size: int,
    caches: tuple[tuple[int, int, int], ...],
) -> tuple[tuple[int, int], ...]:
    """(bytes read, bytes written) below each cache, from a cold start."""
    where = Matrices.row_major(m, n, k, size)
    if layout[0] == "t":
        where = _turned(where, "lhs", m)
    if layout[1] == "t":
        where = _turned(where, "rhs", k)
    hierarchy = CacheHierarchy(
        [
            Cache(
                bytes=held,
                bytes_per_cycle=None,
                latency_cycles=0,
                ways=ways,
                line_bytes=line,
                sector_bytes=line,
            )
            for held, ways, line in caches
        ]
    )
    nest = naive(where) if kernel == "naive" else reordered(where)
    for chunk in nest.chunks():
        hierarchy.access(*chunk)
    counts = hierarchy.counts
    return tuple(zip(counts.bytes_read, counts.bytes_written, strict=True))


def _turned(where: Matrices, operand: str, rows: int) -> Matrices:
    """The same matrices with one operand stored column by column, `rows` elements in each."""
    base = {"lhs": where.lhs, "rhs": where.rhs}[operand][0]
    turned = (base, where.size, rows * where.size)
    return replace(where, lhs=turned) if operand == "lhs" else replace(where, rhs=turned)


def _packed(op: Gemm, dtype: str, chip: CpuChip, share: Share, blocks: Blocks, kernel: Kernel) -> Bytes:
    """Five loops around a register block: operands are packed once per block, then read from the caches."""
    body, size = body_of(kernel, dtype, chip), DTYPES[dtype].bits // 8
    lhs = op.batch * op.m * op.k * size
    rhs = op.batch * op.k * op.n * size
    wide, deep = ceil(share.n / blocks.n), ceil(op.k / blocks.k)
    out = Traffic(op.out_bytes * (deep - 1), op.out_bytes * deep)
    copies = share.cores if share.axis == "m" else 1  # cores that each read all of rhs
    lhs_copies = share.cores if share.axis == "n" else 1
    passes = wide * lhs_copies
    high = ceil(share.m / blocks.m) * share.matmuls
    rhs_each = max(1, ceil(copies * high / op.batch)) if share.axis == "m" else high // op.batch
    panels = ceil(share.n / body.cols) * lhs_copies
    row_panels = max(1, ceil(share.m / body.rows) * share.matmuls * copies // op.batch)
    pack = Traffic(0, lhs * passes)
    return {
        "dram": {
            "lhs": Traffic(op.lhs_bytes * wide, 0),
            "rhs": Traffic(op.rhs_bytes, 0),
            "out": out,
        },
        "l3": {
            "lhs": Traffic(op.lhs_bytes * passes, 0),
            "rhs": Traffic(op.rhs_bytes + rhs * rhs_each, rhs),
            "out": out,
        },
        "l2": {
            "lhs": Traffic(op.lhs_bytes * passes + lhs * panels, pack.write),
            "rhs": Traffic(op.rhs_bytes + rhs * rhs_each, rhs),
            "out": out,
        },
        "l1": {
            "lhs": Traffic(op.lhs_bytes * passes + lhs * panels, pack.write),
            "rhs": Traffic(op.rhs_bytes + rhs * row_panels, rhs),
            "out": out,
        },
    }
