"""A matmul as a kernel meets it, and one way of computing it."""

from __future__ import annotations

from dataclasses import dataclass

KERNELS = ("naive", "shared", "register", "tensor", "warpgroup", "tcgen05")
"""One thread per output; through shared memory; blocked in registers; tensor cores fed by asynchronous
copies, one warp at a time; by warp groups; with sums in tensor memory."""

TENSOR_KERNELS = ("tensor", "warpgroup", "tcgen05")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a kernel has to compute, and how its operands lie in memory.

    Attributes
    ----------
    m, n, k, batch
        Shape.
    multiplied
        Number format of the operands as they are multiplied.
    lhs_bits, rhs_bits, out_bits
        Bits of an element in memory.
    layout
        Of lhs and rhs, each ``n`` (row by row) or ``t`` (column by column).
    lhs_in_l2, rhs_in_l2, out_in_l2
        Whether L2 holds lhs and rhs before the kernel begins, and out when it has ended, as far as they fit.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    multiplied: str
    lhs_bits: int = 16
    rhs_bits: int = 16
    out_bits: int = 16
    layout: str = "nn"
    lhs_in_l2: bool = False
    rhs_in_l2: bool = False
    out_in_l2: bool = False

    @property
    def macs(self) -> int:
        """Multiply-adds."""
        return self.batch * self.m * self.n * self.k

    @property
    def compulsory_bytes(self) -> tuple[int, int, int]:
        """Bytes of lhs, rhs and out."""
        sides = (
            (self.m, self.k, self.lhs_bits),
            (self.k, self.n, self.rhs_bits),
            (self.m, self.n, self.out_bits),
        )
        lhs, rhs, out = (self.batch * (rows * cols * bits + 7) // 8 for rows, cols, bits in sides)
        return lhs, rhs, out


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One kernel with its tile.

    Attributes
    ----------
    kernel
        One of `KERNELS`.
    tile
        (m, n, k) of what a thread block works on at once.
    warps
        Warps of a block that compute, along (m, n).
    stages
        Tiles of operands on their way at once.
    cluster
        Blocks along (m, n) that share what they load: each loads a part of the tiles that they have in
        common.
    split_k
        Blocks that share a tile's k; their sums are added by a second kernel.
    """

    kernel: str
    tile: tuple[int, int, int]
    warps: tuple[int, int]
    stages: int = 1
    cluster: tuple[int, int] = (1, 1)
    split_k: int = 1

    @property
    def persistent(self) -> bool:
        """Whether a block goes on to another tile when it is done with one."""
        return self.kernel in ("warpgroup", "tcgen05")

    @property
    def tensor(self) -> bool:
        """Whether it uses tensor cores."""
        return self.kernel in TENSOR_KERNELS

    def blocks(self, problem: Problem) -> tuple[int, int, int]:
        """Thread blocks along m, n, and over batch and parts of k."""
        m, n, _ = self.tile
        return -(-problem.m // m), -(-problem.n // n), problem.batch * self.split_k

    def trips(self, problem: Problem) -> int:
        """Tiles of k that a block goes through."""
        tiles = -(-problem.k // self.tile[2])
        return -(-tiles // self.split_k)

    def __str__(self) -> str:
        m, n, k = self.tile
        parts = f", {self.split_k} parts of k" if self.split_k > 1 else ""
        return f"{self.kernel} {m}x{n}x{k}, {self.stages} stages{parts}"
