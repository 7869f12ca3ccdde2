"""Views on a sweep's table: the front of two columns, a map over two axes, and which knob matters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import geometric_mean
from typing import Any

from ..errors import did_you_mean, raise_if_any
from .design import Design
from .table import Sweep

NO_LONGER = 0.01
"""A further step of a knob that changes the figure by less than this part has stopped mattering."""
MOST_ROWS = 20
"""Rows of the front that the text shows."""
MOST_DRAWN = 4000
"""Points that the figure of the front shows beside it, evenly spaced."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Aim:
    """A column, and whether it should be large."""

    column: str
    large: bool = False

    def __str__(self) -> str:
        return f"{self.column} ({'large' if self.large else 'small'} is good)"

    def of(self, row: Row) -> float | None:
        """What is to be small; None where the row has no number there."""
        value = row.get(self.column)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return -value if self.large else value


@dataclass(frozen=True)
class Influence:
    """What one axis does to a figure.

    Attributes
    ----------
    axis
        Its name.
    ratio
        How many times the figure changes, all else equal, between the worst and the best value of the axis
        (geometric mean over the other axes).
    means
        Value -> geometric mean of the figure over the points that have partners for every value.
    enough
        The value from which on further steps change less than 1%; None where the last step still matters, or
        the axis has no order.
    """

    axis: str
    ratio: float
    means: tuple[tuple[Any, float], ...]
    enough: Any = None


@dataclass(frozen=True, kw_only=True)
class Shown:
    """All views of one sweep as plain data, for whoever draws or prints them."""

    name: str
    axes: tuple[str, ...]
    columns: tuple[str, ...]
    done: int
    failures: tuple[tuple[str, int], ...]
    aims: tuple[Aim, Aim]
    front: tuple[Row, ...]
    cloud: tuple[tuple[float, float], ...]
    figure: str
    influences: tuple[Influence, ...]
    heat: tuple[str, str] | None
    cells: tuple[tuple[Any, Any, float], ...]
    best: Row | None


