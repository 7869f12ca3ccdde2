"""A composed run as slices: each op in its turn, and all of them the report's cycles, cause by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import systolic
from systolic.chips import load_chip
from systolic.chips.tpu import TpuChip
from systolic.machines import tpu
from systolic.machines.base import Options
from systolic.recorded import Slice
from systolic.result import Result
from systolic.workload import Gemm, VectorOp, Workload
from tests.tpu_strategies import busy_chips, small_gemms


def assert_slices_are_the_rows(work: Workload, chip: TpuChip) -> None:
    steps = tpu.lower(work, chip, Options())
    results = [tpu.cost(step, chip) for step in steps]
    rows = tpu.compose(steps, results, chip)
    occurrences = list(tpu.timeline(steps, results, rows, chip))
    slices = [list(occurrence.slices) for occurrence in occurrences]
    assert sum(map(len, slices)) <= tpu.most_slices(steps, chip)
    assert occurrences[0].start == 0
    assert all(a.start + a.cycles == b.start for a, b in pairwise(occurrences))
    assert occurrences[-1].start + occurrences[-1].cycles == sum(row.cycles for row in rows)
    spent: dict[str, Counter[str]] = {row.name: Counter() for row in rows}
    moved = Counter[tuple[str, str]]()
    for occurrence, parts in zip(occurrences, slices, strict=True):
        unit = [
            part for part in parts if part.unit in ("array", "vector") or count(moved, part, occurrence.row)
        ]
        assert sum(part.stop - part.start for part in unit) == occurrence.cycles
        assert all(a.stop == b.start for a, b in pairwise(unit))
        for part in unit:
            spent[occurrence.row.name][part.cause] += part.stop - part.start
    assert {name: +causes for name, causes in spent.items()} == expected_causes(rows)
    if chip.cores == 1 and chip.mxus_per_core == 1:
        for row in rows:
            if isinstance(row.op, VectorOp) and not row.op.fused_into and "dram" in row.bytes:
                assert moved[row.name, "dram"] == row.level_bytes("dram")


def count(moved: Counter[tuple[str, str]], part: Slice, row: Result) -> bool:
    """Add what a port moved; it is no part of the unit."""
    moved[row.name, part.unit] += part.bytes
    return False


def expected_causes(rows: Sequence[Result]) -> dict[str, Counter[str]]:
    """Cycles by cause of each row, all waiting for memory as one."""
    causes: dict[str, Counter[str]] = {row.name: Counter() for row in rows}
    for row in rows:
        own = Counter(row.cycles_by_cause)
        own["stall_dram"] += own.pop("stall_latency", 0)
        causes[row.name] += own
    return causes


@settings(max_examples=40)
@given(busy_chips(), st.lists(small_gemms(), min_size=1, max_size=3), st.data())
def test_slices_add_up_to_the_rows(chip: TpuChip, gemms: list[Gemm], data: st.DataObject) -> None:
    named = [replace(gemm, name=f"g{i}") for i, gemm in enumerate(gemms)]
    vector = VectorOp(
        name="v",
        kind="norm",
        elements=data.draw(st.integers(1, 5000), "elements"),
        vector_ops=data.draw(st.integers(0, 3), "ops"),
        read_elements=data.draw(st.integers(0, 5000), "read"),
        write_elements=data.draw(st.integers(0, 5000), "write"),
        count=named[0].count,
        dtype="bf16",
    )
    assert_slices_are_the_rows(Workload(name="drawn", ops=(named[0], vector, *named[1:]), dtype="bf16"), chip)


@pytest.mark.parametrize("chip", ["tpu-v1", "tpu-v4", "tpu-v6e"])
def test_a_model_on_real_chips(chip: str) -> None:
    loaded = load_chip(chip)
    assert isinstance(loaded, TpuChip)
    work = systolic.load_model("gpt2", seq=32)
    assert_slices_are_the_rows(work if work.dtype else work.with_dtype(loaded.native_dtype), loaded)


def test_layers_take_turns() -> None:
    """Two ops that happen three times each run as a b a b a b, what follows them after that."""
    ops = [Gemm(m=4, n=4, k=4, count=3, name=name, dtype="fp32") for name in "ab"]
    ops.append(Gemm(m=4, n=4, k=4, name="c", dtype="fp32"))
    chip = load_chip("teaching-4x4")
    assert isinstance(chip, TpuChip)
    steps = tpu.lower(Workload(name="abc", ops=tuple(ops), dtype="fp32"), chip, Options())
    results = [tpu.cost(step, chip) for step in steps]
    walk = tpu.timeline(steps, results, tpu.compose(steps, results, chip), chip)
    seen = [(part.row.name, part.number, part.start) for part in walk]
    assert seen == [
        ("a", 0, 0),
        ("b", 0, 14),
        ("a", 1, 28),
        ("b", 1, 42),
        ("a", 2, 56),
        ("b", 2, 70),
        ("c", 0, 84),
    ]
