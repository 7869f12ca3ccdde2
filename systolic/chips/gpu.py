"""SIMT GPUs: streaming multiprocessors that run warps of threads. A chip is data; nothing here simulates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from ..dtypes import DTYPES, MULTIPLIED, SUMMED, accumulator_of
from ..errors import did_you_mean, raise_if_any, shown
from ..quantity import count_problem
from .caches import Cache, Shared
from .fields import Layout
from .memory import Memory
from .rules import choice_problem, count_problems, freeze_counts, name_problem, take_whole

LEVELS = ("dram", "l2", "l1", "shared")
SCHEDULERS = ("lrr", "gto", "gty")
FUSIONS = ("none", "xla", "flash")
INSTRUCTIONS = ("none", "mma", "wgmma", "tcgen05", "mfma")


@dataclass(frozen=True, kw_only=True)
class Sm:
    """A streaming multiprocessor (AMD: compute unit).

    Attributes
    ----------
    sub_cores
        Parts with a warp scheduler of their own; each issues one instruction per cycle.
    warp_size
        Threads that issue together.
    max_warps, max_ctas
        Most warps and thread blocks that it holds at once.
    registers, max_registers, register_unit
        Registers of 32 bits; most of them per thread; a warp takes them in multiples of so many.
    fp32_lanes
        fp32 multiply-adds that all sub-cores start per cycle.
    special_lanes
        Exponentials, reciprocals and the like that they start per cycle.
    ls_lanes
        Threads whose loads and stores go to memory per cycle.
    fma_latency
        Cycles from an fp32 multiply-add to one that needs its result.
    macs
        Number format -> multiply-adds per cycle, on the tensor cores where the format is theirs. The first is
        the format that a workload takes unless said otherwise.
    """

    sub_cores: int
    warp_size: int
    max_warps: int
    max_ctas: int
    registers: int
    max_registers: int
    register_unit: int
    fp32_lanes: int
    special_lanes: int
    ls_lanes: int
    fma_latency: int
    macs: Mapping[str, int] = field(hash=False)

    def __post_init__(self) -> None:
        take_whole(self, *_SM_COUNTS)
        freeze_counts(self, "macs")

    def problems(self, path: str = "sm") -> list[str]:
        """One line for each broken rule."""
        lines = count_problems(self, path, _SM_COUNTS)
        if not lines and self.max_warps % self.sub_cores:
            lines.append(
                f"{path}.max_warps must be a multiple of {path}.sub_cores ({self.sub_cores}), "
                f"got {self.max_warps}"
            )
        if not isinstance(self.macs, Mapping) or not self.macs:
            got = shown(self.macs) if self.macs else "none"
            return [*lines, f"{path}.macs must give the MACs of at least one number format, got {got}"]
        for dtype, macs in self.macs.items():
            if dtype in MULTIPLIED:
                lines += count_problem(f"{path}.macs.{dtype}", macs)
            else:
                known = did_you_mean(str(dtype), MULTIPLIED)
                lines.append(f"{path}.macs.{dtype} must be a number format that a chip multiplies{known}")
        return lines


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """The tensor cores (AMD: matrix cores): what an instruction is called, and how its sums are formed.

    Attributes
    ----------
    instruction
        ``none``; ``mma`` (of one warp, operands in registers), ``wgmma`` (of a warp group, operands in shared
        memory), ``tcgen05`` (of one thread, sums in tensor memory) or ``mfma`` (of one wavefront).
    latency
        Cycles from an instruction to one that needs its sums.
    group
        Number format of the operands -> products that are added at once. Formats that are not here are
        multiplied by the scalar lanes.
    align
        Number format -> fraction bits that the terms of such a sum keep when they are aligned to the largest
        one. For integers and where it is not given, sums round each product as fused multiply-adds do.
    acc
        Number format -> format of the sums, where it is not fp32 (floats) or int32 (integers).
    """

    instruction: Literal["none", "mma", "wgmma", "tcgen05", "mfma"] = "none"
    latency: int = 0
    group: Mapping[str, int] = field(default_factory=dict, hash=False)
    align: Mapping[str, int] = field(default_factory=dict, hash=False)
    acc: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        take_whole(self, "latency")
        freeze_counts(self, "group", "align")
        if isinstance(self.acc, Mapping):
            object.__setattr__(self, "acc", MappingProxyType(dict(self.acc)))

    def acc_dtype(self, dtype: str) -> str:
        """Format of the sums of products in format `dtype` (canonical name)."""
        return self.acc.get(dtype, accumulator_of(dtype))

    def problems(self, path: str = "tensor") -> list[str]:
        """One line for each broken rule."""
        lines = choice_problem(f"{path}.instruction", self.instruction, INSTRUCTIONS)
        lines += count_problem(f"{path}.latency", self.latency, least=0)
        for name in ("group", "align", "acc"):
            table: object = getattr(self, name)
            if not isinstance(table, Mapping):
                lines.append(f"{path}.{name} must be a table by number format, got {shown(table)}")
                continue
            for dtype, value in table.items():
                lines += self._format_problems(path, name, dtype, value)
        if self.instruction == "none" and self.group:
            lines.append(f"{path}.group must be left out where {path}.instruction is none")
        return lines

    def _format_problems(self, path: str, name: str, dtype: str, value: Any) -> list[str]:
        here = f"{path}.{name}.{dtype}"
        if name != "group" and dtype not in self.group:
            return [f"{here} must be of a format in {path}.group: {', '.join(self.group) or 'none'}"]
        if name == "acc":
            return choice_problem(here, value, SUMMED[DTYPES[dtype].kind])
        lines = count_problem(here, value)
        if name == "align" and not lines and value > 30:
            lines.append(f"{here} must be <= 30, got {value}")
        return lines


@dataclass(frozen=True, kw_only=True)
class GpuPolicy:
    """Choices of hardware and libraries that the counts alone do not settle.

    Attributes
    ----------
    scheduler
        Which of the warps that can issue does: ``lrr`` (in turn), ``gto`` (the last one again, else the
        oldest) or ``gty`` (the last one again, else the youngest).
    fusion
        What becomes of rows that are reduced before they are used, such as softmax: ``none`` (a kernel for
        each op), ``xla`` (element-wise work joins its neighbours) or ``flash`` (as ``xla``, and attention
        is one kernel whose scores stay on the SM).
    promote_k
        Products after which narrow sums are added to sums in fp32; None: never.
    """

    scheduler: Literal["lrr", "gto", "gty"] = "gto"
    fusion: Literal["none", "xla", "flash"] = "none"
    promote_k: int | None = None

    def __post_init__(self) -> None:
        take_whole(self, "promote_k")

    def problems(self, path: str = "policy") -> list[str]:
        """One line for each broken rule."""
        lines = choice_problem(f"{path}.scheduler", self.scheduler, SCHEDULERS)
        lines += choice_problem(f"{path}.fusion", self.fusion, FUSIONS)
        if self.promote_k is not None:
            lines += count_problem(f"{path}.promote_k", self.promote_k, alternative=' or "unlimited"')
        return lines


@dataclass(frozen=True, kw_only=True)
class GpuChip:
    """A GPU: SMs, each with schedulers, scalar lanes, tensor cores, L1 and shared memory; L2; main memory.

    Attributes
    ----------
    name
        Name in the catalogue, or the user's.
    clock_hz
        Clock that the SMs hold while tensor cores work, Hz; cycles are of this clock.
    boost_hz, rated_hz
        Clocks for which the vendor states the peaks of the scalar lanes and of the tensor cores, Hz; the
        second is `clock_hz` where it is not given.
    sms, dies
        SMs of the whole chip; dies that they are on.
    launch_ns
        From the end of one kernel to the start of the next one in the same queue, ns.
    sm, tensor, policy
        See there.
    memory
        Level -> :class:`~systolic.chips.memory.Memory` (``dram``), :class:`~systolic.chips.caches.Cache`
        (``l2``, ``l1``) and :class:`~systolic.chips.caches.Shared` (``shared``).
    sources
        Field path (``"sm.registers"``) -> where the number comes from.
    notes
        What a reader of results has to know about this chip.
    """

    name: str
    clock_hz: int
    boost_hz: int
    sms: int
    sm: Sm
    memory: Mapping[str, Any] = field(hash=False)
    rated_hz: int | None = None
    dies: int = 1
    launch_ns: int = 0
    tensor: Tensor = field(default_factory=Tensor)
    policy: GpuPolicy = field(default_factory=GpuPolicy)
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)
    notes: tuple[str, ...] = ()
    kind: Literal["gpu"] = "gpu"

    def __post_init__(self) -> None:
        take_whole(self, "clock_hz", "boost_hz", "rated_hz", "sms", "dies", "launch_ns")
        if self.rated_hz is None:
            object.__setattr__(self, "rated_hz", self.clock_hz)
        raise_if_any(self.problems())
        object.__setattr__(self, "memory", MappingProxyType(dict(self.memory)))
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))
        object.__setattr__(self, "notes", tuple(self.notes))

    def problems(self) -> list[str]:
        """One line for each broken rule, the field's path first."""
        lines = name_problem(self.name)
        for name in ("clock_hz", "boost_hz", "rated_hz", "sms", "dies"):
            lines += count_problem(name, getattr(self, name))
        lines += count_problem("launch_ns", self.launch_ns, least=0)
        if not lines and self.sms % self.dies:
            lines.append(f"dies must divide sms ({self.sms}), got {self.dies}")
        lines += self.sm.problems() + self.tensor.problems() + self.policy.problems()
        for dtype in self.tensor.group:
            if dtype not in self.sm.macs:
                known = ", ".join(self.sm.macs)
                lines.append(f"tensor.group.{dtype} must be of a format in sm.macs: {known}")
        for level in LEVELS:
            if level not in self.memory:
                lines.append(f"memory.{level} must be given, got only {', '.join(self.memory) or 'nothing'}")
        for level, memory in self.memory.items():
            lines += memory.problems(f"memory.{level}")
        return lines

    @property
    def native_dtype(self) -> str:
        """The format that a workload takes on this chip unless said otherwise: the first in ``sm.macs``."""
        return next(iter(self.sm.macs))

    @property
    def formats(self) -> tuple[str, ...]:
        """Number formats that it multiplies, the native one first."""
        return tuple(self.sm.macs)

    @property
    def units(self) -> str:
        """What it is made of, in words."""
        return f"{self.dies} x {self.sms // self.dies} SMs" if self.dies > 1 else f"{self.sms} SMs"

    @property
    def other_limits(self) -> dict[str, int]:
        """Rates beside compute and main memory that may bound it, bytes per second."""
        per_cycle = self.memory["l2"].bytes_per_cycle
        return {} if per_cycle is None else {"l2": per_cycle * self.clock_hz}

    def peak_macs_per_s(self, dtype: str) -> int:
        """Peak multiply-adds per second of the whole chip in format `dtype`, at the clock of its pipe."""
        clock = self.rated_hz if dtype in self.tensor.group else self.boost_hz
        assert clock is not None
        return self.sms * self.sm.macs[dtype] * clock


