"""What bounds a matmul, and what would help: a fixed rule over its row of the report.

The rule looks at `bound_by` (the largest cause of the row's cycles) and at nothing that the report lacks:

============  ==================================================================================
bound by      what would help
============  ==================================================================================
dram          the main-memory bandwidth below which its bytes cannot pass in the cycles that do not
              wait for memory, and what shrinks the operand that moves most bytes
compute       padding, where PEs without work take more than :data:`PADDING` of the array; else
              nothing but more or faster multipliers; what bounds it next, from :data:`NEXT` of
              its cycles
weight load   the rows that have to stream per tile so that the next weights arrive in time
fill/drain    longer streams or a smaller array
any other     the one line of :data:`REMEDIES`
============  ==================================================================================

`most_speedup` is Amdahl's bound: the row's cycles over those that do not go to what bounds it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..chips import Chip
from ..chips.tpu import TpuChip
from ..metrics import BOUND_OF_CAUSE
from ..quantity import format_rate
from ..result import Result
from ..workload import Gemm

PADDING = 0.1
"""Part of the array without work from which padding is named."""
NEXT = 0.1
"""Part of the cycles of a compute-bound matmul from which the second bound is named."""
REMEDIES = {
    "hidden": "nothing: it costs no time, as other work hides it",
    "latency": "larger or earlier transfers: prefetch (policy.prefetch), larger blocks, more in flight",
    "on-chip": "a wider port, or more banks, of the on-chip memory; blocks that reuse what they read",
    "dependency": "more independent work in flight: more resident warps, larger register tiles",
    "sync": "fewer barriers: longer steps between them, or a deeper pipeline of copies",
    "link": "faster links, or a split that exchanges less",
    "vector": "a faster vector unit, or fusing it with a matmul",
    "launch": "fewer and larger kernels: fusion, or a larger batch",
    "occupancy": "work that fills the last wave: smaller tiles, a split along k, or a larger batch",
}
"""`bound_by` -> what would help, where it takes no figure of the row."""
_SMALLER = {
    ("rhs", "weight"): "more rows per weight (a larger batch) or narrower weights (--weight-dtype)",
    ("rhs", "kv_cache"): "a narrower KV cache (--kv-dtype) or fewer key-value heads",
    ("rhs", "activation"): "keeping that activation on chip",
    ("lhs", ""): "keeping activations on chip (policy.activations), or larger blocks along n",
    ("out", ""): "keeping the result on chip, or fusing what reads it",
    ("psum", ""): "blocks that are longer along k",
}
_FILLING = ("preload", "fill", "drain")


@dataclass(frozen=True)
class Advice:
    """What bounds a matmul and what would help.

    Attributes
    ----------
    row
        Its row.
    share
        Part of its cycles that go to what bounds it, 0..1; None where no cycle passes.
    most_speedup
        Times faster that it could at most become without them; None where it costs no cycle or nothing else.
    text
        What would help.
    """

    row: Result
    share: float | None
    most_speedup: float | None
    text: str


def advise(row: Result, chip: Chip) -> Advice:
    """Apply the rule to a matmul of a report.

    Parameters
    ----------
    row
        A matmul's row.
    chip
        The chip that it ran on.
    """
    bound = row.bound_by
    if not row.cycles:
        return Advice(row, None, None, REMEDIES[bound])
    cycles = bound_cycles(row)
    rest = row.cycles - cycles
    speedup = row.cycles / rest if rest and bound != "compute" else None
    return Advice(row, cycles / row.cycles, speedup, _text(row, chip))


def bound_cycles(row: Result) -> int:
    """Cycles of the causes that stand for the row's `bound_by`."""
    return _by_bound(row)[row.bound_by]


def _by_bound(row: Result) -> dict[str, int]:
    """The row's cycles by what they say bounds it, as `bound_by` counts them."""
    cycles = {"dram": row.behind_memory, "weight load": -row.behind_memory}
    for cause, count in row.cycles_by_cause.items():
        bound = BOUND_OF_CAUSE[cause]
        cycles[bound] = cycles.get(bound, 0) + count
    return cycles


