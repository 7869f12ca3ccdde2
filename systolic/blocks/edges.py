"""Tiles of work for an array, and the words that enter at its edges for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..chips.tpu import Array
from ..kernels.stationary import LAST, REAL, SWAP, TOKEN
from .array import folds


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


class FedArray:
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

    def _fed(self, tile: Tile) -> int:
        return folds(tile.left.shape[0], self.lanes)

    def _last_in(self, tile: Tile) -> int:
        """Clock at which the last word of a tile enters the corner PE."""
        return tile.start + self.pace * (self._fed(tile) - 1)

    def _edge_words(self, begin: int, end: int) -> tuple[np.ndarray, ...]:
        """All that enters in clocks begin <= t < end, as the kernels take it."""
        left = self._left_words(begin, end)
        if self.output_stationary:
            return *left, *self._top_stream(begin, end), self._release_lines(begin, end)
        return *left, *self._top_words(begin, end)

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
