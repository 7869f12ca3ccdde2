"""The streamed arrays against the stored ones: the registers that both keep are equal at every clock."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from systolic.kernels import streamed
from tests.blocks.tiling import Drawn, runs, up
from tests.kernels.words import assert_same_bits

Registers = dict[str, np.ndarray]


def number(run: Drawn) -> Any:
    return np.float32 if run.stepped.is_float else np.int32


def history(states: list[Registers], name: str, before: int, dtype: Any) -> np.ndarray:
    """A register at each clock edge, after `before` clocks at reset."""
    words = np.stack([state[name] for state in states]).astype(dtype)
    return np.concatenate([np.zeros((before, *words.shape[1:]), dtype), words])


def reversed_left(states: list[Registers], begin: int, clocks: int, dtype: Any) -> np.ndarray:
    """The words that entered on the left, the latest first, as the kernels take them."""
    cols = states[0]["act"].shape[2]
    entered = history(states, "act", cols, dtype)[:, :, :, 0]
    window = entered[cols + begin - cols + 1 : cols + begin + clocks]
    return np.ascontiguousarray(window[::-1].transpose(1, 2, 0))


def split(data: st.DataObject, last: int) -> list[tuple[int, int]]:
    """Clocks 1 to `last` as one window or two: (first clock, clocks)."""
    middle = data.draw(st.integers(0, last - 1), "middle")
    return [(begin, clocks) for begin, clocks in ((1, middle), (middle + 1, last - middle)) if clocks]


@given(runs(waiting=True).filter(lambda run: not run.stepped.output_stationary), st.data())
def test_stationary_registers_at_any_clock(run: Drawn, data: st.DataObject) -> None:
    states, tiles, dtype = list(run.stepped.states()), run.stepped.tiles, number(run)
    lanes, rows, cols = states[0]["act"].shape
    last = data.draw(st.integers(1, run.stepped.clocks), "last clock")
    starts = np.array([tile.start for tile in tiles])
    weights = np.zeros((len(tiles), rows, cols), dtype)
    for block, tile in zip(weights, tiles, strict=True):
        block[: tile.top.shape[0], : tile.top.shape[1]] = tile.top
    weight, psum = np.zeros((rows, cols), dtype), np.zeros((lanes, rows, cols), dtype)
    bottom = np.zeros((last, lanes, cols), dtype)
    for begin, clocks in split(data, last):
        left = reversed_left(states, begin, clocks, dtype)
        shown = bottom[begin - 1 : begin - 1 + clocks]
        streamed.stream_stationary(left, begin, clocks, starts, weights, weight, psum, shown)
    assert_same_bits(psum, states[last]["psum"].astype(dtype))
    assert_same_bits(weight, states[last]["weight"].astype(dtype))
    assert_same_bits(bottom, history(states, "psum", 0, dtype)[1 : last + 1, :, -1])


@given(runs(waiting=True).filter(lambda run: run.stepped.output_stationary), st.data())
def test_output_stationary_registers_at_any_clock(run: Drawn, data: st.DataObject) -> None:
    states, tiles, dtype = list(run.stepped.states()), run.stepped.tiles, number(run)
    lanes, rows, cols = states[0]["act"].shape
    last = data.draw(st.integers(1, run.stepped.clocks), "last clock")
    firsts = np.array([tile.start for tile in tiles if tile.first])
    lasts = np.array([tile.start + up(len(tile.left), lanes) - 1 for tile in tiles if tile.last])
    above = history(states, "weight", rows, dtype)[:, :, 0]
    psum, finished = np.zeros((rows, cols), dtype), np.zeros((len(lasts), rows, cols), dtype)
    for begin, clocks in split(data, last):
        left = reversed_left(states, begin, clocks, dtype)
        top = np.ascontiguousarray(above[begin + 1 : rows + begin + clocks])
        streamed.stream_output_stationary(left, top, begin, clocks, firsts, lasts, psum, finished)
    assert_same_bits(psum, states[last]["psum"].astype(dtype))
    # A sum is finished once its last product has been added.
    r, c = np.indices((rows, cols))
    history_of_sums = history(states, "psum", 0, dtype)
    for block, end in zip(finished, lasts, strict=True):
        done = end + r + c <= last
        want = np.where(done, history_of_sums[np.minimum(end + r + c, last), r, c], 0)
        assert_same_bits(block, want.astype(dtype))
