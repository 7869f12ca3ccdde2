"""The systolic array in closed form: what lies on which axis, and how many cycles a run of tiles takes.

Cycles are a count: the first active clock is cycle 1. The register-level engines of
:mod:`systolic.blocks.stepping` observe the same numbers.

A MAC of latency L that starts one product per cycle adds L - 1 cycles to a run: its multiplier is
pipelined, and sums move on by one PE per cycle as before. One that starts a product every I cycles makes
each hop take I.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ..chips.tpu import Array


class Axes(NamedTuple):
    """Which dimension of C[m, n] = A[m, k] B[k, n] lies on the rows, on the columns, and streams."""

    rows: str
    cols: str
    stream: str


AXES = {
    "ws": Axes("k", "n", "m"),
    "os": Axes("m", "n", "k"),
    "is": Axes("k", "m", "n"),
}


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Cycle constants of an array under a dataflow.

    Attributes
    ----------
    load
        Cycles in which a tile's stationary operand shifts in; 0 for output stationary.
    skew
        From the first word of a tile at the corner PE to the same word at the far corner, R + C - 2 hops, and
        what a pipelined MAC takes beyond its interval.
    shift_out
        Cycles in which finished sums shift out of the array; 0 unless output stationary.
    serial
        Whether one tile at a time is clocked to the end.
    rows, cols
        The array.
    interval
        Cycles of a hop: of operands, weights and sums alike.
    """

    load: int
    skew: int
    shift_out: int
    serial: bool
    rows: int
    cols: int
    interval: int = 1

    @classmethod
    def of(cls, array: Array, dataflow: str) -> Timing:
        """Constants of `array` under `dataflow`."""
        stationary, hop = dataflow != "os", array.mac_interval
        return cls(
            load=hop * array.load_cycles if stationary else 0,
            skew=hop * (array.rows + array.cols - 2) + array.mac_latency - hop,
            shift_out=0 if stationary else hop * array.rows,
            serial=array.convention == "serial",
            rows=array.rows,
            cols=array.cols,
            interval=hop,
        )

    @property
    def drain(self) -> int:
        """Cycles from the last streamed word at the corner PE to the last result out of the array."""
        return self.skew + self.shift_out

    def tile(self, streamed: int) -> int:
        """Cycles of one tile by itself, of `streamed` cycles of operand: load + streamed + drain."""
        return self.load + streamed + self.drain

    def gap(self, fed: int, next_fed: int) -> int:
        """Fewest cycles, after a tile of `fed` cycles, until the next, of `next_fed`, may enter.

        Weights of the next tile need `load` cycles behind the start of this one. A column of finished
        sums needs `shift_out` cycles to leave before the next column may finish.
        """
        return max(0, self.load - fed, self.shift_out - next_fed)

    def run(self, streamed: Sequence[int]) -> int:
        """Cycles of a run of tiles that stream `streamed` cycles each, with memory never in the way."""
        if self.serial:
            return sum(self.tile(s) for s in streamed)
        gaps = sum(self.gap(s, after) for s, after in pairwise(streamed))
        return self.load + sum(streamed) + gaps + self.drain

    def uniform_run(self, tiles: int, streamed: int) -> int:
        """As :meth:`run` for `tiles` equal tiles."""
        if self.serial:
            return tiles * self.tile(streamed)
        return self.load + tiles * streamed + (tiles - 1) * self.gap(streamed, streamed) + self.drain

    def split_drain(self) -> dict[str, int]:
        """The cycles after the last word has entered, by cause."""
        if self.shift_out:
            return {"fill": self.skew, "drain": self.shift_out}
        drain = self.interval * (self.cols - 1)
        return {"fill": self.skew - drain, "drain": drain}


def folds(length: int, side: int) -> int:
    """Tiles of at most `side` that cover `length`."""
    return -(-length // side)


def pieces(length: int, side: int) -> Iterable[tuple[int, int]]:
    """(start, stop) of the consecutive tiles of at most `side` that cover `length`."""
    for start in range(0, length, side):
        yield start, min(length, start + side)
