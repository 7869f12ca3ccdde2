"""The file that ``systolic measure`` writes: a JSON document with one record on each line.

    {"schema": 1, "kind": "systolic-measurements",
    "sessions": [
    {...}
    ],
    "rows": [
    {...},
    {...}
    ],
    "end": {"sessions": 1, "rows": 2}}

A session says where and how its rows were taken. The last byte of the document is its closing brace, so a
file that was cut off anywhere is no JSON, and :func:`read` keeps every record that is complete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import SystolicError
from .rows import Row

SCHEMA = 1
HEAD = f'{{"schema": {SCHEMA}, "kind": "systolic-measurements",'

OK, NOISY = "ok", "too noisy"


@dataclass(frozen=True, kw_only=True)
class Session:
    """Where and how rows were taken.

    Attributes
    ----------
    id
        Number in its file.
    started
        UTC, ISO 8601.
    device, platform, driver
        As JAX names them: kind of device, ``cpu``, ``gpu`` or ``tpu``, version of the platform.
    versions
        Python, jax, jaxlib, numpy, systolic.
    host
        What could be read of the machine; what could not is None.
    clock
        One of :data:`~systolic.measured.rows.CLOCKS`.
    options
        What was asked: cold or warm inputs, spread, budget, seed.
    observed
        Number format -> the format that the device's matmul was seen to use inside.
    dispatch_us
        A call on one element: what starting and awaiting a call takes. It is inside each `median_us`.
    """

    id: int
    started: str
    device: str
    platform: str
    driver: str
    versions: Mapping[str, str]
    host: Mapping[str, Any]
    clock: str
    options: Mapping[str, Any]
    observed: Mapping[str, str]
    dispatch_us: float

    @property
    def identity(self) -> tuple[object, ...]:
        """What has to be equal for two sessions' rows to stand for one another."""
        options = {name: value for name, value in self.options.items() if name != "budget_s"}
        read = json.dumps([self.versions, options, self.host.get("cpus")], sort_keys=True)
        return self.device, self.platform, self.driver, self.clock, read


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One matmul on one device.

    Attributes
    ----------
    session
        Its session's id.
    name
        Name in its model.
    batch, m, n, k, layout, dtype, rhs_dtype, out_dtype, precision
        As in :class:`~systolic.workload.Gemm`; `precision` is the one requested.
    count
        Occurrences in the model; the time is one occurrence's.
    verdict
        ``ok``, or ``too noisy``: no two medians agreed before the budget was spent, and there is no number.
    median_us, lo_us, hi_us
        Median, and its 95% confidence interval from order statistics (David and Nagaraja, Order
        Statistics, 3rd ed., 7.1), microseconds.
    repeats, spread
        Timed calls behind the number (where there is none: in all); distance of the last two medians over
        their mean.
    kernel_us
        Time of the device's kernels alone, by its profiler; None where that shows none.
    compile_s, transfer_s
        Apart from the time: compiling, and bringing the inputs to the device.
    rotated_bytes
        Bytes of all sets of inputs that calls took in turn; those of one set where inputs were warm.
    alarm
        What cannot be: a rate above the device's peak; else ``""``.
    """

    session: int
    name: str
    batch: int
    m: int
    n: int
    k: int
    layout: str
    dtype: str
    rhs_dtype: str
    out_dtype: str
    precision: str
    count: int
    verdict: str
    median_us: float | None
    lo_us: float | None
    hi_us: float | None
    repeats: int
    spread: float
    kernel_us: float | None
    compile_s: float
    transfer_s: float
    rotated_bytes: int
    alarm: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """What was measured, its names aside."""
        return (
            *(self.batch, self.m, self.n, self.k, self.layout),
            *(self.dtype, self.rhs_dtype, self.out_dtype, self.precision),
        )

    @property
    def flop(self) -> int:
        """Floating-point (or integer) operations of one occurrence."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class Measurements:
    """The content of a file: sessions, rows, and what a reader has to know."""

    sessions: tuple[Session, ...] = ()
    rows: tuple[Measurement, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)

    def text(self) -> str:
        """As the file holds it."""
        sessions = ",\n".join(json.dumps(asdict(session)) for session in self.sessions)
        rows = ",\n".join(json.dumps(asdict(row)) for row in self.rows)
        end = json.dumps({"sessions": len(self.sessions), "rows": len(self.rows)})
        return f'{HEAD}\n"sessions": [\n{sessions}\n],\n"rows": [\n{rows}\n],\n"end": {end}}}'

    def write(self, path: Path) -> None:
        """Write the file as a whole: under a temporary name, on disk, then renamed.

        Raises
        ------
        SystolicError
            If the system refuses; the file is as it was then.
        """
        target = path.resolve()
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(self.text())
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise SystolicError(f"{path}: cannot be written: {error.strerror}") from error

    def measured(self, session: Session) -> set[tuple[object, ...]]:
        """Keys of the rows with a number that sessions equal to this one have taken."""
        same = {other.id for other in self.sessions if other.identity == session.identity}
        return {row.key for row in self.rows if row.session in same and row.verdict == OK}

    def as_rows(self) -> tuple[Row, ...]:
        """The rows with a number, as all measured rows are compared; by the device's clock once more.

        On a CPU the host's clock and the device's are one: only what stands around the kernels differs.
        """
        sessions = {session.id: session for session in self.sessions}
        timed = [(row, sessions[row.session]) for row in self.rows if row.median_us is not None]
        by_host = [(row, at.clock, row.median_us, row.lo_us, row.hi_us) for row, at in timed]
        by_device = [(row, "kernel", row.kernel_us, None, None) for row, at in timed if at.platform != "cpu"]
        return tuple(
            Row(
                device=sessions[row.session].device,
                dtype=row.dtype,
                op="matmul",
                name=row.name,
                batch=row.batch,
                m=row.m,
                n=row.n,
                k=row.k,
                layout=row.layout,
                precision="" if row.precision == "default" else row.precision,
                clock=clock,
                measured_us=time,
                lo_us=lo,
                hi_us=hi,
            )
            for row, clock, time, lo, hi in (*by_host, *by_device)
            if time is not None
        )


