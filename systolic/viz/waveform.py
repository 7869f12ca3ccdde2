"""A recorded array as a waveform (VCD, IEEE 1364-2005, clause 18) that GTKWave and Surfer open.

Every register of every PE is a signal: integers as 32-bit vectors in two's complement, floats as reals. The
time of a change is that of its clock edge in picoseconds, rounded down; time 0 is reset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from ..engine.recording import Recording, Run
from ..recorded import ArrayRecord

if TYPE_CHECKING:
    from vcd.writer import Variable

PICOSECONDS = 10**12
CHANGE_BYTES = 22
"""About how long one change of a register is."""

Signal = tuple[str, str, np.ndarray]
"""Scope, name, values over time (cycles + 1,)."""


def signals(array: ArrayRecord) -> Iterator[Signal]:
    """All signals of an array: its registers PE by PE, the words at its edges, and what it counts."""
    for r, c in np.ndindex(array.rows, array.cols):
        for name, register in array.registers.items():
            if register.ndim == 3:
                yield f"pe_{r}_{c}", name, register[:, r, c]
                continue
            ways = register.shape[1]
            for way in range(ways):
                yield f"pe_{r}_{c}", name if ways == 1 else f"{name}_{way}", register[:, way, r, c]
    for side in ("left", "top", "bottom"):
        words = getattr(array, side)
        for way, place in np.ndindex(words.shape[1:]):
            name = f"{side}_{place}" if words.shape[1] == 1 else f"{side}_{place}_{way}"
            yield "edges", name, np.concatenate([words[:1, way, place] * 0, words[:, way, place]])
    yield "counters", "macs", array.macs
    yield "counters", "busy_pes", array.busy


def most_changes(array: ArrayRecord) -> int:
    """How many changes the waveform has at most."""
    edges = array.left[0].size + array.top[0].size + array.bottom[0].size
    held = sum(register[0].size for register in array.registers.values())
    return int(array.cycles * (held + edges + 2))


def write_vcd(recording: Recording, run: Run, file: TextIO) -> int:
    """Write the waveform of a run, clock by clock; return how many changes it has.

    Parameters
    ----------
    recording, run
        A recording, and the one of its runs to write; every register must have been kept.
    file
        Takes the text.
    """
    from vcd import VCDWriter

    array, clock_hz = run.array, recording.chip.clock_hz
    changes = 0
    title = f"{recording.workload.name} on {recording.chip.name}, {array.dataflow}"
    end = (array.cycles + 1) * PICOSECONDS // clock_hz
    with VCDWriter(file, timescale="1 ps", comment=title, date="") as writer:
        variables: list[tuple[Variable[Any], list[Any]]] = []
        for scope, name, values in signals(array):
            listed = values.tolist()
            is_real = values.dtype.kind == "f"
            flag = values.dtype.kind == "b"
            kind, size = ("real", 64) if is_real else ("wire", 1 if flag else 32)
            start = float(listed[0]) if is_real else int(listed[0])
            variable = writer.register_var(f"array.{scope}", name, kind, size=size, init=start)
            variables.append((variable, listed))
        for clock in range(1, array.cycles + 1):
            now = clock * PICOSECONDS // clock_hz
            for variable, values_in_time in variables:
                if values_in_time[clock] != values_in_time[clock - 1]:
                    writer.change(variable, now, values_in_time[clock])
                    changes += 1
        writer.close(end)
    return changes
