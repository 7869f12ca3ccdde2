"""The closed list of causes of cycles, and what each of them says bounds a row."""

from __future__ import annotations

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

CAUSES = tuple(BOUND_OF_CAUSE)
"""The closed list of causes. Each cycle of the critical unit goes to exactly one."""
