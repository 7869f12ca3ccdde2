"""Links between chips: which of them a message crosses, and how long they are busy with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Literal, NamedTuple

from ..errors import raise_if_any, shown
from ..quantity import count_problem, latency_cycles, transfer_cycles

Kind = Literal["torus", "mesh", "switch", "full"]
KINDS = ("torus", "mesh", "switch", "full")

Port = tuple[int, ...]
"""What one message at a time passes: (from, to) of a link; (chip, -1) into a switch, (-1, chip) out of it."""


class Hop(NamedTuple):
    """One transfer between neighbours: the ports that are busy with it, all for the same time."""

    ports: tuple[Port, ...]


@dataclass(frozen=True, kw_only=True)
class Network:
    """Chips and the links between them.

    Attributes
    ----------
    kind
        ``torus``: neighbours along each dimension, the last one linked to the first (a ring where there is
        one dimension; no second link where a side is 2). ``mesh``: a torus without these. ``switch``: each
        chip has a port into one switch that lets all pairs pass at once. ``full``: a link for each pair.
    sides
        Chips along each dimension; one number for ``switch`` and ``full``.
    bytes_per_s
        Of one link (switch: of a chip's port), in one direction, bytes per second; None where unlimited.
    latency_ns
        From the last byte sent to the last byte received, per hop, ns.
    clock_hz
        Clock in whose cycles time is counted, Hz.
    """

    kind: Kind
    sides: tuple[int, ...]
    bytes_per_s: int | None
    latency_ns: int
    clock_hz: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "sides", tuple(self.sides))
        raise_if_any(self._problems())

    def _problems(self) -> list[str]:
        lines = (
            [] if self.kind in KINDS else [f"kind must be one of {', '.join(KINDS)}, got {shown(self.kind)}"]
        )
        for side in self.sides:
            lines += count_problem("sides", side)
        if not self.sides or (self.kind in ("switch", "full") and len(self.sides) > 1):
            lines.append(f"sides must be one number of chips for a {self.kind}, got {shown(self.sides)}")
        if self.bytes_per_s is not None:
            lines += count_problem("bytes_per_s", self.bytes_per_s, alternative=' or "unlimited"')
        lines += count_problem("latency_ns", self.latency_ns, least=0)
        return lines + count_problem("clock_hz", self.clock_hz)

    @property
    def chips(self) -> int:
        """How many chips there are."""
        return prod(self.sides)

    @cached_property
    def latency(self) -> int:
        """Cycles of a hop's latency, rounded up."""
        return latency_cycles(self.latency_ns, self.clock_hz)

    def cycles(self, num_bytes: int) -> int:
        """Cycles for which a link is busy with `num_bytes`, rounded up."""
        return 0 if self.bytes_per_s is None else transfer_cycles(num_bytes, self.bytes_per_s, self.clock_hz)

    def place(self, chip: int) -> tuple[int, ...]:
        """Coordinates of a chip; the last dimension counts fastest."""
        place = []
        for side in reversed(self.sides):
            chip, at = divmod(chip, side)
            place.append(at)
        return tuple(reversed(place))

    def chip(self, place: Sequence[int]) -> int:
        """The chip at some coordinates."""
        number = 0
        for side, at in zip(self.sides, place, strict=True):
            number = number * side + at
        return number

    def lines(self, dim: int) -> list[list[int]]:
        """The chips of each line along a dimension, in order."""
        ranges = [range(1) if d == dim else range(side) for d, side in enumerate(self.sides)]
        starts = list(product(*ranges))
        return [
            [self.chip((*start[:dim], at, *start[dim + 1 :])) for at in range(self.sides[dim])]
            for start in starts
        ]

    def route(self, source: int, target: int) -> tuple[Hop, ...]:
        """The hops of a message: dimension by dimension, each the shorter way round (upwards where equal)."""
        if source == target:
            return ()
        if self.kind == "switch":
            return (Hop(((source, -1), (-1, target))),)
        if self.kind == "full":
            return (Hop(((source, target),)),)
        hops = []
        here, there = list(self.place(source)), self.place(target)
        for dim, side in enumerate(self.sides):
            step = self._direction(here[dim], there[dim], side)
            while here[dim] != there[dim]:
                before = self.chip(here)
                here[dim] = (here[dim] + step) % side
                hops.append(Hop(((before, self.chip(here)),)))
        return tuple(hops)

    def _direction(self, at: int, to: int, side: int) -> int:
        if self.kind == "mesh":
            return 1 if to > at else -1
        return 1 if (to - at) % side <= (at - to) % side else -1
