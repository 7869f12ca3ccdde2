"""Loads and stores of a loop nest, each with the line that it touches and the cache that had it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic import Gemm, SystolicError
from systolic.engine.line_recording import LOOPS, OPERANDS, TEACHING, record_lines

side = st.integers(1, 12)


@settings(deadline=None, max_examples=15)
@given(side, side, side, st.sampled_from(sorted(LOOPS)), st.sampled_from(["fp32", "bf16", "int8"]))
def test_what_each_access_met_adds_up_to_what_the_caches_counted(
    m: int, n: int, k: int, loop: str, dtype: str
) -> None:
    found = record_lines(Gemm(m=m, n=n, k=k, dtype=dtype), loop)
    counts = found.counts
    assert counts.reads + counts.writes == len(found.level)
    for level in range(len(TEACHING)):
        assert (found.level > level).sum() == counts.read_misses[level] + counts.write_misses[level]
    reads = np.bincount(found.operand[~found.is_write], minlength=3)
    assert reads[0] >= m * k and reads[1] == m * n * k
    assert set(found.operand[found.is_write]) == {OPERANDS.index("out")}


def test_contents_follow_from_the_record() -> None:
    """Replaying what came and what left never holds more lines than a cache has, nor a line twice."""
    found = record_lines(Gemm(m=20, n=24, k=16, dtype="fp32"), "naive")
    held: list[set[int]] = [set() for _ in TEACHING]
    for i, level in enumerate(found.level):
        line = int(found.lines[OPERANDS[found.operand[i]]].ravel()[found.element[i]])
        assert level == next((at for at, lines in enumerate(held) if line in lines), len(TEACHING))
        for at in range(min(int(level) + 1, len(TEACHING))):
            held[at].discard(int(found.left[i, at]))
            held[at].add(line)
            assert len(held[at]) <= TEACHING[at].bytes // TEACHING[at].line_bytes


def test_a_column_walk_counted_by_hand() -> None:
    """One row of A (2 lines) and B of 32 rows of two lines: 16 lines of L1 do not hold a column of 32.

    Each of 32 columns loads 32 lines of B anew, the first of 64 lines from memory, and 32 times an element of
    A, of which both lines are used too often to leave for long.
    """
    found = record_lines(Gemm(m=1, n=32, k=32, dtype="fp32"), "naive")
    of_rhs = found.operand == OPERANDS.index("rhs")
    assert (found.level[of_rhs] > 0).all()
    assert (found.level[of_rhs] == len(TEACHING)).sum() == 64


def test_too_much_and_unknown_are_refused() -> None:
    with pytest.raises(SystolicError, match=r"at most 100,000 accesses and no batch, got 3,145,728,000 and"):
        record_lines(Gemm(m=1024, n=1024, k=1000, dtype="fp32"))
    with pytest.raises(SystolicError, match=r"loop must be one of naive, reordered, blocked, got 'tiled'"):
        record_lines(Gemm(m=4, n=4, k=4), "tiled")
