"""What comes between ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...chips.cpu import CpuChip
from ...quantity import latency_cycles
from ...result import Result
from .steps import Step


def compose(steps: Sequence[Step], results: Sequence[Result], chip: CpuChip) -> tuple[Result, ...]:
    """Put ops after one another: each starts on all cores ``launch_ns`` after the last has ended."""
    each = latency_cycles(chip.launch_ns, chip.clock_hz)
    return tuple(_launched(result, each * result.op.count, chip) for result in results)


def _launched(result: Result, cycles: int, chip: CpuChip) -> Result:
    if not cycles:
        return result
    slots = result.pe_cycles * cycles // result.cycles if result.cycles else 0
    return replace(
        result,
        cycles=result.cycles + cycles,
        cycles_by_cause={**result.cycles_by_cause, "launch": cycles},
        pe_cycles=result.pe_cycles + slots,
    )
