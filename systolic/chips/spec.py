"""Frozen descriptions of chips. A chip is data; nothing here simulates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from ..errors import raise_if_any
from ..quantity import latency_cycles, transfer_cycles

Dataflow = Literal["ws", "os", "is"]
DATAFLOWS = ("ws", "os", "is")
Convention = Literal["serial", "overlapped"]
CONVENTIONS = ("serial", "overlapped")


@dataclass(frozen=True, kw_only=True)
class Memory:
    """One memory level.

    Attributes
    ----------
    bytes
        Capacity, bytes; None where it is unlimited. For ``dram`` and ``cmem`` of the whole chip,
        for ``vmem`` of one core, for ``acc`` of one matrix unit.
    bytes_per_s
        Bandwidth of its port toward compute, bytes per second; None where it is unlimited. Scope
        as for `bytes`.
    latency_ns
        From the start of a transfer to the arrival of its first byte, ns.
    burst_bytes
        Smallest transaction: each contiguous piece of a transfer is rounded up to it, bytes.
    """

    bytes: int | None = None
    bytes_per_s: int | None = None
    latency_ns: int = 0
    burst_bytes: int = 1

    def problems(self, path: str) -> list[str]:
        """One line for each broken rule; `path` names the level."""
        lines = [
            f"{path}.{f} must be > 0 or \"unlimited\", got {v!r}"
            for f in ("bytes", "bytes_per_s")
            if (v := getattr(self, f)) is not None and not v > 0
        ]
        if self.latency_ns < 0:
            lines.append(f"{path}.latency_ns must be >= 0, got {self.latency_ns!r}")
        if self.burst_bytes < 1:
            lines.append(f"{path}.burst_bytes must be > 0, got {self.burst_bytes!r}")
        return lines

    def transfer_cycles(self, num_bytes: int, clock_hz: int, sharers: int = 1) -> int:
        """Cycles to move `num_bytes` when `sharers` equal users have a fixed share each."""
        return transfer_cycles(num_bytes * sharers, self.bytes_per_s, clock_hz)

    def latency_cycles(self, clock_hz: int) -> int:
        """Latency in cycles of the named clock, rounded up."""
        return latency_cycles(self.latency_ns, clock_hz)


@dataclass(frozen=True, kw_only=True)
class Array:
    """A systolic array (DESIGN: a value moves one PE per cycle).

    Attributes
    ----------
    rows, cols
        PEs down and across.
    dataflow
        Which operand stays in the PE: ``ws`` weight, ``os`` output, ``is`` input.
    convention
        ``serial``: one tile at a time, clocked to the end. ``overlapped``: the next tile's weights
        (or the finished sums) shift behind the running tile.
    lanes
        For each number format that the array multiplies: rows of the streamed operand that enter
        per cycle.
    weight_rows
        Rows of weights that shift in per cycle.
    """

    rows: int
    cols: int
    dataflow: Dataflow = "ws"
    convention: Convention = "overlapped"
    lanes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({"bf16": 1}))
    weight_rows: int = 1

    @property
    def load_cycles(self) -> int:
        """Cycles in which one tile of weights shifts in: ceil(rows / weight_rows)."""
        return -(-self.rows // self.weight_rows)

    def problems(self, path: str = "array") -> list[str]:
        """One line for each broken rule."""
        lines = [
            f"{path}.{f} must be > 0, got {v!r}"
            for f in ("rows", "cols", "weight_rows")
            if not (v := getattr(self, f)) > 0
        ]
        if self.weight_rows > self.rows > 0:
            lines.append(f"{path}.weight_rows must be <= array.rows ({self.rows}), got {self.weight_rows!r}")
        if self.dataflow not in DATAFLOWS:
            lines.append(f"{path}.dataflow must be one of {', '.join(DATAFLOWS)}, got {self.dataflow!r}")
        if self.convention not in CONVENTIONS:
            lines.append(f"{path}.convention must be one of {', '.join(CONVENTIONS)}, got {self.convention!r}")
        if not self.lanes:
            lines.append(f"{path}.lanes must name at least one number format, got none")
        lines += [
            f"{path}.lanes.{dtype} must be > 0, got {lanes!r}"
            for dtype, lanes in self.lanes.items()
            if not lanes > 0
        ]
        return lines


@dataclass(frozen=True, kw_only=True)
class Vector:
    """The vector unit of one core: `lanes` positions, `alus` operations each per cycle."""

    lanes: int = 1024
    alus: int = 1

    @property
    def ops_per_cycle(self) -> int:
        """Vector operations per cycle and core."""
        return self.lanes * self.alus

    def problems(self, path: str = "vector") -> list[str]:
        """One line for each broken rule."""
        return [
            f"{path}.{f} must be > 0, got {v!r}" for f in ("lanes", "alus") if not (v := getattr(self, f)) > 0
        ]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Choices of chip and compiler that the hardware alone does not settle.

    Attributes
    ----------
    activations
        Level where activations stay between ops when they fit: ``dram``, ``cmem`` or ``vmem``.
    prefetch
        What is loaded before the op that needs it begins: ``none``, or ``weights`` (the first
        block of the next matmul's weights, while the memory port would stand idle).
    """

    activations: Literal["dram", "cmem", "vmem"] = "dram"
    prefetch: Literal["none", "weights"] = "none"

    def problems(self, path: str = "policy") -> list[str]:
        """One line for each broken rule."""
        lines = []
        if self.activations not in ("dram", "cmem", "vmem"):
            lines.append(f"{path}.activations must be one of dram, cmem, vmem, got {self.activations!r}")
        if self.prefetch not in ("none", "weights"):
            lines.append(f"{path}.prefetch must be one of none, weights, got {self.prefetch!r}")
        return lines


