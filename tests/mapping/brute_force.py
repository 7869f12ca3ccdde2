"""The mapper's job done naively: every plan of the declared space, every block of it visited in turn.

Nothing here comes from the package but the descriptions of chip and matmul. All plans are walked side by
side, one block per step, with NumPy integers; what a block loads is seen by comparing its place with that of
the block before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np

from systolic.chips.tpu import TpuChip
from systolic.dtypes import DTYPES
from systolic.workload import Gemm

M, N, K = range(3)
ORDERS = [tuple("mnk".index(d) for d in order) for order in ("mnk", "mkn", "nmk", "nkm", "kmn", "knm")]
MATRIX = {"lhs": (M, K), "rhs": (K, N), "out": (M, N), "psum": (M, N)}
assert set(ORDERS) == set(permutations((M, N, K)))


@dataclass(frozen=True)
class Best:
    """The least key of the space, and which plan has it: split over cores, arrays, order, sides."""

    cycles: int
    dram_bytes: int
    onchip_bytes: int
    plan: tuple[str, tuple[int, int], str, tuple[int, ...]]
    min_dram_bytes: int


def brute_force(gemm: Gemm, chip: TpuChip, dataflow: str, order: str | None = None) -> Best | None:
    """The best plan, of one order or of all, or None where none fits the on-chip memory."""
    orders = ORDERS if order is None else [tuple("mnk".index(d) for d in order)]
    splits = core_splits(gemm, chip, AXES[dataflow])
    found = [Space(gemm, chip, dataflow, orders, *split) for split in splits]
    keys = [(*key, number, row) for number, space in enumerate(found) for row, key in enumerate(space.keys())]
    if not keys and chip.policy.activations != "dram":
        return brute_force(
            gemm, replace(chip, policy=replace(chip.policy, activations="dram")), dataflow, order
        )
    if not keys:
        return None
    cycles, dram, onchip, number, row = min(keys)
    return Best(cycles, dram, onchip, found[number].plan(row), min(key[1] for key in keys))


def up(a: Any, b: Any) -> Any:
    """a / b, rounded up."""
    return -(-a // b)


AXES = {"ws": (K, N, M), "os": (M, N, K), "is": (K, M, N)}
"""Dataflow -> what lies on the rows, on the columns, and streams: the table of the textbook formulas."""


def core_splits(
    gemm: Gemm, chip: TpuChip, axes: tuple[int, int, int]
) -> list[tuple[str, list[tuple[tuple[int, ...], int]], int]]:
    """(dimension that is cut, [((m, n, k, batch), cores), …] largest first, arrays of a core working apart).

    Array tiles stay whole. Where arrays work apart, each of them is what is otherwise a core.
    """
    whole = (gemm.m, gemm.n, gemm.k, gemm.batch)
    splits = [("", [(whole, 1)], 1)]
    ways = [("batch", 3, 1), ("m", M, 1), ("n", N, 1)]
    if chip.mxus_per_core > 1:
        ways.append(("batch", 3, chip.mxus_per_core))
    for name, dim, apart in ways:
        grain = {axes[0]: chip.array.rows, axes[1]: chip.array.cols}.get(dim, 1)
        share = up(up(whole[dim], grain), chip.cores * apart) * grain
        full, rest = divmod(whole[dim], share)
        parts = [(side, times) for side, times in ((share, full), (rest, 1)) if side and times]
        if sum(times for _, times in parts) > 1:
            shares = [((*whole[:dim], side, *whole[dim + 1 :]), times) for side, times in parts]
            splits.append((name, shares, apart))
    return splits


class Space:
    """All plans of one split over cores, as arrays with one entry per plan."""

    def __init__(
        self,
        gemm: Gemm,
        chip: TpuChip,
        dataflow: str,
        orders: list[tuple[int, ...]],
        dim: str,
        parts: list[tuple[tuple[int, ...], int]],
        apart: int,
    ) -> None:
        self.gemm, self.chip, self.dataflow, self.dim, self.parts = gemm, chip, dataflow, dim, parts
        self.apart, self.mxus = apart, chip.mxus_per_core // apart
        self.axes, self.array = AXES[dataflow], chip.array
        self.sharers = sum(cores for _, cores in parts)
        self.lanes = chip.array.lanes[gemm.dtype]
        self.load = 0 if dataflow == "os" else up(self.array.rows, self.array.weight_rows)
        self.shift_out = self.array.rows if dataflow == "os" else 0
        self.drain = self.array.rows + self.array.cols - 2 + self.shift_out
        names = (gemm.dtype, gemm.rhs_dtype, gemm.out_dtype, gemm.acc_dtype)
        self.bits = dict(
            zip(("lhs", "rhs", "out", "psum"), (DTYPES[str(d)].bits for d in names), strict=True)
        )
        self.stationary, self.streaming = ("lhs", "rhs") if dataflow == "is" else ("rhs", "lhs")
        self.overlaps = chip.policy.overlap == "double"
        self.resident = self._resident()
        self._enumerate(orders)

    def _resident(self) -> set[str]:
        """Operands that lie on chip: activations, when they take at most half of it."""
        gemm, vmem = self.gemm, self.chip.memory["vmem"].bytes
        active = {"lhs", "out"} | ({"rhs"} if gemm.rhs_kind == "activation" else set())
        size = sum(getattr(gemm, f"{name}_bytes") for name in active)
        stays = self.chip.policy.activations == "vmem" and (
            vmem is None or size <= vmem * self.chip.cores // 2
        )
        return active | {"psum"} if stays else set()

    def _enumerate(self, orders: list[tuple[int, ...]]) -> None:
        size = self.parts[0][0]
        grain = [1, 1, 1]
        grain[self.axes[0]], grain[self.axes[1]] = self.array.rows, self.array.cols
        grain[self.axes[2]] = self.array.rows if self.dataflow == "os" else min(8, self.array.rows)
        sides = [[min(size[d], s) for s in range(grain[d], size[d] + grain[d], grain[d])] for d in (M, N, K)]
        ways = [(a, self.mxus // a) for a in range(self.mxus, 0, -1) if self.mxus % a == 0]
        tiles = [tile for tile in product(*sides) if self._fits(tile)]
        rows = [
            (way, order, tile)
            for way in ways
            for order in orders
            for tile in tiles
            if self._legal(tile, order, way)
        ]
        self.plans = rows
        self.way = np.array([way for way, _, _ in rows], np.int64).reshape(-1, 2)
        self.order = np.array([order for _, order, _ in rows], np.int64).reshape(-1, 3)
        self.tile = np.array([tile for _, _, tile in rows], np.int64).reshape(-1, 3)

    def plan(self, row: int) -> tuple[str, tuple[int, int], str, tuple[int, ...]]:
        """The plan of a row."""
        way, order, tile = self.plans[row]
        return self.dim, way, "".join("mnk"[d] for d in order), tile

    def _fits(self, tile: tuple[int, ...]) -> bool:
        """One buffer of what stays, two of what changes if loads overlap; sums lie in the accumulators."""
        size = self.parts[0][0]
        amounts = {}
        for name, dims in MATRIX.items():
            distinct = size[3] * np.prod([up(size[d], tile[d]) for d in dims])
            one = up(tile[dims[0]] * tile[dims[1]] * self.bits[name], 8)
            amounts[name] = (2 if distinct > 1 and self.overlaps else 1) * int(one)
        vmem, acc = self.chip.memory["vmem"].bytes, self.chip.memory.get("acc")
        if acc and acc.bytes is not None and amounts["psum"] > acc.bytes * self.mxus:
            return False
        held = sum(amounts[name] for name in ("lhs", "rhs") if name not in self.resident)
        if acc is None:
            held += amounts["psum"]
        elif "out" not in self.resident:
            held += amounts["out"]
        kept = sum(getattr(self.gemm, f"{name}_bytes") for name in self.resident - {"psum"})
        limit, cores = self.chip.policy.block_bytes, up(self.sharers, self.apart)
        rooms = (None if vmem is None else vmem - up(kept, cores), limit)
        return all(room is None or held <= room // self.apart for room in rooms)

    def _legal(self, tile: tuple[int, ...], order: tuple[int, ...], way: tuple[int, int]) -> bool:
        """As many array tiles of weights as the policy gives; output stationary, sums are never half done."""
        weights = up(tile[self.axes[0]], self.array.rows) * up(tile[self.axes[1]], self.array.cols)
        limit = self.chip.policy.block_tiles
        if self.dataflow != "os" and limit is not None and weights > limit:
            return False
        if self.dataflow != "os" or tile[K] >= self.parts[0][0][K]:
            return True
        one_tile = tile[M] <= way[1] * self.array.rows and tile[N] <= way[0] * self.array.cols
        return order[-1] == K and one_tile and tile[K] >= self.array.rows

    def keys(self) -> list[tuple[int, int, int]]:
        """(cycles, DRAM bytes, on-chip bytes) of each plan, in order."""
        if not self.plans:
            return []
        walks = [Walk(self, size) for size, _ in self.parts]
        for walk in walks:
            walk.run()
        cores = [cores for _, cores in self.parts]
        dram = sum(c * walk.dram for c, walk in zip(cores, walks, strict=True))
        onchip = [
            sum(c * self._onchip(size, tile, way) for size, c in self.parts) for way, _, tile in self.plans
        ]
        return list(zip(walks[0].cycles.tolist(), dram.tolist(), onchip, strict=True))

    def _onchip(self, size: tuple[int, ...], tile: tuple[int, ...], way: tuple[int, int]) -> int:
        """Bytes between on-chip memory, arrays and accumulators of one core."""

        def array_tiles(dim: int, side: int) -> int:
            return sum(up(s, side) for s in block_sides(size[dim], tile[dim]))

        def whole(name: str) -> int:
            rows, cols = MATRIX[name]
            return size[rows] * size[cols] * self.bits[name] // 8

        on_rows, on_cols, stream = self.axes
        down, across = array_tiles(on_rows, self.array.rows), array_tiles(on_cols, self.array.cols)
        if self.dataflow == "os":
            reads, rounds = across * whole("lhs") + down * whole("rhs"), 1
        else:
            pieces = sum(up(s, up(s, way[1])) for s in block_sides(size[stream], tile[stream]))
            reads, rounds = across * whole(self.streaming) + pieces * whole(self.stationary), down
        return size[3] * (reads + whole("out") + 2 * rounds * whole("psum"))


def block_sides(length: int, tile: int) -> list[int]:
    """Sides of the blocks along a dimension."""
    return [min(tile, length - start) for start in range(0, length, tile)]


class Walk:
    """All plans of a space on one share of the cores, from the first block to the last."""

    def __init__(self, space: Space, size: tuple[int, ...]) -> None:
        self.space, self.size, self.batch = space, np.array(size[:3]), size[3]
        counts = up(self.size, space.tile)
        self.total = self.batch * counts.prod(axis=1)
        # Longest first, so that the plans which still run are always the first ones.
        self.rank = np.argsort(-self.total, kind="stable")
        self.total, self.counts = self.total[self.rank], counts[self.rank]
        self.tile, self.order, self.way = (x[self.rank] for x in (space.tile, space.order, space.way))
        zeros = np.zeros(len(self.total), np.int64)
        self.port, self.end, self.before, self.start = zeros, zeros.copy(), zeros.copy(), zeros - 1
        self.clear, self.ready, self.pending = zeros.copy(), zeros.copy(), zeros.copy()
        self.done, self.moved = zeros.copy(), zeros.copy()

    def run(self) -> None:
        """Visit every block of every plan."""
        for step in range(int(self.total[0])):
            self._block(step, slice(0, int(np.searchsorted(-self.total, -step))))
        stored = np.where(self.pending > 0, np.maximum(self.port, self.ready) + self.pending, 0)
        back = np.argsort(self.rank)
        self.cycles, self.dram = np.maximum(self.done, stored)[back], self.moved[back]

    def _place(self, step: int, now: slice) -> np.ndarray:
        """(plans, 4) index of the block along m, n, k and batch; -1 outside the run."""
        at = np.full((len(self.total[now]), 4), -1)
        inside = (step >= 0) & (step < self.total[now])
        rest = np.where(inside, step, 0)
        for loop in (2, 1, 0):
            dim = self.order[now, loop]
            of = np.take_along_axis(self.counts[now], dim[:, None], 1)[:, 0]
            np.put_along_axis(at, dim[:, None], (rest % of)[:, None], 1)
            rest = rest // of
        at[:, 3] = rest
        return np.where(inside[:, None], at, -1)

    def _bytes(self, name: str, sides: np.ndarray) -> np.ndarray:
        """Bytes across the port: each contiguous piece in whole bursts."""
        burst = self.space.chip.memory["dram"].burst_bytes
        rows, cols = (sides[:, d] for d in MATRIX[name])
        bits = self.space.bits[name]
        together = up(up(rows * cols * bits, 8), burst) * burst
        by_line = rows * (up(up(cols * bits, 8), burst) * burst)
        return np.where(cols == self.size[MATRIX[name][1]], together, by_line)

    def _cycles(self, amount: Any) -> Any:
        memory = self.space.chip.memory["dram"]
        if memory.bytes_per_s is None:
            return 0 * amount
        sustained = Fraction(memory.bytes_per_s * memory.sustained_percent, 100 * self.space.sharers)
        each = self.space.chip.clock_hz / sustained
        return up(amount * each.numerator, each.denominator)

    def _block(self, step: int, now: slice) -> None:
        space = self.space
        at, last, following = (self._place(s, now) for s in (step, step - 1, step + 1))
        sides = np.minimum(self.tile[now], self.size - at[:, :3] * self.tile[now])
        entered, leaves = at != last, at != following
        new_sums = entered[:, [M, N, 3]].any(axis=1)
        loads = {
            space.stationary: entered[:, [*MATRIX[space.stationary], 3]].any(axis=1),
            space.streaming: entered[:, [*MATRIX[space.streaming], 3]].any(axis=1),
            "psum": new_sums & (at[:, K] > 0),
        }
        if not space.overlaps:
            self._store(now)
        arrived = self._load(loads, sides, now)
        if space.overlaps:
            self._store(now)
        self._compute(arrived, sides, ~new_sums, now)
        finished = leaves[:, [M, N, 3]].any(axis=1)
        whole = at[:, K] == self.counts[now, K] - 1
        if "out" not in space.resident:
            amount = finished * np.where(whole, self._bytes("out", sides), self._bytes("psum", sides))
            self.moved[now] += amount
            self.pending[now] = self._cycles(amount)

    def _store(self, now: slice) -> None:
        """Write the results of the block before; an unlimited port keeps nobody waiting."""
        written = np.maximum(self.ready[now], self.port[now]) + self.pending[now]
        self.port[now] = np.where(self.pending[now] > 0, written, self.port[now])

    def _load(self, loads: dict[str, np.ndarray], sides: np.ndarray, now: slice) -> dict[str, np.ndarray]:
        """Put the block's loads through the port, one after the other; return when each is there."""
        latency = up(self.space.chip.memory["dram"].latency_ns * self.space.chip.clock_hz, 10**9)
        free = np.maximum(self.port[now], (self.before if self.space.overlaps else self.end)[now])
        arrived = {}
        for name, needed in loads.items():
            if name in self.space.resident:
                arrived[name] = np.zeros_like(free)
                continue
            amount = needed * self._bytes(name, sides)
            self.moved[now] += amount
            free = np.where(needed, free + self._cycles(amount), free)
            self.port[now] = np.where(needed, free, self.port[now])
            arrived[name] = np.where(needed, free + latency, 0)
        return arrived

    def _compute(
        self, arrived: dict[str, np.ndarray], sides: np.ndarray, same_sums: np.ndarray, now: slice
    ) -> None:
        space, array = self.space, self.space.array
        tiles, streamed, port = self._work(sides, now)
        end, start = self.end[now].copy(), self.start[now].copy()
        weights, rest = arrived[space.stationary], np.maximum(arrived[space.streaming], arrived["psum"])
        if array.convention == "serial":
            begin = np.maximum(end, np.maximum(weights, rest))
            pace = np.maximum(space.load + streamed + space.drain, port)
            finish = clear = done = begin + tiles * pace
            last = finish - pace
        else:
            # Weights shift in behind the tile before; finished sums shift out behind the tile after.
            loaded = np.maximum(weights, np.maximum(start, 0)) + space.load
            joins = same_sums if space.dataflow == "os" else np.zeros_like(same_sums)
            out_of_the_way = np.where((start >= 0) & ~joins, end + space.shift_out - streamed, 0)
            begin = np.maximum.reduce([loaded, rest, end, self.clear[now], out_of_the_way])
            pace = np.maximum.reduce([streamed, port, np.full_like(port, max(space.load, space.shift_out))])
            last = begin + (tiles - 1) * pace
            finish, clear = last + streamed, last + port
            done = finish + space.drain
        self.before[now], self.end[now], self.start[now], self.clear[now] = end, finish, last, clear
        self.ready[now] = done
        self.done[now] = np.maximum(done, clear)  # the on-chip port has handed over the last tile

    def _work(self, sides: np.ndarray, now: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(tiles, cycles streamed, cycles of the on-chip port per tile) of the busiest array."""
        space, array = self.space, self.space.array
        across, along = self.way[now, 0], self.way[now, 1]
        on_rows, on_cols, stream = (sides[:, d] for d in space.axes)
        down, over = up(on_rows, array.rows), up(up(on_cols, array.cols), across)
        left, top = space.bits[space.streaming], space.bits[space.stationary]
        if space.dataflow == "os":
            down, length = up(down, along), stream
            bits = length * (array.rows * left + array.cols * top)
        else:
            length = up(stream, along)
            bits = length * array.rows * left + array.rows * array.cols * top
        fed = across * along * up(bits, 8)
        rate = space.chip.memory["vmem"].bytes_per_s
        port = 0 * fed if rate is None else up(fed * space.chip.clock_hz * space.apart, rate)
        return down * over, up(length, space.lanes), port
