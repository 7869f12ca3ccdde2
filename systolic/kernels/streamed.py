"""The same arrays at speed: a register that only passes a word on is a view of the word's stream.

An activation in column c is the word that entered c clocks ago, a word of the stationary operand in row r
the one that entered r clocks ago. What adds up is stored: `psum`, and the live `weight`, which changes
along a diagonal as the swap passes. These kernels do not count wraps; integer sums must fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compile import kernel
from .micro import mac_row


@kernel
def stream_stationary(
    reversed_left: Any, clock0: int, clocks: int, starts: Any, tiles: Any, weight: Any, psum: Any, bottom: Any
) -> None:
    """Step a weight-stationary array over a window of clocks.

    Parameters
    ----------
    reversed_left
        (lanes, rows, clocks + cols - 1): entry [l, r, clocks - 1 - i + c] is the word that is in column c of
        row r at clock clock0 + i.
    clock0, clocks
        First clock of the window (the first clock of a run is 1); how many.
    starts, tiles
        Clock at which each tile begins to enter, rising; its weights (tiles, rows, cols).
    weight, psum
        Registers (rows, cols) and (lanes, rows, cols), float32 or int32.
    bottom
        Receives the bottom row after each clock: (clocks, lanes, cols).
    """
    lanes, rows, cols = psum.shape
    width = reversed_left.shape[2]
    words, weights, sums = reversed_left.reshape(-1), weight.reshape(-1), psum.reshape(-1)
    zeros = np.zeros(cols, psum.dtype)
    wave = rows + cols - 2
    first = 0
    for i in range(clocks):
        clock = clock0 + i
        while first < starts.size and starts[first] + wave < clock:
            first += 1
        tile = first
        while tile < starts.size and starts[tile] <= clock:
            for r in range(max(0, clock - starts[tile] - cols + 1), min(rows, clock - starts[tile] + 1)):
                c = clock - starts[tile] - r
                weight[r, c] = tiles[tile, r, c]
            tile += 1
        at = clocks - 1 - i
        for lane in range(lanes):
            for r in range(rows - 1, -1, -1):
                here = (lane * rows + r) * cols
                word = (lane * rows + r) * width + at
                if r > 0:
                    mac_row(sums, here, sums, here - cols, words, word, weights, r * cols, cols)
                else:
                    mac_row(sums, here, zeros, 0, words, word, weights, 0, cols)
            for c in range(cols):
                bottom[i, lane, c] = psum[lane, rows - 1, c]


@kernel
def stream_output_stationary(
    reversed_left: Any, top: Any, clock0: int, clocks: int, firsts: Any, lasts: Any, psum: Any, finished: Any
) -> None:
    """Step an output-stationary array over a window of clocks.

    Parameters
    ----------
    reversed_left
        As for :func:`stream_stationary`.
    top
        (clocks + rows - 1, lanes, cols): entry [i + rows - 1 - r] is what row r holds at clock clock0 + i.
    clock0, clocks
        First clock of the window; how many.
    firsts, lasts
        Clocks at which the first and the last word of each tile enter the corner PE, rising.
    psum
        Register (rows, cols), float32 or int32.
    finished
        (tiles, rows, cols): receives each sum as its last product is added.
    """
    rows, cols = psum.shape
    lanes, width = top.shape[1], reversed_left.shape[2]
    words, tops, sums = reversed_left.reshape(-1), top.reshape(-1), psum.reshape(-1)
    wave = rows + cols - 2
    first = 0
    for i in range(clocks):
        clock = clock0 + i
        while first < lasts.size and lasts[first] + wave < clock:
            first += 1
        tile = first
        while tile < firsts.size and firsts[tile] <= clock:
            for r in range(max(0, clock - firsts[tile] - cols + 1), min(rows, clock - firsts[tile] + 1)):
                psum[r, clock - firsts[tile] - r] = 0
            tile += 1
        at = clocks - 1 - i
        for r in range(rows):
            for lane in range(lanes):
                word = (lane * rows + r) * width + at
                above = ((i + rows - 1 - r) * lanes + lane) * cols
                mac_row(sums, r * cols, sums, r * cols, words, word, tops, above, cols)
        tile = first
        while tile < lasts.size and lasts[tile] <= clock:
            for r in range(max(0, clock - lasts[tile] - cols + 1), min(rows, clock - lasts[tile] + 1)):
                finished[tile, r, clock - lasts[tile] - r] = psum[r, clock - lasts[tile] - r]
            tile += 1