@dataclass(frozen=True, kw_only=True)
class TpuChip:
    """A TPU-style chip: cores, each with matrix units (systolic arrays) and a vector unit.

    Attributes
    ----------
    name
        Name in the catalogue, or the user's.
    clock_hz
        Clock of the matrix unit, Hz.
    cores, mxus_per_core
        How many; the arrays of one core share its on-chip memory.
    array, vector, policy
        See there.
    memory
        Level -> :class:`Memory`: ``dram`` and ``vmem`` always, ``cmem`` and ``acc`` where there.
    sources
        Field path (``"array.rows"``) -> where the number comes from.
    notes
        What a reader of results has to know about this chip.
    """

    name: str
    clock_hz: int
    array: Array
    memory: Mapping[str, Memory]
    cores: int = 1
    mxus_per_core: int = 1
    vector: Vector = field(default_factory=Vector)
    policy: Policy = field(default_factory=Policy)
    sources: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    kind: Literal["tpu"] = "tpu"

    def __post_init__(self) -> None:
        lines = [
            f"{self.name}: {f} must be > 0, got {v!r}"
            for f in ("clock_hz", "cores", "mxus_per_core")
            if not (v := getattr(self, f)) > 0
        ]
        rest = self.array.problems() + self.vector.problems() + self.policy.problems()
        for level in ("dram", "vmem"):
            if level not in self.memory:
                rest.append(f"memory.{level} must be given, got only {', '.join(self.memory) or 'nothing'}")
        for level, memory in self.memory.items():
            if level not in ("dram", "cmem", "vmem", "acc"):
                rest.append(f"memory.{level} is no level of a TPU; levels: dram, cmem, vmem, acc")
            rest += memory.problems(f"memory.{level}")
        if self.policy.activations not in self.memory:
            rest.append(
                f"policy.activations must name a memory of this chip ({', '.join(self.memory)}), "
                f"got {self.policy.activations!r}"
            )
        raise_if_any(lines + [f"{self.name}: {line}" for line in rest])
        object.__setattr__(self, "memory", MappingProxyType(dict(self.memory)))
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))

    @property
    def native_dtype(self) -> str:
        """The format that a workload takes on this chip unless said otherwise: the first in `lanes`."""
        return next(iter(self.array.lanes))

    @property
    def pes(self) -> int:
        """PEs of the whole chip."""
        return self.cores * self.mxus_per_core * self.array.rows * self.array.cols

    def peak_macs_per_s(self, dtype: str) -> int:
        """Peak multiply-adds per second of the whole chip in format `dtype`."""
        return self.pes * self.array.lanes[dtype] * self.clock_hz


Chip = TpuChip
