"""The seam between whoever meets a matmul and the machine that computes its values."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ..chips import Chip
from ..errors import SystolicError, did_you_mean
from ..machines.base import Machine, Options, Precision, Values
from ..workload import Gemm, Workload

if TYPE_CHECKING:
    import numpy as np

MACHINES = {"tpu": "tpu", "gpu": "gpu", "cpu": "cpu"}
"""Kind of chip -> module of :mod:`systolic.machines` that models it."""


def machine_of(chip: Chip) -> Machine:
    """The machine that models this kind of chip; its module is imported here, not before.

    Raises
    ------
    SystolicError
        If no machine models the kind.
    """
    if chip.kind not in MACHINES:
        hint = did_you_mean(chip.kind, MACHINES)
        raise SystolicError(f"{chip.name}: no machine models kind {chip.kind!r}{hint}")
    return cast(Machine, import_module(f"..machines.{MACHINES[chip.kind]}", __package__))


class MatmulHook:
    """Computes matmuls as one chip does: ``hook(gemm, lhs, rhs) -> out``.

    Whoever walks a computation calls it at each matmul it meets, so that the same walk counts, or
    runs. A matmul is lowered once, however often it is met.

    Parameters
    ----------
    chip, options
        The chip, and the user's choices (the dataflow decides the order of sums).
    steps
        Steps that are lowered already, to be used for their matmuls.
    """

    def __init__(self, chip: Chip, options: Options | None = None, steps: Iterable[Any] = ()) -> None:
        self.chip = chip
        self.options = options or Options()
        self.machine = machine_of(chip)
        self._steps = {step.op: step for step in steps if isinstance(step.op, Gemm)}

    def step(self, gemm: Gemm) -> Any:
        """The machine's step for `gemm`."""
        if gemm not in self._steps:
            alone = Workload(name=gemm.name, ops=(gemm,), dtype=gemm.dtype)
            (self._steps[gemm],) = self.machine.lower(alone, self.chip, self.options)
        return self._steps[gemm]

    def precision(self, gemm: Gemm) -> Precision:
        """Effective precision of `gemm` on the chip."""
        return self.machine.precision(self.step(gemm), self.chip)

    def tile_edges(self, gemm: Gemm) -> tuple[int, ...]:
        """Rows of the result at the edges of the machine's tiles."""
        return self.machine.tile_edges(self.step(gemm), self.chip)

    def values(self, gemm: Gemm, lhs: np.ndarray, rhs: np.ndarray) -> Values:
        """The result and its overflows; lhs is (batch, m, k) or some of its rows, rhs (batch, k, n)."""
        return self.machine.values(self.step(gemm), self.chip, lhs, rhs)

    def __call__(self, gemm: Gemm, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """The result alone: (batch, rows of lhs, n), float32 or int32."""
        return self.values(gemm, lhs, rhs).out


def matmul_hook(chip: Chip, options: Options | None = None) -> MatmulHook:
    """The hook ``on_matmul(gemm, lhs, rhs) -> out`` that computes each matmul as `chip` does."""
    return MatmulHook(chip, options)
