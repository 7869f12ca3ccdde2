"""The player of a GPU: one self-contained HTML page with the warps of an SM, cycle by cycle, and all blocks.

The page looks everything up in the record; it adds up warp cycles, and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.warp_recording import WarpRecording
from ..metrics import METRICS, STALLS
from ..quantity import format_hz
from ..recorded import WarpRecord
from .palette import BLUE, SKY, STALL_FILLS, YELLOW
from .player_page import packed
from .shell import shell_html

ABOUT = (
    "One SM of the kernel's first wave, with its share of L2 and main memory, stepped cycle by cycle: a warp "
    "issues an instruction, or waits for one reason. Long loops are cut to a few trips, which is what the "
    "report's time is composed from; Blocks over SMs shows how it is."
)


def warps_html(recording: WarpRecording, cycle: int = 0) -> str:
    """The page as HTML, opened at `cycle`: nothing is fetched, and every text of the user's stays text."""
    return shell_html("warps", _data(recording, cycle))


def _data(recording: WarpRecording, cycle: int) -> dict[str, Any]:
    record, row, gemm = recording.warps, recording.row, recording.gemm
    sums = np.bincount(record.reason, record.stop - record.start, len(STALLS))
    mapping = row.mapping or {}
    total = row.cycles / gemm.count
    composed = sum(wave.rounds * wave.cycles for wave in recording.waves)
    order = _order(record)
    name = gemm.name or "matmul"
    where = f" of {recording.workload.name}" if len(recording.workload.ops) > 1 else ""
    layer = "" if recording.layer is None else f", layer {recording.layer} (of {gemm.layers}, counted from 0)"
    return {
        "title": f"{name}{where} on {recording.chip.name}: {gemm.m} × {gemm.n} × {gemm.k}, warp by warp",
        "subtitle": f"{gemm.dtype}{layer}; kernel {mapping['kernel']}, tile {_tile(mapping)}, "
        f"{mapping['ctas']:,} blocks in {_waves(mapping['waves'])}; {total:,.0f} cycles in all",
        "about": ABOUT,
        "before": "Before cycle 1: the first thread blocks have come to the SM. Press play.",
        "caption": "A line is an SM; a box on it is the thread blocks that the SM holds at once, in the two "
        "blues by turns; grey: it has none. Yellow: results that still leave for main memory, and sums of a "
        "k that is split.",
        "at": cycle,
        "cycles": int(record.stop.max()),
        "subCores": record.sub_cores,
        "instructions": record.instructions,
        "reasons": [
            {
                "name": stall,
                "text": METRICS[f"stalls.{stall}"].meaning,
                "colour": STALL_FILLS[stall].colour,
                "lined": bool(STALL_FILLS[stall].hatch),
            }
            for stall in STALLS
        ],
        "sums": [int(each) for each in sums],
        "warps": _warps(record, order),
        "waves": [
            {"start": w.start, "cycles": w.cycles, "rounds": w.rounds, "sms": w.sms, "resident": w.resident}
            for w in recording.waves
        ],
        "sms": max(wave.sms for wave in recording.waves),
        "total": total,
        "after": max(0.0, total - composed),
        "tones": [BLUE, SKY, YELLOW],
        "facts": [
            ["chip", f"{recording.chip.name}, {format_hz(recording.chip.clock_hz)}"],
            ["shown", f"{record.tiles} tiles after one another on an SM, {record.trips:,} trips of the loop"],
            ["an SM holds", f"{record.resident} blocks of {record.warps} warps"],
        ],
        **packed(
            {
                "start": record.start[order],
                "stop": record.stop[order],
                "reason": record.reason[order],
                "instruction": record.instruction[order],
                "block": record.block[order],
            }
        ),
    }


def _waves(count: int) -> str:
    return f"{count:,} wave{'' if count == 1 else 's'}"


def _tile(mapping: Any) -> str:
    return " × ".join(str(side) for side in mapping["tile"].values())


def _order(record: WarpRecord) -> np.ndarray:
    """Events by scheduler, warp and time."""
    return np.lexsort((record.start, record.warp, _scheduler(record, record.warp)))


def _scheduler(record: WarpRecord, warp: np.ndarray) -> np.ndarray:
    """Warps of an SM take turns over its schedulers."""
    return np.asarray(warp % record.sub_cores)


def _warps(record: WarpRecord, order: np.ndarray) -> list[dict[str, Any]]:
    """Where each warp's events lie, in the page's order."""
    warp = record.warp[order]
    found, first = np.unique(warp, return_index=True)
    by_place = sorted(zip(first.tolist(), found.tolist(), strict=True))
    ends = [at for at, _ in by_place[1:]] + [len(warp)]
    return [
        {
            "name": f"warp {number}",
            "scheduler": int(_scheduler(record, np.array(number))),
            "from": at,
            "to": end,
        }
        for (at, number), end in zip(by_place, ends, strict=True)
    ]
