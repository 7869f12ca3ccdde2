"""How long blocks take through a DRAM: stepped once for each pattern of accesses, then looked up.

A block is `runs` pieces of equal length at equal distances. One stepping of a stretch of such pieces gives
the cycle at which each of them has passed; a longer block goes on as the second half of the stretch did. So
the duration never falls when a block gets more pieces. A transfer is over when its last channel is done; rows
of the next one are opened meanwhile. What differs from transfer to transfer is taken alike for all: a block
begins at address 0 of a region of its own, finds no row open, and loses an even share of time to refreshes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ..chips.dram import load_dram_part
from ..chips.memory import Memory
from .dram import Dram

STRETCH, LONGEST = 256, 12_288
"""Accesses that are stepped, of each channel and at most of all: enough to open each several times."""

LONG = 16
"""A piece longer than this part of a stretch counts as a part of one stream: its ends no longer matter."""


@dataclass(frozen=True)
class DramPort:
    """The DRAM as the cores see it: durations of transfers in cycles of `clock_hz`.

    `sharers` cores move equal blocks at the same time, each in a region of its own, access by access in turn.
    """

    dram: Dram
    clock_hz: int
    sharers: int = 1

    @classmethod
    def of(cls, memory: Memory, clock_hz: int, sharers: int = 1) -> DramPort | None:
        """The port of a memory whose DRAM is to be stepped; None where its bandwidth stands for it."""
        if memory.model != "timing" or memory.part is None or memory.channels is None:
            return None
        return cls(Dram(part=load_dram_part(memory.part), channels=memory.channels), clock_hz, sharers)

    @cached_property
    def cycles_per_cycle(self) -> Fraction:
        """Cycles of `clock_hz` for one of the DRAM's, with the share of time that refreshes take."""
        part = self.dram.part
        return Fraction(
            self.clock_hz * part.timing.refi, part.clock_hz * (part.timing.refi - part.timing.rfc)
        )

    @property
    def latency(self) -> int:
        """Cycles until the first data of a row that must be opened, rounded up."""
        part = self.dram.part
        return -(-(part.timing.rcd_read + part.timing.cl) * self.clock_hz // part.clock_hz)

    def stream_cycles(self, num_bytes: Any, *, write: bool) -> Any:
        """Cycles for `num_bytes` in one piece (an int or an integer array), rounded up."""
        accesses = -(-np.asarray(num_bytes) // self.dram.part.access_bytes)
        return self._converted(self._looked_up(accesses, 1, 1, write), write)

    def block_cycles(self, runs: Any, run_bytes: Any, pitch_bytes: int, *, write: bool) -> Any:
        """Cycles for `runs` pieces of `run_bytes` each (ints or integer arrays), rounded up.

        Pieces begin `pitch_bytes` apart, rounded up to whole accesses.
        """
        unit = self.dram.part.access_bytes
        many, lengths = np.broadcast_arrays(np.asarray(runs), -(-np.asarray(run_bytes) // unit))
        pitch = -(-pitch_bytes // unit)
        cycles = np.zeros(many.shape, np.int64)
        for length in np.unique(lengths):
            here = lengths == length
            if length >= pitch or length * LONG > self._stretch:
                cycles[here] = self._looked_up(many[here] * length, 1, 1, write)
            else:
                cycles[here] = self._looked_up(many[here], int(length), pitch, write)
        return self._converted(cycles, write)

    @cached_property
    def _restless(self) -> Dram:
        return replace(self.dram, refresh=False)

    @property
    def _stretch(self) -> int:
        return min(STRETCH * self.dram.channels, LONGEST) // self.sharers

    def _looked_up(self, runs: Any, length: int, pitch: int, write: bool) -> Any:
        """The DRAM's own cycles, no refresh."""
        passed = _stepped(self._restless, self.sharers, max(2, self._stretch // length), length, pitch, write)
        half = (len(passed) - 1) // 2
        beyond = np.maximum(runs - (len(passed) - 1), 0)
        rounds, rest = np.divmod(beyond, half)
        again = passed[-1] - passed[-1 - half]
        extended = passed[len(passed) - 1 - half + rest] + (rounds + 1) * again
        cycles = np.where(beyond > 0, extended, passed[np.minimum(runs, len(passed) - 1)])
        timing = self.dram.part.timing
        data = runs * length * self.sharers * max(timing.burst, timing.ccd_s)
        return np.maximum(cycles, -(-data // self.dram.channels))

    def _converted(self, cycles: Any, write: bool) -> Any:
        """In cycles of `clock_hz`; refreshes and, for stores, turning the bus there and back included."""
        timing = self.dram.part.timing
        turning = timing.write_turnaround + timing.wtr_l + timing.cl
        whole = (cycles + write * turning * (cycles > 0)).astype(object)
        rate = self.cycles_per_cycle
        rounded = -(-whole * rate.numerator // rate.denominator)
        return rounded.astype(np.int64) if np.ndim(rounded) else int(rounded)


def port_cycles(memory: Memory, num_bytes: int, clock_hz: int, *, write: bool = False) -> int:
    """Cycles of the named clock for `num_bytes` in one piece through a memory, as its model has it."""
    cycles = memory.transfer_cycles(num_bytes, clock_hz)
    port = DramPort.of(memory, clock_hz)
    return cycles if port is None else max(cycles, port.stream_cycles(num_bytes, write=write))


@lru_cache(maxsize=4096)
def _stepped(dram: Dram, sharers: int, runs: int, length: int, pitch: int, write: bool) -> np.ndarray:
    """Cycles from the first data until 0, 1, 2, … runs of all sharers have passed; never falling."""
    unit = dram.part.access_bytes
    region = dram.bytes // unit // sharers
    behind = -(-dram.queue * dram.channels // (length * sharers))  # what the queues see past the last run
    run, step, sharer = np.meshgrid(
        np.arange(runs + behind), np.arange(length), np.arange(sharers), indexing="ij"
    )
    done = dram.run((sharer * region + run * pitch + step).ravel() * unit, write)
    ends = done.done.reshape(runs + behind, -1)[:runs].max(axis=1) - done.begun.min()
    return np.concatenate([[0], np.maximum.accumulate(ends)])
