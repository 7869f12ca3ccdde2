"""``calibrate``: the few physical constants that a chip's description leaves open, fitted to measured rows.

What is fitted: the clock that the matrix unit sustains, the share of main memory's bandwidth that is
reached, and, on chips that have it, the time to launch a kernel. Nothing else: shapes, dataflow, latencies
and capacities are what they are. The error is judged on rows that the fit has not seen, beside a roofline
with as many constants fitted to the same rows.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..chips import Chip, load_chip
from ..engine.progress import Progress, Silent
from ..errors import SystolicError
from ..quantity import format_hz
from .compare_rows import Simulator, read_batch, simulable
from .points import Errors, Point, fitted_roofline, fitted_roofline_with_launch, roofline, simulated
from .rows import Row
from .sources import TINY

SEED = 0
LAUNCH = "launch_ns"
MOST_FITTED, MOST_JUDGED = 24, 48
"""Rows that each trial of the fit simulates, and rows that judge it: more are thinned evenly over sizes."""
FEWEST = 6
"""Rows that must be there to fit, and as many to judge."""
SPANS = (1.6, 1.25, 1.1, 1.03)
"""A round of the fit tries values from the best so far divided by this to it times this."""
TRIALS = 5
ABOVE = 1.1
"""A rate of so many times the peak is tried at the end, to see whether the rows ask for what cannot be."""
BANDS = 8
"""The rows are drawn from so many bands of measured time."""
_TIE = 1e-7
"""Of values that suit the rows equally well, the one nearest to the chip's own: weight of the distance."""


@dataclass(frozen=True, kw_only=True)
class Constant:
    """A fitted field: its path, the value before and after, both as a chip file states them."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A chip with fitted constants, and how well it does on rows that the fit has not seen.

    Attributes
    ----------
    base, chip
        The chip before and after.
    constants
        What was fitted.
    file, device, clock
        Where the rows come from.
    fitted, judged
        Rows that the fit used, and rows that the errors below are over.
    before, after, roofline, fitted_roofline
        Errors on the judged rows: of both chips, of a roofline with the base's numbers, and of one with as
        many constants fitted to the same rows, %.
    """

    base: Chip
    chip: Chip
    constants: tuple[Constant, ...]
    file: str
    device: str
    clock: str
    fitted: int
    judged: int
    before: Errors
    after: Errors
    roofline: Errors
    fitted_roofline: Errors

    def to_toml(self, name: str, base: str, day: str) -> str:
        """A chip file: the base, what was fitted, and on what.

        Parameters
        ----------
        name, base
            Of the new chip; catalogue name or path of the chip that it changes.
        day
            When it was fitted, as the file will say.
        """
        said = (
            f"fitted on {self.fitted} rows of {self.file} ({self.device}, clock: {self.clock}), {day}; "
            f"MAPE on {self.judged} other rows {self.before.mape:.1f}% before, {self.after.mape:.1f}% after"
        )
        tables: dict[str, list[str]] = {}
        for constant in self.constants:
            table, _, leaf = constant.path.rpartition(".")
            tables.setdefault(table, []).append(f"{leaf} = {constant.after}")
        top = tables.pop("", [])
        lines = ["schema = 1", f"name = {_quoted(name)}", f"base = {_quoted(base)}", *top]
        for table, of in tables.items():
            lines += ["", f"[{table}]", *of]
        lines += ["", "[source]", *(f"{_quoted(c.path)} = {_quoted(said)}" for c in self.constants)]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        lines = [f"{self.device}, clock: {self.clock}; fitted on {self.fitted} rows of {self.file}", ""]
        width = max(len(constant.path) for constant in self.constants)
        lines += [f"{c.path:<{width}}  {c.before} -> {c.after}" for c in self.constants]
        lines += ["", f"on {self.judged} other rows: MAPE, %   median   worst"]
        for what, errors in (
            (f"{self.base.name} as it is", self.before),
            ("with the fitted constants", self.after),
            ("roofline, nothing fitted", self.roofline),
            (f"roofline, {len(self.constants)} constants fitted", self.fitted_roofline),
        ):
            lines.append(f"{what:<28}{errors.mape:9.1f}{errors.median:9.1f}{errors.worst:8.1f}")
        return "\n".join(lines) + "\n"


