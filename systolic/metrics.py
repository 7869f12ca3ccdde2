"""The registry of metrics: what each printed number means, its unit, and how it is computed.

``systolic explain METRIC`` and the report pages print from here; nothing else defines a metric.
"""

from __future__ import annotations

from dataclasses import dataclass

CAUSES = (
    "preload",
    "fill",
    "compute",
    "drain",
    "weight_load",
    "stall_dram",
    "stall_latency",
    "stall_onchip",
    "stall_bank",
    "stall_dependency",
    "stall_sync",
    "stall_link",
    "vector",
    "launch",
    "tail",
)
"""The closed list of causes. Each cycle of the critical unit goes to exactly one."""

BOUND_OF_CAUSE = {
    "preload": "fill/drain",
    "fill": "fill/drain",
    "compute": "compute",
    "drain": "fill/drain",
    "weight_load": "weight load",
    "stall_dram": "dram",
    "stall_latency": "latency",
    "stall_onchip": "on-chip",
    "stall_bank": "on-chip",
    "stall_dependency": "dependency",
    "stall_sync": "sync",
    "stall_link": "link",
    "vector": "vector",
    "launch": "launch",
    "tail": "occupancy",
}
"""The fixed table from the largest cause to `bound_by`."""


@dataclass(frozen=True)
class Metric:
    """One metric: its name in reports, its unit, one line of meaning, and how it is computed."""

    name: str
    unit: str
    meaning: str
    how: str = ""
