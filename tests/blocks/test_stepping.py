"""The stepped array: cycles as observed, and values out of its registers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.blocks import stepping
from systolic.blocks.array import Timing
from systolic.blocks.edges import Tile
from systolic.blocks.stepping import SteppedArray
from systolic.chips.tpu import CONVENTIONS, DATAFLOWS, Array
from tests.blocks.tiling import Drawn, chained, clocks, multiply, run_cycles, runs, up
from tests.strategies import arrays, seeds, shapes, sides

ENGINES = ("stored", "streamed")


def serial(rows: int, cols: int) -> Array:
    return Array(rows=rows, cols=cols, convention="serial")


def integer_operands(m: int, n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (k, n))


# Rows and cols, dataflow, (m, n, k), cycles: cases.md, A1, where the numbers are explained.
@pytest.mark.parametrize(
    ("grid", "dataflow", "shape", "cycles"),
    [
        ((4, 4), "os", (4, 4, 4), 14),  # S-01, S-03
        ((4, 4), "ws", (4, 4, 4), 14),  # S-03
        ((4, 4), "is", (4, 4, 4), 14),  # S-03
        ((2, 2), "os", (2, 2, 2), 6),  # S-02
        ((2, 2), "os", (4, 4, 4), 32),  # S-02
        ((128, 128), "ws", (256, 256, 768), 7656),  # S-04
        ((128, 128), "ws", (1, 256, 768), 4596),  # S-04
        ((3, 3), "ws", (3, 3, 3), 10),  # S-05
        ((4, 4), "os", (5, 2, 2), 24),  # S-08: 16 to the last MAC, and R for each of 2 tiles
        ((128, 128), "ws", (512, 128, 128), 894),  # S-19
        ((128, 128), "ws", (512, 129, 128), 1788),  # S-19
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_published_cases(
    engine: str, grid: tuple[int, int], dataflow: str, shape: tuple[int, int, int], cycles: int
) -> None:
    m, n, k = shape
    a, b = integer_operands(m, n, k)
    seen, out = multiply(serial(*grid), dataflow, a, b, engine=engine)
    assert seen.cycles == cycles
    assert seen.macs == m * n * k
    np.testing.assert_array_equal(out, a @ b)


# cases.md S-06: cycles to the last MAC, full array.
@pytest.mark.parametrize(
    ("grid", "shape", "to_last_mac"),
    [((1, 1), (3, 3, 3), 27), ((1, 8), (2, 8, 3), 20), ((3, 5), (3, 4, 7), 13), ((16, 16), (1, 1, 1), 31)],
)
@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_arrays_of_any_grid_end_and_multiply(
    dataflow: str, grid: tuple[int, int], shape: tuple[int, int, int], to_last_mac: int
) -> None:
    a, b = integer_operands(*shape)
    seen, out = multiply(serial(*grid), dataflow, a, b)
    np.testing.assert_array_equal(out, a @ b)
    if dataflow == "os":
        assert seen.cycles == to_last_mac + grid[0] * len(seen.results)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_an_odd_number_of_tiles_loses_no_block(convention: str, dataflow: str, engine: str) -> None:
    # cases.md S-07: three tiles along n came out as a block of zeros.
    a, b = integer_operands(4, 12, 8)
    array = Array(rows=4, cols=4, convention=convention)
    _, out = multiply(array, dataflow, a, b, engine=engine)
    np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_a_result_can_be_multiplied_again(dataflow: str) -> None:
    # cases.md S-10: 3 x 3 ones on a 16 x 16 array, then once more: all 3, then all 9.
    ones = np.ones((3, 3), np.int64)
    _, first = multiply(serial(16, 16), dataflow, ones, ones)
    _, second = multiply(serial(16, 16), dataflow, first.astype(np.int64), ones)
    assert (first == 3).all()
    assert (second == 9).all()


@given(arrays(), st.sampled_from(DATAFLOWS), st.integers(1, 3), shapes(14), seeds(), st.booleans())
def test_a_matmul_on_any_array(
    array: Array, dataflow: str, lanes: int, shape: tuple[int, int, int], seed: int, is_float: bool
) -> None:
    m, n, k = shape
    a, b = integer_operands(m, n, k, seed)
    if is_float:
        rng = np.random.default_rng(seed)
        a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    rows, cols, stream = {"ws": (k, n, m), "os": (m, n, k), "is": (k, m, n)}[dataflow]
    tiles = up(rows, array.rows) * up(cols, array.cols)
    cycles = run_cycles(array, dataflow, [up(stream, lanes)] * tiles)
    want = chained(a, b, k if dataflow == "os" else array.rows)
    for engine in ENGINES:
        seen, out = multiply(array, dataflow, a, b, lanes, engine)
        assert seen.cycles == cycles
        assert seen.macs == m * n * k
        np.testing.assert_array_equal(out, want)
        if not is_float:
            np.testing.assert_array_equal(out, a @ b)


def assert_runs_as_drawn(run: Drawn) -> None:
    for engine in ENGINES:
        seen = run.stepped.run(engine)
        assert seen.cycles == run.cycles
        assert seen.macs == sum(
            tile.left.size * tile.top.shape[1] for tile in run.stepped.tiles
        )  # each word from the left meets each used column
        for got, want in zip(seen.results, run.wanted, strict=True):
            np.testing.assert_array_equal(got, want)


@given(runs())
def test_tiles_of_different_lengths_in_one_run(run: Drawn) -> None:
    assert_runs_as_drawn(run)
    assert Timing.of(run.stepped.array, run.dataflow).run(run.fed) == run.cycles


@given(runs(waiting=True))
def test_tiles_that_wait_and_sums_in_two_parts(run: Drawn) -> None:
    assert_runs_as_drawn(run)


@given(runs())
def test_padding_is_clocked_and_counted_apart(run: Drawn) -> None:
    seen, array = run.stepped.run("stored"), run.stepped.array
    assert seen.slots == sum(run.fed) * run.stepped.lanes * array.rows * array.cols
    assert seen.wraps == 0


@pytest.mark.parametrize("window", [1, 3, 7])
@settings(max_examples=15)
@given(run=runs(waiting=True))
def test_a_run_does_not_depend_on_how_many_clocks_are_fed_at_once(window: int, run: Drawn) -> None:
    last = run.stepped.state_at(run.stepped.clocks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stepping, "WINDOW", window)
        assert_runs_as_drawn(run)
        windowed = run.stepped.state_at(run.stepped.clocks)
    for name, register in last.items():
        np.testing.assert_array_equal(windowed[name], register)


@given(
    sides(6),
    sides(6),
    st.integers(1, 3),
    st.tuples(sides(8), sides(8)),
    st.sampled_from(("ws", "os")),
    seeds(),
)
def test_no_tile_may_enter_earlier(
    rows: int, cols: int, ways: int, streamed: tuple[int, int], dataflow: str, seed: int
) -> None:
    """Where two tiles need a gap, it is the fewest clocks that keep their values right."""
    array = Array(rows=rows, cols=cols, weight_rows=min(ways, rows))
    gap = Timing.of(array, dataflow).gap(*streamed)
    for early in range(2 if gap else 1):
        rng = np.random.default_rng(seed)
        tiles, wanted = [], []
        for i, ((load, start), length) in enumerate(
            zip(clocks(array, dataflow, streamed), streamed, strict=True)
        ):
            left = rng.standard_normal((length, rows), np.float32)
            top = rng.standard_normal((length if dataflow == "os" else rows, cols), np.float32)
            tiles.append(Tile(start=start - early * i, load_at=load, left=left, top=top))
            wanted.append(chained(left.T if dataflow == "os" else left, top, 99))
        results = SteppedArray(array, 1, dataflow == "os", tiles).run("stored").results
        right = all(np.array_equal(got, want) for got, want in zip(results, wanted, strict=True))
        assert right == (not early)


@pytest.mark.parametrize(("dataflow", "k", "wraps"), [("os", 2**17, 1), ("os", 2**17 - 1, 0), ("ws", 4, 0)])
def test_int32_sums_wrap_and_are_counted(dataflow: str, k: int, wraps: int) -> None:
    # 2^17 products of (-128)^2 = 2^14 add up to 2^31, one more than int32 holds.
    a, b = np.full((1, k), -128), np.full((k, 1), -128)
    seen, out = multiply(serial(1, 1), dataflow, a, b)
    assert seen.wraps == wraps
    assert out[0, 0] == 2**14 * k - 2**32 * wraps
