"""Comparisons on rows that can be worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import systolic
from systolic import SystolicError
from systolic.measured.compare_rows import compare
from systolic.measured.record import Measurement, Measurements, Session
from systolic.measured.rows import Row, csv_text, read_rows


def row(m: int, measured_us: float, **other: Any) -> Row:
    """A matmul m x 4 x 4, whose weights fill the teaching array exactly."""
    given: dict[str, Any] = {"device": "bench", "dtype": "int8", "op": "matmul", "clock": "kernel"}
    return Row(**{**given, "m": m, "n": 4, "k": 4, "measured_us": measured_us, **other})


def file_of(folder: Path, *rows: Row, name: str = "mine.csv") -> Path:
    path = folder / name
    path.write_text(csv_text(rows))
    return path


def cycles(m: int) -> int:
    """Weight stationary, serial, 4 x 4: R preload + (m + R + C - 2)."""
    return 4 + m + 4 + 4 - 2


def test_errors_by_hand(tmp_path: Path) -> None:
    """14 and 74 cycles at 1 GHz where 0.02 and 0.074 us were measured: -30% and 0%."""
    assert (cycles(4), cycles(64)) == (14, 74)
    path = file_of(tmp_path, row(4, 0.020, peers={"other": 0.022}), row(64, 0.074, peers={"other": 0.037}))
    comparison = compare(path, on="teaching-4x4")
    (group,) = comparison.groups
    figures = group.figures(group.points)
    assert [p.simulated for p in group.points] == pytest.approx([14e-9, 74e-9])
    assert (figures["mape"], figures["median"], figures["worst"], figures["mean"]) == pytest.approx(
        (15, 15, 30, -15)
    )
    assert (figures["best_peer"], figures["best_peer_mape"]) == ("other", pytest.approx(30))
    # 64 and 1024 MACs on 16 PEs at 1 GHz, memory unlimited: 4 and 64 ns.
    assert figures["roofline_mape"] == pytest.approx((80 + 100 * 10 / 74) / 2)
    assert [p.name for p in group.worst(1)] == ["4x4x4"]
    (label,) = group.labels
    assert label == "measured on bench, simulated on teaching-4x4: errors hold the difference of the two"


def test_an_error_spans_neither_clocks_nor_devices_nor_formats(tmp_path: Path) -> None:
    rows = [
        row(4, 0.02),
        row(4, 0.04, clock="host"),
        row(4, 0.02, device="other"),
        row(4, 0.02, dtype="bf16"),
    ]
    comparison = compare(file_of(tmp_path, *rows), on="teaching-4x4")
    keys = [(g.device, g.dtype, g.clock, len(g.points)) for g in comparison.groups]
    assert keys == [
        ("bench", "int8", "kernel", 1),
        ("bench", "int8", "host", 1),
        ("other", "int8", "kernel", 1),
        ("bench", "bf16", "kernel", 1),
    ]
    assert any("the clock holds the start of each op" in label for label in comparison.groups[1].labels)


def test_what_is_left_out_is_counted_with_its_reason(tmp_path: Path) -> None:
    rows = [
        row(4, 0.02, device="TPUv6e", dtype="bf16"),
        row(4, 0.02, device="abacus"),
        row(4, 0.02, device="abacus"),
        row(4, 0.02, device="TPUv6e", dtype="fp64"),
        row(4, 0.02, device="TPUv6e", dtype="bf16", op="allreduce"),
        row(4, 0.02, device="TPUv6e", dtype="fp32"),
    ]
    comparison = compare(file_of(tmp_path, *rows))
    assert [(group.dtype, len(group.points)) for group in comparison.groups] == [("bf16", 1), ("fp32", 1)]
    assert comparison.groups[1].labels == (
        "tpu-v6e does not multiply fp32: simulated as it runs there, in bf16",
    )
    reasons = {(entry.device, entry.reason.partition(",")[0]): entry.rows for entry in comparison.skipped}
    assert reasons[("abacus", "no chip of the catalogue stands for device 'abacus'")] == 2
    assert reasons[("TPUv6e", "dtype must be a number format")] == 1
    assert reasons[("TPUv6e", "op 'allreduce' of measured rows is not simulated")] == 1
    assert sum(reasons.values()) == 4
    assert "not compared: 4 rows" in str(comparison)


def test_a_file_of_which_nothing_can_be_compared_is_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path, row(4, 0.02))
    with pytest.raises(SystolicError) as refused:
        compare(path)
    assert refused.value.problems == (
        "no measured row can be compared",
        "bench: no chip of the catalogue stands for device 'bench'",
    )
    with pytest.raises(SystolicError, match="compare needs a file of measurements, or shipped measurements"):
        compare()
    with pytest.raises(SystolicError, match="sample must be > 0"):
        compare(path, on="teaching-4x4", sample=0)


def test_short_rows_of_a_clock_with_a_floor_stand_apart(tmp_path: Path) -> None:
    """NeuSight's clock adds 50 us: a row of 240 us is below five times that, one of 260 us is not."""
    text = "device,dtype,op,batch,M,N,K,measured_us\n" + "".join(
        f"any,fp32,bmm,1,{m},4,4,{us}\n" for m, us in ((4, 240.0), (8, 260.0))
    )
    path = tmp_path / "neusight_gemm.csv"
    path.write_text(text)
    (group,) = compare(path, on="teaching-4x4").groups
    assert [p.name for p in group.points] == ["8x4x4"]
    assert [p.name for p in group.tiny] == ["4x4x4"]
    assert [(name, len(points)) for name, points in group.parts.items()][-1] == ("under 5 x floor", 1)
    assert "rows below five times the 50 us that the clock adds" in compare(path, on="teaching-4x4").to_text()


