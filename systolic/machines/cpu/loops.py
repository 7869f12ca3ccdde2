"""What a core takes for one iteration of a kernel's innermost loop, and what that iteration does."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ...chips.cpu import CpuChip
from .steps import Kernel

TILE = 16
"""Rows, and columns of fp32 sums, of an AMX tile (Intel SDM vol. 1, ch. 18: 16 rows of 64 bytes)."""

TILE_DEPTH_BYTES = 64
"""Bytes of k in one row of a tile of operands."""


@dataclass(frozen=True)
class Body:
    """One iteration of an innermost loop.

    Attributes
    ----------
    rows, cols, depth
        The part of m, n and k that it multiplies.
    multiply_adds, loads, stores, others
        µops by the port that they need: fused multiply-adds or pairs of one multiplication and one addition
        (`fused`), loads, stores, the rest (counter and branch of the loop).
    chain
        Latency of the chain from one iteration to the next, cycles.
    fused
        Whether multiply and add are one µop.
    """

    rows: int
    cols: int
    depth: int
    multiply_adds: int
    loads: int
    stores: int
    chain: int
    fused: bool = True
    others: int = 2

    @property
    def macs(self) -> int:
        """Multiply-adds of numbers."""
        return self.rows * self.cols * self.depth

    @property
    def math(self) -> int:
        """µops of the float ports."""
        return self.multiply_adds * (1 if self.fused else 2)

    @property
    def uops(self) -> int:
        """All µops."""
        return self.math + self.loads + self.stores + self.others


def body_of(kernel: Kernel, dtype: str, chip: CpuChip) -> Body:
    """The innermost loop of a kernel on a chip, multiplying numbers of format `dtype`.

    ``naive`` adds to one register, each addition behind the last (a compiler may not reorder float sums);
    ``reordered`` loads and stores the sum; ``simd`` does so a vector at a time; ``blocked`` holds a block of
    sums in registers: six rows of two vectors fill twelve of sixteen registers, fourteen rows 28 of 32
    (Goto and van de Geijn, ACM TOMS 34(3), 2008, on the register block).
    """
    core = chip.core
    match kernel:
        case "naive":
            return Body(1, 1, 1, 1, loads=2, stores=0, chain=core.add_latency, fused=False)
        case "reordered":
            return Body(1, 1, 1, 1, loads=2, stores=1, chain=1, fused=False)
        case "simd":
            return Body(1, core.lanes, 1, 1, loads=2, stores=1, chain=1)
        case "blocked":
            rows = max(1, (core.vector_registers - 4) // 2)
            return Body(rows, 2 * core.lanes, 1, 2 * rows, loads=2 + rows, stores=0, chain=core.fma_latency)
        case "amx":
            depth = TILE_DEPTH_BYTES // (1 if dtype == "int8" else 2)
            return Body(2 * TILE, 2 * TILE, depth, 4, loads=4, stores=0, chain=1)


def loop_cycles(kernel: Kernel, dtype: str, chip: CpuChip) -> Fraction:
    """Cycles per iteration of a kernel's innermost loop with all operands in L1.

    The largest of the chain's latency, of each kind of port and of the front end, each of which is a lower
    bound.
    """
    body, core = body_of(kernel, dtype, chip), chip.core
    math = Fraction(body.math, core.fma_ports)
    loads = Fraction(body.loads, core.load_ports)
    if kernel == "amx":
        math = Fraction(body.macs, core.tile_macs[dtype])
        loads = Fraction(body.loads * TILE, core.load_ports)  # a row of 64 bytes each
    return max(
        math,
        loads,
        Fraction(body.stores, core.store_ports),
        Fraction(body.uops, core.issue_width),
        Fraction(body.chain),
    )