def is_measurements(path: Path) -> bool:
    """Whether a file begins as one of ours does, even where it is cut off."""
    try:
        begin = path.read_bytes()[: len(HEAD)]
    except OSError:
        return False
    return bool(begin) and HEAD.encode().startswith(begin)


def read(path: Path) -> Measurements:
    """Read a file of measurements; what is complete in one that was cut off is kept, and a note says so.

    Raises
    ------
    SystolicError
        If it cannot be read, is no such file, or a complete record in it is none of ours.
    """
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise SystolicError(f"{path}: cannot be read: {error.strerror}") from error
    if not HEAD.startswith(text[: len(HEAD)]):
        raise SystolicError(f"{path}: must begin with {HEAD!r}, as systolic measure writes it")
    try:
        whole = json.loads(text)
        sessions, rows = whole["sessions"], whole["rows"]
        counted = whole["end"] == {"sessions": len(sessions), "rows": len(rows)}
    except (ValueError, KeyError, TypeError):
        counted = False
    if not counted:
        sessions, rows = _complete(text)
    notes = tuple(_notes(path, counted, len(text), sessions, rows))
    known = {entry.get("id") for entry in sessions}
    kept = [entry for entry in rows if entry.get("session") in known]
    return Measurements(
        sessions=tuple(_record(Session, entry, path) for entry in sessions),
        rows=tuple(_record(Measurement, entry, path) for entry in kept),
        notes=notes,
    )


def _notes(path: Path, whole: bool, size: int, sessions: list[Any], rows: list[Any]) -> list[str]:
    if whole:
        return []
    kept = f"{len(rows):,} complete rows of {len(sessions):,} sessions are kept"
    return [f"{path}: cut off after {size:,} bytes; {kept}"]


def _complete(text: str) -> tuple[list[Any], list[Any]]:
    """Sessions and rows that are complete in a document that is not."""
    found: dict[str, list[Any]] = {"sessions": [], "rows": []}
    kind = ""
    for line in text.splitlines():
        if line.startswith('"') and line.endswith("["):
            kind = line[1:-4]
        elif line.startswith("{") and kind in found:
            try:
                found[kind].append(json.loads(line.removesuffix(",")))
            except ValueError:
                continue
    return found["sessions"], found["rows"]


def _record(of: type[Any], entry: Mapping[str, Any], path: Path) -> Any:
    known = {f.name for f in fields(of)}
    if set(entry) != known:
        wrong = ", ".join(sorted(set(entry) ^ known))
        record = of.__name__.lower()
        raise SystolicError(f"{path}: a {record} of schema {SCHEMA} has other fields; look at {wrong}")
    return of(**entry)
