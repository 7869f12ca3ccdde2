"""The trace: valid events, and slices that add up to the report."""

from __future__ import annotations

import io
import json
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

import systolic
from systolic.engine.unrolled import unroll
from systolic.errors import SystolicError
from systolic.viz.chrome_trace import TRACKS, write_chrome_trace
from systolic.workload import Workload


@pytest.fixture(scope="module")
def work() -> Workload:
    return systolic.load_model("gpt2", seq=64)


def trace_of(work: Workload, detail: str = "slice", **options: Any) -> dict[str, Any]:
    text = io.StringIO()
    written = write_chrome_trace(unroll(work, **options), text, detail)
    trace: dict[str, Any] = json.loads(text.getvalue())
    assert len(trace["traceEvents"]) == written
    return trace


@pytest.mark.parametrize("chip", ["tpu-v1", "tpu-v4"])
def test_slices_add_up_to_the_report(work: Workload, chip: str) -> None:
    report = systolic.simulate(work, on=chip).chips[0]
    trace = trace_of(work, on=chip)
    assert trace["otherData"]["clock_hz"] == report.chip.clock_hz
    spent, ops, units = Counter[str](), Counter[str](), 0
    for event in trace["traceEvents"]:
        if event["ph"] != "X":
            continue
        track, facts = TRACKS[event["tid"]], event["args"]
        if track == "ops":
            ops[facts["op"]] += facts["cycles"]
        elif track in ("array", "vector"):
            spent[facts["cause"]] += facts["cycles"]
            units += facts["cycles"]
    assert ops == {row.name: row.cycles for row in report.rows}
    assert units == report.totals.cycles
    causes = Counter(report.totals.cycles_by_cause)
    causes["stall_dram"] += causes.pop("stall_latency", 0)
    assert +spent == +causes


def test_events_are_what_the_format_asks_for(work: Workload) -> None:
    """Google's Trace Event Format: X has ts and dur, C has numbers in args, M names processes and threads."""
    events = trace_of(work, on="tpu-v4")["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "C"}
    assert [e["args"]["name"] for e in events if e["name"] == "thread_name"] == list(TRACKS)
    on_array = []
    for event in events:
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0 and event["pid"] == 1
            # 1.05 GHz: a cycle is 1/1050 us.
            assert event["dur"] == pytest.approx(event["args"]["cycles"] / 1050)
            assert event["ts"] == pytest.approx(event["args"]["start_cycle"] / 1050)
            if TRACKS[event["tid"]] == "array":
                on_array.append(event["args"])
        elif event["ph"] == "C":
            assert all(value >= 0 for value in event["args"].values())
    # One unit does one thing at a time.
    assert all(a["start_cycle"] + a["cycles"] <= b["start_cycle"] for a, b in pairwise(on_array))


def test_counters_stay_below_what_the_chip_has(work: Workload) -> None:
    """TPU v4: 1200 GB/s for the chip, of which a core gets half while both work."""
    events = trace_of(work, on="tpu-v4")["traceEvents"]
    rates = [event["args"]["GB/s"] for event in events if event["name"] == "dram port"]
    assert 100 < max(rates) <= 1200
    shares = [event["args"]["share"] for event in events if event["name"] == "PEs with work"]
    assert 0 < max(shares) <= 1


def test_one_slice_for_each_op(work: Workload) -> None:
    events = [e for e in trace_of(work, "op", on="tpu-v4")["traceEvents"] if e["ph"] == "X"]
    assert len(events) == sum(row.op.count for row in systolic.simulate(work, on="tpu-v4").chips[0].rows)
    layers = [e["name"] for e in events if e["args"]["op"] == "attn.qk"]
    assert layers == [f"attn.qk {layer}" for layer in range(12)]


def test_a_chip_of_another_kind_is_refused_by_name(work: Workload) -> None:
    with pytest.raises(SystolicError, match=r"a100 \(kind gpu\) has no timeline of units yet; take a TPU"):
        unroll(work, on="a100")
