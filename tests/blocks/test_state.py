"""The registers of a stepped array at any clock, and that its results come out of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.chips.tpu import Array
from systolic.errors import SystolicError
from systolic.kernels import output_stationary, stationary
from systolic.kernels.stationary import LAST, REAL, SWAP, TOKEN
from tests.blocks.tiling import Drawn, chained, matmul_array, runs
from tests.strategies import seeds

Registers = dict[str, np.ndarray]


def integer_operands(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (k, n))


def states_of(rows: int, cols: int, dataflow: str, a: np.ndarray, b: np.ndarray) -> list[Registers]:
    array = Array(rows=rows, cols=cols, convention="serial")
    return list(matmul_array(array, dataflow, 1, a, b)[0].states())


def test_state_by_hand_on_a_weight_stationary_array() -> None:
    # cases.md S-05: 3 x 3, m = n = k = 3. The last weights enter column 0 on clock 3 and column 2 two clocks
    # later; the first word swaps them in as it passes; column 0 gives its first sum on streaming clock 3.
    a, b = integer_operands(3, 3, 3)
    states = states_of(3, 3, "ws", a, b)
    assert len(states) == 1 + 10
    np.testing.assert_array_equal(states[3]["shadow"][:, 0], b[:, 0])
    np.testing.assert_array_equal(states[5]["shadow"][:, 2], b[:, 2])
    assert not states[3]["weight"].any()
    assert states[4]["weight"][0, 0] == b[0, 0]
    assert states[4]["act"][0, 0, 0] == a[0, 0]
    assert states[4]["psum"][0, 0, 0] == a[0, 0] * b[0, 0]
    assert not states[4]["valid"][0, 1:].any()
    assert states[5]["act"][0, 0, 1] == a[0, 0]  # one column further
    assert states[5]["psum"][0, 1, 0] == a[0, :2] @ b[:2, 0]
    for streaming_clock, row in ((3, 0), (4, 1), (5, 2)):
        assert states[3 + streaming_clock]["psum"][0, 2, 0] == (a @ b)[row, 0]
    assert states[10]["psum"][0, 2, 2] == (a @ b)[2, 2]


def test_state_by_hand_on_an_output_stationary_array() -> None:
    # cases.md S-01: 4 x 4, m = n = k = 4: 64 MACs, the last in the far corner on clock 10; then 4 clocks of
    # shifting out.
    a, b = integer_operands(4, 4, 4)
    states = states_of(4, 4, "os", a, b)
    assert len(states) == 1 + 14
    macs = [np.count_nonzero(s["valid"] & (s["weight_flags"] & REAL != 0)) for s in states]
    assert sum(macs) == 64
    assert macs[10] == 1
    assert macs[11:] == [0] * 4
    assert states[6]["psum"][0, 3] == a[0, :3] @ b[:3, 3]
    assert states[7]["psum"][0, 3] == (a @ b)[0, 3]  # three columns away from the corner, four products
    np.testing.assert_array_equal(states[10]["psum"], a @ b)


@given(runs(waiting=True), st.data())
def test_state_at_a_clock_is_the_state_after_that_many(run: Drawn, data: st.DataObject) -> None:
    states = list(run.stepped.states())
    assert len(states) == run.stepped.clocks + 1
    assert {"act", "weight", "shadow", "psum", "valid"} <= states[0].keys()
    assert not any(register.any() for register in states[0].values())
    clock = data.draw(st.integers(0, run.stepped.clocks), "clock")
    state = run.stepped.state_at(clock)
    assert state.keys() == states[clock].keys()
    for name, register in states[clock].items():
        np.testing.assert_array_equal(state[name], register)


@given(runs(waiting=True))
def test_a_word_moves_one_pe_per_clock(run: Drawn) -> None:
    # What makes a register a view of a stream: it holds what entered as many clocks ago as it lies inside.
    for before, after in pairwise(run.stepped.states()):
        for name in ("act", "valid"):
            np.testing.assert_array_equal(after[name][:, :, 1:], before[name][:, :, :-1])
        if run.stepped.output_stationary:
            np.testing.assert_array_equal(after["weight"][:, 1:], before["weight"][:, :-1])


@pytest.mark.parametrize("clock", [-1, 11])
def test_there_is_no_state_outside_the_run(clock: int) -> None:
    a, b = integer_operands(3, 3, 3)
    stepped, _ = matmul_array(Array(rows=3, cols=3, convention="serial"), "ws", 1, a, b)
    with pytest.raises(SystolicError, match=rf"clock must be 0 \(reset\) to 10 \(array empty\), got {clock}"):
        stepped.state_at(clock)


# One tile fed word by word, without the package's own feeding: the array knows no shape, only what enters.

ROWS, COLS, STREAMED = 4, 3, 5


class Stationary:
    """A weight-stationary array that is given weights (ROWS, COLS) and then a (STREAMED, ROWS)."""

    def __init__(self, a: np.ndarray, b: np.ndarray) -> None:
        clocks = ROWS + STREAMED + ROWS + COLS - 2
        real = TOKEN | REAL
        self.left = np.zeros((clocks, 1, ROWS), np.float32)
        self.left_flags = np.zeros(self.left.shape, np.uint8)
        self.top = np.zeros((clocks, 1, COLS), np.float32)
        self.top_flags = np.zeros(self.top.shape, np.uint8)
        self.hops = np.zeros(self.top.shape, np.int16)
        for r in range(ROWS):
            for c in range(COLS):
                entry = ROWS - 1 - r + c, 0, c
                self.top[entry], self.top_flags[entry], self.hops[entry] = b[r, c], real, r
            for i in range(STREAMED):
                entry = ROWS + i + r, 0, r
                self.left[entry], self.left_flags[entry] = a[i, r], real | (SWAP if i == 0 else 0)
        grid, lane = (ROWS, COLS), (1, ROWS, COLS)
        self.registers: Registers = {
            "act": np.zeros(lane, np.float32),
            "flags": np.zeros(lane, np.uint8),
            "weight": np.zeros(grid, np.float32),
            "weight_real": np.zeros(grid, np.uint8),
            "shadow": np.zeros(grid, np.float32),
            "shadow_real": np.zeros(grid, np.uint8),
            "moving": np.zeros(lane, np.float32),
            "moving_flags": np.zeros(lane, np.uint8),
            "moving_hops": np.zeros(lane, np.int16),
            "psum": np.zeros(lane, np.float32),
        }
        self.counts = np.zeros(6, np.int64)
        self.bottom = np.zeros((clocks, 1, COLS), np.float32)
        self.bottom_flags = np.zeros(self.bottom.shape, np.uint8)

    def step(self, begin: int, end: int) -> None:
        now = slice(begin, end)
        stationary.step_stationary(
            self.left[now], self.left_flags[now], self.top[now], self.top_flags[now], self.hops[now],
            **self.registers, bottom=self.bottom[now], bottom_flags=self.bottom_flags[now],
            counts=self.counts, acc=np.array([-np.inf, np.inf, 0], np.float32),
        )  # fmt: skip

    def result(self) -> np.ndarray:
        rows, cols = np.indices((STREAMED, COLS))
        return self.bottom[ROWS + rows + ROWS - 1 + cols, 0, cols]


def flip(register: np.ndarray, place: tuple[int, ...]) -> None:
    """Flip the highest bit of a float's fraction."""
    register.view(np.uint32)[place] ^= 1 << 22


