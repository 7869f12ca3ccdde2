"""On-chip memories of one SM or one core, and of a whole chip: caches and shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from ..quantity import count_problem
from .rules import count_problems, take_whole


@dataclass(frozen=True, kw_only=True)
class Cache:
    """A cache of a GPU: sectors of a line are loaded one by one.

    Attributes
    ----------
    bytes
        Capacity, bytes: ``l2`` of the whole chip, ``l1`` of one SM, together with its shared memory.
    bytes_per_cycle
        Bandwidth of its port toward the SMs (``l2``, all of them) or the threads (``l1``, one SM), bytes per
        cycle of the chip's clock; None where it is unlimited.
    latency_cycles, far_latency_cycles
        From a load to its data, where it hits, cycles; the second on another partition or die.
    line_bytes, sector_bytes, ways
        Of a line; of what is loaded at once; lines of a set.
    """

    bytes: int
    bytes_per_cycle: int | None
    latency_cycles: int
    far_latency_cycles: int | None = None
    line_bytes: int = 128
    sector_bytes: int = 32
    ways: int = 16

    def __post_init__(self) -> None:
        take_whole(self, "bytes", "bytes_per_cycle", "latency_cycles", "far_latency_cycles")
        take_whole(self, "line_bytes", "sector_bytes", "ways")

    def problems(self, path: str) -> list[str]:
        """One line for each broken rule; `path` names the level."""
        lines = count_problems(self, path, ("bytes", "line_bytes", "sector_bytes", "ways"))
        if self.bytes_per_cycle is not None:
            lines += count_problem(
                f"{path}.bytes_per_cycle", self.bytes_per_cycle, alternative=' or "unlimited"'
            )
        lines += count_problem(f"{path}.latency_cycles", self.latency_cycles, least=0)
        if self.far_latency_cycles is not None:
            lines += count_problem(f"{path}.far_latency_cycles", self.far_latency_cycles, least=0)
        if not lines and self.line_bytes % self.sector_bytes:
            lines.append(
                f"{path}.line_bytes must be a multiple of {path}.sector_bytes ({self.sector_bytes}), "
                f"got {self.line_bytes}"
            )
        if not lines and self.bytes < self.line_bytes * self.ways:
            lines.append(
                f"{path}.bytes must be >= {path}.line_bytes * {path}.ways "
                f"({self.line_bytes * self.ways}), got {self.bytes}"
            )
        return lines


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The shared memory of one SM (AMD: local data share).

    Attributes
    ----------
    bytes, cta_bytes
        Most that all thread blocks of an SM, and that one of them, can have.
    reserved_bytes
        What each block takes beside what it asks for.
    banks, bank_bytes
        Banks that each give one word of so many bytes per cycle.
    latency_cycles
        From a load without conflicts to its data, cycles.
    """

    bytes: int
    cta_bytes: int
    latency_cycles: int
    reserved_bytes: int = 0
    banks: int = 32
    bank_bytes: int = 4

    def __post_init__(self) -> None:
        take_whole(self, "bytes", "cta_bytes", "latency_cycles", "reserved_bytes", "banks", "bank_bytes")

    def problems(self, path: str) -> list[str]:
        """One line for each broken rule; `path` names the level."""
        lines = count_problems(self, path, ("bytes", "cta_bytes", "banks", "bank_bytes"))
        for name in ("latency_cycles", "reserved_bytes"):
            lines += count_problem(f"{path}.{name}", getattr(self, name), least=0)
        if not lines and self.cta_bytes + self.reserved_bytes > self.bytes:
            lines.append(
                f"{path}.cta_bytes must be <= {path}.bytes - {path}.reserved_bytes "
                f"({self.bytes - self.reserved_bytes}), got {self.cta_bytes}"
            )
        return lines
