"""The points of a sweep: axes, their values, what is left of the grid, and samples of it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..errors import SystolicError, raise_if_any, shown
from .expressions import Expression

Point = dict[str, Any]
"""Name of an axis -> value."""

MOST_TRIES = 1000
"""Draws of a random sample for each point that it wants, before the constraints are called too tight."""

DENSE = 8
"""Up to this many points of the grid for each that is wanted, the whole grid is shuffled."""

_RANGE_KEYS = {"from", "to", "step", "factor", "count", "scale"}


@dataclass(frozen=True)
class Axis:
    """One axis: the names that move together (mostly one), and the values that they take, a tuple each."""

    names: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def read(cls, key: str, given: object) -> Axis:
        """An axis as a sweep file gives it.

        A list; or a range ``{from, to}`` with ``step`` (equal steps), ``factor`` (each so many times the one
        before) or ``count`` (that many, ``scale = "log"`` or ``"linear"``), both ends included where they
        are met. A key such as ``"array.rows, array.cols"`` holds a list of lists and moves both together.

        Raises
        ------
        SystolicError
            One line that begins with the axis.
        """
        label = f"axes.{key}"
        names = tuple(name.strip() for name in key.split(","))
        if not all(names) or len(set(names)) < len(names):
            raise SystolicError(f"{label} must name each of its fields once, got {shown(key)}")
        if isinstance(given, Mapping):
            if len(names) > 1:
                raise SystolicError(f"{label} must be a list of lists, since it names {len(names)} fields")
            values: Sequence[Any] = _range(given, label)
        elif isinstance(given, (list, tuple)):
            values = given
        else:
            raise SystolicError(
                f"{label} must be a list, or a range such as {{from = 1, to = 64, factor = 2}}"
            )
        if not values:
            raise SystolicError(f"{label} must hold at least one value, got none")
        tuples = [tuple(v) if len(names) > 1 and isinstance(v, (list, tuple)) else (v,) for v in values]
        if wrong := next((v for v in tuples if len(v) != len(names)), None):
            raise SystolicError(f"{label} must hold lists of {len(names)} values, got {shown(list(wrong))}")
        if len({repr(v) for v in tuples}) < len(tuples):
            twice = next(v for i, v in enumerate(tuples) if v in tuples[:i])
            raise SystolicError(f"{label} must hold each value once, got {shown(twice[0])} twice")
        return cls(names, tuple(tuples))


def _range(given: Mapping[str, Any], label: str) -> list[Any]:
    problems = [
        f"{label} has no {key!r}; known: {', '.join(sorted(_RANGE_KEYS))}"
        for key in given
        if key not in _RANGE_KEYS
    ]
    for key in ("from", "to"):
        if not _is_number(given.get(key)):
            problems.append(f"{label}.{key} must be a number, got {shown(given.get(key))}")
    ways = [key for key in ("step", "factor", "count") if key in given]
    if len(ways) != 1:
        problems.append(f"{label} must give one of step, factor and count, got {', '.join(ways) or 'none'}")
    if "scale" in given and given["scale"] not in ("log", "linear"):
        problems.append(f"{label}.scale must be 'log' or 'linear', got {shown(given['scale'])}")
    raise_if_any(problems)
    low, high, way = given["from"], given["to"], ways[0]
    by = given[way]
    if low > high:
        raise SystolicError(f"{label}.from must be at most its to, {shown(high)}, got {shown(low)}")
    log = given.get("scale", "log") == "log"
    if low <= 0 and (way == "factor" or (way == "count" and log)):
        raise SystolicError(f"{label}.from must be > 0 on a log scale, got {shown(low)}")
    least = {"step": 0, "factor": 1, "count": 0}[way]
    if not _is_number(by) or not by > least or (way == "count" and not isinstance(by, int)):
        kind = "a whole number" if way == "count" else "a number"
        raise SystolicError(f"{label}.{way} must be {kind} > {least}, got {shown(by)}")
    return _spread(low, high, way, by, log)


def _spread(low: Any, high: Any, way: str, by: Any, log: bool) -> list[Any]:
    whole = isinstance(low, int) and isinstance(high, int)
    if way == "step":
        return [low + i * by for i in range(math.floor((high - low) / by * (1 + 1e-12)) + 1)]
    if way == "factor":
        terms = math.floor(math.log(high / low) / math.log(by) + 1e-9) + 1
        values: list[Any] = [low * by**i for i in range(terms)]
    elif by == 1:
        values = [low]
    elif log:
        values = [low * (high / low) ** (i / (by - 1)) for i in range(by)]
    else:
        values = [low + (high - low) * i / (by - 1) for i in range(by)]
    if not whole:
        return values
    return list(dict.fromkeys(round(v) for v in values))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True)
class Space:
    """A grid of axes, without the points that a constraint rules out.

    Points are made when they are asked for: a space takes no more room than its axes.
    """

    axes: tuple[Axis, ...]
    constraints: tuple[Expression, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of all axes, in order."""
        return tuple(name for axis in self.axes for name in axis.names)

    @property
    def size(self) -> int:
        """Points of the grid, before constraints."""
        return math.prod(len(axis) for axis in self.axes)

    def at(self, index: int) -> Point:
        """The point at an index of the grid; the last axis runs fastest."""
        chosen: list[tuple[Any, ...]] = []
        for axis in reversed(self.axes):
            index, at = divmod(index, len(axis))
            chosen.append(axis.values[at])
        return dict(zip(self.names, (v for values in reversed(chosen) for v in values), strict=True))

    def allows(self, point: Mapping[str, Any]) -> bool:
        """Whether every constraint holds."""
        return all(constraint.value(point) for constraint in self.constraints)

    def count(self) -> int:
        """Points that the constraints leave. Visits the grid where there is a constraint."""
        return sum(1 for _ in self) if self.constraints else self.size

    def __iter__(self) -> Iterator[tuple[int, Point]]:
        for index in range(self.size):
            point = self.at(index)
            if self.allows(point):
                yield index, point

    def sample(self, count: int, seed: int) -> Iterator[tuple[int, Point]]:
        """`count` different points at random, or all where there are fewer.

        The same seed gives the same points in the same order.

        Raises
        ------
        SystolicError
            If the constraints leave so little of a large space that a draw does not find it.
        """
        draw, seen = random.Random(seed), set[int]()
        found = tries = 0
        if self.size <= DENSE * count:
            order = list(range(self.size))
            draw.shuffle(order)
            allowed = ((i, point) for i in order if self.allows(point := self.at(i)))
            yield from islice(allowed, count)
            return
        while found < count and len(seen) < self.size:
            tries += 1
            if tries > MOST_TRIES * count:
                raise SystolicError(
                    f"constraints leave too little of {self.size:,} points to find {count:,} at random, "
                    f"found {found:,}; narrow the axes"
                )
            index = draw.randrange(self.size)
            if index in seen:
                continue
            seen.add(index)
            point = self.at(index)
            if self.allows(point):
                found += 1
                yield index, point
