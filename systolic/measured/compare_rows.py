"""``compare``: rows of measured time -> the same work simulated, grouped so that like stands beside like."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from ..chips import Chip, load_chip
from ..dtypes import canonical
from ..engine.hook import machine_of
from ..engine.progress import Progress, Silent
from ..engine.simulation import simulate
from ..errors import SystolicError, raise_if_any, shown
from ..quantity import count_problem
from ..workload import Workload
from .comparison import Comparison, Group, Skipped
from .points import Point, work_of
from .rows import CLOCKS, Row, spread
from .sources import TINY, Source, device_of, read_measured, shipped_rows, shipped_sources
from .work import COLD, DTYPES, Warm, kind_of, label_of, workload_of

Where = str | os.PathLike[str] | Chip
AUTO = "auto"
GPU_SAMPLE = 2
"""Rows of each kind and group on a GPU where the sample is ``auto``: there a row takes 10 to 20 ms, whole
models seconds, and some groups have thousands of rows."""
LAUNCHING = ("host", "event")
"""Clocks that hold what it takes to start each op."""


class Batch(NamedTuple):
    """Rows of one file: what to call it, where it comes from, and what to know of it."""

    label: str
    source: Source | None
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    floor_us: float = 0.0


@dataclass(frozen=True)
class _Key:
    """What the rows of a group share."""

    device: str
    dtype: str
    clock: str


class Simulator:
    """Simulates rows on one chip, equal work once; `source` tells how they were taken."""

    def __init__(self, chip: Chip, source: Source | None = None) -> None:
        self.chip = chip
        self._warm = COLD
        # Where a row's operands lay decides only on chips whose caches may hold them.
        if source is not None and chip.kind == "gpu":
            cache = chip.memory["l2"].bytes
            self._warm = Warm(source.activations_on_chip, source.weight_copies, cache)
        self._done: dict[Workload, tuple[float, str]] = {}

    def point(self, row: Row) -> Point:
        """A measured row with the simulated time of its work.

        Raises
        ------
        SystolicError
            If the row, or its work on this chip, is not simulated.
        """
        work = workload_of(row, self._warm)
        if work not in self._done:
            report = simulate(work, on=self.chip).chips[0]
            self._done[work] = report.seconds, report.totals.bound_by
        seconds, bound_by = self._done[work]
        return Point(
            name=label_of(row),
            kind=kind_of(row),
            measured=1e-6 * row.measured_us,
            simulated=seconds,
            work=work_of(work, self.chip),
            peers={tool: 1e-6 * time for tool, time in row.peers.items()},
            phase=row.phase,
            bound_by=bound_by,
        )


def points_of(rows: Iterable[Row], chip: Chip, source: Source | None = None) -> list[Point]:
    """The rows, simulated on `chip` as `source` took them; those that are not simulated are left out."""
    simulator = Simulator(chip, source)
    found = []
    for row in rows:
        try:
            found.append(simulator.point(row))
        except SystolicError:
            continue
    return found


def compare(
    measured: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    *,
    shipped: bool | Sequence[str] = False,
    on: Where | Sequence[Where] = AUTO,
    sample: int | Literal["auto"] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Hold simulated time beside measured time.

    Parameters
    ----------
    measured
        Files of measured rows: what ``systolic measure`` writes, a ``.csv`` with the columns of the files
        that ship, or a file of the public collection by its own name.
    shipped
        The measurements that ship with the package: all of them, or those with these ids.
    on
        Chips to simulate, or ``"auto"``: the chip of the catalogue that stands for each device.
    sample
        Simulate at most so many rows of each kind in a group, evenly spaced in the order of their measured
        times, so that all sizes are there; ``"auto"``: :data:`GPU_SAMPLE` on GPUs, all elsewhere; None: all.
    progress
        Receives the progress of long work.

    Raises
    ------
    SystolicError
        If a file cannot be read, there is no such id or chip, or no row at all can be compared; the error
        says why.
    """
    if sample not in (None, AUTO):
        raise_if_any(count_problem("sample", sample, alternative=', "auto" or None'))
    batches = _batches(measured, shipped)
    places = None if on == AUTO else (on,) if isinstance(on, (str, os.PathLike, Chip)) else tuple(on)
    chips = None if places is None else [load_chip(place) for place in places]
    notes = [note for batch in batches for note in batch.notes]
    groups: list[Group] = []
    skipped: list[Skipped] = []
    watch = progress or Silent()
    for batch in batches:
        for key, rows in _by_key(batch.rows).items():
            for chip, note in _chips_for(key, batch.label, len(rows), chips, skipped):
                most = sample if isinstance(sample, int) else None
                if sample == AUTO and chip.kind == "gpu":
                    most = GPU_SAMPLE
                group = _group(batch, key, rows, (chip, note), most, skipped, watch)
                groups += [] if group is None else [group]
    if not groups:
        reasons = dict.fromkeys(f"{entry.device}: {entry.reason}" for entry in skipped)
        raise SystolicError("no measured row can be compared", *notes, *reasons)
    return Comparison(groups=tuple(groups), skipped=tuple(_merged(skipped)), notes=tuple(notes))


