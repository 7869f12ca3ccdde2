"""Files of measurements: whole, appended, resumed, cut off at any byte."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from systolic.errors import SystolicError
from systolic.measured.record import NOISY, OK, Measurement, Measurements, Session, read
from systolic.measured.sources import read_measured

SESSION = Session(
    id=1,
    started="2026-01-02T03:04:05+00:00",
    device="cpu",
    platform="cpu",
    driver="cpu",
    versions={"jax": "0.10.2"},
    host={"cpus": 2, "cpu": None},
    clock="host",
    options={"inputs": "cold", "spread": 0.02, "budget_s": 10.0},
    observed={"fp32 default": "fp32"},
    dispatch_us=7.5,
)


def measurement(m: int, median: float | None = 10.0, session: int = 1) -> Measurement:
    return Measurement(
        session=session,
        name='odd "name", {curly}\n',
        batch=1,
        m=m,
        n=8,
        k=16,
        layout="nn",
        dtype="fp32",
        rhs_dtype="fp32",
        out_dtype="fp32",
        precision="default",
        count=3,
        verdict=NOISY if median is None else OK,
        median_us=median,
        lo_us=median,
        hi_us=median,
        repeats=15,
        spread=0.01,
        kernel_us=None if median is None else 0.9 * median,
        compile_s=0.1,
        transfer_s=0.2,
        rotated_bytes=1000,
    )


CONTENT = Measurements(
    (SESSION, replace(SESSION, id=2)), (measurement(4), measurement(5, None), measurement(6, 3.5))
)


def test_a_file_reads_back_and_is_json(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    CONTENT.write(path)
    assert read(path) == CONTENT
    assert read(path).notes == ()
    plain = json.loads(path.read_text())
    assert plain["schema"] == 1
    assert [row["m"] for row in plain["rows"]] == [4, 5, 6]
    assert [path.name] == [left.name for left in tmp_path.iterdir()]


def test_cut_off_at_any_byte_it_says_so_and_keeps_what_is_complete(tmp_path: Path) -> None:
    whole = CONTENT.text().encode()
    path = tmp_path / "cut.json"
    ends = [whole.index(json.dumps(vars(row)).encode()) + len(json.dumps(vars(row))) for row in CONTENT.rows]
    for size in range(1, len(whole)):  # every one of some 2,500 cuts
        path.write_bytes(whole[:size])
        found = read(path)
        assert found.rows == CONTENT.rows[: sum(end <= size for end in ends)], size
        assert found.notes and f"cut off after {size:,} bytes" in found.notes[0]
        assert f"{len(found.rows)} complete rows" in found.notes[0]


def test_a_lost_line_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "lost.json"
    lines = CONTENT.text().splitlines()
    path.write_text("\n".join(line for line in lines if '"m": 5' not in line))
    assert [row.m for row in read(path).rows] == [4, 6]
    assert "2 complete rows" in read(path).notes[0]


def test_rows_with_a_number_are_compared_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    CONTENT.write(path)
    found = read_measured(path)
    assert [(row.device, row.m, row.measured_us, row.clock) for row in found.rows] == [
        ("cpu", 4, 10.0, "host"),
        ("cpu", 6, 3.5, "host"),
    ]
    assert f"{path}: 1 rows were too noisy for a number" in found.notes


def test_a_device_with_a_clock_of_its_own_gives_two_rows() -> None:
    gpu = replace(CONTENT, sessions=(replace(SESSION, platform="gpu", device="NVIDIA H200"),))
    times = [(row.m, row.clock, row.measured_us) for row in gpu.as_rows()]
    assert times == [(4, "host", 10.0), (6, "host", 3.5), (4, "kernel", 9.0), (6, "kernel", 0.9 * 3.5)]


def test_what_counts_as_measured_already() -> None:
    other = replace(SESSION, id=3, versions={"jax": "0.11.0"})
    assert CONTENT.measured(replace(SESSION, id=9, started="later")) == {
        CONTENT.rows[0].key,
        CONTENT.rows[2].key,
    }
    assert CONTENT.measured(replace(SESSION, id=9, options={**SESSION.options, "budget_s": 1})) != set()
    assert CONTENT.measured(replace(SESSION, id=9, options={**SESSION.options, "inputs": "warm"})) == set()
    assert CONTENT.measured(other) == set()


@pytest.mark.parametrize("text", ["", "[]", '{"rows": []}', "device,dtype\n"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text or " ")
    with pytest.raises(SystolicError, match="must begin with"):
        read(path)


def test_a_record_with_other_fields_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(CONTENT.text().replace('"repeats"', '"repeat"'))
    with pytest.raises(
        SystolicError, match="a measurement of schema 1 has other fields; look at repeat, repeats"
    ):
        read(path)


def test_a_folder_that_cannot_be_written_leaves_the_file_alone(tmp_path: Path) -> None:
    with pytest.raises(SystolicError, match="cannot be written"):
        CONTENT.write(tmp_path / "absent" / "measured.json")