def test_parts_tell_size_and_phase(tmp_path: Path) -> None:
    rows = [row(4, us, stage=stage) for us, stage in ((5.0, "prefill x"), (50.0, ""), (5e3, "decode"))]
    (group,) = compare(file_of(tmp_path, *rows), on="teaching-4x4").groups
    counts = {name: len(points) for name, points in group.parts.items()}
    sizes = {"under 10 us": 1, "10 to 100 us": 1, "over 1 ms": 1}
    assert counts == {"all": 3, "prefill": 1, "decode": 1, "compute-bound": 3} | sizes


def test_a_sample_is_spread_over_the_times(tmp_path: Path) -> None:
    rows = [row(m, 0.01 * m) for m in range(1, 101)]
    path = file_of(tmp_path, *reversed(rows))
    (group,) = compare(path, on="teaching-4x4", sample=4).groups
    assert [p.name for p in group.points] == ["88x4x4", "63x4x4", "38x4x4", "13x4x4"]
    assert group.title.endswith("; 4 of 100 rows")


def test_a_file_that_was_cut_says_so_and_keeps_its_rows(tmp_path: Path) -> None:
    path = file_of(tmp_path, row(4, 0.02), row(8, 0.03))
    path.write_text(path.read_text()[:-5])
    comparison = compare(path, on="teaching-4x4")
    assert len(comparison.groups[0].points) == 1
    assert str(comparison).startswith(f"{path}: cut off in row 2; the 1 rows before it are kept\n")


def test_several_chips_stand_beside_the_same_rows(tmp_path: Path) -> None:
    comparison = compare(file_of(tmp_path, row(4, 0.02)), on=["teaching-4x4", "scale-sim"])
    assert [group.chip.name for group in comparison.groups] == ["teaching-4x4", "scale-sim"]


