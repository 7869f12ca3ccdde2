"""What pages and pictures say about a recorded matmul, in the words of someone who explains it."""

from __future__ import annotations

from ..engine.recording import Recording, Run
from ..quantity import format_hz
from ..result import Result

FLOW_NAMES = {"ws": "weight stationary", "os": "output stationary", "is": "input stationary"}
LEFT_NAMES = {"ws": "A, row by row", "os": "A, row by row", "is": "B, column by column"}
TOP_NAMES = {"ws": "B, loaded first", "os": "B, column by column", "is": "A, loaded first"}
OUT_NAMES = {"ws": "sums: rows of C", "os": "finished sums of C", "is": "sums: columns of C"}

ABOUT = (
    "Each PE (processing element) multiplies two numbers and adds, once per cycle, and hands what it holds "
    "to its neighbours. Every number here is a register of the simulated array at that cycle; the page "
    "itself computes only the plain product that the result is compared with."
)
TOGETHER = (
    "One clock, several dataflows: they differ in what stays in a PE (a weight, an input, or the sum) and in "
    "when results come out. The product is the same."
)

_PRELOAD = (
    "{top} shifts in from above, one row per cycle, and waits in each PE. The words of {left} stand ready in "
    "a staircase, so that those that belong together will meet."
)
_FILL = (
    "Words of {left} enter on the left and swap the waiting weight in. A PE multiplies, adds the sum from "
    "above and hands it down."
)
_COMPUTE = "Sums leave at the bottom while more words of {left} enter: one result per column and cycle."
_DRAIN = "All words are in. The last sums fall down and out, the rightmost column last."
_BEFORE = (
    "Before cycle 1: the array is empty. {top} will be loaded into the PEs and stay there; {left} will "
    "stream through from the left. Press play."
)
_WAITS = {
    "weight_load": "No new word enters: the next weights are still shifting in behind the running tile.",
    "stall_dram": "The array waits for main memory.",
    "stall_onchip": "The array waits for the port of the on-chip memory.",
    "stall_bank": "Two words want the same bank of the on-chip memory; one of them has to wait.",
}


def _stationary(left: str, top: str) -> dict[str, str]:
    texts = {"before": _BEFORE, "preload": _PRELOAD, "fill": _FILL, "compute": _COMPUTE, "drain": _DRAIN}
    return {cause: text.format(left=left, top=top) for cause, text in texts.items()} | _WAITS


CAPTIONS = {
    "ws": _stationary("A", "B"),
    "is": _stationary("B", "A"),
    "os": {
        "before": "Before cycle 1: the array is empty. A will stream in from the left, B from above, both "
        "skewed; every PE keeps one element of C and adds to it. Press play.",
        "fill": "A moves right, B moves down. Where two words meet, their product is added to the sum that "
        "stays in the PE.",
        "compute": "Pairs of words still reach the last PE, in the far corner: its sum grows by one product "
        "per cycle.",
        "drain": "The sums are finished. They move down in a second register, one row per cycle, and leave "
        "at the bottom.",
    }
    | _WAITS,
}
"""Dataflow -> cause of a cycle -> what a reader sees then."""


def title_of(recording: Recording) -> str:
    """What is multiplied, and where it comes from."""
    gemm, chip = recording.gemm, recording.chip
    array = recording.runs[0].array
    where = "" if len(recording.rows) == 1 else f"{recording.workload.name} · {gemm.name} · "
    layer = "" if recording.layer is None else f"layer {recording.layer} · "
    return f"{where}{layer}C = A × B on a {array.rows}×{array.cols} systolic array ({chip.name})"


def subtitle_of(recording: Recording) -> str:
    """Shape, format and number of arrays."""
    gemm, array = recording.gemm, recording.runs[0].array
    batch = f" in a batch of {gemm.batch}" if gemm.batch > 1 else ""
    shape = f"A {gemm.m}×{gemm.k}, B {gemm.k}×{gemm.n}{batch}"
    flows = ", ".join(FLOW_NAMES[run.array.dataflow] for run in recording.runs)
    return f"{shape} · {array.dtype}, sums in {array.acc} · {flows}{_of_several(recording)}"


def _of_several(recording: Recording) -> str:
    chip = recording.chip
    arrays = getattr(chip, "cores", 1) * getattr(chip, "mxus_per_core", 1)
    return f" · array 1 of {arrays}" if arrays > 1 else ""


def mapping_words(run: Run) -> str:
    """Blocks and order that the mapper picked."""
    mapping = run.row.mapping or {}
    tile, blocks = mapping.get("tile", {}), mapping.get("blocks", {})
    sizes = "×".join(str(tile[d]) for d in "mnk")
    counts = "×".join(str(blocks[d]) for d in "mnk")
    return f"Blocks of {sizes} (m×n×k), {counts} of them, loop order {mapping.get('order')}."


def facts_of(recording: Recording) -> list[tuple[str, str]]:
    """Every parameter of the run, as (name, value)."""
    chip, array = recording.chip, recording.runs[0].array
    facts = [
        ("workload", recording.workload.name),
        ("matmul", f"{recording.gemm.name}, origin {recording.gemm.origin or 'the command line'}"),
        ("chip", f"{chip.name}, {format_hz(chip.clock_hz)}"),
        ("array", f"{array.rows}×{array.cols} PEs, {array.lanes} word(s) per row and cycle"),
        ("numbers", f"{array.dtype} operands, {array.acc} sums"),
        ("operands", recording.operands),
    ]
    return facts + [(f"report, {run.array.dataflow}", report_words(run.row)) for run in recording.runs]


def report_words(row: Result) -> str:
    """The row of the report, in short."""
    causes = ", ".join(f"{cause} {cycles:,}" for cause, cycles in row.cycles_by_cause.items())
    times = f" for all {row.op.count}" if row.op.count > 1 else ""
    used = f", utilization {row.utilization:.1%}" if row.utilization else ""
    return f"{row.cycles:,} cycles{times} ({causes}), {row.array_macs:,} MACs{used}, bound by {row.bound_by}"
