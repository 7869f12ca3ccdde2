"""The accesses of a matmul as a trace that other DRAM simulators read.

Matrices lie row by row, packed, one behind the other: lhs, rhs, the result, unfinished sums. Each core reads
and writes its part of them, block by block, in the order and at the times of its schedule, from a cold start.
"""

from __future__ import annotations

import heapq
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ...chips.dram import load_dram_part
from ...chips.tpu import TpuChip
from ...errors import SystolicError, did_you_mean
from ...mapping.plan import OPERAND_DIMS, CoreSplit, Problem
from ...mapping.transfers import Transfer, transfers_of
from ...quantity import format_bytes
from .lowering import GemmStep

Style = Literal["dramsim3", "ramulator2"]
STYLES = ("dramsim3", "ramulator2")

_ALIGNED = 4096
"""Bytes: every matrix begins at a multiple, as pages do."""


class Access(NamedTuple):
    """One access: cycle of the DRAM's clock at which it is issued, byte address, whether it writes."""

    cycle: int
    address: int
    write: bool


class TraceSize(NamedTuple):
    """What a trace takes: accesses, and at most so many bytes of text."""

    accesses: int
    bytes: int


def trace_size(step: GemmStep, chip: TpuChip, *, style: Style = "dramsim3") -> TraceSize:
    """How large the trace of :func:`write_trace` will be; nothing is written."""
    layout = _Layout.of(step, chip)
    count = last = 0
    for share, origins in zip(step.mapped.split.shares, _origins(step.mapped.split), strict=True):
        for transfer in layout.transfers(share.problem):
            count += sum(len(layout.touched(transfer, origin)) for origin in origins)
            last = max(last, transfer.start + transfer.cycles)
    highest = Access(layout.cycle(last), layout.end, True)
    return TraceSize(count, count * len(_line(highest, style)))


def write_trace(
    step: GemmStep,
    chip: TpuChip,
    path: str | os.PathLike[str],
    *,
    style: Style = "dramsim3",
    announce: Callable[[TraceSize], None] | None = None,
) -> TraceSize:
    """Write the accesses of one occurrence of a matmul, one line each, rising in time.

    Parameters
    ----------
    step
        From :func:`systolic.machines.tpu.lower`.
    chip
        The chip it was lowered for. Where it names a DRAM part, cycles are those of the part's clock and an
        access is one of the part's; else the chip's clock and the memory's ``burst_bytes`` are taken.
    path
        The file; it appears when it is complete.
    style
        ``dramsim3``: ``0xADDRESS READ CYCLE``; ``ramulator2``: ``LD 0xADDRESS``, which has no time (revision
        2b9b3ae of its LoadStoreTrace takes loads for writes and stores for reads).
    announce
        Is told how large the file will be before it is begun.

    Raises
    ------
    SystolicError
        If the style is unknown, the file does not fit the disk, or it cannot be written.
    """
    if style not in STYLES:
        raise SystolicError(
            f"trace style must be one of {', '.join(STYLES)}{did_you_mean(str(style), STYLES)}"
        )
    target = Path(path)
    size = trace_size(step, chip, style=style)
    if announce is not None:
        announce(size)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        free = shutil.disk_usage(target.resolve().parent).free
        if size.bytes > free:
            raise SystolicError(
                f"{path}: the trace takes {format_bytes(size.bytes)}, {format_bytes(free)} are free"
            )
        try:
            with temporary.open("w", encoding="ascii") as file:
                file.writelines(_line(access, style) for access in accesses(step, chip))
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise SystolicError(f"{path}: cannot be written: {error.strerror}") from error
    return size


def accesses(step: GemmStep, chip: TpuChip) -> Iterator[Access]:
    """All accesses to the DRAM of one occurrence of a matmul, rising in time.

    Cores with equal parts run in step and take turns access by access.
    """
    layout, split = _Layout.of(step, chip), step.mapped.split
    streams = [
        _share_accesses(layout, share.problem, origins)
        for share, origins in zip(split.shares, _origins(split), strict=True)
    ]
    return heapq.merge(*streams, key=lambda access: access.cycle)


