"""Each figure that SCALE-Sim v3 printed for 240 matmuls, from ours and a named difference: nothing is left.

The conventions and the faults of the peer's report are named in sims/scalesim_counts.py.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from systolic import Gemm, load_chip, simulate
from systolic.result import Result

DATA = Path(__file__).parents[2] / "sims" / "data" / "scalesim_v3.csv"
Row = tuple[dict[str, int], dict[str, float], Result]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """(their counts, their percentages, our row) of each matmul."""
    found: list[Row] = []
    with DATA.open() as file:
        for line in csv.DictReader(file):
            dataflow = line.pop("dataflow")
            shares = {name: float(line.pop(name)) for name in list(line) if name.endswith("_pct")}
            counts = {name: int(value) for name, value in line.items()}
            array = {"array.rows": counts["rows"], "array.cols": counts["cols"]}
            gemm = Gemm(m=counts["m"], n=counts["n"], k=counts["k"], dtype="int8")
            shape = (gemm.m, gemm.n, gemm.k)
            chip = load_chip("teaching-4x4", array)
            (ours,) = simulate(gemm, on=chip, dataflow=dataflow, tile=shape).chips[0].rows
            found.append((counts, shares, ours))
    return found


def is_output_stationary(ours: Result) -> bool:
    assert ours.mapping is not None
    return bool(ours.mapping["dataflow"] == "os")


def tiles_of(counts: dict[str, int]) -> int:
    return counts["row_folds"] * counts["col_folds"]


def schedule_of(counts: dict[str, int], ours: Result) -> int:
    """Our cycles less what their schedule leaves out: R per tile to shift results out, output stationary."""
    return ours.cycles - (tiles_of(counts) * counts["rows"] if is_output_stationary(ours) else 0)


def test_all_rows_are_there(rows: list[Row]) -> None:
    assert len(rows) == 240
    assert sum(is_output_stationary(ours) for *_, ours in rows) == 80


def test_cycles_are_the_schedules(rows: list[Row]) -> None:
    """Fault: the report prints the index of the last line, counted from 0, once per matmul."""
    for counts, _, ours in rows:
        assert counts["demand_lines"] == schedule_of(counts, ours)
        assert counts["total_cycles"] == schedule_of(counts, ours) - 1
        assert counts["stall_cycles"] == 0
        assert not any(cause.startswith("stall") for cause in ours.cycles_by_cause)


def test_words_on_chip_are_the_same(rows: list[Row]) -> None:
    """Fault: output stationary, the report has R + C words per tile that the schedule does not write."""
    for counts, _, ours in rows:
        onchip = ours.bytes["vmem"]
        assert (counts["ifmap_reads"], counts["filter_reads"]) == (onchip["lhs"].read, onchip["rhs"].read)
        sums = ours.bytes["acc"]["psum"].write // 4
        assert counts["ofmap_writes_trace"] == sums
        spurious = tiles_of(counts) * (counts["rows"] + counts["cols"]) if is_output_stationary(ours) else 0
        assert counts["ofmap_writes"] == sums + spurious


def test_words_of_main_memory_are_the_same_but_for_sums(rows: list[Row]) -> None:
    """Convention: sums of every tile along k go out. Fault: in 14 rows, C - 1 words of padding."""
    padded: Counter[bool] = Counter()
    for counts, _, ours in rows:
        moved = ours.bytes["dram"]
        assert (counts["dram_ifmap_reads"], counts["dram_filter_reads"]) == (
            moved["lhs"].read,
            moved["rhs"].read,
        )
        rounds = 1 if is_output_stationary(ours) else counts["row_folds"]
        padding = counts["dram_ofmap_writes"] - rounds * moved["out"].write // 4
        assert padding in (0, counts["cols"] - 1)
        padded[padding > 0] += 1
    assert padded[True] == 14


def test_use_is_the_same_over_the_same_cycles(rows: list[Row]) -> None:
    """PEs that hold work, tile by tile; and MACs, over cycles of which the report has one or C - 1 wrong."""
    for counts, shares, ours in rows:
        assert ours.utilization is not None and ours.mapped_utilization is not None
        macs, pes = ours.array_macs, counts["rows"] * counts["cols"]
        schedule = schedule_of(counts, ours)
        held = 100 * macs / (macs + ours.padded_macs)
        assert shares["mapping_eff_pct"] == pytest.approx(held, abs=1e-6)
        assert ours.utilization / ours.mapped_utilization == pytest.approx(held / 100, rel=1e-3)
        assert shares["overall_util_pct"] == pytest.approx(100 * macs / (pes * (schedule - 1)), abs=1e-6)
        beyond = 0 if is_output_stationary(ours) else tiles_of(counts) * (counts["cols"] - 1)
        assert shares["compute_util_pct"] == pytest.approx(100 * macs / (pes * (schedule + beyond)), abs=1e-6)
