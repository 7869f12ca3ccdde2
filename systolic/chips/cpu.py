"""CPUs: out-of-order cores with vector units, private caches and a shared last level. A chip is data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from ..dtypes import DTYPES, MULTIPLIED
from ..errors import did_you_mean, raise_if_any, shown
from ..quantity import count_problem
from .caches import Cache
from .fields import Layout
from .memory import Memory
from .rules import count_problems, freeze_counts, name_problem, take_whole

LEVELS = ("dram", "l3", "l2", "l1")
"""Memory levels, the farthest first."""

_COUNTS = (
    *("issue_width", "fma_ports", "load_ports", "store_ports", "vector_bytes", "vector_registers"),
    *("fma_latency", "add_latency"),
)


@dataclass(frozen=True, kw_only=True)
class Core:
    """One out-of-order core.

    Attributes
    ----------
    issue_width
        µops that enter the window per cycle.
    fma_ports, load_ports, store_ports
        Vector multiply-adds, loads and stores of full width that start per cycle.
    vector_bytes, vector_registers
        Width of a vector register, bytes; architectural registers of that width.
    fma_latency, add_latency
        From the operands of a float multiply-add, and of a float addition, to its result, cycles.
    tile_macs
        For each number format that a tile unit (AMX) multiplies: MACs per cycle and core. Empty where there
        is no such unit.
    """

    issue_width: int
    fma_ports: int
    load_ports: int
    store_ports: int
    vector_bytes: int
    vector_registers: int
    fma_latency: int
    add_latency: int
    tile_macs: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        take_whole(self, *_COUNTS)
        freeze_counts(self, "tile_macs")

    @property
    def lanes(self) -> int:
        """fp32 numbers of one vector."""
        return self.vector_bytes * 8 // DTYPES["fp32"].bits

    def problems(self, path: str = "core") -> list[str]:
        """One line for each broken rule."""
        lines = count_problems(self, path, _COUNTS)
        if not lines and self.vector_bytes % 4:
            lines.append(f"{path}.vector_bytes must be a multiple of 4 (fp32), got {self.vector_bytes}")
        table: object = self.tile_macs
        if not isinstance(table, Mapping):
            return [*lines, f"{path}.tile_macs must be a table of formats, got {shown(table)}"]
        for dtype, macs in table.items():
            if dtype in MULTIPLIED:
                lines += count_problem(f"{path}.tile_macs.{dtype}", macs)
            else:
                known = did_you_mean(str(dtype), MULTIPLIED)
                lines.append(f"{path}.tile_macs.{dtype} must be a number format that is multiplied{known}")
        return lines


@dataclass(frozen=True, kw_only=True)
class CpuChip:
    """A CPU: equal cores with L1 and L2 of their own, which share L3 and main memory.

    Attributes
    ----------
    name
        Name in the catalogue, or the user's.
    clock_hz
        Clock of the cores, Hz; cycles are of this clock.
    cores
        Cores of the whole chip.
    launch_ns
        From one op's end to the next one's start on all cores, ns.
    core
        See there.
    memory
        Level -> :class:`~systolic.chips.memory.Memory` (``dram``) and :class:`~systolic.chips.caches.Cache`
        (``l3`` of the whole chip, ``l2`` and ``l1`` of one core); each cache's port serves one core with its
        bytes per cycle.
    sources
        Field path -> where the number comes from.
    notes
        What a reader of results has to know about this chip.
    """

    name: str
    clock_hz: int
    cores: int
    core: Core
    memory: Mapping[str, Any] = field(hash=False)
    launch_ns: int = 0
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)
    notes: tuple[str, ...] = ()
    kind: Literal["cpu"] = "cpu"

    def __post_init__(self) -> None:
        take_whole(self, "clock_hz", "cores", "launch_ns")
        raise_if_any(self.problems())
        object.__setattr__(self, "memory", MappingProxyType(dict(self.memory)))
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))
        object.__setattr__(self, "notes", tuple(self.notes))

    def problems(self) -> list[str]:
        """One line for each broken rule, the field's path first."""
        lines = name_problem(self.name)
        for name in ("clock_hz", "cores"):
            lines += count_problem(name, getattr(self, name))
        lines += count_problem("launch_ns", self.launch_ns, least=0)
        lines += self.core.problems()
        for level in LEVELS:
            if level not in self.memory:
                lines.append(f"memory.{level} must be given, got only {', '.join(self.memory) or 'nothing'}")
        for level, memory in self.memory.items():
            lines += memory.problems(f"memory.{level}")
        return lines

    @property
    def native_dtype(self) -> str:
        """The format that a workload takes on this chip unless said otherwise."""
        return "fp32"

    @property
    def formats(self) -> tuple[str, ...]:
        """Number formats that it multiplies, the native one first."""
        return ("fp32", *(dtype for dtype in self.core.tile_macs if dtype != "fp32"))

    @property
    def units(self) -> str:
        """What it is made of, in words."""
        return f"{self.cores} core{'s' if self.cores > 1 else ''}"

    @property
    def other_limits(self) -> dict[str, int]:
        """Rates beside compute and main memory that may bound it, bytes per second."""
        per_cycle = self.memory["l3"].bytes_per_cycle
        return {} if per_cycle is None else {"l3": per_cycle * self.cores * self.clock_hz}

    def macs_per_cycle(self, dtype: str) -> int:
        """Peak multiply-adds per cycle of one core in format `dtype`."""
        vector = self.core.fma_ports * self.core.lanes if dtype == "fp32" else 0
        return max(vector, self.core.tile_macs.get(dtype, 0))

    def peak_macs_per_s(self, dtype: str) -> int:
        """Peak multiply-adds per second of the whole chip in format `dtype`."""
        return self.cores * self.macs_per_cycle(dtype) * self.clock_hz


_CACHE = ("bytes", "bytes_per_cycle", "latency_cycles", "line_bytes", "sector_bytes", "ways")
_SIZES = ("bytes", "bytes_per_cycle", "latency_cycles")

LAYOUT = Layout(
    kind="cpu",
    noun="a CPU",
    leaves={
        "": ("name", "clock_hz", "cores", "launch_ns"),
        "core": _COUNTS,
        "core.tile_macs": MULTIPLIED,
        "memory.dram": ("bytes", "bytes_per_s", "latency_ns", "burst_bytes", "sustained_percent"),
        "memory.l3": _CACHE,
        "memory.l2": _CACHE,
        "memory.l1": _CACHE,
    },
    parts={
        "": CpuChip,
        "core": Core,
        "memory.dram": Memory,
        "memory.l3": Cache,
        "memory.l2": Cache,
        "memory.l1": Cache,
    },
    required={
        "": ("clock_hz", "cores"),
        "core": _COUNTS,
        "memory.dram": ("bytes_per_s",),
        **{f"memory.{level}": _SIZES for level in ("l3", "l2", "l1")},
    },
    quantities={
        "clock_hz": "frequency",
        "launch_ns": "time",
        "bytes": "size",
        "bytes_per_s": "rate",
        "latency_ns": "time",
        "burst_bytes": "size",
        "line_bytes": "size",
        "sector_bytes": "size",
        "vector_bytes": "size",
    },
    may_be_unlimited=("bytes", "bytes_per_s", "bytes_per_cycle"),
    formats=("core.tile_macs",),
)
"""Fields of a CPU."""