def _share_accesses(layout: _Layout, problem: Problem, origins: list[int]) -> Iterator[Access]:
    """Accesses of the cores with equal parts."""
    for transfer in layout.transfers(problem):
        cores = [layout.touched(transfer, origin).tolist() for origin in origins]
        count = max(map(len, cores))
        for i in range(count):
            cycle = layout.cycle(transfer.start + i * transfer.cycles // count)
            for addresses in cores:
                if i < len(addresses):
                    yield Access(cycle, addresses[i], transfer.write)


@dataclass(frozen=True)
class _Layout:
    """Where the matrices of a step lie, in which accesses, and how clocks compare."""

    step: GemmStep
    bases: dict[str, int]
    end: int
    access_bytes: int
    cycles_per_cycle: Fraction

    @classmethod
    def of(cls, step: GemmStep, chip: TpuChip) -> _Layout:
        memory = chip.memory["dram"]
        part = None if memory.part is None else load_dram_part(memory.part)
        unit, clock_hz = (part.access_bytes, part.clock_hz) if part else (memory.burst_bytes, chip.clock_hz)
        bases, base = {}, 0
        for name, operand in step.mapped.split.busiest.operands.items():
            rows, cols = _matrix_shape(step, name)
            bases[name] = base
            base += -(-step.op.batch * rows * cols * operand.bits // (8 * _ALIGNED)) * _ALIGNED
        return cls(step, bases, base, unit, Fraction(clock_hz, chip.clock_hz))

    def transfers(self, problem: Problem) -> Iterator[Transfer]:
        """Transfers of a core's share that go to the DRAM."""
        for transfer in transfers_of(problem, self.step.mapped.plan):
            place = problem.operands[transfer.operand].place
            if place is not None and place.level == "dram":
                yield transfer

    def cycle(self, cycle: int) -> int:
        """A cycle of the chip's clock as one of the trace's, rounded down."""
        return cycle * self.cycles_per_cycle.numerator // self.cycles_per_cycle.denominator

    def touched(self, transfer: Transfer, origin: int) -> np.ndarray:
        """Addresses of the accesses of a block whose core's part begins at `origin`; each of them once."""
        operand = self.step.mapped.split.busiest.operands[transfer.operand]
        full_rows, full_cols = _matrix_shape(self.step, transfer.operand)
        dim, (across, along) = self.step.mapped.split.dim, _dims(transfer.operand)
        batch = transfer.batch + origin * (dim == "batch")
        row, col = transfer.row + origin * (dim == across), transfer.col + origin * (dim == along)
        rows, cols = transfer.rows, transfer.cols
        if operand.transposed:
            full_rows, full_cols, row, col, rows, cols = full_cols, full_rows, col, row, cols, rows
        first = (batch * full_rows + row) * full_cols + col + np.arange(rows) * full_cols
        low = first * operand.bits // (8 * self.access_bytes)
        high = -(-(first + cols) * operand.bits // (8 * self.access_bytes))
        low[1:] = np.maximum(low[1:], high[:-1])  # lines that meet in an access take it once
        lengths = high - low
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        addresses = (np.repeat(low, lengths) + within) * self.access_bytes
        return np.asarray(self.bases[transfer.operand] + addresses)


def _origins(split: CoreSplit) -> list[list[int]]:
    """Where each core's part begins along the split dimension, for each share."""
    origins: list[list[int]] = []
    at = 0
    for share in split.shares:
        side = share.problem.size(split.dim) if split.dim else 0
        origins.append([at + core * side for core in range(share.cores)])
        at += share.cores * side
    return origins


def _dims(name: str) -> tuple[str, str]:
    return OPERAND_DIMS["out" if name == "psum" else name]


def _matrix_shape(step: GemmStep, name: str) -> tuple[int, int]:
    rows, cols = _dims(name)
    return int(getattr(step.op, rows)), int(getattr(step.op, cols))


def _line(access: Access, style: Style) -> str:
    if style == "dramsim3":
        return f"0x{access.address:x} {'WRITE' if access.write else 'READ'} {access.cycle}\n"
    return f"{'ST' if access.write else 'LD'} 0x{access.address:x}\n"
