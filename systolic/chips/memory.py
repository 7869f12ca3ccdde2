"""One memory level of a chip: capacity, bandwidth, latency, what it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from ..errors import SystolicError, shown
from ..quantity import count_problem, format_rate, latency_cycles, transfer_cycles
from .dram import dram_parts, load_dram_part
from .rules import choice_problem, take_whole

MODELS = ("bandwidth", "timing")
LAYOUTS = ("row", "column")


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
    sustained_percent
        Share of `bytes_per_s` that long streams reach (refresh, turn-around, bank conflicts take the
        rest), whole percent. Transfers take their time at the sustained rate.
    model
        ``bandwidth``, or ``timing``: the DRAM is stepped on the accesses of each block (see
        :mod:`systolic.blocks.dram_port`); what refresh, turn-around and conflicts take then follows
        from `part` and not from `sustained_percent`, and `bytes_per_s` is an upper limit. ``dram`` only.
    part, channels
        Part of :mod:`systolic.chips.dram` that the DRAM is made of, and how many of its channels the chip
        has; None where not known.
    banks, bank_bytes
        Banks that each give one word of so many bytes per cycle, word by word in turn; None where words
        never get into one another's way. ``vmem`` only.
    layout
        How blocks lie in the banks: by ``row`` or by ``column``, each beginning with a word.
    """

    bytes: int | None = None
    bytes_per_s: int | None = None
    latency_ns: int = 0
    burst_bytes: int = 1
    sustained_percent: int = 100
    model: Literal["bandwidth", "timing"] = "bandwidth"
    part: str | None = None
    channels: int | None = None
    banks: int | None = None
    bank_bytes: int | None = None
    layout: Literal["row", "column"] = "row"

    def __post_init__(self) -> None:
        counts = ("bytes", "bytes_per_s", "latency_ns", "burst_bytes", "sustained_percent", "channels")
        take_whole(self, *counts, "banks", "bank_bytes")

    def problems(self, path: str) -> list[str]:
        """One line for each broken rule; `path` names the level."""
        lines = []
        for name in ("bytes", "bytes_per_s"):
            if (value := getattr(self, name)) is not None:
                lines += count_problem(f"{path}.{name}", value, alternative=' or "unlimited"')
        lines += count_problem(f"{path}.latency_ns", self.latency_ns, least=0)
        lines += count_problem(f"{path}.burst_bytes", self.burst_bytes)
        share = count_problem(f"{path}.sustained_percent", self.sustained_percent)
        if not share and self.sustained_percent > 100:
            share = [f"{path}.sustained_percent must be <= 100, got {shown(self.sustained_percent)}"]
        return (
            lines + (share or self._unmodelled(path)) + self._part_problems(path) + self._bank_problems(path)
        )

    def _unmodelled(self, path: str) -> list[str]:
        """What the memories beside the array would take and ignore."""
        fixed: dict[str, tuple[int | None, str]] = {}
        if path in ("memory.vmem", "memory.acc"):
            fixed |= {
                "latency_ns": (0, "inside the fill of the array"),
                "burst_bytes": (1, "not charged on chip"),
            }
        if path == "memory.acc":
            fixed |= {
                "bytes_per_s": (None, "the array sets the pace"),
                "sustained_percent": (100, "as bytes_per_s"),
            }
        return [
            f"{path}.{name} must be {'unlimited' if value is None else value}: {why}; got {shown(got)}"
            for name, (value, why) in fixed.items()
            if (got := getattr(self, name)) != value
        ]

    def _bank_problems(self, path: str) -> list[str]:
        lines = choice_problem(f"{path}.layout", self.layout, LAYOUTS)
        given = {"banks": self.banks, "bank_bytes": self.bank_bytes, "layout": self.layout == "column"}
        if path != "memory.vmem":
            return lines + [
                f"{path}.{name} must be left out: only the banks of memory.vmem are modelled"
                for name in given
                if given[name]
            ]
        if self.banks is None:
            return lines + [
                f"{path}.{name} must be left out where {path}.banks is not given"
                for name in ("bank_bytes", "layout")
                if given[name]
            ]
        if self.bank_bytes is None:
            lines.append(f"{path}.bank_bytes must be given where {path}.banks is: bytes of one bank's word")
        else:
            lines += count_problem(f"{path}.bank_bytes", self.bank_bytes)
        return lines + count_problem(f"{path}.banks", self.banks)

    def _part_problems(self, path: str) -> list[str]:
        lines = choice_problem(f"{path}.model", self.model, MODELS)
        if path != "memory.dram":
            given = {"model": self.model != "bandwidth", "part": self.part, "channels": self.channels}
            return lines + [
                f"{path}.{name} must be left out: only memory.dram is DRAM" for name in given if given[name]
            ]
        if self.channels is not None:
            lines += count_problem(f"{path}.channels", self.channels)
        if self.part is not None:
            try:
                part = load_dram_part(self.part)
            except SystolicError as error:
                return lines + [f"{path}.part: {line}" for line in error.problems]
            if self.model == "timing" and self.channels is None:
                lines.append(
                    f"{path}.channels must be given for model 'timing'; one of {self.part} has "
                    f"{format_rate(part.channel_bytes_per_s)}"
                )
        elif self.model == "timing":
            known = ", ".join(dram_parts())
            lines.append(f"{path}.part must be given for model 'timing'; known: {known}, or a .toml file")
        return lines

    def cycles_per_byte(self, clock_hz: int, sharers: int = 1) -> Fraction:
        """Cycles of the named clock per byte at the sustained rate, for one of `sharers` with equal parts."""
        if self.bytes_per_s is None:
            return Fraction(0)
        return Fraction(clock_hz * sharers * 100, self.bytes_per_s * self._percent)

    def transfer_cycles(self, num_bytes: int, clock_hz: int, sharers: int = 1) -> int:
        """Cycles to move `num_bytes`, rounded up; see :meth:`cycles_per_byte`."""
        if self.bytes_per_s is None:
            return 0
        sustained = self.bytes_per_s * self._percent
        return transfer_cycles(num_bytes * sharers * 100, sustained, clock_hz)

    @property
    def _percent(self) -> int:
        return 100 if self.model == "timing" else self.sustained_percent

    def latency_cycles(self, clock_hz: int) -> int:
        """Latency in cycles of the named clock, rounded up."""
        return latency_cycles(self.latency_ns, clock_hz)