_SM_COUNTS = (
    *("sub_cores", "warp_size", "max_warps", "max_ctas", "registers", "max_registers", "register_unit"),
    *("fp32_lanes", "special_lanes", "ls_lanes", "fma_latency"),
)
_CACHE = ("bytes", "bytes_per_cycle", "latency_cycles", "line_bytes", "sector_bytes", "ways")


LAYOUT = Layout(
    kind="gpu",
    noun="a GPU",
    leaves={
        "": ("name", "clock_hz", "boost_hz", "rated_hz", "sms", "dies", "launch_ns"),
        "sm": _SM_COUNTS,
        "sm.macs": MULTIPLIED,
        "tensor": ("instruction", "latency"),
        "tensor.group": MULTIPLIED,
        "tensor.align": MULTIPLIED,
        "tensor.acc": MULTIPLIED,
        "memory.dram": ("bytes", "bytes_per_s", "latency_ns", "burst_bytes", "sustained_percent"),
        "memory.l2": (*_CACHE, "far_latency_cycles"),
        "memory.l1": _CACHE,
        "memory.shared": ("bytes", "cta_bytes", "reserved_bytes", "banks", "bank_bytes", "latency_cycles"),
        "policy": ("scheduler", "fusion", "promote_k"),
    },
    parts={
        "": GpuChip,
        "sm": Sm,
        "tensor": Tensor,
        "memory.dram": Memory,
        "memory.l2": Cache,
        "memory.l1": Cache,
        "memory.shared": Shared,
        "policy": GpuPolicy,
    },
    required={
        "": ("clock_hz", "boost_hz", "sms"),
        "sm": _SM_COUNTS,
        "memory.dram": ("bytes", "bytes_per_s"),
        "memory.l2": ("bytes", "bytes_per_cycle", "latency_cycles"),
        "memory.l1": ("bytes", "bytes_per_cycle", "latency_cycles"),
        "memory.shared": ("bytes", "cta_bytes", "latency_cycles"),
    },
    quantities={
        "clock_hz": "frequency",
        "boost_hz": "frequency",
        "rated_hz": "frequency",
        "launch_ns": "time",
        "bytes": "size",
        "cta_bytes": "size",
        "reserved_bytes": "size",
        "bytes_per_s": "rate",
        "latency_ns": "time",
        "burst_bytes": "size",
        "line_bytes": "size",
        "sector_bytes": "size",
        "bank_bytes": "size",
    },
    may_be_unlimited=("bytes_per_s", "bytes_per_cycle", "promote_k"),
    formats=("sm.macs", "tensor.group", "tensor.align", "tensor.acc"),
    holds_formats=("tensor.acc",),
    groups=(("far_latency_cycles",),),
)
"""Fields of a GPU."""
