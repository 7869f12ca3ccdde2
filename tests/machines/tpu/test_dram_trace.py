"""Traces of a matmul's accesses, read back as the simulators that they are written for read them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import systolic
from systolic.chips.tpu import TpuChip
from systolic.errors import SystolicError
from systolic.machines.tpu import GemmStep
from systolic.machines.tpu.dram_trace import Access, TraceSize, accesses, trace_size, write_trace
from systolic.workload import Gemm

from ...tpu_strategies import busy_chips, small_gemms
from .runs import costed, lowered

GEMM = Gemm(m=96, n=128, k=256, dtype="bf16", name="one")
"""Every line of its matrices is a multiple of 64 bytes, the access of DDR4."""


PINS = {"tile": (48, 64, 64), "order": "kmn"}
"""With k outermost, unfinished sums are stored and loaded again."""


def chip() -> TpuChip:
    """Two cores with small arrays, on DDR4."""
    changes = {"memory.dram.part": "DDR4", "memory.dram.channels": 2, "memory.dram.burst_bytes": 64}
    return systolic.load_chip("tpu-v4", {**changes, "array.rows": 16, "array.cols": 16})


def step() -> GemmStep:
    """The matmul on that chip."""
    return lowered(GEMM, chip(), **PINS)


def dramsim3(path: Path) -> list[Access]:
    """As DRAMsim3's trace reader: hex address, operation, decimal cycle (umd-memsys/DRAMsim3, common.cc)."""
    found = []
    for line in path.read_text().splitlines():
        address, operation, cycle = line.split()
        assert operation in ("READ", "WRITE")
        found.append(Access(int(cycle), int(address, 16), operation == "WRITE"))
    return found


def ramulator2(path: Path) -> list[tuple[bool, int]]:
    """As Ramulator 2's LoadStoreTrace: two tokens apart by one space, LD or ST, hex behind 0x."""
    found = []
    for line in path.read_text().splitlines():
        operation, address = line.split(" ")
        assert operation in ("LD", "ST") and address.startswith("0x")
        found.append((operation == "ST", int(address[2:], 16)))
    return found


def test_trace_moves_the_bytes_of_the_report(tmp_path: Path) -> None:
    row = costed(GEMM, chip(), **PINS)
    size = write_trace(step(), chip(), tmp_path / "trace")
    found = dramsim3(tmp_path / "trace")
    assert size.accesses == len(found)
    moved = row.bytes["dram"].values()
    assert sum(a.write for a in found) * 64 == sum(t.write for t in moved)
    assert sum(not a.write for a in found) * 64 == sum(t.read for t in moved)


def test_every_byte_of_the_operands_is_touched() -> None:
    """lhs, rhs and the result lie behind one another at pages of 4 KiB."""
    found = list(accesses(step(), chip()))
    lhs, rhs, out = 96 * 256 * 2, 256 * 128 * 2, 96 * 128 * 2
    read, written = {a.address for a in found if not a.write}, {a.address for a in found if a.write}
    assert set(range(0, lhs + rhs, 64)) <= read
    assert set(range(lhs + rhs, lhs + rhs + out, 64)) <= written
    writes = Counter(a.address for a in found if a.write and a.address < lhs + rhs + out)
    assert set(writes.values()) == {1}


def test_trace_rises_in_time_and_ends_with_the_matmul() -> None:
    found, row = list(accesses(step(), chip())), costed(GEMM, chip(), **PINS)
    cycles = [a.cycle for a in found]
    assert cycles == sorted(cycles)
    assert cycles[-1] < row.cycles * 1600 / 1050  # DDR4-3200's clock over that of the chip


def test_styles_hold_the_same_accesses(tmp_path: Path) -> None:
    write_trace(step(), chip(), tmp_path / "a", style="dramsim3")
    write_trace(step(), chip(), tmp_path / "b", style="ramulator2")
    assert [(a.write, a.address) for a in dramsim3(tmp_path / "a")] == ramulator2(tmp_path / "b")


@settings(deadline=None, max_examples=20)
@given(busy_chips(), small_gemms(), st.sampled_from(["dramsim3", "ramulator2"]))
def test_announced_size_holds(
    tmp_path_factory: pytest.TempPathFactory, drawn: TpuChip, gemm: Gemm, style: str
) -> None:
    path = tmp_path_factory.mktemp("traces") / "trace"
    announced: list[TraceSize] = []
    write_trace(lowered(gemm, drawn), drawn, path, style=style, announce=announced.append)  # type: ignore[arg-type]
    (size,) = announced
    lines = path.read_text().splitlines()
    assert len(lines) == size.accesses
    assert path.stat().st_size <= size.bytes
    assert [p.name for p in path.parent.iterdir()] == ["trace"]


@settings(deadline=None, max_examples=20)
@given(busy_chips(), small_gemms())
def test_transposed_and_shared_matrices_stay_in_their_place(drawn: TpuChip, gemm: Gemm) -> None:
    sizes = (gemm.lhs_bytes, gemm.rhs_bytes, gemm.out_bytes, 4 * gemm.batch * gemm.m * gemm.n)
    end = sum(-(-size // 4096) * 4096 for size in sizes)
    drawn_step = lowered(gemm, drawn)
    found = list(accesses(drawn_step, drawn))
    assert all(0 <= a.address < end for a in found)
    unit = drawn.memory["dram"].burst_bytes
    assert all(a.address % unit == 0 for a in found)
    assert trace_size(drawn_step, drawn).accesses == len(found)


def test_nothing_is_left_of_a_trace_that_fails(tmp_path: Path) -> None:
    with pytest.raises(SystolicError, match=r"trace style must be one of dramsim3, ramulator2"):
        write_trace(step(), chip(), tmp_path / "trace", style="vcd")  # type: ignore[arg-type]
    with pytest.raises(SystolicError, match="cannot be written: No such file or directory"):
        write_trace(step(), chip(), tmp_path / "nowhere" / "trace")

    def interrupt(_: TraceSize) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_trace(step(), chip(), tmp_path / "trace", announce=interrupt)
    assert not list(tmp_path.iterdir())