def test_plain_data_and_frame_hold_what_the_table_shows(tmp_path: Path) -> None:
    comparison = systolic.compare(file_of(tmp_path, row(4, 0.020, peers={"other": 0.022})), on="teaching-4x4")
    assert isinstance(comparison, systolic.Comparison)
    (group,) = json.loads(comparison.to_json())["groups"]
    (point,) = group["points"]
    assert point["error_pct"] == pytest.approx(-30)
    assert point["peers_us"] == {"other": pytest.approx(0.022)}
    assert group["parts"]["all"]["mape"] == pytest.approx(30)
    frame = comparison.to_dataframe()
    assert list(frame["simulated_us"]) == pytest.approx([0.014])
    assert list(frame["peers_us.other"]) == pytest.approx([0.022])


def test_a_file_of_the_collection_is_judged_by_its_own_name(tmp_path: Path) -> None:
    """Rows kept apart come with the columns of their source."""
    path = tmp_path / "xla_gemm.csv"
    path.write_text(
        "device,dtype,op,batch,M,N,K,measured_us,source\nTPUv6e,bf16,matmul,1,256,256,256,4.96,any\n"
    )
    (group,) = compare(path).groups
    assert (group.source, group.clock, len(group.points)) == ("xla_gemm.csv", "kernel", 1)
    own = tmp_path / "own"
    own.mkdir()
    tidy = file_of(own, row(4, 0.02), name="xla_gemm.csv")
    assert compare(tidy, on="teaching-4x4").groups[0].points[0].measured == pytest.approx(2e-8)
    assert read_rows(tidy).rows[0].m == 4


def taken(m: int, median_us: float | None, alarm: str = "") -> Measurement:
    """What `systolic measure` writes of a matmul m x 4 x 4."""
    return Measurement(
        session=1, name="w", batch=1, m=m, n=4, k=4, layout="nn", dtype="int8", rhs_dtype="int8",
        out_dtype="int32", precision="default", count=1, verdict="ok" if median_us else "too noisy",
        median_us=median_us, lo_us=median_us, hi_us=median_us, repeats=9, spread=0.01, kernel_us=None,
        compile_s=0.1,
        transfer_s=0.1, rotated_bytes=4096, alarm=alarm,
    )  # fmt: skip


def test_a_file_of_our_own_measurements(tmp_path: Path) -> None:
    """Its dispatch is the floor of its clock; noisy rows, alarms and observed formats are told."""
    session = Session(
        id=1, started="2026-01-01T00:00:00Z", device="bench", platform="gpu", driver="1", versions={},
        host={}, clock="host", options={"warm": True}, observed={"fp32": "tf32"}, dispatch_us=2.0,
    )  # fmt: skip
    rows = (taken(4, 9.0), taken(8, 20.0, "12.3 TFLOP/s is above the peak"), taken(16, None))
    path = tmp_path / "measured.json"
    Measurements((session,), rows).write(path)
    comparison = compare(path, on="teaching-4x4")
    (group,) = comparison.groups
    assert (group.clock, group.floor_us) == ("host", 2.0)
    assert [p.name for p in group.points] == ["8x4x4"]
    assert [p.name for p in group.tiny] == ["4x4x4"]
    told = "\n".join(comparison.notes)
    for word in ("1 rows were too noisy", "above the peak", "multiply fp32 as tf32", "again and again"):
        assert word in told
    whole = path.read_text()
    path.write_text(whole[: whole.index('"m": 16')])
    comparison = compare(path, on="teaching-4x4")
    assert len(comparison.groups[0].points) == 1
    assert "cut off after" in comparison.notes[0]


def test_a_file_cut_before_its_first_row_says_so(tmp_path: Path) -> None:
    session = Session(
        id=1, started="2026-01-01T00:00:00Z", device="bench", platform="cpu", driver="1", versions={},
        host={}, clock="host", options={}, observed={}, dispatch_us=2.0,
    )  # fmt: skip
    path = tmp_path / "measured.json"
    Measurements((session,), (taken(4, 9.0),)).write(path)
    path.write_bytes(path.read_bytes()[:450])
    with pytest.raises(SystolicError) as caught:
        compare(path, on="teaching-4x4")
    assert "cut off after 450 bytes; 0 complete rows of 1 sessions are kept" in "\n".join(
        caught.value.problems
    )