def stationary_operands(seed: int) -> tuple[np.ndarray, np.ndarray]:
    # No word is 0, so that whatever meets a flipped register shows it.
    rng = np.random.default_rng(seed)
    return rng.uniform(1, 2, (STREAMED, ROWS)).astype(np.float32), rng.uniform(1, 2, (ROWS, COLS)).astype(
        np.float32
    )


@given(seeds(), st.integers(0, ROWS - 2), st.integers(0, COLS - 1), st.integers(0, STREAMED - 1))
def test_a_flipped_sum_spoils_the_result_that_it_becomes(seed: int, r: int, c: int, i: int) -> None:
    a, b = stationary_operands(seed)
    array = Stationary(a, b)
    clocks = ROWS + i + r + c + 1  # when the sum of row i is in PE (r, c)
    array.step(0, clocks)
    flip(array.registers["psum"], (0, r, c))
    array.step(clocks, len(array.left))
    wrong = array.result() != chained(a, b, ROWS)
    assert list(zip(*np.nonzero(wrong), strict=True)) == [(i, c)]


@given(seeds(), st.integers(0, ROWS - 1), st.integers(0, COLS - 1), st.integers(0, STREAMED - 2))
def test_a_flipped_weight_spoils_what_comes_after(seed: int, r: int, c: int, i: int) -> None:
    a, b = stationary_operands(seed)
    array = Stationary(a, b)
    clocks = ROWS + i + r + c + 1
    array.step(0, clocks)
    flip(array.registers["weight"], (r, c))
    array.step(clocks, len(array.left))
    wrong = array.result() != chained(a, b, ROWS)
    assert list(zip(*np.nonzero(wrong), strict=True)) == [(later, c) for later in range(i + 1, STREAMED)]


