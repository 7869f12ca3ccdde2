"""The report: its JSON, its frame, its tables, and the registry that explains each figure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from systolic import Gemm, Report, Workload, load_chip, load_model, simulate
from systolic.engine.fits import Fits
from systolic.engine.report import ChipReport, Host
from systolic.metrics import CAUSES, COUNTERS, METRICS, STALLS, find
from systolic.result import Check, Result, Traffic
from systolic.workload import NotCovered, VectorOp

# Schema 1: keys may be added to it, none taken away.
CHIP_KEYS = {"chip", "clock_hz", "fits", "notes", "not_covered", "totals", "matmuls", "ops"}
TOTAL_KEYS = {
    *("cycles", "seconds", "interval_seconds", "macs", "array_macs", "useful_macs", "joules", "bytes"),
    "cycles_by_cause",
}
MATMUL_KEYS = {
    *("name", "origin", "layers", "batch", "m", "n", "k", "count", "dtype", "rhs_kind", "macs", "array_macs"),
    *("useful_macs", "cycles", "busy_cycles", "seconds", "cycles_by_cause", "bytes", "joules", "utilization"),
    *("mapped_utilization", "bound_by", "source", "mapping", "precision", "check"),
}


@pytest.fixture(scope="module")
def gpt2() -> Report:
    """Both kinds of rows, on two chips."""
    return simulate(load_model("gpt2", seq=64, causal=True), on=["tpu-v4", "tpu-v6e"])


@pytest.fixture(scope="module")
def corners() -> list[Report]:
    """Runs that together show every figure: of a TPU, and what only machines with warps and caches have."""
    gemm = Gemm(m=40, n=40, k=200, dtype="bf16", name="a")
    lacking = Workload(name="lacking", ops=(gemm,), dtype="bf16", not_covered=(NotCovered(op="conv"),))
    cmem = {"memory.cmem.bytes": "1 MiB", "memory.cmem.bytes_per_s": "1 TB/s", "policy.activations": "cmem"}
    return [
        simulate(lacking, check="sample"),
        simulate(lacking, dataflow="os"),
        simulate(lacking, on=load_chip("tpu-v5p", cmem)),
        simulate(load_model("gpt2", seq=16)),
        simulate(gemm, on="teaching-gpu"),
        by_hand(
            bytes={level: {"lhs": Traffic(read=1)} for level in ("dram", "l2", "l1", "shared")},
            stalls=dict.fromkeys(STALLS, 1),
            counters=dict.fromkeys(COUNTERS, 1),
        ),
    ]


def by_hand(**changes: Any) -> Report:
    """One matmul of 7 cycles and a look-up of 3 on a made-up chip of 1 GHz."""
    figures: dict[str, Any] = {"bytes": {"dram": {"rhs": Traffic(read=64)}}} | changes
    matmul = Result(
        op=Gemm(m=1, n=4, k=4, dtype="fp32", name="mm"),
        kind="matmul",
        cycles=7,
        busy_cycles=7,
        clock_hz=10**9,
        cycles_by_cause={"fill": 3, "compute": 4},
        array_macs=16,
        pe_cycles=112,
        mapped_pe_cycles=28,
        **figures,
    )
    look_up = Result(
        op=VectorOp(name="look", kind="gather", elements=4, vector_ops=0, read_elements=4, write_elements=4),
        kind="gather",
        cycles=3,
        busy_cycles=0,
        clock_hz=10**9,
        cycles_by_cause={"stall_dram": 3},
        bytes={"dram": {"other": Traffic(read=8, write=8)}},
        source="bound",
    )
    chip = ChipReport(
        chip=load_chip("teaching-4x4"),
        fits=Fits(weight_bytes=64, kv_cache_bytes=0, activation_bytes=32, bytes=None),
        rows=(matmul, look_up),
        notes=("a note",),
    )
    host = Host(wall_seconds=2.0, simulation_seconds=0.5, check_seconds=None, simulated_cycles=10)
    return Report(workload=Workload(name="hand", ops=(matmul.op, look_up.op)), host=host, chips=(chip,))


def paths(value: Any, path: str = "") -> Iterator[str]:
    """Every path of keys in a JSON value, lists left out."""
    if isinstance(value, list):
        for item in value:
            yield from paths(item, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            here = f"{path}.{key}" if path else key
            yield here
            yield from paths(item, here)


def test_json_has_the_promised_form(gpt2: Report) -> None:
    data = json.loads(gpt2.to_json())
    assert data == gpt2.to_dict()
    assert data["schema"] == 1
    assert set(data["workload"]) == {"name", "phase", "batch", "seq", "kv_len", "parameters"}
    for chip in data["chips"]:
        assert set(chip) == CHIP_KEYS
        assert set(chip["fits"]) >= {"bytes_needed", "bytes", "chips_needed"}
        assert set(chip["totals"]) >= TOTAL_KEYS
        assert all(set(row) >= MATMUL_KEYS for row in chip["matmuls"])
        assert {row["kind"] for row in chip["ops"]} >= {"matmul", "vector", "gather"}


def test_rows_add_up_to_the_totals_exactly(gpt2: Report) -> None:
    for chip in gpt2.to_dict()["chips"]:
        totals, ops, matmuls = chip["totals"], chip["ops"], chip["matmuls"]
        assert [op["name"] for op in ops if op["kind"] == "matmul"] == [row["name"] for row in matmuls]
        assert totals["cycles"] == sum(op["cycles"] for op in ops)
        assert totals["cycles"] == sum(totals["cycles_by_cause"].values())
        for op in ops:
            assert op["cycles"] == sum(op["cycles_by_cause"].values())
        for level, operands in totals["bytes"].items():
            for operand, ways in operands.items():
                for way, amount in ways.items():
                    parts = (op["bytes"].get(level, {}).get(operand, {}).get(way, 0) for op in ops)
                    assert amount == sum(parts)
        for key in ("macs", "array_macs", "useful_macs", "padded_macs"):
            assert totals[key] == sum(row[key] for row in matmuls)
        assert totals["seconds"] == totals["cycles"] / chip["clock_hz"] == totals["interval_seconds"]


def test_gpt2_totals_are_those_of_its_shapes(gpt2: Report) -> None:
    """Published parameter total of GPT-2 small; MACs of 64 tokens by hand.

    Projections 12 * 64 * (768 * 2304 + 768 * 768 + 2 * 768 * 3072), attention 12 * 2 * 12 * 64**3,
    lm_head 64 * 768 * 50257.
    """
    data = gpt2.to_dict()
    assert data["workload"]["parameters"] == 124_439_808
    assert data["chips"][0]["totals"]["macs"] == 7_981_547_520
    assert data["chips"][0]["totals"]["useful_macs"] < 7_981_547_520


def test_what_is_not_known_is_null() -> None:
    (chip,) = (data := by_hand().to_dict())["chips"]
    row = chip["matmuls"][0]
    assert (row["joules"], chip["totals"]["joules"], row["check"], row["mapping"]) == (None,) * 4
    assert (row["min_dram_bytes"], chip["fits"]["bytes"], data["workload"]["kv_len"]) == (None,) * 3
    assert data["host"]["check_seconds"] is None


def test_figures_by_hand() -> None:
    """Utilization is over all 10 cycles of 16 PEs, mapped over the 28 slots of the PEs that hold work."""
    data = by_hand().to_dict()
    totals = data["chips"][0]["totals"]
    assert totals["seconds"] == 10e-9
    assert totals["utilization"] == pytest.approx(16 / (16 * 10))
    assert totals["mapped_utilization"] == pytest.approx(16 / 28)
    assert totals["bytes"] == {"dram": {"rhs": {"read": 64, "write": 0}, "other": {"read": 8, "write": 8}}}
    assert (totals["source"], totals["bound_by"]) == ("bound", "compute")
    assert data["host"]["simulated_cycles_per_second"] == 20


def test_what_a_profiler_shows_adds_up_over_rows_and_occurrences() -> None:
    """Ratios are of sums, not sums of ratios."""
    stalls, counters = {"selected": 30, "wait": 70}, {"instructions": 30, "unit_cycles": 20, "requests": 0}
    report = by_hand(stalls=stalls, counters=counters)
    totals = report.to_dict()["chips"][0]["totals"]
    assert (totals["stalls"], totals["counters"]) == (stalls, counters)
    assert totals["ratios"] == {"ipc": 1.5}  # no requests, so no sectors per request
    (row, _) = report.chips[0].rows
    twice = row.plus(row)
    assert twice.stalls == row.times(2).stalls == {"selected": 60, "wait": 140}
    assert twice.ratios == row.ratios
    text = str(report)
    assert "what resident warps do" in text and "in a profiler's words" in text
    assert "30.0" in text and "70.0" in text


def test_both_utilizations_of_a_one_row_matmul() -> None:
    """4x4 output stationary on (1,4,4), clocked for 14 cycles: NVlabs/timeloop issue 258 asks which."""
    (row,) = simulate(Gemm(m=1, n=4, k=4, dtype="fp32"), on="teaching-4x4", dataflow="os").to_dict()["chips"][
        0
    ]["matmuls"]
    assert row["utilization"] == pytest.approx(16 / (16 * 14))
    assert row["mapped_utilization"] == pytest.approx(4 * row["utilization"])


def test_json_stays_valid_when_a_check_meets_nan() -> None:
    check = Check(
        passed=False,
        max_error=float("nan"),
        tolerance=float("inf"),
        compared=4,
        mode="full",
        exact=False,
        error_vs_float64=float("nan"),
        device="cpu",
        rows="the only row",
    )
    report = by_hand(check=check)
    found = json.loads(report.to_json())["chips"][0]["matmuls"][0]["check"]
    assert (found["passed"], found["max_error"], found["tolerance"]) == (False, None, None)
    assert not report.passed
    assert "FAILED" in str(report)


def test_the_same_input_gives_the_same_json_but_for_the_host() -> None:
    first, second = (simulate(load_model("gpt2", seq=16)).to_dict() for _ in range(2))
    assert first.pop("host").keys() == second.pop("host").keys()
    assert json.dumps(first) == json.dumps(second)


def test_frame_has_a_row_for_each_op_of_each_chip(gpt2: Report) -> None:
    frame = gpt2.to_dataframe()
    for chip in gpt2.chips:
        mine = frame[frame["chip"] == chip.chip.name]
        assert list(mine["name"]) == [row.name for row in chip.rows]
        assert mine["cycles"].sum() == chip.totals.cycles
        assert mine["bytes.dram.rhs.read"].sum() == chip.totals.bytes["dram"]["rhs"].read
        assert mine["cycles_by_cause.compute"].sum() == chip.totals.cycles_by_cause["compute"]
    assert frame["macs"].isna().any()
    assert str(frame["macs"].dtype) == "Int64"


def test_tables_name_every_row_and_the_units(gpt2: Report) -> None:
    text = str(gpt2)
    for chip in gpt2.chips:
        assert all(row.name in text for row in chip.rows)
        assert all(f"{row.cycles:,}" in text for row in chip.rows)
    for word in ("cycles", "MAC", "MiB", "GHz", "FLOP/s", "GB/s", "us", "util", "comparison", "fits"):
        assert word in text
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_no_time_is_rounded_to_zero() -> None:
    assert "10 ns" in str(by_hand())


def test_each_figure_of_the_json_has_exactly_one_definition(corners: list[Report], gpt2: Report) -> None:
    for path in {path for report in (*corners, gpt2) for path in paths(report.to_dict())}:
        assert len([metric for metric in METRICS.values() if metric.stands_at(path)]) == 1, path


def test_each_definition_is_met_in_a_report_or_printed(corners: list[Report]) -> None:
    """Causes are a closed list of which a TPU knows some; rates and shares stand in the tables alone."""
    met = {path for report in corners for path in paths(report.to_dict())}
    text = str(corners[0])
    for metric in METRICS.values():
        if metric.name not in CAUSES and metric.paths:
            assert any(metric.stands_at(path) for path in met), metric.name
    assert "share" in text and "FLOP/s" in text and "FLOP/B" in text
    assert {name for name, metric in METRICS.items() if not metric.paths} == {
        *("share", "flop_per_s", "dram_bytes_per_s", "flop_per_byte", "speed")
    }


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("time", "seconds"),
        ("work", "macs"),
        ("mapped util", "mapped_utilization"),
        ("Max Error", "max_error"),
    ],
)
def test_heads_of_columns_find_their_metric(head: str, name: str) -> None:
    assert [metric.name for metric in find(head)] == [name]


def test_each_definition_can_be_found_and_says_something() -> None:
    for metric in METRICS.values():
        assert metric in find(metric.name)
        assert all(metric in find(path.removeprefix("chips.")) for path in metric.paths if "*" not in path)
        assert metric.meaning.endswith(".")
        assert "\n" not in metric.meaning
    assert len(METRICS) == len({path for m in METRICS.values() for path in (m.paths or (m.name,))[:1]})
