"""Public bug reports about cycles, as reports of the product: cases S-01 to S-14, S-19 and S-20.

The numbers are the closed forms of one tile at a time on a full store-and-forward array, worked out by hand
beside each case. The same cases stand at the level of the array in tests/blocks; here it is what a user
is told.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from systolic import Gemm, load_chip, matmul_hook, simulate
from systolic.chips.tpu import DATAFLOWS
from systolic.machines.base import Options
from systolic.result import Result


def run(
    shape: tuple[int, int, int], grid: tuple[int, int], dataflow: str, dtype: str = "int8", **knobs: Any
) -> Result:
    """The row of an (m, n, k) matmul on a serial array of rows x cols, memory never in the way."""
    m, n, k = shape
    overrides = {"array.rows": grid[0], "array.cols": grid[1], **knobs}
    gemm = Gemm(m=m, n=n, k=k, dtype=dtype)
    (chip,) = simulate(gemm, on="teaching-4x4", overrides=overrides, dataflow=dataflow).chips
    return chip.rows[0]


def to_last_mac(row: Result) -> int:
    """Output stationary: cycles without those in which finished results shift out."""
    return row.cycles - row.cycles_by_cause["drain"]


# Array, (m, n, k), cycles to the last MAC: tiles * (R + C + k - 2); with results shifted out: R each.
@pytest.mark.parametrize(
    ("grid", "shape", "last_mac", "cycles"),
    [
        ((4, 4), (4, 4, 4), 10, 14),  # S-01: SCALE-Sim issue 125 got 9, the index of the last clock
        ((2, 2), (2, 2, 2), 4, 6),  # S-02: SCALE-Sim issue 60, always one short
        ((2, 2), (4, 4, 4), 24, 32),  # S-02
        ((1, 1), (3, 3, 3), 27, 36),  # S-06: gem5-aladdin issue 43 hung on other sizes than the default
        ((1, 8), (2, 8, 3), 20, 22),  # S-06
        ((3, 5), (3, 4, 7), 13, 16),  # S-06
        ((16, 16), (1, 1, 1), 31, 47),  # S-06
        ((4, 4), (5, 2, 2), 16, 24),  # S-08: STONNE issue 32, a total that nobody could read
    ],
)
def test_output_stationary_counts_every_clock(
    grid: tuple[int, int], shape: tuple[int, int, int], last_mac: int, cycles: int
) -> None:
    row = run(shape, grid, "os")
    assert (to_last_mac(row), row.cycles) == (last_mac, cycles)
    assert row.array_macs == shape[0] * shape[1] * shape[2]


def test_all_dataflows_count_load_and_shift_out_alike() -> None:
    """S-03, scale-sim-v3 issue 4: 2R + C + T - 2 = 14 for each of them."""
    assert {dataflow: run((4, 4, 4), (4, 4), dataflow).cycles for dataflow in DATAFLOWS} == dict.fromkeys(
        DATAFLOWS, 14
    )


def test_one_row_does_not_show_full_use() -> None:
    """S-04, ARM-software/SCALE-Sim issue 51: 12 tiles of 638 and of 383 cycles on 128 x 128."""
    many, single = run((256, 256, 768), (128, 128), "ws"), run((1, 256, 768), (128, 128), "ws")
    assert (many.cycles, single.cycles) == (12 * 638, 12 * 383)
    assert many.utilization == pytest.approx(0.401, abs=5e-4)
    assert single.utilization == pytest.approx(0.0026, abs=5e-5)


def test_time_for_sums_to_fall_through_is_counted_and_named() -> None:
    """S-05, planaria issue 3: 3 to load, then 3 rows, 2 to reach the far row, 2 for the last column."""
    row = run((3, 3, 3), (3, 3), "ws")
    assert dict(row.cycles_by_cause) == {"preload": 3, "compute": 3, "fill": 2, "drain": 2}
    assert row.array_macs // 9 == 3, "MACs / PEs is only a bound"


def test_parts_are_named_and_add_up() -> None:
    """S-08: two tiles of load, compute, drain; 20 MACs in 16 cycles of 16 PEs are 7.8 %."""
    row = run((5, 2, 2), (4, 4), "os")
    assert dict(row.cycles_by_cause) == {"fill": 12, "compute": 4, "drain": 8}
    assert row.array_macs == 20
    assert row.array_macs / (16 * to_last_mac(row)) == pytest.approx(0.078, abs=5e-4)
    assert row.utilization == pytest.approx(20 / (16 * 24))


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("mode", ["tiled", "stepped"])
def test_odd_numbers_of_tiles_and_large_arrays_give_no_zeros(mode: Any, dataflow: str) -> None:
    """S-07, allo issue 473; S-10, gemmini issue 179: 3 x 3 ones on 16 x 16, twice, are all 3, then all 9."""
    rng = np.random.default_rng(473)
    lhs, rhs = rng.integers(-128, 128, (1, 4, 8), np.int8), rng.integers(-128, 128, (1, 8, 12), np.int8)
    multiply = matmul_hook(load_chip("teaching-4x4"), Options(mode=mode, dataflow=dataflow))
    product = multiply(Gemm(m=4, n=12, k=8, dtype="int8"), lhs, rhs)
    np.testing.assert_array_equal(product, lhs.astype(np.int32) @ rhs.astype(np.int32))

    large = load_chip("teaching-4x4", {"array.rows": 16, "array.cols": 16})
    multiply = matmul_hook(large, Options(mode=mode, dataflow=dataflow))
    ones = np.ones((1, 3, 3), np.float32)
    square = Gemm(m=3, n=3, k=3, dtype="fp32")
    once = multiply(square, ones, ones)
    assert (once == 3).all()
    assert (multiply(square, once, ones) == 9).all()


def test_a_mac_of_three_clocks() -> None:
    """S-11, SCALE-Sim issue 61: where the latency sits decides.

    Pipelined with an adder of one clock, a sum takes a term per clock as before, and the last one comes out
    two clocks later: 12 to the last MAC. Where every hop waits for the MAC, all 10 take 3 each.
    """
    pipelined = run((4, 4, 4), (4, 4), "os", **{"array.mac_latency": 3})
    waiting = run((4, 4, 4), (4, 4), "os", **{"array.mac_latency": 3, "array.mac_interval": 3})
    assert to_last_mac(pipelined) == 12
    assert to_last_mac(waiting) == 30


def test_the_report_says_which_engine_produced_a_number() -> None:
    """S-12, SCALE-Sim issue 70: is anything stepped at all?"""
    gemm = Gemm(m=9, n=7, k=5, dtype="int8")
    for mode in ("stepped", "tiled", "bound"):
        (chip,) = simulate(gemm, on="teaching-4x4", mode=mode).to_dict()["chips"]  # type: ignore[arg-type]
        assert chip["matmuls"][0]["source"] == chip["totals"]["source"] == mode


def test_one_column_more_costs_a_tile_more() -> None:
    """S-19: 128 x 128 weights in one tile, 129 columns in two."""
    whole, one_more = run((512, 128, 128), (128, 128), "ws"), run((512, 129, 128), (128, 128), "ws")
    assert (whole.cycles, one_more.cycles) == (894, 1788)
    assert whole.utilization == pytest.approx(0.573, abs=5e-4)
    assert one_more.utilization == pytest.approx(0.289, abs=5e-4)
    # The second tile holds one column, so over the PEs that hold work nothing is lost.
    assert one_more.mapped_utilization == pytest.approx(whole.utilization)


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_totals_are_the_sum_of_named_parts_and_stalls_have_a_reason(dataflow: str) -> None:
    """S-20, SCALE-Sim issues 26, 4, 130: a total of 14,886 beside 11,135 of compute and 0 of stall."""
    cube, grid = (128, 128, 128), (16, 16)
    free = run(cube, grid, dataflow)
    limited = run(
        cube, grid, dataflow, **{"memory.dram.bytes_per_s": "10 GB/s", "memory.vmem.bytes": "64 KiB"}
    )
    for row in (free, limited):
        assert row.cycles == sum(row.cycles_by_cause.values())
    assert not any(cause.startswith("stall") for cause in free.cycles_by_cause)
    assert limited.cycles_by_cause["stall_dram"] > 0
    assert limited.cycles > free.cycles == 64 * (2 * 16 + 16 + 128 - 2)
