"""Kernels that go once over their operands."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic import VectorOp, load_chip
from systolic.chips.gpu import GpuChip
from systolic.machines.gpu.passes import pass_cost

NAMES = ("p100", "v100", "a100", "h100", "b200", "mi210", "teaching-gpu")


def gpu(name: str) -> GpuChip:
    chip = load_chip(name)
    assert isinstance(chip, GpuChip)
    return chip


def op(elements: int, ops: int = 1, read: int = 2, dtype: str = "fp32", count: int = 1) -> VectorOp:
    return VectorOp(
        name="pass",
        kind="add",
        elements=elements,
        vector_ops=ops,
        read_elements=read * elements,
        write_elements=elements,
        dtype=dtype,
        count=count,
    )


@given(
    st.integers(1, 10**7),
    st.integers(0, 20),
    st.integers(0, 3),
    st.sampled_from(("fp32", "bf16", "int8")),
    st.integers(1, 5),
    st.sampled_from(NAMES),
)
def test_ledger(elements: int, ops: int, read: int, dtype: str, count: int, name: str) -> None:
    chip, work = gpu(name), op(elements, ops, read, dtype, count)
    row = pass_cost(work, chip)
    assert sum(row.cycles_by_cause.values()) == row.cycles
    moved = row.level_bytes("dram")
    assert (
        work.read_bytes * count
        <= row.bytes["dram"]["other"].read
        < work.read_bytes * count + 32 * count + 128
    )
    assert moved >= count * (work.read_bytes + work.write_bytes)
    assert moved == row.counters["sectors"] * chip.memory["l2"].sector_bytes
    assert row.cycles >= chip.memory["dram"].transfer_cycles(moved, chip.clock_hz) - count
    assert row.cycles == count * pass_cost(replace(work, count=1), chip).cycles


@pytest.mark.parametrize("name", NAMES)
def test_no_limit_of_memory_no_stall(name: str) -> None:
    chip = gpu(name)
    free = replace(
        chip,
        memory={
            "dram": replace(chip.memory["dram"], bytes_per_s=None, latency_ns=0),
            "l2": replace(chip.memory["l2"], bytes_per_cycle=None, latency_cycles=0),
            "l1": replace(chip.memory["l1"], bytes_per_cycle=None, latency_cycles=0),
            "shared": chip.memory["shared"],
        },
    )
    assert set(pass_cost(op(10**6), free).cycles_by_cause) == {"vector"}


@given(st.integers(1, 10**7), st.sampled_from(NAMES))
def test_more_bandwidth_is_never_slower(elements: int, name: str) -> None:
    chip = gpu(name)
    dram = chip.memory["dram"]
    faster = replace(chip, memory={**chip.memory, "dram": replace(dram, bytes_per_s=2 * dram.bytes_per_s)})
    assert pass_cost(op(elements), faster).cycles <= pass_cost(op(elements), chip).cycles


# Microseconds of PyTorch adding two fp32 tensors (sitar-lab/NeuSight, label data, MIT licence): mean of the
# best 5 of 25 event-timed calls, launch included. Sizes chosen for their length, so that the launch hardly
# counts.
MEASURED = [
    ("a100-40", 62726204, 568.51),
    ("a100-40", 26415221, 248.73),
    ("v100", 62726204, 921.72),
    ("v100", 27092682, 407.96),
    ("t4", 62726204, 3113.7),
    ("t4", 27092682, 1345.6),
    ("p100", 62726204, 1368.1),
    ("p100", 25581529, 573.14),
    ("mi210", 40949481, 392.16),
    ("mi210", 25102913, 240.61),
]


@pytest.mark.parametrize(("name", "elements", "microseconds"), MEASURED)
def test_long_additions_take_what_was_measured(name: str, elements: int, microseconds: float) -> None:
    assert 1e6 * pass_cost(op(elements), gpu(name)).seconds == pytest.approx(microseconds, rel=0.12)
