"""The chip ``host`` from given facts and measurements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from systolic import Gemm, SystolicError
from systolic.chips.host import HostFacts, ListedCache
from systolic.machines import cpu
from systolic.machines.base import Options
from systolic.measured.host_as_chip import host_chip
from systolic.measured.host_speed import MeasuredHost, MeasuredLevel
from systolic.workload import Workload

CACHES = tuple(
    ListedCache(level=level, kind=kind, bytes=size, ways=ways, line_bytes=64, sharers=1)
    for level, kind, size, ways in (
        (1, "Data", 32 << 10, 8),
        (1, "Instruction", 32 << 10, 8),
        (2, "Unified", 1 << 20, 16),
        (3, "Unified", 32 << 20, None),
    )
)
FACTS = HostFacts(
    model="a CPU",
    cpus=(0, 1, 2),
    extensions=("fma", "avx2", "avx512f"),
    virtual=False,
    caches=CACHES,
    notes=("the ways of L3 are not listed",),
)
HOST = MeasuredHost(
    facts=FACTS,
    clock_hz=2 * 10**9,
    core_flop_per_s=125 * 10**9,  # 31.25 multiply-adds per cycle: two ports of 16 lanes
    flop_per_s=370 * 10**9,
    dram_bytes_per_s=20 * 10**9,
    levels=tuple(
        MeasuredLevel(name=name, working_set_bytes=1 << 14, bytes_per_s=rate * 10**9, latency_ns=ns)
        for name, rate, ns in (("l1", 240, 2.0), ("l2", 120, 7.1), ("l3", 30, 25.0), ("dram", 12, 90.0))
    ),
    notes=FACTS.notes,
)


def test_rates_become_bytes_and_multiply_adds_per_cycle() -> None:
    chip = host_chip(HOST)
    assert (chip.cores, chip.core.fma_ports, chip.core.lanes) == (3, 2, 16)
    assert [chip.memory[level].bytes_per_cycle for level in ("l1", "l2", "l3")] == [120, 60, 15]
    assert chip.memory["l2"].latency_cycles == 15  # 14.2, rounded up
    assert chip.memory["dram"].bytes_per_s == 20 * 10**9


def test_what_was_not_read_is_named() -> None:
    chip = host_chip(HOST)
    assert "the ways of L3 are not listed" in chip.notes
    assert any(note.startswith("not read on this machine") and "add_latency" in note for note in chip.notes)
    assert chip.sources["core.add_latency"] == "of skylake-sp: not read on this machine"


def test_narrow_vectors_halve_the_registers() -> None:
    core = host_chip(replace(HOST, facts=replace(FACTS, extensions=("fma", "avx2")))).core
    assert (core.vector_bytes, core.vector_registers, core.fma_ports) == (32, 16, 4)


def test_a_matmul_runs_on_it() -> None:
    chip = host_chip(HOST)
    work = Workload(name="one", ops=(Gemm(m=64, n=64, k=64, dtype="fp32"),), dtype="fp32")
    (step,) = cpu.lower(work, chip, Options())
    assert cpu.cost(step, chip).cycles > 0


def test_a_machine_without_l3_is_refused() -> None:
    with pytest.raises(SystolicError, match="host: the system lists no l3 cache; name a chip"):
        host_chip(replace(HOST, facts=replace(FACTS, caches=CACHES[:3])))
