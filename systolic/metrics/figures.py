"""Figures of rows and totals: cycles and their causes, work, rates, bytes."""

from __future__ import annotations

from .causes import BOUND_OF_CAUSE
from .metric import OPS, ROWS, Metric, group

_TIME = [
    *group(
        ROWS,
        (
            (
                "cycles",
                "cycles",
                "Elapsed cycles on the critical path, of the clock in clock_hz; hidden work costs 0.",
                "Sum of cycles_by_cause. A count: the first active clock is cycle 1.",
            ),
            (
                "cycles_by_cause",
                "cycles",
                "Each cycle given to exactly one cause; they add up to `cycles`.",
            ),
            ("seconds", "s", "Elapsed time.", "cycles / clock_hz."),
            (
                "source",
                "",
                "Which engine produced the number, the weakest of its parts.",
                "stepped: every register, every cycle. tiled: whole tiles scheduled with the stepped unit's "
                "exact timing. bound: closed form, a lower bound.",
            ),
            (
                "bound_by",
                "",
                "What limits it: its largest cause, through a fixed table; `hidden` when it costs 0 cycles.",
                "; ".join(f"{cause}: {bound}" for cause, bound in BOUND_OF_CAUSE.items())
                + ". weight_load during which it would have waited for memory anyway counts as dram.",
            ),
            ("joules", "J", "Energy; null, since energy is not modelled yet."),
        ),
    ),
    *group(
        OPS,
        (
            (
                "busy_cycles",
                "cycles",
                "Cycles in which the unit that does the work is at it, hidden behind other work or not.",
            ),
        ),
    ),
    Metric(
        "interval_seconds",
        "s",
        "Time between two results in a steady stream of such steps.",
        "A chip that runs one step after the other (TPU) needs `seconds` for each; a pipeline needs less.",
        ("chips.totals.interval_seconds",),
    ),
    Metric("share", "%", "Part of the total time that a row takes.", "100 * its cycles / total cycles."),
]
_WORK_PATHS = ("chips.totals.", "chips.matmuls.")
_WORK = group(
    _WORK_PATHS,
    (
        ("macs", "MAC", "Multiply-adds as asked; 1 MAC is 2 FLOP.", "count * batch * m * n * k."),
        (
            "array_macs",
            "MAC",
            "Multiply-adds that the machine did on real operands, counted as it works.",
            "macs, times the passes of a higher precision, less the blocks that it skips.",
        ),
        ("useful_macs", "MAC", "Multiply-adds inside the causal mask or window."),
        (
            "padded_macs",
            "MAC",
            "Multiply-add slots that were clocked on padding, because edge tiles do not fill the array.",
        ),
        (
            "utilization",
            "0..1",
            "Multiply-adds done, as a part of those that all PEs could have done in the time.",
            "array_macs / (all PEs of the chip * lanes * cycles / mac_interval). Idle time counts: fill, "
            "drain, stalls, vector work. null where no time passes.",
        ),
        (
            "mapped_utilization",
            "0..1",
            "The same over the PEs that hold work only.",
            "array_macs / (PEs that hold work * lanes * cycles), tile by tile. 4x4 output stationary on "
            "(1,4,4): 4 of 16 PEs hold work, so it is four times the utilization.",
        ),
    ),
)
_RATES = [
    Metric("flop_per_s", "FLOP/s", "Average rate of the work that was asked for.", "2 * macs / seconds."),
    Metric("dram_bytes_per_s", "B/s", "Average rate of main memory.", "bytes.dram / seconds."),
    Metric("speed", "1", "How many times faster than the first chip.", "Its seconds / seconds of this chip."),
    Metric("flop_per_byte", "FLOP/B", "Arithmetic intensity as run.", "2 * macs / bytes.dram."),
]
_CAUSES = group(
    ROWS,
    (
        (
            "preload",
            "cycles",
            "The stationary operand shifts in before the first MAC of a run.",
            "ceil(R / weight_rows) hops per run (weight, input stationary); on a serial array each tile is a "
            "run.",
        ),
        (
            "fill",
            "cycles",
            "Operands travel through the array until its far PEs have work.",
            "Per run: R - 1 hops (weight, input stationary) or R + C - 2 (output stationary) of mac_interval "
            "cycles each, and mac_latency - mac_interval cycles for the pipeline of a MAC.",
        ),
        (
            "compute",
            "cycles",
            "Rows of the streamed operand enter the array.",
            "mac_interval * ceil(streamed length / lanes) per tile and pass; in them edge tiles may leave "
            "PEs idle.",
        ),
        (
            "drain",
            "cycles",
            "The last results leave the array.",
            "Per run: C - 1 hops (weight, input stationary) or R (output stationary).",
        ),
        (
            "weight_load",
            "cycles",
            "The array waits for the next tile's weights to shift in, as fewer rows stream than it has.",
            "max(R / weight_rows - streamed cycles, 0) per tile of a run.",
        ),
        ("stall_dram", "cycles", "Nothing moves: waiting for main-memory bandwidth."),
        ("stall_latency", "cycles", "Nothing moves: waiting for the first byte of a transfer."),
        ("stall_onchip", "cycles", "Nothing moves: waiting for an on-chip memory's bandwidth."),
        (
            "stall_bank",
            "cycles",
            "No word enters the array: words of one step of its stream lie in the same bank, and take turns.",
            "Per step of the stream: the words in its fullest bank - mac_interval, where that is more than "
            "0; all steps keep the pace of the slowest.",
        ),
        ("stall_dependency", "cycles", "Nothing moves: waiting for a result that is not ready."),
        ("stall_sync", "cycles", "Nothing moves: waiting at a barrier."),
        ("stall_link", "cycles", "Nothing moves: waiting for another chip."),
        ("vector", "cycles", "Only the vector unit works, on what no matmul hides."),
        ("launch", "cycles", "A kernel or a step is being started."),
        ("tail", "cycles", "Some units are done and wait for the last ones."),
    ),
    "cycles_by_cause.{}",
)
_BYTES = [
    *group(ROWS, (("bytes", "B", "What crosses each memory's port, by level and operand, whole chip."),)),
    *group(
        ROWS,
        (
            ("dram", "B", "Main memory (HBM or DDR): what crosses its port."),
            ("cmem", "B", "Shared on-chip memory between main memory and vmem: what crosses its port."),
            (
                "vmem",
                "B",
                "On-chip memory beside the array: what crosses its port to and from the array.",
            ),
            ("acc", "B", "Accumulators: partial sums and results that cross their port."),
            ("l2", "B", "Second cache, shared by the SMs of a GPU: what crosses its port to and from them."),
            ("l1", "B", "First cache of an SM: what crosses its port to and from the threads."),
            ("shared", "B", "Shared memory of an SM: what crosses its port."),
        ),
        "bytes.{}",
    ),
    *group(
        ROWS,
        (
            ("lhs", "B", "Left operand A[m, k] (activations)."),
            ("rhs", "B", "Right operand B[k, n] (weights, or KV cache)."),
            ("out", "B", "Result C[m, n]."),
            ("psum", "B", "Partial sums that leave the array before they are complete, and come back."),
            (
                "other",
                "B",
                "No operand of a matmul: what vector ops and look-ups read and write.",
            ),
        ),
        "bytes.*.{}",
    ),
    *group(
        ROWS,
        (
            ("read", "B", "Toward compute: out of this memory's port."),
            ("write", "B", "Away from compute: into this memory's port."),
        ),
        "bytes.*.*.{}",
    ),
]

FIGURES = (*_TIME, *_CAUSES, *_WORK, *_RATES, *_BYTES)
