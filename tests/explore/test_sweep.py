"""Sweeps: figures, resumption, reuse, failures, engines, exports, and what a wrong file says."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import systolic
from systolic.cli import main
from systolic.errors import SystolicError
from systolic.explore.design import design_of, read_design
from systolic.explore.views import Aim, View, front, sensitivity

ROOT = Path(__file__).parents[2]
SMALL: dict[str, Any] = {
    "model": "64,96,96",
    "on": "tpu-v4",
    "axes": {"array.rows": [32, 64, 128], "array.cols": [32, 64], "batch": [1]},
}
SMALL_WITHOUT_BATCH = SMALL | {"axes": {"array.rows": [32, 64, 128], "array.cols": [32, 64]}}
FILE = """
schema = 1
model = "64,96,96"
on = "tpu-v4"
[axes]
"array.rows" = { from = 8, to = 128, step = 8 }
"array.cols" = { from = 8, to = 128, step = 8 }
"""


def swept(
    tmp_path: Path, raw: dict[str, Any] | None = None, name: str = "s", **options: Any
) -> systolic.Sweep:
    """A sweep in this process."""
    return systolic.sweep(
        raw or SMALL_WITHOUT_BATCH, store=tmp_path / f"{name}.sqlite", **({"workers": 1} | options)
    )


def csv_of(sweep: systolic.Sweep, path: Path) -> bytes:
    """The table as exported."""
    sweep.to_csv(path)
    return path.read_bytes()


def test_a_point_has_the_figures_of_a_simulation(tmp_path: Path) -> None:
    table = swept(tmp_path).to_dataframe()
    assert len(table) == 6
    for row in table.to_dict("records"):
        changes = {name: row[name] for name in ("array.rows", "array.cols")}
        work = systolic.load_model("64,96,96")
        chip = systolic.simulate(work, on="tpu-v4", overrides=changes).chips[0]
        assert row["cycles"] == chip.totals.cycles
        assert row["seconds"] == chip.seconds
        assert row["utilization"] == chip.utilization
        assert row["bytes.dram"] == sum(r.level_bytes("dram") for r in chip.rows)
        assert row["bound_by"] == chip.totals.bound_by


def test_a_second_sweep_reuses_what_it_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = swept(tmp_path)
    wider = SMALL_WITHOUT_BATCH | {"axes": {"array.cols": [32, 64, 128], "array.rows": [32, 64, 128]}}
    asked = systolic.explore.running.evaluate_batch  # type: ignore[attr-defined]
    evaluated: list[Any] = []

    def counted(design: Any, batch: Any) -> Any:
        evaluated.extend(batch)
        return asked(design, batch)

    monkeypatch.setattr("systolic.explore.running.evaluate_batch", counted)
    monkeypatch.setattr("systolic.explore.engines.evaluate_batch", counted)
    second = systolic.sweep(wider, store=first.store, workers=1)
    assert (second.counts, len(evaluated)) == ((9, 0), 3)
    same = {"set": {"array.rows": 64}, "axes": {"array.cols": [32, 64, 128]}, "model": "64,96,96"}
    evaluated.clear()
    assert systolic.sweep(same, store=first.store, workers=1).counts == (3, 0)
    assert not evaluated


def test_a_failing_point_is_a_row_with_its_reason(tmp_path: Path) -> None:
    raw = SMALL_WITHOUT_BATCH | {"axes": {"memory.vmem.bytes": ["1 MiB", "1 KiB"], "array.rows": [64]}}
    sweep = swept(tmp_path, raw)
    good, bad = sweep.to_dataframe().to_dict("records")
    assert (good["status"], bad["status"]) == ("done", "failed")
    assert "memory.vmem of tpu-v4 (1 KiB" in bad["reason"]
    assert sweep.counts == (2, 1)


def test_all_engines_give_the_same_table(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    from distributed import LocalCluster

    here = csv_of(swept(tmp_path, name="here"), tmp_path / "here.csv")
    assert csv_of(swept(tmp_path, name="two", workers=2), tmp_path / "two.csv") == here
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster:
        address = cluster.scheduler_address
        dask = swept(tmp_path, name="dask", workers=None, scheduler=address)
        assert csv_of(dask, tmp_path / "dask.csv") == here


def test_killed_at_any_moment_it_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(FILE)
    whole = systolic.sweep(file, store=tmp_path / "whole.sqlite", workers=1)
    expected = csv_of(whole, tmp_path / "whole.csv")
    command = [sys.executable, "-m", "systolic", "sweep", str(file), "--workers", "2"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    draw, done = random.Random(11), 0
    for kill in range(10):
        run = subprocess.Popen(
            command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(draw.uniform(0.3, 4.0))
        victims = children_of(run.pid) if kill % 2 else []
        os.kill(draw.choice(victims) if victims else run.pid, signal.SIGKILL)
        if victims:
            run.wait(timeout=60)
        else:
            run.wait()
        now = outcomes_in(tmp_path / "sweep.sqlite")
        assert now >= done
        done = now
    resumed = systolic.sweep(file, workers=2)
    assert csv_of(resumed, tmp_path / "resumed.csv") == expected
    assert outcomes_in(resumed.store) == resumed.counts[0] == 256


def children_of(pid: int) -> list[int]:
    """Worker processes of a sweep."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and "resource_tracker" not in (path.parent / "cmdline").read_text():
            found.append(int(path.parent.name))
    return found


