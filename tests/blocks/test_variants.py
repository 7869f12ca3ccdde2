"""MACs of several cycles, streams at a slower pace, and narrow accumulators, register by register."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.blocks.array import Timing
from systolic.blocks.edges import Tile
from systolic.blocks.registers import MulticycleRegisters, PlainRegisters
from systolic.blocks.stepping import SteppedArray
from systolic.chips import load_chip
from systolic.chips.tpu import CONVENTIONS, DATAFLOWS, Array
from systolic.kernels.stationary import CLOCKS, LAST_BUSY, MACS, SLOTS, TOKEN
from systolic.machines import tpu
from systolic.machines.base import MODES, Options
from systolic.workload import Gemm, Workload
from tests.blocks.tiling import matmul_array
from tests.strategies import arrays, seeds, sides


def up(length: int, side: int) -> int:
    return -(-length // side)


@pytest.mark.parametrize(
    ("interval", "to_last_mac"),
    [(1, 12), (3, 30)],
    ids=["pipelined", "every hop waits"],
)
@pytest.mark.parametrize("mode", MODES)
def test_s11_macs_of_three_cycles(mode: str, interval: int, to_last_mac: int) -> None:
    """scalesim-project/SCALE-Sim issue 61: 4 x 4 output stationary, m = n = k = 4; 10 with a MAC of one."""
    changes = {"array.dataflow": "os", "array.mac_latency": 3, "array.mac_interval": interval}
    chip = load_chip("teaching-4x4", changes)
    (step,) = tpu.lower(Workload(name="one", ops=(Gemm(m=4, n=4, k=4),)), chip, Options(mode=mode))
    row = tpu.cost(step, chip)
    shift_out = interval * 4
    assert row.cycles == to_last_mac + shift_out
    assert row.cycles_by_cause["drain"] == shift_out
    assert row.array_macs == 64


@given(arrays(5), st.sampled_from(DATAFLOWS), st.tuples(sides(6), st.integers(0, 4)), sides(9))
def test_one_tile_takes_what_its_hops_and_its_mac_take(
    array: Array, dataflow: str, mac: tuple[int, int], streamed: int
) -> None:
    """DESIGN section 5 with hops of I cycles: one tile is I times the plain one, and L - I."""
    interval, more = mac
    slow = replace(array, mac_interval=interval, mac_latency=interval + more)
    r, c = array.rows, array.cols
    plain = (0 if dataflow == "os" else up(r, array.weight_rows)) + streamed + r + c - 2
    plain += r if dataflow == "os" else 0
    timing = Timing.of(slow, dataflow)
    assert timing.tile(interval * streamed) == interval * plain + more
    assert sum(timing.split_drain().values()) == timing.drain


@given(arrays(4), st.sampled_from(DATAFLOWS), st.tuples(sides(7), sides(7), sides(7)), seeds())
def test_a_mac_of_one_cycle_is_the_plain_array_at_every_clock(
    array: Array, dataflow: str, shape: tuple[int, int, int], seed: int
) -> None:
    m, k, n = shape
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    stepped, _ = matmul_array(array, dataflow, array.lanes["fp32"], a, b)
    of = (array, array.lanes["fp32"], dataflow == "os", "fp32")
    plain, lines = PlainRegisters(*of), MulticycleRegisters(*of)
    for clock in range(1, stepped.clocks + 1):
        for got, want in zip(*(stepped._clock(r, clock, clock + 1) for r in (lines, plain)), strict=True):
            np.testing.assert_array_equal(got != 0, want != 0)
        seen, wanted = lines.state(), plain.state()
        for name, values in wanted.items():
            if name.startswith("moving"):  # the plain array leaves a word behind that has landed
                values = np.where(wanted["moving_flags"] & TOKEN, values, 0)
            np.testing.assert_array_equal(seen[name], values, name)
    for count in (MACS, SLOTS, CLOCKS, LAST_BUSY):
        assert lines.counts[count] == plain.counts[count]


@st.composite
def variants(draw: st.DrawFn) -> tuple[Array, str, str]:
    """An array with a MAC of several cycles, the format of its sums, its dataflow."""
    array = draw(arrays(4))
    interval = draw(st.integers(1, 3))
    latency = interval + draw(st.integers(0, 3))
    acc = draw(st.sampled_from(("fp32", "fp22", "bf16", "int32")))
    slow = replace(array, mac_interval=interval, mac_latency=latency)
    return slow, acc, draw(st.sampled_from(("ws", "os")))


@given(variants(), st.integers(0, 3), st.integers(1, 3), st.tuples(sides(7), st.integers(1, 3)), seeds())
def test_registers_give_the_product_in_the_cycles_of_the_closed_form(
    variant: tuple[Array, str, str], slower: int, lanes: int, work: tuple[int, int], seed: int
) -> None:
    """Several tiles back to back, whose words enter at a pace of their own."""
    array, acc, dataflow = variant
    streamed, tiles = work
    timing, pace = Timing.of(array, dataflow), array.mac_interval + slower
    rng = np.random.default_rng(seed)
    fed, wait, start, placed = up(streamed, lanes) * pace, 0, timing.load, []
    for _ in range(tiles):
        shape = (streamed, array.rows), (streamed if dataflow == "os" else array.rows, array.cols)
        left, top = (rng.integers(-3, 4, s).astype(np.int64 if acc == "int32" else np.float32) for s in shape)
        placed.append(
            Tile(start=start + slower + 1, load_at=start + slower + 1 - timing.load, left=left, top=top)
        )
        wait = timing.gap(fed, fed)
        start += fed + wait
    end = start - wait
    stepped = SteppedArray(array, lanes, dataflow == "os", placed, acc, pace)
    seen = stepped.run("stored")
    assert seen.cycles == stepped.clocks == end + timing.drain
    assert seen.macs == sum(t.left.size * array.cols for t in placed)
    for tile, got in zip(placed, seen.results, strict=True):
        want = tile.left.T @ tile.top if dataflow == "os" else tile.left @ tile.top
        np.testing.assert_array_equal(got, want)  # small integers: every format holds every sum


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_state_shows_where_the_latency_sits(convention: str) -> None:
    """By hand: 1 x 1, output stationary, latency 3: operands at clock 1, their product added at clock 3."""
    array = Array(rows=1, cols=1, convention=convention, lanes={"fp32": 1}, mac_latency=3)
    tile = Tile(
        start=1, load_at=1, left=np.array([[2.0], [5.0]], np.float32), top=np.full((2, 1), 3, np.float32)
    )
    stepped = SteppedArray(array, 1, True, [tile])
    seen = [
        (s["act"].item(), s["valid"].item(), s["psum"].item(), s["shadow"].item()) for s in stepped.states()
    ]
    assert seen == [
        (0, False, 0, 0),
        (2, True, 0, 0),
        (5, True, 0, 0),
        (0, False, 6, 0),
        (0, False, 21, 21),
        (0, False, 21, 0),
    ]
    np.testing.assert_array_equal(stepped.state_at(3)["product"].ravel(), [0, 15, 6])


def test_state_holds_a_word_as_long_as_a_hop() -> None:
    """By hand: 1 x 2, interval 2: a word stays two clocks in each PE."""
    array = Array(rows=1, cols=2, lanes={"fp32": 1}, mac_latency=2, mac_interval=2)
    tile = Tile(
        start=3, load_at=1, left=np.array([[7.0]], np.float32), top=np.array([[2.0, 3.0]], np.float32)
    )
    stepped = SteppedArray(array, 1, False, [tile])
    acts = [s["act"].ravel().tolist() for s in stepped.states()]
    assert acts == [[0, 0], [0, 0], [0, 0], [7, 0], [7, 0], [0, 7], [0, 7]]
    (result,) = stepped.run("stored").results
    np.testing.assert_array_equal(result, [[14, 21]])
