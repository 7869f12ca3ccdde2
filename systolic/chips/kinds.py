"""The kinds of chip that are modelled.

The engine needs of every kind: ``name``, ``kind``, ``clock_hz`` (of the clock that counts its cycles),
``memory["dram"]``, ``native_dtype``, ``formats``, ``units``, ``peak_macs_per_s(dtype)``, ``other_limits``,
``sources`` and ``notes``. What only one kind has, only its machine knows.
"""

from __future__ import annotations

from .cpu import LAYOUT as CPU_LAYOUT
from .cpu import CpuChip
from .fields import ChipField, Layout, Values
from .gpu import LAYOUT as GPU_LAYOUT
from .gpu import GpuChip
from .tpu import LAYOUT as TPU_LAYOUT
from .tpu import TpuChip

Chip = TpuChip | GpuChip | CpuChip

LAYOUTS: dict[str, Layout] = {layout.kind: layout for layout in (TPU_LAYOUT, GPU_LAYOUT, CPU_LAYOUT)}
"""Kind -> its fields."""

KINDS = ("tpu", "gpu", "cpu", "fixed-function", "etched")
"""Every kind that a file may name, modelled or not."""


def values_of(chip: Chip) -> Values:
    """The flat table of a chip."""
    return LAYOUTS[chip.kind].values_of(chip)


def describe(chip: Chip) -> list[ChipField]:
    """Every field of a chip, in the order of the file layout, with its source ("" where none is given)."""
    return LAYOUTS[chip.kind].describe(chip)
