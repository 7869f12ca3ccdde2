"""Programs of a thread block: instructions, and the addresses that they touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...kernels.simt import layout as L

OPERANDS = ("lhs", "rhs", "out")


@dataclass(frozen=True, kw_only=True)
class Program:
    """What the warps of a block run.

    Attributes
    ----------
    code, accesses, offsets, starts, shifts
        As :func:`systolic.kernels.simt.step.step_sms` takes them.
    stages, consumers, storers
        Stages of its pipeline; warps that release each; warps that store a tile while the next is computed.
    shared_bytes, registers
        What a block takes of an SM: shared memory, bytes; registers of a thread.
    """

    code: np.ndarray
    accesses: np.ndarray
    offsets: np.ndarray
    starts: np.ndarray
    shifts: np.ndarray
    stages: int
    consumers: int
    storers: int
    shared_bytes: int
    registers: int

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return len(self.starts)


def wavefronts(offsets: Sequence[int] | np.ndarray, width: int, banks: int = 32, bank_bytes: int = 4) -> int:
    """Cycles of a warp's access to shared memory: words of one bank follow one another.

    Lanes that touch the same word share it. An access of 8 or 16 bytes per lane is served in parts of as many
    lanes as fill all banks once (NVIDIA, CUDA C++ Programming Guide, shared memory).

    Parameters
    ----------
    offsets, width
        Byte offset of each lane; bytes that it moves.
    banks, bank_bytes
        Of the shared memory.
    """
    lanes = np.asarray(offsets, np.int64)
    group = max(1, banks * bank_bytes // max(width, bank_bytes))
    cycles = 0
    for first in range(0, len(lanes), group):
        part = lanes[first : first + group]
        words = np.unique((part[:, None] + np.arange(0, width, bank_bytes)) // bank_bytes)
        cycles += int(np.bincount(words % banks, minlength=banks).max())
    return cycles


@dataclass
class Writer:
    """Writes a program instruction by instruction."""

    warps: int
    code: list[list[int]] = field(default_factory=list)
    accesses: list[list[int]] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    shifts: list[np.ndarray] = field(default_factory=list)

    @property
    def here(self) -> int:
        """Index of the next instruction."""
        return len(self.code)

    def put(
        self,
        op: int,
        *,
        pipe: int = 0,
        busy: int = 1,
        latency: int = 1,
        dst: int = -1,
        srcs: Sequence[int] = (),
        arg: int = 0,
        access: int = 0,
    ) -> None:
        """Append an instruction."""
        sources = [*srcs, -1, -1, -1][:3]
        self.code.append([op, pipe, busy, latency, dst, *sources, arg, access])

    def weave(self, first: int, second: int) -> None:
        """Spread the instructions from `second` on evenly among those that begin at `first`."""
        kept, spread = self.code[first:second], self.code[second:]
        del self.code[first:]
        done = 0
        for at, entry in enumerate(spread):
            upto = len(kept) * at // len(spread)
            self.code += [*kept[done:upto], entry]
            done = upto
        self.code += kept[done:]

    def access(
        self,
        operand: str,
        offsets: Sequence[int] | np.ndarray,
        width: int,
        *,
        stride: int = 0,
        lead: int = 0,
        cached: bool = False,
        shared_cycles: int = 0,
        shifts: np.ndarray | None = None,
    ) -> int:
        """Declare an access by the byte offsets of its lanes, the same for each warp but for `shifts`."""
        row = [
            OPERANDS.index(operand),
            width,
            len(offsets),
            len(self.offsets),
            stride,
            lead,
            int(cached),
            shared_cycles,
        ]
        self.accesses.append(row)
        self.offsets += [int(offset) for offset in offsets]
        self.shifts.append(np.zeros(self.warps, np.int64) if shifts is None else np.asarray(shifts, np.int64))
        return len(self.accesses) - 1

    def finish(
        self,
        starts: Sequence[int],
        *,
        stages: int = 1,
        consumers: int = 0,
        storers: int = 0,
        shared_bytes: int,
        registers: int,
    ) -> Program:
        """The program of a block whose warps begin at `starts`."""
        assert len(starts) == self.warps
        return Program(
            code=np.array(self.code, np.int64),
            accesses=np.array(self.accesses, np.int64).reshape(-1, L.ACCESS_COLUMNS),
            offsets=np.array(self.offsets, np.int64),
            starts=np.array(starts, np.int64),
            shifts=np.stack(self.shifts, axis=1) if self.shifts else np.zeros((self.warps, 0), np.int64),
            stages=stages,
            consumers=consumers,
            storers=storers,
            shared_bytes=shared_bytes,
            registers=registers,
        )
