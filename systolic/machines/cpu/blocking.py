"""How a kernel cuts a matmul: over cores, and for packing kernels into blocks that the caches hold."""

from __future__ import annotations

from dataclasses import dataclass

from ...chips.cpu import CpuChip
from ...dtypes import DTYPES
from ...workload import Gemm
from .loops import body_of
from .steps import Kernel


@dataclass(frozen=True)
class Share:
    """What the busiest core multiplies: `matmuls` of m x k by k x n; `cores` share the work along `axis`."""

    m: int
    n: int
    matmuls: int
    cores: int
    axis: str


def share_of(op: Gemm, chip: CpuChip) -> Share:
    """Split the rows of all matmuls of a batch evenly over cores; where there are too few, the columns."""
    rows = op.batch * op.m
    if rows >= chip.cores or rows >= op.n:
        cores = min(chip.cores, rows)
        most = -(-rows // cores)
        m = min(op.m, most)
        return Share(m, op.n, -(-most // m), -(-rows // most), "m")
    cores = min(chip.cores, op.n)
    most = -(-op.n // cores)
    return Share(op.m, most, op.batch, -(-op.n // most), "n")


@dataclass(frozen=True)
class Blocks:
    """Sides of packed blocks: m x k of lhs in L2, k x n of rhs in L3, elements."""

    m: int
    n: int
    k: int


def blocks_of(kernel: Kernel, dtype: str, chip: CpuChip) -> Blocks:
    """Blocks that take half of each cache, whole register blocks.

    A panel of rhs, as wide as the register block, stays in L1, a block of lhs in L2, one of rhs in L3 (Goto
    and van de Geijn, ACM TOMS 34(3), 2008, section 4; half of a cache is left to what streams through it).
    """
    body, size = body_of(kernel, dtype, chip), DTYPES[dtype].bits // 8
    half = {level: chip.memory[level].bytes // 2 for level in ("l1", "l2", "l3")}
    k = _whole(half["l1"] // (body.cols * size), body.depth)
    m = _whole(half["l2"] // (k * size), body.rows)
    n = _whole(half["l3"] // (k * size), body.cols)
    return Blocks(m, n, k)


def _whole(length: int, unit: int) -> int:
    return max(unit, length // unit * unit)
