"""What profilers report beside time: where warps or µops wait, what was counted, and the ratios of counts.

Words are those of NVIDIA's Nsight Compute where it has one (Kernel Profiling Guide, metrics reference and
warp stall reasons).
"""

from __future__ import annotations

from collections.abc import Mapping

from .metric import ROWS, Metric, group

_STALLS = (
    ("selected", "The warp issues an instruction."),
    ("not_selected", "It could issue, but the scheduler picked another warp."),
    ("wait", "It waits out the fixed latency of its last instruction."),
    ("long_scoreboard", "It waits for data from global memory: L1, L2 or DRAM."),
    ("short_scoreboard", "It waits for data from shared memory."),
    ("math_pipe_throttle", "The pipe that its next instruction needs is busy."),
    ("mio_throttle", "The queue to shared memory is full."),
    ("lg_throttle", "The queue to global memory is full."),
    ("gmma", "It waits for an asynchronous matmul of its warp group, or of the tensor memory's."),
    ("barrier", "It waits for other warps of its thread block."),
    ("no_instruction", "It has no instruction to issue: being launched, or between two parts of a kernel."),
    ("drain", "It has ended and waits until its stores have left."),
)
STALLS = tuple(name for name, _ in _STALLS)
"""The closed list of what a resident warp does in a cycle: exactly one of these."""

_COUNTERS = (
    ("instructions", "instructions", "Instructions issued: of warps on a GPU."),
    ("unit_cycles", "cycles", "Cycles of all SMs in which a kernel runs: cycles * SMs."),
    ("issue_slots", "slots", "Instructions that all schedulers could have issued: unit_cycles * schedulers."),
    ("warp_cycles", "cycles", "Cycles of all resident warps; `stalls` divides them up."),
    ("warp_slots", "cycles", "Cycles that resident warps could have had: unit_cycles * most warps of an SM."),
    ("eligible_warp_cycles", "cycles", "Those of warp_cycles in which the warp could issue."),
    ("requests", "requests", "Loads and stores of warps to global memory."),
    ("sectors", "sectors", "Sectors of 32 B that these touch, counted from the addresses of all threads."),
    ("shared_requests", "requests", "Loads and stores of warps to shared memory."),
    (
        "bank_conflict_cycles",
        "cycles",
        "Extra cycles as words of a request share a bank.",
    ),
    ("l1_accesses", "sectors", "Look-ups in L1."),
    ("l1_hits", "sectors", "Look-ups that L1 answers."),
    ("l2_accesses", "sectors", "Look-ups in L2."),
    ("l2_hits", "sectors", "Look-ups that L2 answers."),
)
COUNTERS = tuple(name for name, _, _ in _COUNTERS)
"""The closed list of counts that add up over ops."""

_RATIOS = (
    ("ipc", "instructions", "unit_cycles", "1/cycle", "Instructions per cycle and SM."),
    ("issue_utilization", "instructions", "issue_slots", "0..1", "Part of the issue slots that are used."),
    (
        "achieved_occupancy",
        "warp_cycles",
        "warp_slots",
        "0..1",
        "Resident warps over the most possible.",
    ),
    (
        "eligible_warps",
        "eligible_warp_cycles",
        "issue_slots",
        "warps",
        "Warps per scheduler that could issue.",
    ),
    ("sectors_per_request", "sectors", "requests", "sectors", "Coalescing: 4 B per thread in a row make 4."),
    (
        "bank_conflicts_per_request",
        "bank_conflict_cycles",
        "shared_requests",
        "cycles",
        "Extra cycles of a request to shared memory.",
    ),
    ("l1_hit_rate", "l1_hits", "l1_accesses", "0..1", "Part of the look-ups in L1 that it answers."),
    ("l2_hit_rate", "l2_hits", "l2_accesses", "0..1", "Part of the look-ups in L2 that it answers."),
)
RATIOS = {name: (above, below) for name, above, below, _, _ in _RATIOS}
"""Ratio -> the counters above and below its bar."""


def ratios_of(counters: Mapping[str, int]) -> dict[str, float]:
    """The ratios of counts: those whose counters are there, and not 0 below the bar."""
    return {
        name: counters[above] / counters[below]
        for name, (above, below) in RATIOS.items()
        if above in counters and counters.get(below)
    }


PROFILE: tuple[Metric, ...] = (
    *group(
        ROWS,
        (
            (
                "stalls",
                "cycles",
                "What each resident warp does in each cycle; they add up to warp_cycles.",
            ),
            ("counters", "", "What was counted while the op ran; adds up over ops."),
            ("ratios", "", "Ratios of counters."),
        ),
    ),
    *group(ROWS, ((f"stalls.{name}", "cycles", text) for name, text in _STALLS), "stalls.{}"),
    *group(ROWS, _COUNTERS, "counters.{}"),
    *group(
        ROWS,
        ((name, unit, text, f"{above} / {below}.") for name, above, below, unit, text in _RATIOS),
        "ratios.{}",
    ),
)
