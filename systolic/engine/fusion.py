"""What fusion saves: a function op by op, eager as JAX runs it, and compiled by XLA, side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..chips import Chip, load_chip
from ..models.trace.kernels import Kernel, eager, op_by_op, totals
from ..quantity import format_bytes, format_count, format_seconds


@dataclass(frozen=True, kw_only=True)
class Level:
    """A function as kernels.

    Attributes
    ----------
    name
        ``op by op``, ``eager`` or ``compiled``.
    source
        Who made the kernels: our reading of the jaxpr, or XLA for a named backend.
    kernels
        In order.
    seconds
        On the chosen chip; None without one.
    """

    name: str
    source: str
    kernels: tuple[Kernel, ...]
    seconds: float | None = None

    @property
    def launches(self) -> int:
        """Kernels launched."""
        return next(totals(self.kernels))

    @property
    def bytes(self) -> int:
        """Bytes that cross the borders of kernels, read and written."""
        return list(totals(self.kernels))[1]

    @property
    def matmuls(self) -> int:
        """Matmuls computed."""
        return list(totals(self.kernels))[2]

    @property
    def macs(self) -> int:
        """MACs computed."""
        return list(totals(self.kernels))[3]


@dataclass(frozen=True, kw_only=True)
class FusionReport:
    """The three levels of one function, and in what they differ beyond fusion."""

    name: str
    levels: tuple[Level, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        heads = ("", "kernels", "bytes", "matmuls", "MACs", "time", "kernels are")
        rows = [
            (
                level.name,
                f"{level.launches:,}",
                format_bytes(level.bytes),
                f"{level.matmuls:,}",
                format_count(level.macs),
                "" if level.seconds is None else format_seconds(level.seconds),
                level.source,
            )
            for level in self.levels
        ]
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        lines = [
            "  ".join(
                f"{cell:<{w}}" if i in (0, 6) else f"{cell:>{w}}"
                for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in (heads, *rows)
        ]
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([self.name, *(line.rstrip() for line in lines), *notes]) + "\n"


def fusion_report(
    fn: Callable[..., Any],
    *args: Any,
    on: str | os.PathLike[str] | Chip | None = None,
    launch_ns: int | None = None,
    trips: Mapping[str, int] | None = None,
) -> FusionReport:
    """Compare three ways to run a JAX function.

    Parameters
    ----------
    fn, args
        The function and its arguments: arrays or ``jax.ShapeDtypeStruct``. Nothing is executed; XLA compiles
        the function for the default backend of this machine.
    on
        A chip for the times: a kernel takes its launch overhead, and then the longer of its bytes at the
        memory's bandwidth and its MACs at the peak rate of the chip's native format. That is a bound, not a
        simulation.
    launch_ns
        Launch overhead of a kernel. Default: the chip's, or none where it states none.
    trips
        As for :func:`systolic.simulate`.

    Raises
    ------
    SystolicError
        If a loop's length is not known.
    """
    from ..models.jaxpr import compiled, trace
    from ..models.trace.compiled import compiled_kernels

    program = trace(fn, *args).program
    as_called = trace(fn, *args, inline=False).program
    text, backend = compiled(fn, *args)
    chip = None if on is None else load_chip(on)
    overhead = launch_ns if launch_ns is not None else int(getattr(chip, "launch_ns", 0) or 0)
    found = (
        ("op by op", "the jaxpr's primitives", op_by_op(program.traced, trips or {})),
        ("eager", "the jaxpr's; a nested jit is one", eager(as_called.traced, trips or {})),
        ("compiled", f"XLA's, for {backend}", compiled_kernels(text)),
    )
    levels = tuple(
        Level(
            name=name,
            source=source,
            kernels=tuple(kernels),
            seconds=None if chip is None else _seconds(kernels, chip, overhead),
        )
        for name, source, kernels in found
    )
    return FusionReport(
        name=program.name, levels=levels, notes=tuple(_notes(levels, backend, chip, overhead))
    )


def _seconds(kernels: list[Kernel], chip: Chip, launch_ns: int) -> float:
    bandwidth = chip.memory["dram"].bytes_per_s
    peak = chip.peak_macs_per_s(chip.native_dtype)
    return sum(
        k.count * (launch_ns * 1e-9 + max(k.bytes / bandwidth if bandwidth else 0.0, k.macs / peak))
        for k in kernels
    )


def _notes(levels: tuple[Level, ...], backend: str, chip: Chip | None, launch_ns: int) -> list[str]:
    written, _, fused = levels
    notes = [
        f"fusions are those of XLA for {backend}; another backend fuses otherwise and cannot be asked here"
    ]
    if (written.matmuls, written.macs) != (fused.matmuls, fused.macs):
        notes.append(
            f"compiled and written work differ: {written.matmuls:,} matmuls ({written.macs:,} MACs) are "
            f"written, {fused.matmuls:,} ({fused.macs:,} MACs) are compiled; XLA merges equal ones, drops "
            "dead ones and may replace some by calls of a library"
        )
    if chip is not None:
        notes.append(
            f"times are a bound on {chip.name} from bytes, MACs and {launch_ns:,} ns per launch; "
            "systolic run simulates"
        )
    return notes
