"""A comparison of simulated with measured time: immutable, printable, never averaged across clocks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..chips import Chip
from .points import (
    Errors,
    Point,
    Prediction,
    best_peer,
    error,
    fitted_roofline,
    fitted_roofline_with_launch,
    roofline,
    simulated,
)
from .tables import by_kind

if TYPE_CHECKING:
    from pandas import DataFrame

SCHEMA = 1
FIT_ROWS = 300
"""A roofline is fitted to at most so many rows of a group, evenly spaced in the order of their times."""

FEWEST_FITTED = 8
"""Rows that a fit needs: with fewer, its constants meet nearly every row by themselves."""

SIZES = ((1e-5, "under 10 us"), (1e-4, "10 to 100 us"), (1e-3, "0.1 to 1 ms"), (float("inf"), "over 1 ms"))
"""Measured seconds below which a row belongs to a size -> its name."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A roofline with constants that suit the measured rows best.

    Attributes
    ----------
    rate, bandwidth
        As shares of the chip's peak and of its sustained bandwidth.
    launch
        Seconds for each kernel; None where the chip has no launches, and the roofline two constants.
    rows
        Rows that it was fitted to.
    """

    rate: float
    bandwidth: float
    launch: float | None
    rows: int

    @property
    def constants(self) -> int:
        """How many constants were fitted."""
        return 2 if self.launch is None else 3

    def __call__(self, point: Point) -> float:
        """Seconds that it predicts."""
        return point.work.roofline(self.rate, self.bandwidth, self.launch or 0.0)

    def __str__(self) -> str:
        shares = f"{100 * self.rate:.0f}% of the peak, {100 * self.bandwidth:.0f}% of the sustained bandwidth"
        launch = "" if self.launch is None else f", {1e6 * self.launch:.1f} us for each kernel"
        return shares + launch


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows that one error may speak of: one file, device, chip, number format and clock.

    Attributes
    ----------
    source, device, dtype, clock
        As the rows state them; `source` is the id of what ships, or the name of a file.
    chip
        What was simulated.
    points
        The rows, in the order of the file.
    of_rows
        Rows of the group before some were taken for a sample.
    tiny
        Rows so short that what the clock adds is much of them: compared apart.
    floor_us
        What the clock adds to the shortest op, microseconds; 0 where not known.
    noise
        Distance between two measurements of one thing, %; None where not known.
    labels
        How the pair of device and chip is not like to like, and what the clock holds.
    """

    source: str
    device: str
    dtype: str
    clock: str
    chip: Chip
    points: tuple[Point, ...]
    of_rows: int = 0
    tiny: tuple[Point, ...] = ()
    floor_us: float = 0.0
    noise: float | None = None
    labels: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The group in a line."""
        title = f"{self.source}: {self.device} on {self.chip.name}, {self.dtype}, clock: {self.clock}"
        compared = len(self.points) + len(self.tiny)
        return title if compared == self.of_rows else f"{title}; {compared:,} of {self.of_rows:,} rows"

    @cached_property
    def fit(self) -> Fit | None:
        """A roofline fitted to these very rows; None where there are hardly more rows than constants."""
        if len(self.points) < FEWEST_FITTED:
            return None
        ordered = sorted(self.points, key=lambda point: point.measured)
        step = -(-len(ordered) // FIT_ROWS)
        used = ordered[::step]
        if not getattr(self.chip, "launch_ns", 0):
            rate, bandwidth = fitted_roofline(used if step > 1 else self.points)
            return Fit(rate=rate, bandwidth=bandwidth, launch=None, rows=len(used))
        rate, bandwidth, launch = fitted_roofline_with_launch(used)
        return Fit(rate=rate, bandwidth=bandwidth, launch=launch, rows=len(used))

    @property
    def parts(self) -> dict[str, list[Point]]:
        """All rows; those of each kind, bound, size and phase; and the tiny ones."""
        parts = by_kind(self.points)
        if len({point.kind for point in self.points}) == 1:
            del parts[self.points[0].kind]
        for point in self.points:
            if point.phase and point.phase != point.kind:
                parts.setdefault(point.phase, []).append(point)
        below = 0.0
        for limit, name in SIZES:
            parts[name] = [point for point in self.points if below <= point.measured < limit]
            below = limit
        if self.tiny:
            parts["under 5 x floor"] = list(self.tiny)
        return {name: points for name, points in parts.items() if points}

    def figures(self, points: Sequence[Point]) -> dict[str, Any]:
        """Errors of ours, %, and MAPE of what stands beside it, over some of the group's points."""
        ours = Errors.of(points, simulated)
        peer = best_peer(points)
        return {
            "rows": len(points),
            "mape": ours.mape,
            "median": ours.median,
            "worst": ours.worst,
            "mean": ours.mean,
            "roofline_mape": Errors.of(points, roofline).mape,
            "fitted_roofline_mape": None if self.fit is None else Errors.of(points, self.fit).mape,
            "best_peer": None if peer is None else peer[0],
            "best_peer_mape": None if peer is None else Errors.of(points, peer[1]).mape,
        }

    def worst(self, count: int) -> list[Point]:
        """The rows with the largest error, largest first."""
        return sorted(self.points, key=lambda p: -abs(error(p.measured, p.simulated)))[:count]

    def to_dict(self) -> dict[str, Any]:
        """The group as plain data."""
        return {
            **{name: getattr(self, name) for name in ("source", "device", "dtype", "clock")},
            "chip": self.chip.name,
            "of_rows": self.of_rows,
            "floor_us": self.floor_us or None,
            "noise_pct": self.noise,
            "labels": list(self.labels),
            "fitted_roofline": None
            if self.fit is None
            else {
                "rate": self.fit.rate,
                "bandwidth": self.fit.bandwidth,
                "launch_us": None if self.fit.launch is None else 1e6 * self.fit.launch,
                "rows": self.fit.rows,
            },
            "parts": {name: self.figures(points) for name, points in self.parts.items()},
            "points": [*self._point_dicts(self.points, False), *self._point_dicts(self.tiny, True)],
        }

    def _point_dicts(self, points: Sequence[Point], tiny: bool) -> list[dict[str, Any]]:
        fit: Mapping[str, Prediction] = {} if self.fit is None else {"fitted_roofline_us": self.fit}
        return [
            {
                "name": point.name,
                "kind": point.kind,
                "phase": point.phase or None,
                "measured_us": 1e6 * point.measured,
                "simulated_us": 1e6 * point.simulated,
                "error_pct": error(point.measured, point.simulated),
                "roofline_us": 1e6 * roofline(point),
                **{name: 1e6 * by(point) for name, by in fit.items()},
                "bound": "compute" if point.work.compute_bound else "memory",
                "bound_by": point.bound_by or None,
                "under_floor": tiny,
                "peers_us": {tool: 1e6 * time for tool, time in point.peers.items()},
            }
            for point in points
        ]


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """Rows that were not compared: whose, how many, and why."""

    source: str
    device: str
    rows: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Simulated beside measured time: ``print(comparison)`` shows tables.

    Attributes
    ----------
    groups
        What was compared; an error never spans two of them.
    skipped
        What was not.
    notes
        What a reader has to know about the files.
    """

    groups: tuple[Group, ...]
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data: the object that ``to_json`` writes."""
        return {
            "schema": SCHEMA,
            "groups": [group.to_dict() for group in self.groups],
            "skipped": [vars(entry) for entry in self.skipped],
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """The comparison as JSON text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"

    def to_dataframe(self) -> DataFrame:
        """One row per measured row that was compared."""
        import pandas as pd

        rows = []
        for group in self.groups:
            head = {name: getattr(group, name) for name in ("source", "device", "dtype", "clock")}
            for point in group.to_dict()["points"]:
                peers = {f"peers_us.{tool}": time for tool, time in point.pop("peers_us").items()}
                rows.append({**head, "chip": group.chip.name, **point, **peers})
        return pd.DataFrame(rows).convert_dtypes()

    def to_text(self, *, rows: bool = False, worst: int = 3) -> str:
        """Tables: an overview, then each group with its `worst` rows, or all with `rows`."""
        from .tables import comparison_lines

        return "\n".join(comparison_lines(self, rows, worst)) + "\n"

    def to_overview(self) -> str:
        """The table of all groups, and what was not compared."""
        from .tables import overview_lines

        return "\n".join(overview_lines(self)) + "\n"

    def __str__(self) -> str:
        return self.to_text()
