"""TPU v6e: matmuls in a chain, and forward passes of Qwen3-8B (polarbearsrock/cocossim, benchmarks/tpuv6e).

Matmuls: the source repeats ``y = (x + s) @ w`` in a compiled loop, s being an element of the last y, so
that each starts when the one before has ended; it divides the time that a longer loop takes more. Nothing
is fitted.

Qwen3-8B: the source ran vLLM and read the device's busy time from the profiler. A step holds work that no
matmul, norm or cache accounts for: beside the simulated time stand two constants of the serving stack,
named below, each fitted on one row and judged on the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import systolic
from systolic.measured.compare_rows import Simulator, points_of
from systolic.measured.points import Point

from .rows import rows_of

LAYERS = 36
"""Of Qwen3-8B."""

Key = tuple[str, int, int]
"""(phase, tokens or keys, batch) of a measured step."""

FITTED_ON: tuple[Key, ...] = (("decode", 512, 1), ("prefill", 512, 4))
"""Rows that the two constants of the serving stack are fitted on."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """What the serving stack adds to each layer of a step.

    Attributes
    ----------
    per_layer
        Seconds: kernels that a layer starts whatever the number of tokens.
    per_token
        Seconds for each token: passes over activations that the compiler leaves apart and we fuse.
    """

    per_layer: float = 0.0
    per_token: float = 0.0

    def seconds(self, tokens: int) -> float:
        """All layers of a step of `tokens`."""
        return LAYERS * (self.per_layer + tokens * self.per_token)


def matmuls(folder: Path | None, overrides: Mapping[str, object] | None = None) -> list[Point]:
    """The chained matmuls, simulated; `overrides` change the chip."""
    rows = rows_of("tpu_v6e_gemm_device", folder)
    points = points_of(rows, systolic.load_chip("tpu-v6e", overrides or {}))
    return [
        replace(point, kind="M > 256" if row.m > 256 else "M <= 256")
        for row, point in zip(rows, points, strict=True)
    ]


@dataclass(frozen=True, kw_only=True)
class Step:
    """A measured step of the model: its point, and how many tokens it processes."""

    point: Point
    key: Key

    @property
    def tokens(self) -> int:
        """Rows of the residual stream."""
        phase, length, batch = self.key
        return batch * (length if phase == "prefill" else 1)


def steps(
    folder: Path | None,
    overrides: Mapping[str, object] | None = None,
    keys: Sequence[Key] | None = None,
) -> list[Step]:
    """The forward passes (prefill) and decode steps, simulated, or those of `keys`; `overrides` as above."""
    simulator = Simulator(systolic.load_chip("tpu-v6e", overrides or {}))
    rows = [(row, (row.op, row.m, row.batch)) for row in rows_of("tpu_v6e_qwen3_8b", folder)]
    return [Step(point=simulator.point(row), key=key) for row, key in rows if keys is None or key in keys]


def fitted(*, by_roofline: bool = False) -> Serving:
    """The constants that make the rows of `FITTED_ON` exact, beside ours or beside a roofline.

    They come from the rows that ship with the study, whatever rows they are judged on.
    """
    missing = {
        step.key: (step.point.measured - _predicted(step, by_roofline), step.tokens)
        for step in steps(None, keys=FITTED_ON)
    }
    (few, few_tokens), (many, many_tokens) = (missing[key] for key in FITTED_ON)
    per_token = (many - few) / (many_tokens - few_tokens) / LAYERS
    return Serving(per_layer=few / LAYERS - few_tokens * per_token, per_token=per_token)


def served(steps_: list[Step], serving: Serving) -> list[Point]:
    """The points with the serving stack's time added to ours."""
    return [
        replace(step.point, simulated=step.point.simulated + serving.seconds(step.tokens)) for step in steps_
    ]


def _predicted(step: Step, by_roofline: bool) -> float:
    return step.point.work.roofline() if by_roofline else step.point.simulated
