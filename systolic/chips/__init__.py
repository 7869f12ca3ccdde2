"""Chips: frozen specs, the catalogue with a source for each number, and users' own files."""

from .fields import ChipField
from .kinds import Chip, describe
from .loader import catalogue, load_chip, read_chip
from .memory import Memory
from .tpu import Array, Policy, TpuChip, Vector

__all__ = [
    "Array",
    "Chip",
    "ChipField",
    "Memory",
    "Policy",
    "TpuChip",
    "Vector",
    "catalogue",
    "describe",
    "load_chip",
    "read_chip",
]
