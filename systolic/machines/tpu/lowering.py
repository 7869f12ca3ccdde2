"""Group ops, choose formats, places and the plan of each matmul."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ... import dtypes
from ...blocks.array import AXES, Timing, folds, pieces
from ...blocks.dram_port import DramPort
from ...chips.memory import Memory
from ...chips.tpu import TpuChip
from ...errors import SystolicError
from ...mapping.banks import Banks
from ...mapping.limits import LARGEST, largest_count
from ...mapping.mapper import Mapped, search
from ...mapping.plan import DIMS, ORDERS, CoreSplit, Operand, Place, Problem, Share
from ...mapping.space import Pins, grain
from ...quantity import format_bytes
from ...workload import Gemm, Op, VectorOp, Workload
from ..base import Mode, Options, Precision
from .formats import Formats, formats_of
from .fusing import fuse
from .placement import UNLIMITED, block_room, in_memory, operand_levels, vector_level


@dataclass(frozen=True, kw_only=True)
class GemmStep:
    """A matmul with all choices made.

    Attributes
    ----------
    op
        The matmul.
    dataflow, mode
        What stays in the PE; which engine times it.
    formats
        How the numbers go through the array.
    mapped
        Split, blocks and loop order.
    notes
        What the reader has to know.
    """

    op: Gemm
    dataflow: str
    mode: Mode
    formats: Formats
    mapped: Mapped
    notes: tuple[str, ...] = ()

    @property
    def multiplied(self) -> str:
        """Format in which operands enter the multipliers."""
        return self.formats.multiplied


@dataclass(frozen=True, kw_only=True)
class VectorStep:
    """Work of the vector unit, and the level where its operands lie."""

    op: VectorOp
    level: str


Step = GemmStep | VectorStep


def lower(workload: Workload, chip: TpuChip, options: Options) -> tuple[Step, ...]:
    """Fuse ops, and choose formats, places and plans for each of them.

    Equal matmuls share one search. Raises :class:`SystolicError` for a format that the chip does not
    multiply, and for a pinned tile that does not fit its on-chip memory.
    """
    lowering = _Lowering(chip, options)
    return tuple(lowering.step(op) for op in fuse(workload.ops, chip.policy.fusion))


def precision(step: GemmStep, chip: TpuChip) -> Precision:
    """Effective precision of a matmul step."""
    k, passes = step.op.k, step.formats.passes
    if step.dataflow == "os":
        return step.formats.precision(passes * k + 1)
    chain = min(k, chip.array.rows)
    return step.formats.precision(chain + passes * folds(k, chain))


def tile_edges(step: GemmStep, chip: TpuChip) -> tuple[int, ...]:
    """Rows of the result at the edges of on-chip blocks and of array tiles, rising, at most 32."""
    side = step.mapped.plan.tile["m"]
    if "m" in AXES[step.dataflow][:2]:
        side = min(side, chip.array.rows if step.dataflow == "os" else chip.array.cols)
    edges = sorted({row for start, stop in pieces(step.op.m, side) for row in (start, stop - 1)})
    return tuple(edges[:16] + edges[-16:]) if len(edges) > 32 else tuple(edges)


class _Lowering:
    """One chip and the user's choices; remembers the plans it has found."""

    def __init__(self, chip: TpuChip, options: Options) -> None:
        options.refuse_all_but(("dataflow", "tile", "order"), chip.name)
        self.chip = chip
        self.options = options
        self.dataflow = options.dataflow or chip.array.dataflow
        if self.dataflow not in AXES:
            raise SystolicError(f"dataflow must be one of {', '.join(AXES)}, got {self.dataflow!r}")
        if options.order not in (None, *ORDERS):
            raise SystolicError(f"order must be one of {', '.join(ORDERS)}, got {options.order!r}")
        if options.tile is not None and not all(side > 0 for side in options.tile):
            raise SystolicError(f"tile must be three sides > 0, got {','.join(map(str, options.tile))}")
        self._found: dict[Gemm, Mapped] = {}

    def step(self, op: Op) -> Step:
        if isinstance(op, VectorOp):
            return VectorStep(op=op, level=vector_level(op, self.chip))
        formats = formats_of(op, self.chip)
        shape = replace(op, name="", origin="", count=1, layers=1, masked_macs=0, tied_to="")
        if shape not in self._found:
            self._found[shape] = self._map(shape, formats)
        return GemmStep(
            op=op,
            dataflow=self.dataflow,
            mode=self.options.mode,
            formats=formats,
            mapped=self._found[shape],
        )

    def _map(self, op: Gemm, formats: Formats) -> Mapped:
        pins = Pins(
            tile=None if self.options.tile is None else dict(zip(DIMS, self.options.tile, strict=True)),
            order=self.options.order,
        )
        self._refuse_other_sums(op)
        splits = self._core_splits(op, formats)
        self._refuse_too_large(op, splits[0].busiest, pins)
        find = search
        if self.options.compiled:
            from ...mapping.compiled import compiled_search as find
        mapped = find(splits, pins)
        if mapped is None:
            # Activations that stay on chip may leave no room for blocks: they then lie in main memory.
            mapped = find(self._core_splits(in_memory(op), formats), pins)
        if mapped is None:
            raise SystolicError(self._why_no_plan(op))
        return mapped

    def _refuse_other_sums(self, op: Gemm) -> None:
        """A pinned side that cuts k elsewhere than the array does would change the values."""
        rows = self.chip.array.rows
        if self.options.tile is None or self.dataflow == "os":
            return
        m, n, k = self.options.tile
        if k < op.k and k % rows:
            raise SystolicError(
                f"tile {m},{n},{k} of {op.m},{op.n},{op.k}: its k side must be a multiple of array.rows "
                f"({rows}) or cover k ({op.k}), got {k}; any other would add the same terms in another order"
            )

    def _refuse_too_large(self, op: Gemm, whole: Problem, pins: Pins) -> None:
        """Counts are exact or refused, never wrapped."""
        smallest = {d: min(grain(whole, d), whole.size(d)) for d in DIMS}
        if largest_count(whole, pins.tile or smallest) * self.chip.cores > LARGEST:
            raise SystolicError(
                f"{op.name or 'matmul'}: m, n, k must be small enough that all counts of all plans fit 64 "
                f"bits, got {op.m},{op.n},{op.k}, batch {op.batch}; cut it into several matmuls"
            )

    def _why_no_plan(self, op: Gemm) -> str:
        shape = f"{op.m},{op.n},{op.k}"
        vmem = self.chip.memory["vmem"]
        room = "unlimited" if vmem.bytes is None else format_bytes(vmem.bytes)
        if (limit := self.chip.policy.block_bytes) is not None:
            room += f", {format_bytes(limit)} by policy.block_bytes"
        if self.options.tile is None:
            return (
                f"memory.vmem of {self.chip.name} ({room}) must hold two buffers of the smallest block of "
                f"{shape}; raise memory.vmem.bytes or policy.block_bytes (and memory.acc.bytes where the "
                "chip has accumulators)"
            )
        pinned = ",".join(map(str, self.options.tile))
        if self.dataflow == "os":
            return (
                f"tile {pinned} cannot run {shape} output stationary within {room} of memory.vmem: sums stay "
                "in the array, so k must lie in one block, or be the innermost loop with one array tile per "
                "block; choose another tile or leave it to the mapper"
            )
        return (
            f"tile {pinned} of {shape} must fit memory.vmem ({room} per core, two buffers each) and the "
            f"accumulators{self._tile_limit()}; choose a smaller tile or leave it to the mapper"
        )

    def _tile_limit(self) -> str:
        limit = self.chip.policy.block_tiles
        return "" if limit is None else f", with at most {limit} tile(s) of weights (policy.block_tiles)"

    def _core_splits(self, op: Gemm, formats: Formats) -> list[CoreSplit]:
        whole = {"m": op.m, "n": op.n, "k": op.k, "batch": op.batch}
        splits = [self._split(op, formats, "", [(whole, 1)])]
        if self.chip.cores > 1:
            for dim in ("batch", "m", "n"):
                parts = self._parts(whole, dim)
                if len(parts) > 1 or parts[0][1] > 1:
                    splits.append(self._split(op, formats, dim, parts))
        arrays = self.chip.mxus_per_core
        if op.batch > 1 and arrays > 1:
            parts = self._parts(whole, "batch", self.chip.cores * arrays)
            splits.append(self._split(op, formats, "batch", parts, apart=arrays))
        return splits

    def _parts(
        self, whole: dict[str, int], dim: str, units: int | None = None
    ) -> list[tuple[dict[str, int], int]]:
        """Cut `dim` over the cores, or `units`, in whole array tiles: (shape, how many), largest first."""
        step = self._core_grain(dim)
        side = folds(folds(whole[dim], step), units or self.chip.cores) * step
        sizes = [stop - start for start, stop in pieces(whole[dim], side)]
        return [({**whole, dim: s}, sizes.count(s)) for s in sorted(set(sizes), reverse=True)]

    def _core_grain(self, dim: str) -> int:
        axes, array = AXES[self.dataflow], self.chip.array
        return {axes.rows: array.rows, axes.cols: array.cols}.get(dim, 1)

    def _split(
        self,
        op: Gemm,
        formats: Formats,
        dim: str,
        parts: Sequence[tuple[dict[str, int], int]],
        apart: int = 1,
    ) -> CoreSplit:
        """`apart` arrays of a core get parts of their own, each with an equal part of what they share."""
        sharers = sum(count for _, count in parts)
        shares = tuple(
            Share(self._problem(op, formats, shape, sharers, apart), count) for shape, count in parts
        )
        return CoreSplit(dim=dim, shares=shares, apart=apart)

    def _problem(
        self, op: Gemm, formats: Formats, shape: dict[str, int], sharers: int, apart: int
    ) -> Problem:
        chip = self.chip
        room = block_room(op, chip, folds(sharers, apart))
        accumulators = self._acc_bytes()
        levels = operand_levels(op, chip)
        vmem = chip.memory["vmem"]
        return Problem(
            **shape,
            dataflow=self.dataflow,
            timing=Timing.of(chip.array, self.dataflow),
            lanes=chip.array.lanes[formats.multiplied],
            passes=formats.passes,
            mxus=chip.mxus_per_core // apart,
            operands={
                name: Operand(
                    bits=dtypes.DTYPES[dtype].bits,
                    place=self._place(levels[name], sharers),
                    transposed=transposed,
                    stored=name in ("out", "psum"),
                )
                for name, dtype, transposed in (
                    ("lhs", op.dtype, op.layout[0] == "t"),
                    ("rhs", str(op.rhs_dtype), op.layout[1] == "t"),
                    ("out", str(op.out_dtype), False),
                    ("psum", formats.acc, False),
                )
            },
            buffers=1 if chip.policy.overlap == "none" else 2,
            onchip_bytes=None if room is None else room // apart,
            block_tiles=chip.policy.block_tiles,
            acc_bytes=None if accumulators is None else accumulators // apart,
            port=self._port(vmem, apart),
            banks=self._banks(vmem),
        )

    def _acc_bytes(self) -> int | None:
        """Bytes of a core's accumulators; None where the chip has none."""
        if (acc := self.chip.memory.get("acc")) is None:
            return None
        return UNLIMITED if acc.bytes is None else acc.bytes * self.chip.mxus_per_core

    def _place(self, level: str, sharers: int) -> Place | None:
        if level == "vmem":
            return None
        memory = self.chip.memory[level]
        rate = memory.cycles_per_byte(self.chip.clock_hz, sharers)
        dram = DramPort.of(memory, self.chip.clock_hz, sharers)
        access = dram.dram.part.access_bytes if dram else 1
        return Place(
            level=level,
            cycles_num=rate.numerator,
            bytes_den=rate.denominator,
            latency=max(memory.latency_cycles(self.chip.clock_hz), dram.latency if dram else 0),
            burst=-(-memory.burst_bytes // access) * access,
            dram=dram,
        )

    def _banks(self, vmem: Memory) -> Banks | None:
        if vmem.banks is None or vmem.bank_bytes is None:
            return None
        return Banks(count=vmem.banks, word_bytes=vmem.bank_bytes, layout=vmem.layout)

    def _port(self, vmem: Memory, sharers: int) -> Place:
        rate = vmem.cycles_per_byte(self.chip.clock_hz, sharers)
        return Place(level="vmem", cycles_num=rate.numerator, bytes_den=rate.denominator, latency=0, burst=1)
