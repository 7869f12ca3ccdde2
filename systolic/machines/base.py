"""What every machine answers. The machines do not know one another; the engine knows only this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from ..errors import raise_if_any, shown
from ..recorded import Slice
from ..result import Result
from ..workload import Op, Workload

Mode = Literal["tiled", "stepped", "bound"]
MODES = ("tiled", "stepped", "bound")
CHOICES = ("dataflow", "tile", "order", "kernel")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices of the user that a machine honours when it lowers a workload.

    Attributes
    ----------
    mode
        Which engine produces the cycles: see DESIGN ledger, law 7.
    dataflow
        Overrides the chip's.
    tile
        Pinned (m, n, k) sides of the on-chip block, elements.
    order
        Pinned loop order over blocks, outermost first.
    kernel
        Pinned kernel, by the name that the machine's catalogue gives it.
    compiled
        Whether plans are searched in machine code, which takes a second to load and finds the same: for
        whoever lowers thousands of workloads.
    """

    mode: Mode = "tiled"
    dataflow: str | None = None
    tile: tuple[int, int, int] | None = None
    order: str | None = None
    kernel: str | None = None
    compiled: bool = False

    def refuse_all_but(self, honoured: Sequence[str], chip: str) -> None:
        """Refuse choices that a machine does not have.

        Parameters
        ----------
        honoured
            Names of the choices that it has.
        chip
            Name of the chip, for the error.

        Raises
        ------
        SystolicError
            One line for each choice that was made and is not honoured.
        """
        raise_if_any(
            [
                f"{name} is no choice of {chip}, which has {', '.join(honoured)}; drop it, or simulate the "
                f"chips apart; got {shown(value)}"
                for name in CHOICES
                if name not in honoured and (value := getattr(self, name)) is not None
            ]
        )


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Effective precision of a matmul on a machine.

    Attributes
    ----------
    lhs_dtype, rhs_dtype
        Formats in which the operands enter the multipliers.
    acc_dtype, out_dtype
        Formats of the sums and of the result.
    roundings
        Most roundings in `acc_dtype` that a product meets on its way into the finished sum, its own
        included unless it is exact: the n of the bound gamma_n (Higham, Accuracy and Stability of
        Numerical Algorithms, 2nd ed., 3.1).
    passes
        Passes over the array for one product: 1; or 3 or 6 where an fp32 operand enters as a sum of
        two or three parts in `lhs_dtype` and `rhs_dtype`.
    note
        What differs from what was asked, or "".
    """

    lhs_dtype: str
    rhs_dtype: str
    acc_dtype: str
    out_dtype: str
    roundings: int
    passes: int = 1
    note: str = ""

    def __str__(self) -> str:
        operands = self.lhs_dtype
        if self.rhs_dtype != self.lhs_dtype:
            operands += f" x {self.rhs_dtype}"
        text = f"{operands} -> {self.acc_dtype} -> {self.out_dtype}"
        return f"{text} ({self.note})" if self.note else text


@dataclass(frozen=True)
class Values:
    """What a machine computed: `out` of shape (batch, m, n), and how many sums overflowed.

    `out` is float32 (already rounded to the result's format) or int32.
    """

    out: np.ndarray
    overflows: int = 0


@dataclass(frozen=True)
class Stepping:
    """What stepping would take.

    Attributes
    ----------
    work
        What is stepped, in words: ``"1,000 cycles of 65,536 PEs"``.
    seconds
        About how long on this kind of host.
    cheaper
        What another mode gives, and how it compares.
    """

    work: str
    seconds: float
    cheaper: str


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence of an op in a composed run.

    `row` is its row of the report, `number` which of its occurrences, counted from 0; it takes `cycles`
    cycles from `start` on. The times of `slices`, which can be read once, count from there.
    """

    row: Result
    number: int
    start: int
    cycles: int
    slices: Iterator[Slice]


class Step(Protocol):
    """One unit of work of a machine; each machine has its own type."""

    @property
    def op(self) -> Op:
        """What it computes."""


class Machine(Protocol):
    """The four questions. A module with these functions, and this number, is a machine."""

    SECONDS_PER_MAC: float
    """Host seconds that a check of its values takes for each MAC, on two cores: to choose by, to announce."""

    def lower(self, workload: Workload, chip: Any, options: Options) -> tuple[Any, ...]:
        """Group ops, pick kernel and tiles."""

    def cost(self, step: Any, chip: Any, record: Any = None) -> Result:
        """Cycles, bytes, events of all occurrences; no values."""

    def precision(self, step: Any, chip: Any) -> Precision:
        """Effective precision of a matmul step."""

    def tile_edges(self, step: Any, chip: Any) -> tuple[int, ...]:
        """Rows of a matmul step's result at the edges of tiles, where a wrong tiling would show."""

    def values(self, step: Any, chip: Any, lhs: np.ndarray, rhs: np.ndarray) -> Values:
        """Bit for bit what the chip computes; no timing.

        lhs (batch, m, k) and rhs (batch, k, n) are float32 or int8/int32 arrays; a float machine
        rounds them to its operand formats first. Any subset of the rows of lhs or of the
        columns of rhs gives the same values for these.
        """

    def stepping(self, rows: Sequence[Result], chip: Any) -> Stepping:
        """What stepping would take, from the rows of the same run in tiled mode."""

    def compose(self, steps: Sequence[Any], results: Sequence[Result], chip: Any) -> tuple[Result, ...]:
        """Decide all overlap between steps; return the rows in order, exclusive cycles in each."""
