"""A run as a trace that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open.

Units are tracks, what they do are slices, and bandwidth and occupancy are counters. Times are microseconds,
as the format demands; the exact cycles stand in each slice's arguments.

The format: Google, *Trace Event Format*, the JSON object form with complete events (``ph: X``), counters
(``C``) and metadata (``M``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

from ..engine.unrolled import Unrolled
from ..machines.base import Occurrence
from ..recorded import Slice

DETAILS = ("slice", "op")
EVENT_BYTES = 230
"""About how long one event is, uncompressed."""
TRACKS = ("ops", "array", "vector", "dram", "cmem")


def write_chrome_trace(run: Unrolled, file: TextIO, detail: str = "slice") -> int:
    """Write the trace event by event; return how many there were.

    Parameters
    ----------
    run
        Its occurrences are used up.
    file
        Takes JSON text.
    detail
        ``slice``: everything each unit does. ``op``: one slice for each occurrence of an op.
    """
    file.write('{"displayTimeUnit":"ns","otherData":')
    json.dump({"workload": run.workload.name, "chip": run.chip.name, "clock_hz": run.chip.clock_hz}, file)
    file.write(',"traceEvents":[\n')
    written = 0
    for event in _events(run, detail):
        file.write(",\n" if written else "")
        json.dump(event, file, separators=(",", ":"))
        written += 1
    file.write("\n]}\n")
    return written


def _events(run: Unrolled, detail: str) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": f"{run.chip.name}, busiest core"}}
    for number, track in enumerate(TRACKS):
        yield {"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": track}}
        yield {
            "ph": "M",
            "name": "thread_sort_index",
            "pid": 1,
            "tid": number,
            "args": {"sort_index": number},
        }
    clock = run.chip.clock_hz
    for occurrence in run.occurrences:
        yield _event(_op_slice(occurrence), "ops", 0, clock, _op_facts(occurrence))
        if detail == "op":
            continue
        for part in occurrence.slices:
            track = part.unit
            facts: dict[str, Any] = {"op": occurrence.row.name}
            if part.cause:
                facts["cause"] = part.cause
            else:
                facts |= {"operand": part.operand, "bytes": part.bytes, "write": part.write}
            yield _event(part, track, occurrence.start, clock, facts)
            yield from _counters(part, occurrence, clock)


def _op_slice(occurrence: Occurrence) -> Slice:
    row = occurrence.row
    name = row.name if row.op.count == 1 else f"{row.name} {occurrence.number}"
    return Slice(unit="ops", name=name, start=occurrence.start, stop=occurrence.start + occurrence.cycles)


def _op_facts(occurrence: Occurrence) -> dict[str, Any]:
    row = occurrence.row
    return {"op": row.name, "kind": row.kind, "occurrence": occurrence.number, "bound_by": row.bound_by}


def _event(part: Slice, track: str, offset: int, clock_hz: int, facts: dict[str, Any]) -> dict[str, Any]:
    cycles = part.stop - part.start
    return {
        "ph": "X",
        "name": part.cause if track in ("array", "vector") else part.name,
        "pid": 1,
        "tid": TRACKS.index(track),
        "ts": _microseconds(offset + part.start, clock_hz),
        "dur": _microseconds(cycles, clock_hz),
        "args": {"what": part.name, "start_cycle": offset + part.start, "cycles": cycles} | facts,
    }


def _counters(part: Slice, occurrence: Occurrence, clock_hz: int) -> Iterator[dict[str, Any]]:
    """Bandwidth of a port while it moves something, and whether the array has a word entering."""
    row, cycles = occurrence.row, part.stop - part.start
    if part.unit == "array":
        working = (
            (row.mapped_pe_cycles / row.pe_cycles if row.pe_cycles else 0.0)
            if part.cause == "compute"
            else 0.0
        )
        yield _counter("PEs with work", "share", round(working, 6), occurrence.start + part.start, clock_hz)
        return
    if part.unit == "vector" or not cycles:
        return
    rate = part.bytes * clock_hz / cycles / 1e9
    yield _counter(f"{part.unit} port", "GB/s", round(rate, 6), occurrence.start + part.start, clock_hz)
    yield _counter(f"{part.unit} port", "GB/s", 0, occurrence.start + part.stop, clock_hz)


def _counter(name: str, unit: str, value: float, cycle: int, clock_hz: int) -> dict[str, Any]:
    return {"ph": "C", "name": name, "pid": 1, "ts": _microseconds(cycle, clock_hz), "args": {unit: value}}


def _microseconds(cycles: int, clock_hz: int) -> float:
    return cycles * 1e6 / clock_hz