def padding_of(row: Result) -> float:
    """Part of the array's PEs that held no work while it ran, 0..1; 0 where it is not known."""
    return 1 - row.mapped_pe_cycles / row.pe_cycles if row.mapped_pe_cycles and row.pe_cycles else 0.0


def bandwidth_needed(row: Result) -> float | None:
    """Least main-memory bandwidth at which the row could run without waiting for it, bytes/s.

    Its bytes over the time in which it does not wait for memory. With less they cannot pass in that time,
    however well they overlap; with more it may still wait for its first and last blocks. None where it does
    nothing but wait.
    """
    causes = row.cycles_by_cause
    working = row.cycles - causes.get("stall_dram", 0) - causes.get("stall_latency", 0) - row.behind_memory
    return row.level_bytes("dram") * row.clock_hz / working if working > 0 else None


def rows_needed(chip: TpuChip, dtype: str) -> int:
    """Rows that have to stream per tile so that the next tile's weights arrive in time."""
    return chip.array.load_cycles * chip.array.lanes.get(dtype, 1) // chip.array.mac_interval


def _text(row: Result, chip: Chip) -> str:
    gemm = row.op
    assert isinstance(gemm, Gemm)
    match row.bound_by:
        case "dram":
            return _for_memory(row, gemm, chip)
        case "compute":
            return _for_compute(row, gemm, chip)
        case "weight load" if isinstance(chip, TpuChip):
            return (
                f"more rows per tile of weights: {rows_needed(chip, gemm.dtype):,} hide the loading of the "
                f"next one ({gemm.m:,} rows here; a larger batch), or more weight_rows per cycle"
            )
        case "fill/drain":
            filling = sum(row.cycles_by_cause.get(cause, 0) for cause in _FILLING)
            return (
                "longer streams (a larger batch or sequence) or a smaller array: "
                f"{filling / row.cycles:.0%} of its cycles fill and empty the array"
            )
    return REMEDIES.get(row.bound_by, "")


def _for_memory(row: Result, gemm: Gemm, chip: Chip) -> str:
    memory = chip.memory["dram"]
    texts = []
    if (needed := bandwidth_needed(row)) is not None and memory.bytes_per_s is not None:
        now = memory.bytes_per_s * memory.sustained_percent / 100
        texts.append(f"at least {format_rate(needed)} of main memory (sustained now: {format_rate(now)})")
    moved = {operand: traffic.total for operand, traffic in row.bytes.get("dram", {}).items()}
    largest = max(moved, key=moved.__getitem__, default="")
    smaller = _SMALLER.get((largest, gemm.rhs_kind)) or _SMALLER.get((largest, ""))
    if smaller:
        texts.append(f"{smaller}, as {moved[largest] / sum(moved.values()):.0%} of its bytes are {largest}")
    return "; or ".join(texts)


def _for_compute(row: Result, gemm: Gemm, chip: Chip) -> str:
    cycles = _by_bound(row)
    second = max((bound for bound in cycles if bound != "compute"), key=cycles.__getitem__)
    share = cycles[second] / row.cycles
    then = f"; next, {second} takes {share:.0%}" if share > NEXT else ""
    padding = padding_of(row)
    if padding <= PADDING:
        return f"only more or faster multipliers, or a narrower number format{then}"
    if not isinstance(chip, TpuChip):
        return f"sides that are multiples of the tile: {padding:.0%} of the multipliers have no work{then}"
    array = f"{chip.array.rows}×{chip.array.cols}"
    sides = f"m, n, k = {gemm.m:,}, {gemm.n:,}, {gemm.k:,}"
    return (
        f"sides that fill the array, or another array: {padding:.0%} of the {array} PEs hold no work "
        f"({sides}){then}"
    )
