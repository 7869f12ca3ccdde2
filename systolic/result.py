"""What a machine answers: cycles by cause, bytes by level and operand, and the ledger that ties them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .metrics import BOUND_OF_CAUSE, CAUSES, COUNTERS, STALLS, ratios_of
from .workload import Gemm, Op, VectorOp

OPERANDS = ("lhs", "rhs", "out", "psum", "other")
SOURCES = ("stepped", "tiled", "bound")  # strongest first


@dataclass(frozen=True)
class Traffic:
    """Bytes through a memory's port: `read` toward compute, `write` away from it."""

    read: int = 0
    write: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.read + other.read, self.write + other.write)

    def __mul__(self, times: int) -> Traffic:
        return Traffic(self.read * times, self.write * times)

    @property
    def total(self) -> int:
        """Read plus written."""
        return self.read + self.write


Bytes = Mapping[str, Mapping[str, Traffic]]
"""Level -> operand -> traffic."""


def add_bytes(*parts: Bytes) -> dict[str, dict[str, Traffic]]:
    """Sum of several traffic tables."""
    total: dict[str, dict[str, Traffic]] = {}
    for part in parts:
        for level, operands in part.items():
            row = total.setdefault(level, {})
            for operand, traffic in operands.items():
                row[operand] = row.get(operand, Traffic()) + traffic
    return total


def add_counts(*parts: Mapping[str, int]) -> dict[str, int]:
    """Sum of several tables of counts, name by name."""
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


@dataclass(frozen=True, kw_only=True)
class Check:
    """Outcome of comparing the machine's values with ``jnp.matmul``.

    Attributes
    ----------
    passed
        Whether each compared element lies within its tolerance.
    max_error, tolerance
        |difference| and tolerance of the element with the worst ratio of the two.
    compared
        Elements compared.
    mode
        ``"full"`` or ``"sample"``.
    exact
        Whether equality was demanded (integers).
    error_vs_float64
        Largest |chip − float64 product of the unrounded operands| over at most 16 of the compared
        rows: what the user loses by the chip's precision.
    device
        Where the reference ran.
    rows
        Which rows were compared, in words.
    overflows
        Accumulator overflows that wrapped.
    out_of_range
        Compared results that the result's format cannot hold: rightly inf (fp8_e4m3: NaN).
    """

    passed: bool
    max_error: float
    tolerance: float
    compared: int
    mode: str
    exact: bool
    error_vs_float64: float
    device: str
    rows: str
    overflows: int = 0
    out_of_range: int = 0


