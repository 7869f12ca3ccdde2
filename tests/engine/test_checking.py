"""The check of a whole run: which is chosen, what it says, and that it can fail."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import pytest

from systolic import Gemm, SystolicError, Workload, load_chip, simulate
from systolic.engine.checking import check_rows
from systolic.engine.hook import MatmulHook
from systolic.engine.progress import Silent
from systolic.machines.base import Values

SMALL = Gemm(m=24, n=17, k=40, count=3, dtype="bf16", name="small")


class Log(Silent):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.total = self.done = 0

    def announce(self, line: str) -> None:
        self.lines.append(line)

    def start(self, label: str, total: int) -> None:
        self.total, self.done = total, 0

    def advance(self, units: int) -> None:
        self.done += units


class Bumped(MatmulHook):
    """A chip that gets one element wrong by a part of (row norm * column norm)."""

    part = 0.01

    def values(self, gemm: Gemm, lhs: np.ndarray, rhs: np.ndarray) -> Values:
        right = super().values(gemm, lhs, rhs)
        out = right.out.copy()
        out[0, -1, 2] += self.part * np.linalg.norm(lhs[0, -1]) * np.linalg.norm(rhs[0, :, 2])
        return dataclasses.replace(right, out=out)


def test_off_is_the_default_and_leaves_null() -> None:
    report = simulate(SMALL)
    assert report.chips[0].rows[0].check is None
    assert report.host.check_seconds is None
    assert report.passed


@pytest.mark.parametrize("chip", ["tpu-v4", "teaching-4x4"])
def test_full_compares_every_element_of_every_occurrence(chip: str) -> None:
    report = simulate(SMALL, on=chip, check="full")
    check = report.chips[0].rows[0].check
    assert check is not None
    assert (check.passed, check.mode, check.compared) == (True, "full", 3 * 24 * 17)
    assert 0 < check.max_error <= check.tolerance
    assert report.host.check_seconds is not None


def test_sample_compares_named_rows() -> None:
    (row,) = simulate(dataclasses.replace(SMALL, m=1000), check="sample").chips[0].rows
    assert row.check is not None
    assert row.check.mode == "sample"
    assert row.check.compared % 17 == 0
    assert 2 * 17 <= row.check.compared < 17 * 1000
    assert row.check.rows.startswith("rows 0")
    assert "of 1000" in row.check.rows


def test_auto_chooses_by_cost_and_says_which() -> None:
    """2**34 MACs and more are past what it compares in full."""
    small = simulate(SMALL, check="auto").chips[0]
    large = simulate(dataclasses.replace(SMALL, m=4096, n=4096, k=16, count=128), check="auto").chips[0]
    for chip, mode in ((small, "full"), (large, "sample")):
        assert chip.rows[0].check is not None
        assert chip.rows[0].check.mode == mode
        assert any(note.startswith(f"check {mode}: ") for note in chip.notes)


def test_what_cannot_be_checked_is_noted_by_auto_and_refused_when_asked_for() -> None:
    """No error bound exists once n roundings of 2**-24 reach 1 (Higham 2002, lemma 3.1)."""
    hopeless = Gemm(m=1, n=1, k=2**25, dtype="fp32", name="long")
    chosen = simulate(hopeless, on="teaching-4x4", dataflow="os", check="auto").chips[0]
    assert chosen.rows[0].check is None
    assert any(note.startswith("not checked: ") for note in chosen.notes)
    with pytest.raises(SystolicError, match="round"):
        simulate(hopeless, on="teaching-4x4", dataflow="os", check="sample")


@pytest.mark.parametrize("mode", ["full", "sample"])
def test_one_wrong_element_fails_the_check(mode: str) -> None:
    chip = load_chip("tpu-v4")
    rows = simulate(SMALL, on=chip).chips[0].rows
    right, _ = check_rows(rows, MatmulHook(chip), mode, Silent())
    wrong, _ = check_rows(rows, Bumped(chip), mode, Silent())
    assert right[0].check is not None and right[0].check.passed
    assert wrong[0].check is not None and not wrong[0].check.passed


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not pin processors")
def test_values_and_checks_do_not_depend_on_the_number_of_threads() -> None:
    """One processor allowed, and all of them."""
    everywhere = os.sched_getaffinity(0)
    reports = []
    try:
        for allowed in ({min(everywhere)}, everywhere):
            os.sched_setaffinity(0, allowed)
            reports.append(simulate(dataclasses.replace(SMALL, m=400), check="full").to_dict()["chips"])
    finally:
        os.sched_setaffinity(0, everywhere)
    assert reports[0] == reports[1]


@pytest.mark.parametrize("mode", ["full", "sample"])
def test_progress_ends_at_its_total(mode: str) -> None:
    log = Log()
    work = Workload(name="two", ops=(SMALL, dataclasses.replace(SMALL, m=300, name="other")), dtype="bf16")
    simulate(work, check=mode, progress=log)
    assert log.total == log.done > 0
    assert log.lines == []


def test_long_checks_announce_themselves_and_the_cheaper_way() -> None:
    """Announced before any work: the interrupt comes from the announcement itself."""

    class Stop(Log):
        def announce(self, line: str) -> None:
            super().announce(line)
            raise KeyboardInterrupt

    log = Stop()
    with pytest.raises(KeyboardInterrupt):
        simulate(dataclasses.replace(SMALL, m=8192, n=8192, k=8192), check="full", progress=log)
    assert log.lines[0].startswith("check full of 1.649 TMAC takes about ")
    assert log.lines[0].endswith("check sample compares some rows of each")
