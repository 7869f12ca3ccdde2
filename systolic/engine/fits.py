"""Whether a workload's weights, KV cache and activations fit a chip's main memory."""

from __future__ import annotations

from dataclasses import dataclass

from ..chips import Chip
from ..quantity import format_bytes
from ..workload import Workload


@dataclass(frozen=True, kw_only=True)
class Fits:
    """Main memory that a run needs, and what one chip has.

    Attributes
    ----------
    weight_bytes, kv_cache_bytes, activation_bytes
        What has to lie in main memory, bytes, in the number formats that the chip uses.
    bytes
        Main memory of the chip, bytes; None where it is unlimited.
    """

    weight_bytes: int
    kv_cache_bytes: int
    activation_bytes: int
    bytes: int | None

    @property
    def bytes_needed(self) -> int:
        """Weights, KV cache and the largest activations together."""
        return self.weight_bytes + self.kv_cache_bytes + self.activation_bytes

    @property
    def chips_needed(self) -> int:
        """How many such chips would hold it: ceil(bytes_needed / bytes)."""
        return 1 if self.bytes is None else max(1, -(-self.bytes_needed // self.bytes))

    def __str__(self) -> str:
        parts = (
            f"weights {format_bytes(self.weight_bytes)} + KV cache {format_bytes(self.kv_cache_bytes)} "
            f"+ activations {format_bytes(self.activation_bytes)} = {format_bytes(self.bytes_needed)}"
        )
        if self.bytes is None:
            return f"{parts}; the chip's memory is unlimited"
        if self.chips_needed == 1:
            return f"{parts} of {format_bytes(self.bytes)}: fits"
        held = f"{self.chips_needed:,} chips would hold it"
        return f"{parts}, more than the chip's {format_bytes(self.bytes)}: {held}"


def memory_fit(workload: Workload, chip: Chip) -> Fits:
    """Compare what `workload`, in the formats it has on this chip, needs with what `chip` has."""
    return Fits(
        weight_bytes=workload.weight_bytes,
        kv_cache_bytes=workload.kv_cache_bytes,
        activation_bytes=workload.activation_bytes,
        bytes=chip.memory["dram"].bytes,
    )
