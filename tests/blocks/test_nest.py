"""The accesses of our loop nests against those of the same loops compiled from C, traced by valgrind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from systolic.blocks.lackey import read_lackey
from systolic.blocks.nest import LoopNest, Matrices, blocked, naive, reordered
from tests.blocks.programs import compiled, lackey, symbols

pytestmark = [pytest.mark.tool("valgrind"), pytest.mark.tool("gcc")]


def traced(program: Path, first: int, end: int) -> np.ndarray:
    """(address, size, kind) of each load and store of the program between two addresses."""
    rows = []
    with lackey(program) as stream:
        for arrays in read_lackey(stream):
            rows.append(np.stack([np.asarray(array, np.int64) for array in arrays], axis=1))
    trace = np.concatenate(rows)
    return trace[(trace[:, 2] > 0) & (trace[:, 0] >= first) & (trace[:, 0] < end)]


@pytest.mark.parametrize(
    ("run", "nest", "n", "ld"),
    [
        ("naive", naive, 12, 12),
        ("naive", naive, 9, 13),
        ("reordered", reordered, 12, 12),
        ("blocked", lambda where: blocked(where, 8, 8, 8), 19, 21),
    ],
)
def test_a_nest_is_that_of_compiled_c(
    run: str, nest: Callable[[Matrices], LoopNest], n: int, ld: int, tmp_path: Path
) -> None:
    program = compiled(tmp_path, run, N=n, LD=ld)
    places = symbols(program)
    lhs, rhs, out = ((places[name], ld * 4, 4) for name in "ABC")
    made = nest(Matrices(m=n, n=n, k=n, size=4, lhs=lhs, rhs=rhs, out=out))
    found = np.concatenate(
        [np.stack([np.asarray(array, np.int64) for array in chunk], axis=1) for chunk in made.chunks()]
    )
    wanted = traced(program, min(lhs[0], rhs[0], out[0]), max(lhs[0], rhs[0], out[0]) + n * ld * 4)
    if run != "naive":
        # Which of the two operands of a sum is loaded first is the compiler's choice.
        found, wanted = (pairs_in_order(trace) for trace in (found, wanted))
    np.testing.assert_array_equal(found, wanted)


def pairs_in_order(trace: np.ndarray) -> np.ndarray:
    """Sort each run of loads between two stores by address."""
    run = np.cumsum(trace[:, 2] == 2) - (trace[:, 2] == 2)
    return trace[np.lexsort((trace[:, 0], trace[:, 2], run))]