@dataclass(frozen=True, kw_only=True)
class Result:
    """Cost of one op, for all its `count`.

    Attributes
    ----------
    op
        The Gemm or VectorOp.
    kind
        ``matmul``, ``vector`` or ``gather`` (later ``launch``, ``collective``).
    cycles
        Exclusive elapsed cycles on the critical path; hidden work costs 0 here.
    busy_cycles
        Cycles in which the unit that does the work is at it, hidden or not.
    clock_hz
        Clock of the matrix unit, Hz.
    cycles_by_cause
        Cause -> cycles; sums to `cycles`.
    behind_memory
        Cycles of ``weight_load`` in which the array would have waited for memory anyway; `bound_by` counts
        them as such.
    bytes
        Level -> operand -> traffic, whole chip.
    array_macs, padded_macs
        MACs that the machine counted on real operands; PE slots that it clocked on padding.
    pe_cycles, mapped_pe_cycles
        PE-lane cycles available while it ran: of all PEs; of those that held work.
    stalls
        What resident warps, or µops in flight, do: name in :data:`systolic.metrics.STALLS` -> their cycles.
    counters
        Name in :data:`systolic.metrics.COUNTERS` -> count, whole chip.
    source
        ``stepped``, ``tiled`` or ``bound``: the weakest of its parts.
    mapping
        What the mapper picked, as plain data for the report; None for vector ops.
    precision
        Effective precision in words.
    min_dram_bytes
        Least DRAM bytes over all plans that fit; None where it was not searched.
    check, notes
        See :class:`Check`; lines for the reader.
    port_idle
        Cycles at the end of one occurrence in which the memory port could load for the next op.
    record
        Recorded machine state for pictures and traces, or None.
    """

    op: Op
    kind: str
    cycles: int
    busy_cycles: int
    clock_hz: int
    cycles_by_cause: Mapping[str, int]
    bytes: Bytes
    behind_memory: int = 0
    array_macs: int = 0
    padded_macs: int = 0
    pe_cycles: int = 0
    mapped_pe_cycles: int = 0
    stalls: Mapping[str, int] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    source: str = "tiled"
    mapping: Mapping[str, Any] | None = None
    precision: str | None = None
    min_dram_bytes: int | None = None
    check: Check | None = None
    notes: tuple[str, ...] = ()
    port_idle: int = 0
    record: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        unknown = set(self.cycles_by_cause) - set(CAUSES)
        assert not unknown, f"unknown causes {unknown}"
        assert all(v >= 0 for v in self.cycles_by_cause.values()), "a part of the ledger is negative"
        assert sum(self.cycles_by_cause.values()) == self.cycles, "causes do not add up to cycles"
        assert set(self.stalls) <= set(STALLS) and set(self.counters) <= set(COUNTERS), "unknown name"
        assert self.source in SOURCES, self.source

    @property
    def name(self) -> str:
        """Name of the op."""
        return self.op.name

    @property
    def macs(self) -> int:
        """MACs as asked; 0 for vector ops."""
        return self.op.macs if isinstance(self.op, Gemm) else 0

    @property
    def useful_macs(self) -> int:
        """MACs inside the causal mask or window; 0 for vector ops."""
        return self.op.useful_macs if isinstance(self.op, Gemm) else 0

    @property
    def seconds(self) -> float:
        """Cycles over the clock."""
        return self.cycles / self.clock_hz

    @property
    def utilization(self) -> float | None:
        """array_macs / (all PEs * lanes * cycles); None where no PE is concerned."""
        return self.array_macs / self.pe_cycles if self.pe_cycles else None

    @property
    def mapped_utilization(self) -> float | None:
        """As `utilization`, over the PEs that hold work."""
        return self.array_macs / self.mapped_pe_cycles if self.mapped_pe_cycles else None

    @property
    def ratios(self) -> dict[str, float]:
        """Ratios of the counters, in profilers' words."""
        return ratios_of(self.counters)

    @property
    def bound_by(self) -> str:
        """What the largest cause says bounds it, through a fixed table; ties go to the first cause."""
        return bound_of(self.cycles_by_cause, self.behind_memory)

    def level_bytes(self, level: str) -> int:
        """All bytes through one level's port."""
        return sum(t.total for t in self.bytes.get(level, {}).values())

    def plus(self, other: Result) -> Result:
        """This result and then another of the same op: figures add up, the rest is this one's."""
        causes = {c: self.cycles_by_cause.get(c, 0) + other.cycles_by_cause.get(c, 0) for c in CAUSES}
        return replace(
            self,
            cycles=self.cycles + other.cycles,
            busy_cycles=self.busy_cycles + other.busy_cycles,
            behind_memory=self.behind_memory + other.behind_memory,
            cycles_by_cause={c: v for c, v in causes.items() if v},
            bytes=add_bytes(self.bytes, other.bytes),
            array_macs=self.array_macs + other.array_macs,
            padded_macs=self.padded_macs + other.padded_macs,
            pe_cycles=self.pe_cycles + other.pe_cycles,
            mapped_pe_cycles=self.mapped_pe_cycles + other.mapped_pe_cycles,
            stalls=add_counts(self.stalls, other.stalls),
            counters=add_counts(self.counters, other.counters),
            min_dram_bytes=self.min_dram_bytes,
        )

    def times(self, count: int) -> Result:
        """The same result `count` times in a row."""
        if count == 1:
            return self
        return replace(
            self,
            cycles=self.cycles * count,
            busy_cycles=self.busy_cycles * count,
            behind_memory=self.behind_memory * count,
            cycles_by_cause={c: v * count for c, v in self.cycles_by_cause.items()},
            bytes={lv: {o: t * count for o, t in ops.items()} for lv, ops in self.bytes.items()},
            array_macs=self.array_macs * count,
            padded_macs=self.padded_macs * count,
            pe_cycles=self.pe_cycles * count,
            mapped_pe_cycles=self.mapped_pe_cycles * count,
            stalls={name: v * count for name, v in self.stalls.items()},
            counters={name: v * count for name, v in self.counters.items()},
            min_dram_bytes=None if self.min_dram_bytes is None else self.min_dram_bytes * count,
        )


@dataclass(frozen=True, kw_only=True)
class Total:
    """All rows of one chip added up, in order."""

    rows: tuple[Result, ...]

    @property
    def cycles(self) -> int:
        """Sum of the rows' exclusive cycles."""
        return sum(r.cycles for r in self.rows)

    @property
    def cycles_by_cause(self) -> dict[str, int]:
        """Cause -> cycles over all rows; only causes that occur."""
        totals = {c: sum(r.cycles_by_cause.get(c, 0) for r in self.rows) for c in CAUSES}
        return {c: v for c, v in totals.items() if v}

    @property
    def stalls(self) -> dict[str, int]:
        """What warps or µops do, over all rows."""
        return add_counts(*(r.stalls for r in self.rows))

    @property
    def counters(self) -> dict[str, int]:
        """Counts over all rows."""
        return add_counts(*(r.counters for r in self.rows))

    @property
    def bytes(self) -> dict[str, dict[str, Traffic]]:
        """Traffic over all rows."""
        return add_bytes(*(r.bytes for r in self.rows))

    @property
    def bound_by(self) -> str:
        """As for a row, over all rows."""
        return bound_of(self.cycles_by_cause, sum(r.behind_memory for r in self.rows))

    @property
    def source(self) -> str:
        """The weakest source of the rows."""
        return max((r.source for r in self.rows), key=SOURCES.index)


def bound_of(cycles_by_cause: Mapping[str, int], behind_memory: int = 0) -> str:
    """What the largest cause bounds, ``"hidden"`` where no cycle passes; ties go to the first cause.

    `behind_memory` cycles of ``weight_load`` count as ``stall_dram``: see :class:`Result`.
    """
    if not any(cycles_by_cause.values()):
        return "hidden"
    moved = {"weight_load": -behind_memory, "stall_dram": behind_memory}
    largest = max(CAUSES, key=lambda cause: cycles_by_cause.get(cause, 0) + moved.get(cause, 0))
    return BOUND_OF_CAUSE[largest]


def is_matmul(result: Result) -> bool:
    """Whether the row is a matmul."""
    return isinstance(result.op, Gemm)


def is_vector(result: Result) -> bool:
    """Whether the row is a vector op."""
    return isinstance(result.op, VectorOp)
