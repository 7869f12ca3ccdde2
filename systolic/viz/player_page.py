"""The player: one self-contained HTML page that plays a recorded matmul, clock by clock.

The page looks everything up in the record, packed below as typed arrays; its one computation is the plain
product that the result is compared with.
"""

from __future__ import annotations

import base64
import gzip
import json
from importlib.resources import files
from itertools import groupby
from typing import Any

import numpy as np

from ..engine.recording import Recording, Run
from ..recorded import ArrayRecord, Slice
from ..result import Result
from ..workload import Gemm
from .palette import CAUSE_FILLS, css_variables
from .scene import longest_wait
from .words import (
    ABOUT,
    CAPTIONS,
    FLOW_NAMES,
    LEFT_NAMES,
    OUT_NAMES,
    TOGETHER,
    TOP_NAMES,
    facts_of,
    mapping_words,
    subtitle_of,
    title_of,
)

SCRIPTS = ("data.js", "array.js", "inspector.js", "schedule.js", "main.js")
MATRIX_ELEMENTS = 4096
"""Elements up to which a matrix is drawn on the page."""
_LINKS = ("left", "left_flags", "top", "top_flags", "bottom", "bottom_flags")


def player_html(recording: Recording, cycle: int = 0) -> str:
    """The page as HTML, opened at `cycle`: nothing is fetched, and every text of the user's stays text."""
    folder = files(__package__) / "player"
    read = {
        name: (folder / name).read_text(encoding="utf-8") for name in ("page.html", "style.css", *SCRIPTS)
    }
    data: dict[str, Any] = {
        "title": title_of(recording),
        "subtitle": subtitle_of(recording),
        "cycle": cycle,
        "about": ABOUT,
        "together": TOGETHER,
        "facts": facts_of(recording),
        "runs": [_run(recording, run) for run in recording.runs],
        "model": _model(recording),
    }
    causes = ":root{" + "".join(f"--{cause}:{fill.colour};" for cause, fill in CAUSE_FILLS.items()) + "}\n"
    page = read["page.html"].replace("/*{style}*/", css_variables() + causes + read["style.css"])
    page = page.replace("/*{script}*/", "\n".join(read[name] for name in SCRIPTS))
    # "<" is the one letter with which a text could leave the element that holds the data.
    return page.replace("/*{data}*/", json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _run(recording: Recording, run: Run) -> dict[str, Any]:
    array, row = run.array, run.row
    flow, (m, k), n = array.dataflow, array.lhs.shape[1:], array.rhs.shape[2]
    parts = _parts(array)
    operand = {"ws": ("a", "b"), "os": ("a", "b"), "is": ("b", "a")}[flow]
    whole = array.is_whole and "lhs" in parts
    return {
        "dataflow": flow,
        "flowName": FLOW_NAMES[flow],
        "rows": array.rows,
        "cols": array.cols,
        "lanes": array.lanes,
        "m": m,
        "n": n,
        "k": k,
        "macLatency": array.mac_latency,
        "cycles": array.cycles,
        "totalCycles": array.total_cycles,
        "macs": int(array.macs[-1]) if array.is_whole else None,
        "isCells": array.grid is not None,
        "side": array.grid.side if array.grid else 1,
        "leftIs": operand[0],
        "topIs": operand[1],
        "leftName": LEFT_NAMES[flow],
        "topName": TOP_NAMES[flow],
        "outName": OUT_NAMES[flow],
        "stairs": [longest_wait(array.left_flags), longest_wait(array.top_flags)],
        "before": CAPTIONS[flow]["before"],
        "captions": CAPTIONS[flow],
        "end": max(array.cycles, run.slices_end),
        "causes": _causes(run),
        "roundings": array.roundings if whole else None,
        "unitRoundoff": array.unit_roundoff,
        "areWhole": _are_whole(array),
        "noCheck": "" if whole and array.roundings is not None else _why_no_check(array),
        "tilesOfK": 1 if flow == "os" else -(-k // array.rows) * _passes(array, row),
        "slices": [_slice(part) for part in run.slices],
        "slicesEnd": run.slices_end,
        "mapping": mapping_words(run),
        **packed(parts),
    }


def _causes(run: Run) -> list[tuple[str, int]]:
    """Causes of consecutive cycles, as (cause, cycles), as far as the record or the schedule goes."""
    if run.slices_end < run.array.cycles:
        return [(cause, len(list(same))) for cause, same in groupby(run.array.causes)]
    on_array = [part for part in run.slices if part.unit == "array"]
    return [
        (cause, sum(part.stop - part.start for part in same))
        for cause, same in groupby(on_array, key=lambda part: part.cause)
    ]


def _passes(array: ArrayRecord, row: Result) -> int:
    """How often each tile of the array runs: 3 or 6 where operands enter in parts."""
    assert isinstance(row.op, Gemm)
    return row.array_macs // row.op.macs


def _are_whole(array: ArrayRecord) -> bool:
    """Whether all numbers are whole and all sums below 2^24: every order of sums then gives the same."""
    if not all(np.array_equal(x, np.round(x)) for x in (array.lhs, array.rhs)):
        return False
    largest = float(np.abs(array.lhs).max()) * float(np.abs(array.rhs).max()) * array.lhs.shape[2]
    return bool(largest < 1 / max(array.unit_roundoff, 2.0**-31))


def _why_no_check(array: ArrayRecord) -> str:
    if not array.is_whole:
        return f"Shown: the first {array.cycles:,} of {array.total_cycles:,} cycles."
    if array.roundings is None:
        return "Operands enter in several parts; systolic run --check full compares the result."
    return "Too large to list here; systolic run --check full compares the result."


def _slice(part: Slice) -> dict[str, Any]:
    return {
        name: getattr(part, name) for name in ("unit", "name", "start", "stop", "cause", "operand", "bytes")
    }


def _parts(array: ArrayRecord) -> dict[str, np.ndarray]:
    """All that the page looks up, by name."""
    parts = dict(array.registers)
    if array.grid is not None:
        for name in ("streaming", "held", "busy"):
            parts[f"cells_{name}"] = getattr(array.grid, name).astype(np.uint16)
    else:
        parts |= {name: getattr(array, name) for name in _LINKS}
    parts |= {f"{name}_origin": array.origins[name] for name in ("act", "weight") if name in array.origins}
    parts |= {f"entered_{name}": count for name, count in array.entered.items()}
    parts |= {"macs": array.macs, "busy": array.busy}
    leaving = array.leaving
    for name in ("cycle", "batch", "row", "col"):
        parts[f"leaving_{name}"] = np.array([getattr(event, name) for event in leaving], np.int32)
    sums = np.int32 if array.acc.startswith("int") else np.float32
    parts["leaving_sum"] = np.array([event.sum for event in leaving], sums)
    if max(array.lhs[0].size, array.rhs[0].size, array.lhs.shape[1] * array.rhs.shape[2]) <= MATRIX_ELEMENTS:
        parts |= {"lhs": array.lhs[0], "rhs": array.rhs[0]}
    return parts


def packed(parts: dict[str, np.ndarray]) -> dict[str, Any]:
    """For ``data.js``: the arrays behind one another, gzipped, in base64.

    The widest elements come first, so that each is aligned.
    """
    typed = [(name, np.ascontiguousarray(_narrow(part))) for name, part in parts.items()]
    typed.sort(key=lambda item: -item[1].itemsize)
    table, offset = [], 0
    for name, part in typed:
        kind = part.dtype.kind + str(part.itemsize)
        table.append({"name": name, "type": kind, "shape": part.shape, "offset": offset})
        offset += part.nbytes
    blob = gzip.compress(b"".join(part.tobytes() for _, part in typed), 9, mtime=0)
    return {"parts": table, "blob": base64.b64encode(blob).decode("ascii")}


def _narrow(part: np.ndarray) -> np.ndarray:
    """As one of the types that the page reads: float32, int32, or unsigned of 8 or 16 bits."""
    if part.dtype == np.bool_:
        return part.astype(np.uint8)
    if part.dtype.kind == "f":
        return part.astype(np.float32)
    if part.dtype.kind == "u" and part.itemsize <= 2:
        return part
    if part.size and part.min() >= 0 and part.max() < 2**16:
        return part.astype(np.uint8 if part.max() < 256 else np.uint16)
    return part.astype(np.int32)


def _model(recording: Recording) -> dict[str, Any] | None:
    """The rows of the layer, one occurrence of each; None for a single matmul."""
    if len(recording.rows) == 1:
        return None
    gemm = recording.gemm
    layers = gemm.layers
    rows = [row for row in recording.rows if row.op.layers == layers] if recording.layer is not None else []
    rows = rows or list(recording.rows)
    where = (
        f"layer {recording.layer} (of {layers}, counted from 0)"
        if recording.layer is not None
        else "the model"
    )
    where = "" if recording.layer is None else f", layer {recording.layer} (of {layers}, counted from 0)"
    words = f"{recording.workload.name}{where}: cycles of each op, one occurrence. {gemm.name} is shown."
    return {
        "words": words,
        "rows": [
            {
                "name": row.name,
                "kind": row.kind,
                "each": row.cycles / row.op.count,
                "bound": row.bound_by,
                "chosen": row.op == gemm,
                "shape": _shape(row),
            }
            for row in rows
        ],
    }


def _shape(row: Result) -> str:
    op = row.op
    if isinstance(op, Gemm):
        return f"{f'{op.batch}×' if op.batch > 1 else ''}{op.m}×{op.n}×{op.k}"
    return f"{op.elements:,} elements"
