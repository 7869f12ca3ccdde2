"""An array stepped register by register: the words at its edges, its state at any clock, what leaves it.

Two engines run on the same words. ``stored`` keeps every register of every PE; ``streamed`` keeps what adds
up and reads the rest from the streams. Neither kernel sees a shape: both see words. What a run counts, the
stored engine observes; the streamed one is clocked until the last word has left, and counts from its tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import SystolicError
from ..kernels import streamed
from ..kernels.stationary import CLOCKS, LAST_BUSY, MACS, SLOTS, TOKEN, WRAPS
from .edges import FedArray, Tile
from .registers import Registers, is_plain

WINDOW = 2048
"""Clocks whose edge words are built at once: bounds the memory of a long run."""


@dataclass(frozen=True)
class Stepped:
    """What a run of tiles showed.

    Attributes
    ----------
    cycles
        The last clock in which a word was anywhere in the array: observed by the stored engine, the clocks
        that it was given by the streamed one.
    macs, slots, wraps
        MACs on operands, PE-lane slots clocked with a word, sums that wrapped; `wraps` and `slots` are
        counted by the stored engine only (None otherwise).
    results
        One (streamed, used cols) or, output stationary, (used rows, used cols) array per tile that ends sums.
    """

    cycles: int
    macs: int
    slots: int | None
    wraps: int | None
    results: list[np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Clocked:
    """One clock of a stepped array.

    Attributes
    ----------
    left, left_flags, top, top_flags
        Words that entered on the left (lanes, rows) and on top (ways, cols), and their flags.
    state
        The registers after it: see :meth:`SteppedArray.states`.
    macs
        MACs on operands so far, as the array has counted them.
    bottom, bottom_flags
        What the bottom showed (lanes, cols); output stationary, (1, cols) finished sums that left.
    """

    left: np.ndarray
    left_flags: np.ndarray
    top: np.ndarray
    top_flags: np.ndarray
    state: dict[str, np.ndarray]
    macs: int
    bottom: np.ndarray
    bottom_flags: np.ndarray


class SteppedArray(FedArray):
    """An array that runs its tiles: see :class:`systolic.blocks.edges.FedArray` for what it takes."""

    @property
    def is_stored_only(self) -> bool:
        """Whether only the ``stored`` engine runs it: a MAC, or a step of the stream, of several clocks."""
        return self.pace != 1 or not is_plain(self.array, self.acc)

    def run(self, engine: str = "streamed") -> Stepped:
        """Run all tiles with the ``streamed`` or the ``stored`` engine."""
        assert engine == "stored" or not self.is_stored_only
        if engine == "stored":
            return self._run_stored()
        return self._stream_output_stationary() if self.output_stationary else self._stream_stationary()

    def clocked(self, clocks: int | None = None) -> Iterator[Clocked]:
        """The first `clocks` clocks (all of them where it is not given), one by one."""
        registers = self._registers()
        end = self.clocks + 1 if clocks is None else clocks + 1
        for begin in range(1, end, WINDOW):
            words = self._edge_words(begin, min(begin + WINDOW, end))
            for i in range(len(words[0])):
                entering = tuple(word[i : i + 1] for word in words)
                bottom, flags = registers.clock(entering)
                shape = (-1, self.array.cols)
                yield Clocked(
                    left=words[0][i],
                    left_flags=words[1][i],
                    top=words[2][i],
                    top_flags=words[3][i],
                    state=registers.state(),
                    macs=int(registers.counts[MACS]),
                    bottom=bottom[0].reshape(shape),
                    bottom_flags=flags[0].reshape(shape),
                )

    def states(self) -> Iterator[dict[str, np.ndarray]]:
        """The registers after clock 0 (reset), 1, 2, … until the array is empty; copies.

        Keys: ``act``, ``valid`` (whether the word in `act` is an operand), ``weight``, ``shadow``, ``psum``,
        and the registers of words in passing, each as the kernels describe them.
        """
        yield self._registers().state()
        yield from (clock.state for clock in self.clocked())

    def state_at(self, clock: int) -> dict[str, np.ndarray]:
        """The registers after clock edge `clock`; 0 is reset. See :meth:`states`.

        Raises
        ------
        SystolicError
            For a clock outside the run.
        """
        if not 0 <= clock <= self.clocks:
            raise SystolicError(f"clock must be 0 (reset) to {self.clocks} (array empty), got {clock}")
        registers = self._registers()
        for begin in range(1, clock + 1, WINDOW):
            self._clock(registers, begin, min(begin + WINDOW, clock + 1))
        return registers.state()

    # The stored engine.

    def _registers(self) -> Registers:
        return Registers.of(self.array, self.lanes, self.output_stationary, self.acc)

    def _clock(self, registers: Registers, begin: int, end: int) -> tuple[np.ndarray, ...]:
        """Clock begin <= t < end; return what the bottom showed at each clock, and its flags."""
        return registers.clock(self._edge_words(begin, end))

    def _run_stored(self) -> Stepped:
        registers = self._registers()
        shown = [
            self._clock(registers, begin, min(begin + WINDOW, self.clocks + 2))
            for begin in range(1, self.clocks + 2, WINDOW)
        ]
        counts = registers.counts
        bottom = np.concatenate([words for words, _ in shown])
        flags = np.concatenate([marks for _, marks in shown])
        assert counts[CLOCKS] == self.clocks + 1
        collect = self._collect_shifted if self.output_stationary else self._collect_fallen
        return Stepped(
            int(counts[LAST_BUSY]),
            int(counts[MACS]),
            int(counts[SLOTS]),
            int(counts[WRAPS]),
            collect(bottom, flags),
        )

    def _collect_fallen(self, bottom: np.ndarray, flags: np.ndarray) -> list[np.ndarray]:
        """Sums in the order in which each column gave them, tile by tile."""
        lanes, cols = self.lanes, self.array.cols
        columns = [
            [bottom[flags[:, lane, c] & TOKEN != 0, lane, c] for c in range(cols)] for lane in range(lanes)
        ]
        results, given = [], 0
        for tile in self.tiles:
            fed = self._fed(tile)
            length, used = tile.left.shape[0], tile.top.shape[1]
            block = np.empty((fed, lanes, used), bottom.dtype)
            for lane in range(lanes):
                for c in range(used):
                    block[:, lane, c] = columns[lane][c][given : given + fed]
            results.append(self._narrow(block.reshape(fed * lanes, used)[:length]))
            given += fed
        return results

    def _collect_shifted(self, bottom: np.ndarray, full: np.ndarray) -> list[np.ndarray]:
        """Columns of finished sums, bottom row first, tile by tile."""
        rows = self.array.rows
        columns = [bottom[full[:, c] != 0, c] for c in range(self.array.cols)]
        results = []
        for i, tile in enumerate(t for t in self.tiles if t.last):
            block = np.stack([column[i * rows : (i + 1) * rows][::-1] for column in columns], axis=1)
            results.append(self._narrow(block[: tile.left.shape[1], : tile.top.shape[1]]))
        return results

    def _narrow(self, block: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(block, dtype=np.float32 if self.is_float else np.int32)

    # The streamed engine.

    def _reversed_left(self, begin: int, end: int) -> np.ndarray:
        lines = self._lines("left", self.array.rows, begin - self.array.cols + 1, end)
        return np.ascontiguousarray(lines[:, :, ::-1])

    def _lines(self, side: str, places: int, begin: int, end: int) -> np.ndarray:
        """Words on one side in clocks begin <= t < end, without flags: (lanes, places, clocks)."""
        number: Any = np.float32 if self.is_float else np.int32
        lines = np.zeros((self.lanes, places, end - begin), number)
        for tile in self._entering(begin, end, places):
            # Only what the window sees, so that a long tile costs each window no more than a short one.
            first = max(0, begin - places - tile.start)
            last = min(self._fed(tile), end - tile.start)
            part = getattr(tile, side)[first * self.lanes : last * self.lanes]
            words = np.zeros(((last - first) * self.lanes, part.shape[1]), number)
            words[: len(part)] = part
            lanes = words.reshape(last - first, self.lanes, -1).transpose(1, 2, 0)
            for place, line in enumerate(lanes.transpose(1, 0, 2)):
                at = tile.start + first + place - begin
                low, high = max(0, at), min(end - begin, at + last - first)
                if low < high:
                    lines[:, place, low:high] = line[:, low - at : high - at]
        return lines

    def _windows(self) -> Iterator[tuple[int, int]]:
        for begin in range(1, self.clocks + 1, WINDOW):
            yield begin, min(begin + WINDOW, self.clocks + 1)

    def _stream_stationary(self) -> Stepped:
        rows, cols, lanes = self.array.rows, self.array.cols, self.lanes
        number: Any = np.float32 if self.is_float else np.int32
        starts = np.array([t.start for t in self.tiles], np.int64)
        weight, psum = np.zeros((rows, cols), number), np.zeros((lanes, rows, cols), number)
        bottom = np.zeros((self.clocks, lanes, cols), number)
        for begin, end in self._windows():
            low = int(np.searchsorted(starts, begin - self.skew))
            high = int(np.searchsorted(starts, end))
            weights = np.zeros((high - low, rows, cols), number)
            for block, tile in zip(weights, self.tiles[low:high], strict=True):
                block[: tile.top.shape[0], : tile.top.shape[1]] = tile.top
            streamed.stream_stationary(
                self._reversed_left(begin, end), begin, end - begin, starts[low:high], weights, weight, psum,
                bottom[begin - 1 : end - 1],
            )  # fmt: skip
        results = [self._deskew(bottom, tile) for tile in self.tiles]
        macs = sum(tile.left.shape[0] * tile.top.shape[0] * tile.top.shape[1] for tile in self.tiles)
        return Stepped(self.clocks, macs, None, None, results)

    def _deskew(self, bottom: np.ndarray, tile: Tile) -> np.ndarray:
        """Results of a tile from the log of the bottom row: column c is c clocks late."""
        fed, used = self._fed(tile), tile.top.shape[1]
        first = tile.start - 1 + self.array.rows - 1
        block = np.stack([bottom[first + c : first + c + fed, :, c] for c in range(used)], axis=-1)
        return np.ascontiguousarray(block.reshape(fed * self.lanes, used)[: tile.left.shape[0]])

    def _stream_output_stationary(self) -> Stepped:
        rows, cols = self.array.rows, self.array.cols
        number: Any = np.float32 if self.is_float else np.int32
        firsts = np.array([t.start for t in self.tiles if t.first], np.int64)
        lasts = np.array([t.start + self._fed(t) - 1 for t in self.tiles if t.last], np.int64)
        psum, finished = np.zeros((rows, cols), number), np.zeros((len(lasts), rows, cols), number)
        for begin, end in self._windows():
            top = self._lines("top", cols, begin - rows + 1, end).transpose(2, 0, 1)
            streamed.stream_output_stationary(
                self._reversed_left(begin, end), np.ascontiguousarray(top), begin, end - begin,
                firsts, lasts, psum, finished,
            )  # fmt: skip
        ends = [t for t in self.tiles if t.last]
        results = [
            np.ascontiguousarray(block[: t.left.shape[1], : t.top.shape[1]])
            for block, t in zip(finished, ends, strict=True)
        ]
        macs = sum(t.left.shape[0] * t.left.shape[1] * t.top.shape[1] for t in self.tiles)
        return Stepped(self.clocks, macs, None, None, results)