def outcomes_in(store: Path) -> int:
    """Outcomes that a store holds, 0 where there is none yet."""
    if not store.exists():
        return 0
    with closing(sqlite3.connect(store)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        try:
            return int(db.execute("SELECT count(*) FROM outcomes").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


def test_a_random_and_a_bayesian_search_repeat_themselves(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    for method in ("random", "bayesian"):
        search = {"method": method, "points": 5, "seed": 3, "minimize": ["seconds"]}
        raw = SMALL_WITHOUT_BATCH | {"search": search}
        once = csv_of(swept(tmp_path, raw, "a" + method), tmp_path / "a.csv")
        assert csv_of(swept(tmp_path, raw, "b" + method), tmp_path / "b.csv") == once
        assert once.count(b"\n") == 6


def test_parquet_holds_the_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pandas as pd

    sweep = swept(tmp_path, SMALL_WITHOUT_BATCH | {"derived": {"pes": "array.rows * array.cols"}})
    sweep.to_parquet(tmp_path / "t.parquet")
    read, table = pd.read_parquet(tmp_path / "t.parquet"), sweep.to_dataframe()
    assert list(read.columns) == list(table.columns)
    assert list(read["cycles"]) == list(table["cycles"])
    assert list(read["pes"]) == [r * c for r, c in zip(table["array.rows"], table["array.cols"], strict=True)]


TEN_MISTAKES = """
schema = 2
modell = "gpt2"
on = "tpu-v44"
batch = 0
constraints = ["array.row > 3", "import os"]
[axes]
"array.rowz" = [1, 2]
"array.cols" = []
seq = { from = 1, to = 8 }
[derived]
cycles = "seconds * 2"
[search]
method = "guess"
seed = -1
"""


def test_all_mistakes_of_a_file_come_at_once(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(TEN_MISTAKES)
    with pytest.raises(SystolicError) as error:
        read_design(file)
    lines = error.value.problems
    assert all(line.startswith(f"{file}: ") for line in lines)
    for part in (
        "schema must be 1, got 2",
        "'modell' is no part of a sweep; did you mean 'model'?",
        "chip 'tpu-v44' is not in the catalogue",
        "model must be given",
        "batch must be",
        "constraints[0] speaks of array.row, which is none of the axes",
        "constraints[1] must be an arithmetic expression",
        "array.rowz is no field of a TPU; did you mean 'array.rows'?",
        "axes.array.cols must hold at least one value",
        "axes.seq must give one of step, factor and count",
        "derived.cycles must have a name of its own",
        "search.method must be one of grid, random, bayesian, got 'guess'",
        "search.seed must be a whole number >= 0, got -1",
    ):
        assert any(part in line for line in lines), (part, lines)


def test_a_store_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SystolicError, match="there is no folder"):
        systolic.sweep(SMALL_WITHOUT_BATCH, store=tmp_path / "no" / "s.sqlite", workers=1)
    text = tmp_path / "text.sqlite"
    text.write_text("no database, but long enough to be taken for one: " * 40)
    with pytest.raises(SystolicError, match="is no store of a sweep"):
        systolic.sweep(SMALL_WITHOUT_BATCH, store=text, workers=1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line_and_keeps_what_is_done(tmp_path: Path) -> None:
    from systolic.explore.store import Store

    with Store(tmp_path / "s.sqlite") as store:
        store._db.execute("PRAGMA max_page_count = 12")
        with pytest.raises(SystolicError, match="the disk is full; what is done is kept"):
            systolic.explore.running._Running(  # type: ignore[attr-defined]
                design_of(SMALL_WITHOUT_BATCH | {"axes": {"array.rows": list(range(8, 128))}}, name="x"),
                store,
                systolic.engine.progress.Silent(),  # type: ignore[attr-defined]
            ).run(1, None)
    assert outcomes_in(tmp_path / "s.sqlite") > 0


def test_a_second_sweep_on_one_store_is_told_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from systolic.explore import store

    monkeypatch.setattr(store, "PATIENCE_S", 0.1)
    with store.Store(tmp_path / "s.sqlite") as kept:
        kept.add("x", (), ())
        with pytest.raises(SystolicError, match="another sweep or program has this store open"):
            store.Store(tmp_path / "s.sqlite")


def test_no_scheduler_is_one_line() -> None:
    pytest.importorskip("distributed")
    from systolic.explore.engines import Cluster

    with pytest.raises(SystolicError, match="scheduler must be the address"):
        Cluster("tcp:nowhere")


def test_the_front_is_what_no_row_beats() -> None:
    rows = [{"point": i, "a": a, "b": b} for i, (a, b) in enumerate([(1, 9), (2, 5), (3, 6), (4, 1), (2, 5)])]
    assert [row["point"] for row in front(rows, (Aim("a"), Aim("b")))] == [0, 1, 3]
    assert [row["point"] for row in front(rows, (Aim("a", large=True), Aim("b")))] == [3]


def test_sensitivity_compares_all_else_equal() -> None:
    rows = [
        {"x": x, "y": y, "f": base / x * (2 if y == "slow" else 1)}
        for x, base in ((1, 8.0), (2, 8.0), (4, 16.0))
        for y in ("slow", "fast")
    ]
    first, second = sensitivity(rows, ("x", "y"), "f")
    assert (first.axis, first.ratio) == ("x", pytest.approx(2))
    assert first.enough == 2
    assert (second.axis, second.ratio, second.enough) == ("y", pytest.approx(2), None)


def test_the_command_prints_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = FILE.replace("step = 8", "factor = 2") + '\n[derived]\npes = "array.rows * array.cols"\n'
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(SystemExit) as end:
        main(
            [
                "sweep",
                "sweep.toml",
                "--workers",
                "1",
                "--pareto",
                "seconds,pes",
                "--html",
                "p.html",
                "--csv",
                "t.csv",
            ]
        )
    assert not end.value.code
    shown = capsys.readouterr()
    assert "sweep: 25 points" in shown.out
    assert "What matters for seconds, all else equal" in shown.out
    assert "25 points" in shown.err
    page = (tmp_path / "p.html").read_text()
    assert page.count("<figure") == 3
    assert 'src="' not in page
    assert 'href="http' not in page.replace('xlink:href="#', "")
    assert (tmp_path / "t.csv").read_text().count("\n") == 26
    with pytest.raises(SystemExit) as end:
        main(["sweep", "sweep.toml", "--dry-run"])
    assert not end.value.code
    assert "25 points" in capsys.readouterr().out


def test_views_refuse_names_that_are_none() -> None:
    design = design_of(SMALL_WITHOUT_BATCH, name="x")
    with pytest.raises(SystolicError) as error:
        View.asked(design, pareto="second,cycles", heat="array.rows", figure="time")
    assert len(error.value.problems) == 3
