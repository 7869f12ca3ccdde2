"""The closed form of the array against DESIGN section 5 and the numbers of public bug reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.blocks.array import AXES, Timing, folds, pieces
from systolic.chips.tpu import CONVENTIONS, DATAFLOWS, Array
from tests.blocks.tiling import run_cycles, tile_cycles
from tests.strategies import arrays, sides


def matmul_cycles(array: Array, dataflow: str, shape: tuple[int, int, int]) -> int:
    """Cycles of a matmul (m, n, k): all its tiles in one run."""
    size = dict(zip("mnk", shape, strict=True))
    axes = AXES[dataflow]
    tiles = folds(size[axes.rows], array.rows) * folds(size[axes.cols], array.cols)
    return Timing.of(array, dataflow).uniform_run(tiles, size[axes.stream])


# (rows, cols), dataflow, (m, n, k), cycles: cases.md, A1, except where another source is named.
SERIAL = [
    ((4, 4), "os", (4, 4, 4), 14),  # S-01, S-03: 10 to the last MAC, 4 to shift out
    ((4, 4), "ws", (4, 4, 4), 14),  # S-03
    ((4, 4), "is", (4, 4, 4), 14),  # S-03
    ((2, 2), "os", (2, 2, 2), 6),  # S-02
    ((2, 2), "os", (4, 4, 4), 32),  # S-02, DESIGN section 5
    ((128, 128), "ws", (256, 256, 768), 7656),  # S-04: 12 tiles of 638
    ((128, 128), "ws", (1, 256, 768), 4596),  # S-04: 12 tiles of 383
    ((3, 3), "ws", (3, 3, 3), 10),  # S-05: 3 load + 7 streaming
    ((1, 1), "os", (3, 3, 3), 27 + 9 * 1),  # S-06: to the last MAC, and R per tile
    ((1, 8), "os", (2, 8, 3), 20 + 2 * 1),  # S-06
    ((3, 5), "os", (3, 4, 7), 13 + 3),  # S-06
    ((16, 16), "os", (1, 1, 1), 31 + 16),  # S-06
    ((4, 4), "os", (5, 2, 2), 24),  # S-08
    ((128, 128), "ws", (512, 128, 128), 894),  # S-19
    ((128, 128), "ws", (512, 129, 128), 1788),  # S-19
]


@pytest.mark.parametrize(("grid", "dataflow", "shape", "cycles"), SERIAL)
def test_serial_cycles_of_published_cases(
    grid: tuple[int, int], dataflow: str, shape: tuple[int, int, int], cycles: int
) -> None:
    array = Array(rows=grid[0], cols=grid[1], convention="serial")
    assert matmul_cycles(array, dataflow, shape) == cycles


@pytest.mark.parametrize(
    ("dataflow", "axes"), [("ws", ("k", "n", "m")), ("os", ("m", "n", "k")), ("is", ("k", "m", "n"))]
)
def test_each_dataflow_lays_its_dimensions_as_the_table_says(
    dataflow: str, axes: tuple[str, str, str]
) -> None:
    assert AXES[dataflow] == axes


@given(arrays(8), st.sampled_from(DATAFLOWS), st.lists(sides(20), min_size=1, max_size=6))
def test_a_run_is_the_sum_that_design_states(array: Array, dataflow: str, streamed: list[int]) -> None:
    timing = Timing.of(array, dataflow)
    assert timing.tile(streamed[0]) == tile_cycles(array, dataflow, streamed[0])
    assert timing.run(streamed) == run_cycles(array, dataflow, streamed)
    assert timing.run(streamed[:1]) == timing.tile(streamed[0])  # T = 1 is the serial count


@given(arrays(8), st.sampled_from(DATAFLOWS), sides(7), sides(20))
def test_equal_tiles_are_a_run_of_equal_tiles(array: Array, dataflow: str, tiles: int, streamed: int) -> None:
    timing = Timing.of(array, dataflow)
    assert timing.uniform_run(tiles, streamed) == timing.run([streamed] * tiles)


@given(arrays(8), sides(7), sides(20))
def test_designs_sum_for_output_stationary_holds_for_equal_tiles(array: Array, tiles: int, k: int) -> None:
    r, c = array.rows, array.cols
    overlapped = Timing.of(Array(rows=r, cols=c), "os")
    assert overlapped.run([k] * tiles) == (tiles - 1) * max(k, r) + k + (r + c - 2) + r


def test_the_later_tile_may_not_finish_within_r_cycles_of_the_one_before() -> None:
    # By hand on 4 x 4, where skew and shift-out are 6 + 4: k = 9 may follow k = 1 at once, since its sums are
    # finished nine clocks later; k = 1 after k = 9 waits for three clocks.
    timing = Timing.of(Array(rows=4, cols=4), "os")
    assert timing.run([1, 9]) == 1 + 9 + 10
    assert timing.run([9, 1]) == 9 + 3 + 1 + 10


@given(arrays(8), st.sampled_from(DATAFLOWS), st.lists(sides(20), min_size=1, max_size=6), st.data())
def test_more_work_never_takes_less_and_overlap_never_takes_more(
    array: Array, dataflow: str, streamed: list[int], data: st.DataObject
) -> None:
    longer = list(streamed)
    longer[data.draw(st.integers(0, len(streamed) - 1))] += 1
    runs = {}
    for convention in CONVENTIONS:
        same = Array(rows=array.rows, cols=array.cols, convention=convention, weight_rows=array.weight_rows)
        timing = Timing.of(same, dataflow)
        runs[convention] = timing.run(streamed)
        assert timing.run(longer) >= runs[convention]
    assert runs["overlapped"] <= runs["serial"]
    assert runs["overlapped"] >= sum(streamed)


@given(arrays(8))
def test_causes_of_the_drain(array: Array) -> None:
    # DESIGN section 5: WS and IS fill R - 1, drain C - 1; OS fill R + C - 2, drain R.
    r, c = array.rows, array.cols
    for dataflow in ("ws", "is"):
        assert Timing.of(array, dataflow).split_drain() == {"fill": r - 1, "drain": c - 1}
    assert Timing.of(array, "os").split_drain() == {"fill": r + c - 2, "drain": r}
    for dataflow in DATAFLOWS:
        timing = Timing.of(array, dataflow)
        assert sum(timing.split_drain().values()) == timing.drain


@given(sides(50), sides(9))
def test_pieces_cover_a_length_once(length: int, side: int) -> None:
    cut = list(pieces(length, side))
    assert [i for start, stop in cut for i in range(start, stop)] == list(range(length))
    assert all(0 < stop - start <= side for start, stop in cut)
    assert len(cut) == folds(length, side)
