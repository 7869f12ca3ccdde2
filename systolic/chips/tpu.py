"""TPU-style chips: cores with systolic arrays. A chip is data; nothing here simulates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from ..dtypes import DTYPES, MULTIPLIED, SUMMED, accumulator_of
from ..errors import did_you_mean, raise_if_any, shown
from ..quantity import count_problem
from .fields import Layout
from .memory import Memory
from .rules import choice_problem, freeze_counts, name_problem, take_whole

Dataflow = Literal["ws", "os", "is"]
DATAFLOWS = ("ws", "os", "is")
Convention = Literal["serial", "overlapped"]
CONVENTIONS = ("serial", "overlapped")
LEVELS = ("dram", "cmem", "vmem", "acc")
ACTIVATION_LEVELS = ("dram", "cmem", "vmem")
ACTIVATIONS = (*ACTIVATION_LEVELS, "small")
FUSIONS = ("none", "xla", "flash")
OVERLAPS = ("double", "none")
PREFETCHES = ("none", "weights")
LANE_DTYPES = MULTIPLIED


@dataclass(frozen=True, kw_only=True)
class Array:
    """A systolic array: a grid of PEs in which a value moves one PE per cycle.

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
    acc
        For number formats of `lanes`: the format of their sums, where it is not fp32 (floats) or int32
        (integers). A float sum is formed in fp32, and its register keeps what the format holds.
    mac_latency
        Cycles from the operands in a PE's registers to the sum in its register.
    mac_interval
        Cycles between two MACs of a PE. Beyond 1 the MAC is not pipelined, and every hop of a word, of
        weights and of sums on their way out as well, waits for it.
    """

    rows: int
    cols: int
    dataflow: Dataflow = "ws"
    convention: Convention = "overlapped"
    lanes: Mapping[str, int] = field(default_factory=lambda: {"bf16": 1}, hash=False)
    weight_rows: int = 1
    acc: Mapping[str, str] = field(default_factory=dict, hash=False)
    mac_latency: int = 1
    mac_interval: int = 1

    def __post_init__(self) -> None:
        take_whole(self, "rows", "cols", "weight_rows", "mac_latency", "mac_interval")
        freeze_counts(self, "lanes")
        if isinstance(self.acc, Mapping):
            object.__setattr__(self, "acc", MappingProxyType(dict(self.acc)))

    @property
    def load_cycles(self) -> int:
        """Cycles in which one tile of weights shifts in: ceil(rows / weight_rows)."""
        return -(-self.rows // self.weight_rows)

    def acc_dtype(self, dtype: str) -> str:
        """Format of the sums of products in format `dtype` (canonical name)."""
        return self.acc.get(dtype, accumulator_of(dtype))

    def problems(self, path: str = "array") -> list[str]:
        """One line for each broken rule."""
        lines = [
            line
            for name in ("rows", "cols", "weight_rows", "mac_latency", "mac_interval")
            for line in count_problem(f"{path}.{name}", getattr(self, name))
        ]
        if not lines and self.weight_rows > self.rows:
            lines.append(f"{path}.weight_rows must be <= {path}.rows ({self.rows}), got {self.weight_rows}")
        if not lines and self.mac_interval > self.mac_latency:
            lines.append(
                f"{path}.mac_interval must be <= {path}.mac_latency ({self.mac_latency}), as a MAC that is "
                f"done is out of the way, got {self.mac_interval}"
            )
        lines += choice_problem(f"{path}.dataflow", self.dataflow, DATAFLOWS)
        lines += choice_problem(f"{path}.convention", self.convention, CONVENTIONS)
        if not isinstance(self.lanes, Mapping) or not self.lanes:
            got = shown(self.lanes) if self.lanes else "none"
            return [*lines, f"{path}.lanes must give the lanes of at least one number format, got {got}"]
        for dtype, lanes in self.lanes.items():
            if dtype in LANE_DTYPES:
                lines += count_problem(f"{path}.lanes.{dtype}", lanes)
            else:
                known = did_you_mean(str(dtype), LANE_DTYPES)
                lines.append(f"{path}.lanes.{dtype} must be a number format that an array multiplies{known}")
        return lines + self._acc_problems(f"{path}.acc")

    def _acc_problems(self, path: str) -> list[str]:
        formats: object = self.acc
        if not isinstance(formats, Mapping):
            return [f"{path} must give the format of the sums of number formats, got {shown(formats)}"]
        lines = []
        for dtype, acc in formats.items():
            if dtype in self.lanes and dtype in DTYPES:
                lines += choice_problem(f"{path}.{dtype}", acc, SUMMED[DTYPES[dtype].kind])
            else:
                lines.append(f"{path}.{dtype} must be of a format in array.lanes: {', '.join(self.lanes)}")
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

    def __post_init__(self) -> None:
        take_whole(self, "lanes", "alus")

    def problems(self, path: str = "vector") -> list[str]:
        """One line for each broken rule."""
        return count_problem(f"{path}.lanes", self.lanes) + count_problem(f"{path}.alus", self.alus)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Choices of chip and compiler that the hardware alone does not settle.

    Attributes
    ----------
    activations
        Level where activations stay between ops when they fit: ``dram``, ``cmem`` or ``vmem``; or
        ``small``: in ``vmem`` where they fit beside the blocks of an op, in ``dram`` otherwise.
    overlap
        What a matmul overlaps with its own transfers: ``double`` (two buffers, the next block is loaded
        behind the running one) or ``none`` (load, compute, store, one after the other).
    prefetch
        What is loaded before the op that needs it begins: ``none``, or ``weights`` (the first
        block of the next matmul's weights, while the memory port would stand idle).
    fusion
        What becomes of rows that are reduced before they are used, such as softmax: ``none`` (an op
        that holds rows on chip), ``xla`` (a pass over memory for each statistic of a row) or ``flash``
        (as ``xla``, but the scores of attention never leave the chip).
    block_bytes
        Bytes of one core's on-chip memory that the blocks of one op may take; None: all that is left.
    block_tiles
        Array tiles of weights that one block may hold; None: as many as fit.
    """

    activations: Literal["dram", "cmem", "vmem", "small"] = "dram"
    overlap: Literal["double", "none"] = "double"
    prefetch: Literal["none", "weights"] = "none"
    fusion: Literal["none", "xla", "flash"] = "none"
    block_bytes: int | None = None
    block_tiles: int | None = None

    def __post_init__(self) -> None:
        take_whole(self, "block_bytes", "block_tiles")

    def problems(self, path: str = "policy") -> list[str]:
        """One line for each broken rule."""
        lines = choice_problem(f"{path}.activations", self.activations, ACTIVATIONS)
        lines += choice_problem(f"{path}.overlap", self.overlap, OVERLAPS)
        lines += choice_problem(f"{path}.prefetch", self.prefetch, PREFETCHES)
        lines += choice_problem(f"{path}.fusion", self.fusion, FUSIONS)
        for name in ("block_bytes", "block_tiles"):
            if (value := getattr(self, name)) is not None:
                lines += count_problem(f"{path}.{name}", value, alternative=' or "unlimited"')
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
    memory: Mapping[str, Memory] = field(hash=False)
    cores: int = 1
    mxus_per_core: int = 1
    vector: Vector = field(default_factory=Vector)
    policy: Policy = field(default_factory=Policy)
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)
    notes: tuple[str, ...] = ()
    kind: Literal["tpu"] = "tpu"

    def __post_init__(self) -> None:
        take_whole(self, "clock_hz", "cores", "mxus_per_core")
        raise_if_any(self.problems())
        object.__setattr__(self, "memory", MappingProxyType(dict(self.memory)))
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))
        object.__setattr__(self, "notes", tuple(self.notes))

    def problems(self) -> list[str]:
        """One line for each broken rule, the field's path first."""
        lines = name_problem(self.name)
        for name in ("clock_hz", "cores", "mxus_per_core"):
            lines += count_problem(name, getattr(self, name))
        lines += self.array.problems() + self.vector.problems() + self.policy.problems()
        for level in ("dram", "vmem"):
            if level not in self.memory:
                lines.append(f"memory.{level} must be given, got only {', '.join(self.memory) or 'nothing'}")
        for level, memory in self.memory.items():
            if level not in LEVELS:
                lines.append(f"memory.{level} is no level of a TPU; levels: {', '.join(LEVELS)}")
            lines += memory.problems(f"memory.{level}")
        if self.policy.activations in ACTIVATION_LEVELS and self.policy.activations not in self.memory:
            lines.append(
                f"policy.activations must name a memory of this chip ({', '.join(self.memory)}), "
                f"got {self.policy.activations!r}"
            )
        return lines

    @property
    def native_dtype(self) -> str:
        """The format that a workload takes on this chip unless said otherwise: the first in `lanes`."""
        return next(iter(self.array.lanes))

    @property
    def formats(self) -> tuple[str, ...]:
        """Number formats that it multiplies, the native one first."""
        return tuple(self.array.lanes)

    @property
    def units(self) -> str:
        """What it is made of, in words."""
        array = f"{self.array.rows}x{self.array.cols} {self.array.dataflow}"
        arrays = self.cores * self.mxus_per_core
        return f"{array}" if arrays == 1 else f"{self.cores} x {self.mxus_per_core} x {array}"

    @property
    def other_limits(self) -> dict[str, int]:
        """Rates beside compute and main memory that may bound it, bytes per second in the native format."""
        return {"weights into the arrays": self.weight_feed_bytes_per_s(self.native_dtype)}

    @property
    def pes(self) -> int:
        """PEs of the whole chip."""
        return self.cores * self.mxus_per_core * self.array.rows * self.array.cols

    def peak_macs_per_s(self, dtype: str) -> int:
        """Peak multiply-adds per second of the whole chip in format `dtype`."""
        return self.pes * self.array.lanes[dtype] * self.clock_hz // self.array.mac_interval

    def weight_feed_bytes_per_s(self, dtype: str) -> int:
        """Most bytes per second at which weights of format `dtype` shift into all arrays of the chip."""
        per_cycle = self.cores * self.mxus_per_core * self.array.cols * self.array.weight_rows
        return per_cycle * self.clock_hz * DTYPES[dtype].bits // 8