def calibrate(
    measured: str | os.PathLike[str],
    chip: str | os.PathLike[str] | Chip,
    *,
    fit: float = 0.5,
    progress: Progress | None = None,
) -> Calibration:
    """Fit the open constants of a chip to measured rows.

    Parameters
    ----------
    measured
        File of measured rows of one device and one clock, or the id of measurements that ship.
    chip
        What to start from: catalogue name, path of a chip file, or a chip.
    fit
        Share of the rows to fit on, 0..1; they are drawn with a fixed seed from bands of measured time.
    progress
        Receives the progress of the trials.

    Raises
    ------
    SystolicError
        If a file cannot be read, the rows are of several devices or clocks, too few of them are simulated,
        or the value that suits them best is unphysical: a rate above the chip's peak.
    """
    if not 0 < fit < 1:
        raise SystolicError(f"fit must be a share between 0 and 1, got {fit!r}")
    base = load_chip(chip)
    rows, name = _rows_for(measured)
    used, others = _split(rows, fit)
    if min(len(used), len(others)) < FEWEST:
        raise SystolicError(
            f"{name}: at least {FEWEST} rows to fit and {FEWEST} to judge must be there that are "
            f"simulated, got {len(used)} and {len(others)}; measure more shapes"
        )
    used, others = _thinned(used, MOST_FITTED), _thinned(others, MOST_JUDGED)
    shares = _fitted_shares(base, used, progress or Silent())
    constants = tuple(_constant(base, path, share) for path, share in shares.items())
    fitted = load_chip(base, {constant.path: constant.after.strip('"') for constant in constants})
    before, after = _points(others, base), _points(others, fitted)
    other = _fitted_roofline(_points(used, base), len(constants))
    return Calibration(
        base=base,
        chip=fitted,
        constants=constants,
        file=name,
        device=rows[0].device,
        clock=rows[0].clock,
        fitted=len(used),
        judged=len(others),
        before=Errors.of(before, simulated),
        after=Errors.of(after, simulated),
        roofline=Errors.of(before, roofline),
        fitted_roofline=Errors.of(before, other),
    )


def _rows_for(measured: str | os.PathLike[str]) -> tuple[list[Row], str]:
    """The rows of one device and clock that are simulated and that the clock does not swamp; their file."""
    batch = read_batch(measured)
    for what in ("device", "clock"):
        found = dict.fromkeys(getattr(row, what) for row in batch.rows)
        if len(found) > 1:
            raise SystolicError(
                f"{batch.label}: rows must be of one {what} to fit on, got {', '.join(found)}; put each in a "
                "file of its own"
            )
    least = TINY * batch.floor_us
    return [row for row in simulable(batch.rows, {}) if row.measured_us >= least], batch.label


