"""The stepped 128×128 array in float32 on one core: PE updates per second."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from systolic.blocks.edges import Tile
from systolic.blocks.stepping import SteppedArray
from systolic.chips.tpu import Array

from .conftest import Promise

SIDE = 128
STREAMED = 2048

PROMISED = {"streamed": 4e9, "stored": 1e9}
"""PE updates per second with passing registers as views of streams, and with every register stored."""


def array(dataflow: str) -> SteppedArray:
    """One long tile of work, so that nearly all clocks are those of a busy array."""
    rng = np.random.default_rng(0)
    output_stationary = dataflow == "os"
    left = rng.standard_normal((STREAMED, SIDE), np.float32)
    top = rng.standard_normal((STREAMED if output_stationary else SIDE, SIDE), np.float32)
    tile = Tile(load_at=1, start=1 if output_stationary else SIDE + 1, left=left, top=top)
    return SteppedArray(Array(rows=SIDE, cols=SIDE, lanes={"fp32": 1}), 1, output_stationary, [tile])


@pytest.mark.parametrize("dataflow", ["ws", "os"])
@pytest.mark.parametrize("engine", PROMISED)
def test_stepped_array(benchmark: Any, promise: Promise, engine: str, dataflow: str) -> None:
    work = array(dataflow)
    benchmark.pedantic(work.run, args=(engine,), warmup_rounds=1, rounds=7)
    updates = work.clocks * SIDE * SIDE
    rate = updates / benchmark.stats.stats.min
    promise(f"{engine} {dataflow} array", rate, "PE updates/s", at_least=PROMISED[engine])
