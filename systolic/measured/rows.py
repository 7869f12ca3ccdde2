"""One measured time, whoever took it, and the CSV files that hold many.

All files that ship have the same columns, :data:`COLUMNS`. ``C[m, n] = A[m, k] B[k, n]``, `batch` times. For
row-wise ops (softmax, norms) m is the number of rows and n their length; elementwise ops work on m x n
elements, and `act_gated` on two such halves; for a pass over a model m is the number of tokens of each of
`batch` prompts, in decode of keys.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple

from ..errors import SystolicError, raise_if_any
from ..workload import LAYOUTS, PRECISIONS

CLOCKS = {
    "host": "host timer around launch and completion",
    "event": "device events around one eager call, gaps between launches included",
    "graph": "many launches in one device graph, divided",
    "loop": "host timer around many queued launches, divided",
    "kernel": "duration of the device kernels alone, from a profiler",
    "chained": "dependent calls in one program, slope over its length",
    "counter": "cycle counter of the device",
    "unstated": "the source does not say",
}
"""What a time covers: name -> in words."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured time.

    Attributes
    ----------
    device
        As the source names it.
    dtype
        Number format as the source names it.
    op, name, stage
        What was timed; the layer or model that it belongs to; where in it, or with which options.
    batch, m, n, k
        See the module's text; 0 where the op has no such side.
    layout
        ``n`` or ``t`` for each operand of a matmul.
    precision
        Of a matmul in float32, in JAX's words (``"highest"``: no shorter format inside); ``""``: whatever
        the device does unless told otherwise.
    count
        Occurrences that `measured_us` is for.
    clock
        One of :data:`CLOCKS`.
    measured_us, lo_us, hi_us
        The time; the spread around it, None where not given. Microseconds.
    peers
        Other tool -> the time that it predicts, microseconds.
    """

    device: str
    dtype: str
    op: str
    name: str = ""
    stage: str = ""
    batch: int = 1
    m: int = 0
    n: int = 0
    k: int = 0
    layout: str = "nn"
    precision: str = ""
    count: int = 1
    clock: str
    measured_us: float
    lo_us: float | None = None
    hi_us: float | None = None
    peers: Mapping[str, float] = field(default_factory=dict, hash=False)

    @property
    def phase(self) -> str:
        """``prefill``, ``decode`` or ``train`` where the row says so, else ``""``."""
        words = f"{self.op} {self.stage}"
        return next((phase for phase in ("prefill", "decode", "train") if phase in words), "")


COLUMNS = tuple(f.name for f in fields(Row))
_COUNTS = ("batch", "m", "n", "k", "count")
_TIMES = ("measured_us", "lo_us", "hi_us")


class Read(NamedTuple):
    """The rows of a file, what a reader has to know about it, and what its clock adds to the shortest op."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    floor_us: float = 0.0


def read_table(path: Path) -> tuple[list[dict[str, str]], tuple[str, ...]]:
    """Every complete row of a CSV file as texts by column; a note where the last one is cut off.

    A row counts as complete when its line ends, so that a number cut in its middle is not taken for one.

    Raises
    ------
    SystolicError
        If the file cannot be read, has no header, or holds a row with too many or too few fields before
        its last line.
    """
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise SystolicError(f"{path}: cannot be read: {error.strerror or error}") from error
    whole, ended, rest = text.rpartition("\n")
    rows = list(csv.reader(io.StringIO(whole)))
    if not rows:
        raise SystolicError(f"{path}: must begin with a line of column names, got {len(text):,} bytes")
    head, *body = rows
    problems = [
        f"{path}: row {at} must have {len(head)} fields, as the first line has, got {len(row)}"
        for at, row in enumerate(body, 1)
        if len(row) != len(head)
    ]
    raise_if_any(problems)
    cut = f"{path}: cut off in row {len(body) + 1:,}; the {len(body):,} rows before it are kept"
    return [dict(zip(head, row, strict=True)) for row in body], ((cut,) if rest and ended else ())


def read_rows(path: Path) -> Read:
    """The rows of a file with the columns :data:`COLUMNS`.

    Raises
    ------
    SystolicError
        If the file cannot be read, or columns or values are wrong; one line for each mistake.
    """
    table, notes = read_table(path)
    if table and tuple(table[0]) != COLUMNS:
        raise SystolicError(f"{path}: columns must be {','.join(COLUMNS)}, got {','.join(table[0])}")
    problems: list[str] = []
    rows = [_row(texts, f"{path}: row {at}", problems) for at, texts in enumerate(table, 1)]
    raise_if_any(problems)
    return Read(tuple(row for row in rows if row is not None), notes)


def _row(texts: Mapping[str, str], place: str, problems: list[str]) -> Row | None:
    """A row from its texts; what is wrong goes to `problems`."""
    before = len(problems)
    values: dict[str, object] = {
        name: texts[name]
        for name in ("device", "dtype", "op", "name", "stage", "layout", "precision", "clock")
    }
    choices = (("layout", LAYOUTS), ("precision", ("", *PRECISIONS)), ("clock", tuple(CLOCKS)))
    for name, known in choices:
        if texts[name] not in known:
            problems.append(f"{place}: {name} must be one of {', '.join(known)}, got {texts[name]!r}")
    for name in _COUNTS:
        values[name] = int(texts[name]) if texts[name].isdecimal() else -1
        if values[name] == -1:
            problems.append(f"{place}: {name} must be a whole number >= 0, got {texts[name]!r}")
    for name in _TIMES:
        values[name] = _time(texts[name])
        if values[name] is None and (texts[name] or name == "measured_us"):
            problems.append(f"{place}: {name} must be a time > 0 in microseconds, got {texts[name]!r}")
    peers = {}
    for pair in filter(None, texts["peers"].split(";")):
        tool, _, number = pair.rpartition("=")
        time = _time(number)
        if time is None:
            problems.append(f"{place}: peers must be TOOL=MICROSECONDS;..., got {pair!r}")
        else:
            peers[tool] = time
    return None if len(problems) > before else Row(**values, peers=peers)  # type: ignore[arg-type]


def _time(text: str) -> float | None:
    """A time > 0, or None."""
    try:
        time = float(text)
    except ValueError:
        return None
    return time if 0 < time < float("inf") else None


def csv_text(rows: Iterable[Row]) -> str:
    """The text of a file with these rows, which :func:`read_rows` reads back."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_cell(getattr(row, name)) for name in COLUMNS] for row in rows)
    return out.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ";".join(f"{tool}={time:.10g}" for tool, time in value.items())
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def spread(rows: Sequence[Row]) -> float | None:
    """Median half width of the spread of `rows`, % of the time; None where none states one."""
    import statistics

    widths = [
        50 * (row.hi_us - row.lo_us) / row.measured_us
        for row in rows
        if row.lo_us is not None and row.hi_us is not None
    ]
    return statistics.median(widths) if widths else None
