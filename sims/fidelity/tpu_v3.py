"""TPU v3, one core: matmuls, attention, transformer blocks, softmax and layer norms (artifact of PyTorchSim).

The source does not say how it ran them. What it does say settles the setting, one for all rows:

- float32 tensors, multiplied in one bf16 pass, which is what PyTorch and JAX do on a TPU unless told
  otherwise: its softmax moves 16.0 bytes per element, four passes of four bytes;
- one core is a device with half of the chip's HBM and bandwidth, at the 83% measured on TPU v4;
- double-buffered blocks, and XLA's fusions (``policy.fusion = "xla"`` of the chip).

The BERT models are one block on 512 tokens each, as in the source's own scripts (experiments/BERT.py):
heads of 64, an MLP four times as wide with ReLU, a layer norm behind each half. Convolutions and ResNet are
left out: how XLA lowers a convolution is not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from systolic.chips import load_chip
from systolic.measured.compare_rows import points_of
from systolic.measured.points import Point
from systolic.measured.sources import device_of

from .rows import rows_of


def points(folder: Path | None, overrides: Mapping[str, object] | None = None) -> list[Point]:
    """The rows that are modelled, simulated; `overrides` change the chip."""
    chip = load_chip(device_of("TPUv3").load(), overrides or {})
    return points_of(rows_of("pytorchsim_tpuv3", folder), chip)