@dataclass(frozen=True, kw_only=True)
class View:
    """What to show: two aims, two axes, one figure."""

    design: Design
    aims: tuple[Aim, Aim]
    heat: tuple[str, str] | None
    figure: str

    @classmethod
    def asked(cls, design: Design, *, pareto: str | None, heat: str | None, figure: str) -> View:
        """From the texts of the command line.

        Raises
        ------
        SystolicError
            One line for each name that is no column or no axis.
        """
        columns = [c for c in design.columns if c not in ("point", "status", "reason")]
        problems: list[str] = []
        search = design.search
        aims = [*(Aim(c) for c in search.minimize), *(Aim(c, True) for c in search.maximize)]
        aims += [Aim(c) for c in ("seconds", "bytes.dram") if c not in {aim.column for aim in aims}]
        if pareto is not None:
            aims = [
                Aim(name.lstrip("-"), name.startswith("-")) for name in _pair(pareto, "--pareto", problems)
            ]
        axes = tuple(_pair(heat, "--heat", problems)) if heat is not None else None
        for option, names, known in (
            ("--pareto", [aim.column for aim in aims] if pareto else [], columns),
            ("--heat", axes or (), design.space.names),
            ("--figure", [figure], columns),
        ):
            problems += [
                f"{option} must name one of the sweep's {'axes' if option == '--heat' else 'columns'}, "
                f"got {name!r}{did_you_mean(name, known)}"
                for name in names
                if name not in known
            ]
        raise_if_any(problems)
        return cls(design=design, aims=(aims[0], aims[1]), heat=axes, figure=figure)  # type: ignore[arg-type]

    def shown(self, sweep: Sweep) -> Shown:
        """All views. Keeps of each row what they need, so that memory stays small."""
        axes = self.design.space.names
        keep = {*axes, self.figure, *(aim.column for aim in self.aims)}
        rows: list[Row] = []
        failures: dict[str, int] = {}
        for row in sweep.rows():
            if row["status"] == "failed":
                failures[row["reason"]] = failures.get(row["reason"], 0) + 1
            else:
                rows.append({k: v for k, v in row.items() if k in keep} | {"point": row["point"]})
        influences = sensitivity(rows, axes, self.figure)
        heat = self.heat or _two_strongest(influences)
        numbers = [row for row in rows if Aim(self.figure).of(row) is not None]
        drawn = [
            (x, y)
            for row in rows
            if (x := self.aims[0].of(row)) is not None
            if (y := self.aims[1].of(row)) is not None
        ]
        return Shown(
            name=self.design.name,
            axes=axes,
            columns=self.design.columns,
            done=len(rows) + sum(failures.values()),
            failures=tuple(sorted(failures.items(), key=lambda item: (-item[1], item[0]))),
            aims=self.aims,
            front=tuple(front(rows, self.aims)),
            cloud=tuple(drawn[:: max(1, -(-len(drawn) // MOST_DRAWN))]),
            figure=self.figure,
            influences=influences,
            heat=heat,
            cells=() if heat is None else tuple(_cells(numbers, heat, self.figure)),
            best=min(numbers, key=lambda row: (row[self.figure], row["point"]), default=None),
        )

    def text(self, sweep: Sweep) -> str:
        """What the command prints."""
        return "\n".join(_text(self.shown(sweep))) + "\n"


def front(rows: Iterable[Row], aims: tuple[Aim, Aim]) -> list[Row]:
    """The rows that no other row beats in one aim without losing in the other, by the first aim.

    Of rows that are equal in both, the first stays.
    """
    keyed = [
        ((x, y, row["point"]), row)
        for row in rows
        if (x := aims[0].of(row)) is not None
        if (y := aims[1].of(row)) is not None
    ]
    best, kept = float("inf"), []
    for (_, y, _), row in sorted(keyed, key=lambda item: item[0]):
        if y < best:
            best = y
            kept.append(row)
    return kept


def sensitivity(rows: Sequence[Row], axes: Sequence[str], figure: str) -> tuple[Influence, ...]:
    """What each axis does to a figure, strongest first; axes with one value, or no complete set, left out.

    All else equal: only groups of points are compared that agree in all other axes and have every value of
    this one.
    """
    found = [i for axis in axes if (i := _influence(rows, axis, axes, figure)) is not None]
    return tuple(sorted(found, key=lambda i: -i.ratio))


def _influence(rows: Sequence[Row], axis: str, axes: Sequence[str], figure: str) -> Influence | None:
    values = list(dict.fromkeys(_plain(row[axis]) for row in rows))
    if len(values) < 2:
        return None
    groups: dict[tuple[Any, ...], dict[Any, float]] = {}
    for row in rows:
        value = row[figure]
        if isinstance(value, (int, float)) and value > 0:
            rest = tuple(_plain(row[a]) for a in axes if a != axis)
            groups.setdefault(rest, {})[_plain(row[axis])] = value
    whole = [group for group in groups.values() if len(group) == len(values)]
    if not whole:
        return None
    ordered = all(isinstance(v, (int, float)) for v in values)
    if ordered:
        values.sort()
    means = tuple((v, geometric_mean(group[v] for group in whole)) for v in values)
    ratio = geometric_mean(max(group.values()) / min(group.values()) for group in whole)
    return Influence(axis, ratio, means, _enough(means) if ordered else None)


def _enough(means: Sequence[tuple[Any, float]]) -> Any:
    """The first value behind which no step changes the mean by 1%; None where the last one does."""
    last = None
    for (value, mean), (_, after) in reversed(list(pairwise(means))):
        if abs(after / mean - 1) >= NO_LONGER:
            break
        last = value
    return last


def _two_strongest(influences: Sequence[Influence]) -> tuple[str, str] | None:
    return (influences[0].axis, influences[1].axis) if len(influences) > 1 else None


def _cells(rows: Iterable[Row], heat: tuple[str, str], figure: str) -> Iterator[tuple[Any, Any, float]]:
    """(x, y, least figure over all other axes) of each cell."""
    best: dict[tuple[Any, Any], float] = {}
    for row in rows:
        at = (_plain(row[heat[0]]), _plain(row[heat[1]]))
        best[at] = min(row[figure], best.get(at, float("inf")))
    return ((x, y, value) for (x, y), value in best.items())


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _pair(text: str, option: str, problems: list[str]) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if len(names) == 2 and all(names) and names[0] != names[1]:
        return names
    problems.append(f"{option} must be two names separated by a comma, got {text!r}")
    return []


def _text(shown: Shown) -> Iterator[str]:
    failed = sum(count for _, count in shown.failures)
    yield f"{shown.name}: {shown.done:,} points" + (f", {failed:,} of them failed" if failed else "")
    for reason, count in shown.failures[:5]:
        yield f"  {count:,} x {reason}"
    if not shown.front:
        return
    first, second = shown.aims
    yield ""
    yield f"Pareto front of {first} and {second}: {len(shown.front):,} points"
    names = [*shown.axes, first.column, second.column]
    table = [names, *([_word(row[name]) for name in names] for row in shown.front[:MOST_ROWS])]
    widths = [max(len(line[i]) for line in table) for i in range(len(names))]
    for line in table:
        yield "  " + "  ".join(word.rjust(width) for word, width in zip(line, widths, strict=True))
    if len(shown.front) > MOST_ROWS:
        yield f"  and {len(shown.front) - MOST_ROWS:,} more"
    if shown.influences:
        yield ""
        yield f"What matters for {shown.figure}, all else equal"
        width = max(len(influence.axis) for influence in shown.influences)
        for influence in shown.influences:
            enough = "" if influence.enough is None else f"; within 1% from {_word(influence.enough)} on"
            yield f"  {influence.axis.ljust(width)}  {influence.ratio:.3g} x{enough}"


def _word(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