def _batches(measured: object, shipped: bool | Sequence[str]) -> list[Batch]:
    """Everything that is to be compared."""
    one = isinstance(measured, (str, os.PathLike))
    paths = [] if measured is None else [measured] if one else list(measured)  # type: ignore[call-overload]
    ids = list(shipped_sources()) if shipped is True else list(shipped or ())
    if not paths and not ids:
        raise SystolicError("compare needs a file of measurements, or shipped measurements, got neither")
    found = [_shipped_batch(source) for source in ids]
    return found + [_read_batch(given) for given in paths]


def _shipped_batch(source: str) -> Batch:
    rows = shipped_rows(source)
    return Batch(source, shipped_sources()[source], rows, floor_us=shipped_sources()[source].floor_us)


def _read_batch(given: object) -> Batch:
    """The rows of a file."""
    if not isinstance(given, (str, os.PathLike)):
        raise SystolicError(f"measured must be the path of a file, got {shown(given)}")
    path = Path(given)
    source = shipped_sources().get(path.stem)
    rows, notes, floor = read_measured(path)
    return Batch(path.name, source, rows, notes, floor or (0.0 if source is None else source.floor_us))


def read_batch(given: str | os.PathLike[str]) -> Batch:
    """The rows of a file, or of what ships under the id `given`.

    Raises
    ------
    SystolicError
        If it cannot be read.
    """
    if isinstance(given, str) and given in shipped_sources():
        return _shipped_batch(given)
    return _read_batch(given)


def _by_key(rows: Iterable[Row]) -> dict[_Key, list[Row]]:
    found: dict[_Key, list[Row]] = {}
    for row in rows:
        found.setdefault(_Key(row.device, row.dtype, row.clock), []).append(row)
    return found


def _chips_for(
    key: _Key, source: str, rows: int, chips: Sequence[Chip] | None, skipped: list[Skipped]
) -> list[tuple[Chip, str]]:
    """The chips that rows of a device are compared with, and how each differs from it.

    Where there is none, `skipped` gets the reason.
    """
    device = device_of(key.device)
    if chips is not None:
        return [(chip, _other_device(chip, key.device)) for chip in chips]
    try:
        chip = device.load()
        machine_of(chip)
    except SystolicError as error:
        skipped.append(Skipped(source=source, device=key.device, rows=rows, reason=str(error)))
        return []
    return [(chip, device.note)]


def _other_device(chip: Chip, name: str) -> str:
    device = device_of(name)
    if device.chip == chip.name:
        return device.note and f"the device is {device.note}"
    return f"measured on {name}, simulated on {chip.name}: errors hold the difference of the two"