def _split(rows: Iterable[Row], fit: float) -> tuple[list[Row], list[Row]]:
    """Rows to fit on and rows to judge, both from all bands of measured time."""
    ordered = sorted(rows, key=lambda row: row.measured_us)
    draw = random.Random(SEED)
    size = max(2, -(-len(ordered) // BANDS))
    used: list[Row] = []
    for begin in range(0, len(ordered), size):
        band = ordered[begin : begin + size]
        used += draw.sample(band, min(len(band), round(fit * len(band))))
    taken = {id(row) for row in used}
    return used, [row for row in ordered if id(row) not in taken]


def _thinned(rows: list[Row], most: int) -> list[Row]:
    ordered = sorted(rows, key=lambda row: row.measured_us)
    return ordered[:: -(-len(ordered) // most)]


def _points(rows: Iterable[Row], chip: Chip) -> list[Point]:
    simulator = Simulator(chip)
    return [simulator.point(row) for row in rows]


def _fitted_roofline(points: Sequence[Point], constants: int) -> Callable[[Point], float]:
    """A roofline with as many constants as the calibration has."""
    if constants < 3:
        rate, bandwidth = fitted_roofline(points)
        return lambda point: point.work.roofline(rate, bandwidth)
    found = fitted_roofline_with_launch(points)
    return lambda point: point.work.roofline(*found)


def open_fields(chip: Chip, dtype: str) -> tuple[str, ...]:
    """Paths of what a description leaves open: the clock that multiplies `dtype`, bandwidth, launch.

    Memory of unlimited bandwidth, or stepped on its own timing, has no share to fit.
    """
    peak = chip.peak_macs_per_s(dtype)
    clocks = [path for path in ("clock_hz", "boost_hz") if hasattr(chip, path)]
    rate = [c for c in clocks if load_chip(chip, {c: getattr(chip, c) // 2}).peak_macs_per_s(dtype) != peak]
    dram = chip.memory["dram"]
    share = ["memory.dram.sustained_percent"] if dram.bytes_per_s and dram.model == "bandwidth" else []
    return (*rate[:1], *share, *([LAUNCH] if getattr(chip, LAUNCH, 0) else []))


def _fitted_shares(base: Chip, rows: Sequence[Row], progress: Progress) -> dict[str, float]:
    """Path -> the fitted value as a share of the chip's own; of bandwidth, of its peak."""
    from .work import workload_of

    gemm_dtypes = [op.dtype for row in rows for op in workload_of(row).ops]
    dtype = next((d for d in gemm_dtypes if d in base.formats), base.native_dtype)
    paths = open_fields(base, dtype)
    shares = {path: _own_share(base, path) for path in paths}
    own = dict(shares)
    progress.start("fitting", len(SPANS) * len(paths) * TRIALS)
    for span in SPANS:
        for path in paths:
            tried = [shares[path] * span ** (2 * at / (TRIALS - 1) - 1) for at in range(TRIALS)]
            if path != LAUNCH:
                tried = [min(share, 1.0) for share in tried]
            scores = []
            for share in tried:
                progress.advance(1)
                scores.append(_mape(base, rows, {**shares, path: share}, own))
            shares[path] = tried[min(range(TRIALS), key=scores.__getitem__)]
    _refuse_unphysical(base, shares, lambda trial: _mape(base, rows, trial, own))
    return shares


def _own_share(base: Chip, path: str) -> float:
    return base.memory["dram"].sustained_percent / 100 if path.endswith("sustained_percent") else 1.0


def _mape(base: Chip, rows: Sequence[Row], shares: Mapping[str, float], own: Mapping[str, float]) -> float:
    """MAPE of the rows with these shares, and a trace of their distance from the chip's own."""
    overrides: dict[str, object] = {}
    for path, share in shares.items():
        if path.endswith("sustained_percent"):
            # As a rate, so that a trial above the peak is possible and can be refused by name.
            rate = base.memory["dram"].bytes_per_s
            assert rate is not None
            overrides |= {path: 100, "memory.dram.bytes_per_s": max(1, round(rate * share))}
        else:
            overrides[path] = max(1, round(getattr(base, path) * share))
    distance = sum(abs(share / own[path] - 1) for path, share in shares.items())
    return Errors.of(_points(rows, load_chip(base, overrides)), simulated).mape + _TIE * distance


def _refuse_unphysical(
    base: Chip, shares: Mapping[str, float], mape: Callable[[Mapping[str, float]], float]
) -> None:
    """Refuse rates that the rows would have above the peak: where that suits them better by a point."""
    problems = []
    least = mape(shares)
    for path in shares:
        if path == LAUNCH or mape({**shares, path: ABOVE}) > least - 1:
            continue
        what = "bandwidth" if path.endswith("sustained_percent") else "clock"
        problems.append(
            f"{path} must be fitted at or below the peak of {base.name}, and {100 * ABOVE:.0f}% of it suit "
            f"the rows better: they are faster than its {what} allows; see that device and format of the "
            "rows are the chip's"
        )
    if problems:
        raise SystolicError(*problems)


def _constant(base: Chip, path: str, share: float) -> Constant:
    """A fitted field as a chip file states it."""
    if path.endswith("sustained_percent"):
        before = base.memory["dram"].sustained_percent
        return Constant(path=path, before=str(before), after=str(min(100, max(1, round(100 * share)))))
    if path == LAUNCH:
        before = getattr(base, path)
        return Constant(path=path, before=f'"{before} ns"', after=f'"{round(before * share)} ns"')
    clock = getattr(base, path)
    fitted = min(clock, round(clock * share / 1e6) * 10**6 or round(clock * share))
    return Constant(path=path, before=f'"{format_hz(clock)}"', after=f'"{fitted / 1e6:.15g} MHz"')


def _quoted(text: str) -> str:
    """A TOML basic string."""
    return json.dumps(text, ensure_ascii=False)


def base_beside(chip: str, target: Path) -> str:
    """How the file `target` names its base: a chip file by its path from there, else the name."""
    if not chip.endswith(".toml"):
        return chip
    return os.path.relpath(Path(chip).resolve(), target.resolve().parent)
