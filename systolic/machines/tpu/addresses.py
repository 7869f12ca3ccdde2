"""Where the elements of each step of a stream lie in on-chip memory, and how many of them share a bank.

Independent of the closed form in :mod:`systolic.mapping.banks`: every element of every step has an address.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ...blocks.array import AXES
from ...mapping.banks import Banks
from ...mapping.plan import Plan, Problem

if TYPE_CHECKING:
    from .clocked import Piece


def slowest_step(problem: Problem, plan: Plan, pieces: Iterable[Piece]) -> int:
    """Most words that a bank has to give for one step of the first block's `pieces`, at least a hop."""
    if problem.banks is None:
        return problem.timing.interval
    axes = AXES[problem.dataflow]
    entering = {problem.streaming: axes.rows}
    if problem.dataflow == "os":
        entering[problem.stationary] = axes.cols
    return max(
        problem.timing.interval,
        *(
            _fullest(problem, plan, name, piece, piece.rows if across == axes.rows else piece.cols)
            for piece in pieces
            for name, across in entering.items()
        ),
    )


def _fullest(problem: Problem, plan: Plan, name: str, piece: Piece, across: tuple[int, int]) -> int:
    """Most words of one operand in one bank in a step of a piece."""
    banks = problem.banks
    assert banks is not None
    axes, bits = AXES[problem.dataflow], problem.operands[name].bits
    stream, stationary = np.arange(*piece.stream), problem.dataflow != "os"
    steps = np.arange(len(stream)) // problem.lanes
    # Each array has a buffer of its own for its part of the stream.
    elements = np.arange(len(stream)) if stationary else stream // problem.passes
    length = plan.tile[axes.stream]
    length = -(-length // plan.split[1]) if stationary else length
    places = {axes.stream: elements[:, None], "across": np.arange(*across)[None, :]}
    rows, cols = ("m", "k") if name == "lhs" else ("k", "n")
    row, col = (places.get(dim, places["across"]) for dim in (rows, cols))
    sides = {axes.stream: length}
    height, width = (sides.get(dim, plan.tile[dim]) for dim in (rows, cols))
    line, place, size = (row, col, width) if banks.layout == "row" else (col, row, height)
    word = 8 * banks.word_bytes
    address = line * (-(-size * bits // word) * word) + place * bits
    return _most_in_a_bank(np.broadcast_to(steps[:, None], address.shape), address, bits, banks)


def _most_in_a_bank(steps: np.ndarray, address: np.ndarray, bits: int, banks: Banks) -> int:
    word = 8 * banks.word_bytes
    first, last = address // word, (address + bits - 1) // word
    touched = [
        np.stack([steps[there], first[there] + i])
        for i in range(int((last - first).max()) + 1)
        if (there := first + i <= last).any()
    ]
    words = np.unique(np.concatenate(touched, axis=1), axis=1)
    words[1] %= banks.count
    _, counts = np.unique(words, axis=1, return_counts=True)
    return int(counts.max())