@given(seeds())
def test_without_a_flip_the_result_is_right(seed: int) -> None:
    a, b = stationary_operands(seed)
    array = Stationary(a, b)
    for clock in range(len(array.left)):
        array.step(clock, clock + 1)
    np.testing.assert_array_equal(array.result(), chained(a, b, ROWS))


@given(seeds(), st.integers(0, ROWS - 1), st.integers(0, COLS - 1), st.integers(0, STREAMED - 1))
def test_a_flipped_output_stationary_sum_spoils_its_own_result(seed: int, r: int, c: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    left = rng.uniform(1, 2, (STREAMED, ROWS)).astype(np.float32)
    top = rng.uniform(1, 2, (STREAMED, COLS)).astype(np.float32)
    got = [output_stationary_sums(left, top, at) for at in (None, (r, c, k))]
    np.testing.assert_array_equal(got[0], chained(left.T, top, STREAMED))
    wrong = got[1] != got[0]
    # After its last product a sum lies in the shadow too, from where it leaves.
    assert list(zip(*np.nonzero(wrong), strict=True)) == ([(r, c)] if k < STREAMED - 1 else [])


def output_stationary_sums(
    left: np.ndarray, top: np.ndarray, flip_at: tuple[int, int, int] | None
) -> np.ndarray:
    """The sums that leave below; `flip_at` is a PE and the product after which its sum is flipped."""
    clocks = STREAMED + ROWS + COLS - 2 + ROWS
    words = {side: np.zeros((clocks, 1, n), np.float32) for side, n in (("left", ROWS), ("top", COLS))}
    marks = {side: np.zeros(word.shape, np.uint8) for side, word in words.items()}
    for side, source in (("left", left), ("top", top)):
        for k in range(STREAMED):
            for place in range(source.shape[1]):
                words[side][k + place, 0, place] = source[k, place]
                swap, last = SWAP if k == 0 else 0, LAST if k == STREAMED - 1 else 0
                marks[side][k + place, 0, place] = TOKEN | REAL | swap | last
    release = np.zeros((clocks, COLS), np.uint8)
    release[STREAMED - 1 + ROWS + np.arange(COLS), np.arange(COLS)] = 1
    grid, lane = (ROWS, COLS), (1, ROWS, COLS)
    registers: Registers = {
        "act": np.zeros(lane, np.float32),
        "flags": np.zeros(lane, np.uint8),
        "weight": np.zeros(lane, np.float32),
        "weight_flags": np.zeros(lane, np.uint8),
        "psum": np.zeros(grid, np.float32),
        "shadow": np.zeros(grid, np.float32),
        "shadow_state": np.zeros(grid, np.uint8),
    }
    counts = np.zeros(6, np.int64)
    bottom, full = np.zeros((clocks, COLS), np.float32), np.zeros((clocks, COLS), np.uint8)
    middle = 0 if flip_at is None else sum(flip_at) + 1
    for now in (slice(0, middle), slice(middle, clocks)):
        output_stationary.step_output_stationary(
            words["left"][now], marks["left"][now], words["top"][now], marks["top"][now], release[now],
            **registers, bottom=bottom[now], bottom_full=full[now], counts=counts,
            acc=np.array([-np.inf, np.inf, 0], np.float32),
        )  # fmt: skip
        if flip_at is not None and now.start == 0:
            flip(registers["psum"], flip_at[:2])
    return np.stack([bottom[full[:, c] != 0, c][::-1] for c in range(COLS)], axis=1)
