"""The chip ``host``: this machine's CPU, from what the system says and what is measured on it."""

from __future__ import annotations

from math import ceil

from ..chips import load_chip
from ..chips.caches import Cache
from ..chips.cpu import Core, CpuChip
from ..chips.memory import Memory
from ..errors import SystolicError
from .host_speed import LINE_BYTES, MeasuredHost, MeasuredLevel, measure_host

LIKE = "skylake-sp"
"""Chip of the catalogue whose ports and latencies stand for what neither is read nor measured."""


def host_chip(measured: MeasuredHost | None = None) -> CpuChip:
    """This machine as a chip.

    Parameters
    ----------
    measured
        What was measured; None: measure now, some seconds the first time.

    Raises
    ------
    SystolicError
        Where this is no Linux on x86-64, or no three levels of cache are listed.
    """
    found = measured or measure_host()
    facts = found.facts
    like = load_chip(LIKE)
    assert isinstance(like, CpuChip)
    wide = "avx512f" in facts.extensions
    vector_bytes = 64 if wide else 32
    macs_per_cycle = found.core_flop_per_s / 2 / found.clock_hz
    core = Core(
        issue_width=like.core.issue_width,
        fma_ports=max(1, round(macs_per_cycle / (vector_bytes // 4))),
        load_ports=like.core.load_ports,
        store_ports=like.core.store_ports,
        vector_bytes=vector_bytes,
        vector_registers=32 if wide else 16,
        fma_latency=like.core.fma_latency,
        add_latency=like.core.add_latency,
    )
    levels = {level.name: level for level in found.levels}
    dram = levels["dram"]
    taken = ("issue_width", "load_ports", "store_ports", "fma_latency", "add_latency")
    read, timed = "read from the operating system", "measured on this machine"
    sources = dict.fromkeys((f"core.{name}" for name in taken), f"of {LIKE}: not read on this machine")
    sources |= dict.fromkeys(("cores", "core.vector_bytes", "core.vector_registers"), read)
    sources |= dict.fromkeys(
        ("clock_hz", "core.fma_ports", "memory.dram.bytes_per_s", "memory.dram.latency_ns"), timed
    )
    for name in ("l3", "l2", "l1"):
        sources |= {f"memory.{name}.{field}": read for field in ("bytes", "ways", "line_bytes")}
        sources |= {f"memory.{name}.{field}": timed for field in ("bytes_per_cycle", "latency_cycles")}
    sources["memory.dram.burst_bytes"] = "a line of cache"
    notes = [f"{facts.model}, {len(facts.cpus)} CPUs", *found.notes]
    notes.append(f"not read on this machine, but taken from {LIKE}: {', '.join(taken)}")
    if any(name.startswith("amx") for name in facts.extensions):
        notes.append("its tile unit (AMX) is left out: its rate is not measured")
    return CpuChip(
        name="host",
        clock_hz=found.clock_hz,
        cores=len(facts.cpus),
        core=core,
        memory={
            "dram": Memory(
                bytes_per_s=found.dram_bytes_per_s,
                latency_ns=round(dram.latency_ns),
                burst_bytes=LINE_BYTES,
            ),
            **{name: _cache(name, levels, found) for name in ("l3", "l2", "l1")},
        },
        sources=sources,
        notes=tuple(notes),
    )


def _cache(name: str, levels: dict[str, MeasuredLevel], found: MeasuredHost) -> Cache:
    listed = [c for c in found.facts.caches if f"l{c.level}" == name and c.kind != "Instruction"]
    if not listed or name not in levels:
        raise SystolicError(
            f"host: the system lists no {name} cache; name a chip of the catalogue instead (systolic chips)"
        )
    cache, level = listed[0], levels[name]
    return Cache(
        bytes=cache.bytes,
        bytes_per_cycle=max(1, round(level.bytes_per_s / found.clock_hz)),
        latency_cycles=ceil(level.latency_ns * found.clock_hz / 10**9),
        line_bytes=cache.line_bytes,
        sector_bytes=cache.line_bytes,
        ways=cache.ways or 16,
    )
