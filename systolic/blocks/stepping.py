"""An array stepped register by register: the words at its edges, its state at any clock, what leaves it.

Two engines run on the same words. ``stored`` keeps every register of every PE; ``streamed`` keeps what adds
up and reads the rest from the streams. Neither kernel sees a shape: both see words. What a run counts, the
stored engine observes; the streamed one is clocked until the last word has left, and counts from its tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..chips.tpu import Array
from ..errors import SystolicError
from ..kernels import streamed
from ..kernels.stationary import CLOCKS, LAST, LAST_BUSY, MACS, REAL, SLOTS, SWAP, TOKEN, WRAPS
from .array import folds
from .registers import Registers, is_plain

WINDOW = 2048
"""Clocks whose edge words are built at once: bounds the memory of a long run."""


@dataclass(frozen=True, kw_only=True)
class Tile:
    """One tile of work for an array, with the clocks at which its words enter.

    Attributes
    ----------
    start
        Clock at which the first word streams in at the corner PE.
    load_at
        Clock at which its first weights enter on top; unused output stationary.
    left
        Operand from the left: (streamed, used rows).
    top
        Weights (used rows, used cols); output stationary the operand from above: (streamed, used cols).
    first, last
        Whether it begins, and ends, its sums (output stationary only).
    """

    start: int
    load_at: int
    left: np.ndarray
    top: np.ndarray
    first: bool = True
    last: bool = True


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


class SteppedArray:
    """An array and the tiles that it will run.

    Parameters
    ----------
    array, lanes
        The array; rows of the streamed operand per cycle.
    output_stationary
        False for weight stationary, and for input stationary with operands exchanged.
    tiles
        In order of `start`; operands float32, or integers.
    acc
        Format of the sums; fp32 or int32 where it is not given.
    pace
        Clocks between two words of a tile; those of a hop where it is not given.
    """

    def __init__(
        self,
        array: Array,
        lanes: int,
        output_stationary: bool,
        tiles: Sequence[Tile],
        acc: str | None = None,
        pace: int | None = None,
    ) -> None:
        self.array, self.lanes, self.output_stationary, self.tiles = array, lanes, output_stationary, tiles
        self.is_float = np.issubdtype(tiles[0].left.dtype, np.floating)
        self.acc = acc or ("fp32" if self.is_float else "int32")
        self.hop = array.mac_interval
        self.pace = self.hop if pace is None else pace
        self.skew = self.hop * (array.rows + array.cols - 2)
        shift_out = self.hop * array.rows if output_stationary else 0
        self.clocks = max(map(self._last_in, tiles)) + self.skew + array.mac_latency - 1 + shift_out

    @property
    def is_stored_only(self) -> bool:
        """Whether only the ``stored`` engine runs it: a MAC, or a step of the stream, of several clocks."""
        return self.pace != 1 or not is_plain(self.array, self.acc)

    def _fed(self, tile: Tile) -> int:
        return folds(tile.left.shape[0], self.lanes)

    def _last_in(self, tile: Tile) -> int:
        """Clock at which the last word of a tile enters the corner PE."""
        return tile.start + self.pace * (self._fed(tile) - 1)

    def run(self, engine: str = "streamed") -> Stepped:
        """Run all tiles with the ``streamed`` or the ``stored`` engine."""
        assert engine == "stored" or not self.is_stored_only
        if engine == "stored":
            return self._run_stored()
        return self._stream_output_stationary() if self.output_stationary else self._stream_stationary()

    def states(self) -> Iterator[dict[str, np.ndarray]]:
        """The registers after clock 0 (reset), 1, 2, … until the array is empty; copies.

        Keys: ``act``, ``valid`` (whether the word in `act` is an operand), ``weight``, ``shadow``, ``psum``,
        and the registers of words in passing, each as the kernels describe them.
        """
        registers = self._registers()
        yield registers.state()
        for clock in range(1, self.clocks + 1):
            self._clock(registers, clock, clock + 1)
            yield registers.state()

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

    # Words at the edges.

    def _left_words(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Words and flags that enter on the left in clocks begin <= t < end: (clocks, lanes, rows)."""
        rows, lanes = self.array.rows, self.lanes
        words = np.zeros((end - begin, lanes, rows), self.tiles[0].left.dtype)
        flags = np.zeros(words.shape, np.uint8)
        for tile in self._entering(begin, end, rows):
            fed = self._fed(tile)
            padded = np.zeros((fed * lanes, rows), words.dtype)
            marks = np.full((fed * lanes, rows), TOKEN, np.uint8)
            length, used = tile.left.shape
            padded[:length, :used] = tile.left
            marks[:length, :used] |= REAL
            if tile.first:
                marks[:lanes] |= SWAP
            if tile.last:
                marks[-lanes:] |= LAST
            self._paste(words, padded.reshape(fed, lanes, rows), tile.start - begin)
            self._paste(flags, marks.reshape(fed, lanes, rows), tile.start - begin)
        return words, flags

    def _top_words(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights, flags and hops that enter on top: (clocks, weight_rows, cols). Bottom rows enter first."""
        rows, cols, ways = self.array.rows, self.array.cols, self.array.weight_rows
        words = np.zeros((end - begin, ways, cols), self.tiles[0].top.dtype)
        flags, hops = np.zeros(words.shape, np.uint8), np.zeros(words.shape, np.int16)
        columns = np.arange(cols)
        for tile in self.tiles:
            last = tile.load_at + self.hop * (self.array.load_cycles + cols)
            if not (tile.load_at < end and last > begin):
                continue
            used_rows, used_cols = tile.top.shape
            padded = np.zeros((rows, cols), words.dtype)
            marks = np.full((rows, cols), TOKEN, np.uint8)
            padded[:used_rows, :used_cols] = tile.top
            marks[:used_rows, :used_cols] |= REAL
            for r in range(rows):
                at, way = divmod(rows - 1 - r, ways)
                clocks = tile.load_at - begin + self.hop * (at + columns)
                inside = (clocks >= 0) & (clocks < end - begin)
                words[clocks[inside], way, columns[inside]] = padded[r, inside]
                flags[clocks[inside], way, columns[inside]] = marks[r, inside]
                hops[clocks[inside], way, columns[inside]] = r
        return words, flags, hops

    def _top_stream(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Output stationary: words and flags from above, (clocks, lanes, cols)."""
        cols, lanes = self.array.cols, self.lanes
        words = np.zeros((end - begin, lanes, cols), self.tiles[0].top.dtype)
        flags = np.zeros(words.shape, np.uint8)
        for tile in self._entering(begin, end, cols):
            fed = self._fed(tile)
            length, used = tile.top.shape
            padded = np.zeros((fed * lanes, cols), words.dtype)
            marks = np.full((fed * lanes, cols), TOKEN, np.uint8)
            padded[:length, :used] = tile.top
            marks[:length, :used] |= REAL
            self._paste(words, padded.reshape(fed, lanes, cols), tile.start - begin)
            self._paste(flags, marks.reshape(fed, lanes, cols), tile.start - begin)
        return words, flags

    def _release_lines(self, begin: int, end: int) -> np.ndarray:
        """Output stationary: pulses that let go of finished sums, (clocks, cols).

        A column's pulse comes one hop after its bottom PE has finished.
        """
        cols = self.array.cols
        lines, columns = np.zeros((end - begin, cols), np.uint8), np.arange(cols)
        for tile in self.tiles:
            if tile.last:
                finished = self._last_in(tile) + self.array.mac_latency - 1
                clocks = finished - begin + self.hop * (self.array.rows + columns)
                inside = (clocks >= 0) & (clocks < end - begin)
                lines[clocks[inside], columns[inside]] = 1
        return lines

    def _entering(self, begin: int, end: int, side: int) -> list[Tile]:
        return [t for t in self.tiles if t.start < end and self._last_in(t) + self.hop * side >= begin]

    def _paste(self, target: np.ndarray, words: np.ndarray, at: int) -> None:
        """Write words (steps, lanes, places) into `target` from clock `at`, each place one hop later."""
        for place in range(words.shape[2]):
            first = at + self.hop * place
            skipped = max(0, -(first // self.pace))
            steps = words[skipped:, :, place]
            into = target[first + self.pace * skipped :: self.pace, :, place]
            count = min(len(into), len(steps))
            into[:count] = steps[:count]

    # The stored engine.

    def _registers(self) -> Registers:
        return Registers.of(self.array, self.lanes, self.output_stationary, self.acc)

    def _clock(self, registers: Registers, begin: int, end: int) -> tuple[np.ndarray, ...]:
        """Clock begin <= t < end; return what the bottom showed at each clock, and its flags."""
        left = self._left_words(begin, end)
        if self.output_stationary:
            return registers.clock((*left, *self._top_stream(begin, end), self._release_lines(begin, end)))
        return registers.clock((*left, *self._top_words(begin, end)))

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