def _group(
    batch: Batch,
    key: _Key,
    rows: Sequence[Row],
    place: tuple[Chip, str],
    sample: int | None,
    skipped: list[Skipped],
    watch: Progress,
) -> Group | None:
    """The rows of one device, format and clock beside one chip; None where none can be compared."""
    chip, note = place
    simulator = Simulator(chip, batch.source)
    floor = batch.floor_us
    refused: dict[str, int] = {}
    chosen = _sampled(simulable(rows, refused), sample, floor)
    watch.start(f"{key.device} {key.dtype}", len(chosen))
    points: list[Point] = []
    tiny: list[Point] = []
    for row in chosen:
        watch.advance(1)
        try:
            point = simulator.point(row)
        except SystolicError as error:
            refused[error.problems[0]] = refused.get(error.problems[0], 0) + 1
            continue
        (tiny if row.measured_us < TINY * floor else points).append(point)
    for reason, count in refused.items():
        skipped.append(Skipped(source=batch.label, device=key.device, rows=count, reason=reason))
    if not points and not tiny:
        return None
    if not points:
        points, tiny, floor = tiny, [], 0.0
    return Group(
        source=batch.label,
        device=key.device,
        dtype=key.dtype,
        clock=key.clock,
        chip=chip,
        points=tuple(points),
        tiny=tuple(tiny),
        of_rows=len(rows) - sum(refused.values()),
        floor_us=floor,
        noise=_noise(batch.source, key.device, rows),
        labels=tuple(_labels(key, chip, note)),
    )


def simulable(rows: Iterable[Row], refused: dict[str, int]) -> list[Row]:
    """The rows whose work can be built; `refused` counts the reasons of the others."""
    found = []
    for row in rows:
        try:
            workload_of(row)
        except SystolicError as error:
            refused[error.problems[0]] = refused.get(error.problems[0], 0) + 1
        else:
            found.append(row)
    return found


def _sampled(rows: Sequence[Row], sample: int | None, floor_us: float) -> list[Row]:
    """At most `sample` rows of each kind above the floor, and of each below it, spread over their times."""
    if sample is None:
        return list(rows)
    kinds: dict[tuple[str, bool], list[Row]] = {}
    for row in rows:
        kinds.setdefault((kind_of(row), row.measured_us < TINY * floor_us), []).append(row)
    kept = set()
    for of_kind in kinds.values():
        ordered = sorted(of_kind, key=lambda row: row.measured_us)
        step = max(1.0, len(ordered) / sample)
        kept |= {id(ordered[int((at + 0.5) * step)]) for at in range(min(sample, len(ordered)))}
    return [row for row in rows if id(row) in kept]


def _labels(key: _Key, chip: Chip, note: str) -> Iterable[str]:
    """How the two sides of a comparison differ."""
    if note:
        yield note
    if key.clock in LAUNCHING and not getattr(chip, "launch_ns", 0):
        yield f"the clock holds the start of each op ({CLOCKS[key.clock]}), and {chip.name} has no launches"
    if key.clock == "unstated":
        yield f"the clock is not known: {CLOCKS[key.clock]}"
    if key.dtype in DTYPES:
        yield f"{key.dtype} is simulated as {DTYPES[key.dtype]}"
    dtype = canonical(DTYPES.get(key.dtype, key.dtype))
    if dtype not in chip.formats:
        yield f"{chip.name} does not multiply {dtype}: simulated as it runs there, in {chip.native_dtype}"
    fitted = [path for path, source in chip.sources.items() if source.startswith("fitted")]
    if fitted:
        yield f"{chip.name} holds fitted constants: {', '.join(fitted)}"


def _noise(source: Source | None, device: str, rows: Sequence[Row]) -> float | None:
    """Distance between two measurements of one thing, %: as the source tells it, or the rows' spread."""
    noise: Mapping[str, float] = {} if source is None else source.noise_pct
    return noise.get(device, spread(rows))


def _merged(skipped: Iterable[Skipped]) -> list[Skipped]:
    """Equal reasons of one device added up."""
    counts: dict[tuple[str, str, str], int] = {}
    for entry in skipped:
        key = (entry.source, entry.device, entry.reason)
        counts[key] = counts.get(key, 0) + entry.rows
    return [
        Skipped(source=source, device=device, rows=rows, reason=reason)
        for (source, device, reason), rows in counts.items()
    ]