_MEMORY = ("bytes", "bytes_per_s", "latency_ns", "burst_bytes", "sustained_percent")
_DRAM = ("part", "model", "channels")
_BANKS = ("banks", "bank_bytes", "layout")
_SIZES = ("bytes", "bytes_per_s")

LAYOUT = Layout(
    kind="tpu",
    noun="a TPU",
    leaves={
        "": ("name", "clock_hz", "cores", "mxus_per_core"),
        "array": ("rows", "cols", "dataflow", "convention", "weight_rows", "mac_latency", "mac_interval"),
        "array.lanes": LANE_DTYPES,
        "array.acc": LANE_DTYPES,
        **{f"memory.{level}": _MEMORY for level in LEVELS},
        "memory.dram": (*_MEMORY, "model", "part", "channels"),
        "memory.vmem": (*_MEMORY, *_BANKS),
        "vector": ("lanes", "alus"),
        "policy": ("activations", "overlap", "prefetch", "fusion", "block_bytes", "block_tiles"),
    },
    parts={
        "": TpuChip,
        "array": Array,
        **{f"memory.{level}": Memory for level in LEVELS},
        "vector": Vector,
        "policy": Policy,
    },
    required={"": ("clock_hz",), "array": ("rows", "cols")}
    | {f"memory.{level}": _SIZES for level in ("dram", "vmem", "cmem", "acc")},
    optional=("memory.cmem", "memory.acc"),
    quantities={
        "clock_hz": "frequency",
        "bytes": "size",
        "bytes_per_s": "rate",
        "latency_ns": "time",
        "burst_bytes": "size",
        "bank_bytes": "size",
        "block_bytes": "size",
    },
    may_be_unlimited=("bytes", "bytes_per_s", "block_bytes", "block_tiles"),
    formats=("array.lanes", "array.acc"),
    holds_formats=("array.acc",),
    groups=(_DRAM, _BANKS),
)
"""Fields of a TPU-style chip."""
