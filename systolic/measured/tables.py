"""Tables of measured points, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .points import Errors, Point, Prediction, best_peer, error, roofline, simulated

if TYPE_CHECKING:
    from .comparison import Comparison, Group, Skipped


def row_table(points: Sequence[Point]) -> list[str]:
    """A line per point: measured and simulated time, signed errors of ours, the roofline, the best peer."""
    peer = best_peer(points)
    columns: dict[str, Prediction] = {"systolic": simulated, "roofline": roofline}
    if peer is not None:
        columns[peer[0]] = peer[1]
    width = max(len("row"), *(len(point.name) for point in points))
    head = "".join(f"{name + ', %':>14}" for name in columns)
    lines = [f"{'row':<{width}} {'measured, us':>13} {'systolic, us':>13}{head}"]
    for point in points:
        errors = "".join(f"{error(point.measured, by(point)):14.1f}" for by in columns.values())
        times = f"{1e6 * point.measured:13.2f} {1e6 * point.simulated:13.2f}"
        lines.append(f"{point.name:<{width}} {times}{errors}")
    return lines


def summary(
    parts: Mapping[str, Sequence[Point]], others: Mapping[str, Prediction] | None = None
) -> list[str]:
    """A line per part with points: MAPE, median, worst and mean signed error of ours, MAPE of the others.

    `others` stand beside the roofline with the chip's own numbers; last comes the best peer on the part's own
    rows, where there is one that predicts them all.
    """
    columns = {"roofline": roofline, **(others or {})}
    head = "".join(f"{name:>{_width(name)}}" for name in columns)
    lines = [
        f"{'error, %':<15} {'rows':>4} {'MAPE':>6} {'median':>7} {'worst':>6} {'mean':>6}{head}   best peer"
    ]
    for name, points in parts.items():
        if not points:
            continue
        ours = Errors.of(points, simulated)
        figures = f"{ours.mape:6.1f} {ours.median:7.1f} {ours.worst:6.1f} {ours.mean:+6.1f}"
        rest = "".join(f"{Errors.of(points, by).mape:{_width(n)}.1f}" for n, by in columns.items())
        peer = best_peer(points)
        last = "" if peer is None else f"   {Errors.of(points, peer[1]).mape:.1f} {peer[0]}"
        lines.append(f"{name:<15} {len(points):4} {figures}{rest}{last}")
    return lines


def _width(name: str) -> int:
    return max(10, len(name) + 2)


def by_kind(points: Sequence[Point]) -> dict[str, list[Point]]:
    """All points, those of each kind, and those bound by compute and by memory."""
    parts = {"all": list(points)}
    for point in points:
        parts.setdefault(point.kind, []).append(point)
    parts["compute-bound"] = [point for point in points if point.work.compute_bound]
    parts["memory-bound"] = [point for point in points if not point.work.compute_bound]
    return parts


def comparison_lines(comparison: Comparison, rows: bool, worst: int) -> list[str]:
    """An overview; each group with its parts and its `worst` rows, or with `rows` all; what was left out."""
    lines = _head_lines(comparison)
    for group in comparison.groups:
        lines += ["", *_group_lines(group, rows, worst)]
    return [*lines, *_skipped_lines(comparison.skipped)]


def overview_lines(comparison: Comparison) -> list[str]:
    """The overview alone, and what was left out."""
    return [*_head_lines(comparison), *_skipped_lines(comparison.skipped)]


def _head_lines(comparison: Comparison) -> list[str]:
    return [
        *comparison.notes,
        "MAPE, %: mean of |simulated - measured| / measured; `mean`: of the signed errors",
        "",
        *overview(comparison.groups),
    ]


def overview(groups: Sequence[Group]) -> list[str]:
    """A line per group and kind of row: MAPE of ours, of both rooflines, of the best peer, and the noise."""
    head = ("device", "dtype", "clock", "what", "rows", "systolic", "mean", "roofline", "fitted", "best peer")
    table = [[*head, "noise"]]
    for group in groups:
        for kind in dict.fromkeys(point.kind for point in group.points):
            points = [point for point in group.points if point.kind == kind]
            figures = group.figures(points)
            fitted, noise = figures["fitted_roofline_mape"], group.noise
            peer = f"{figures['best_peer_mape']:.1f} {figures['best_peer']}" if figures["best_peer"] else ""
            table.append(
                [
                    *(group.device, group.dtype, group.clock, kind, f"{len(points):,}"),
                    *(f"{figures['mape']:.1f}", f"{figures['mean']:+.1f}", f"{figures['roofline_mape']:.1f}"),
                    *(
                        "" if fitted is None else f"{fitted:.1f}",
                        peer,
                        "" if noise is None else f"{noise:.1f}",
                    ),
                ]
            )
    return _aligned(table, left=4)


def _aligned(table: Sequence[Sequence[str]], left: int) -> list[str]:
    """Rows of cells as lines; the first `left` columns and the last but one hold words."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    words = {*range(left), len(widths) - 2}
    return [
        "  ".join(
            f"{cell:<{width}}" if at in words else f"{cell:>{width}}"
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def _group_lines(group: Group, rows: bool, worst: int) -> list[str]:
    others = {} if group.fit is None else {f"{group.fit.constants} constants": group.fit}
    lines = [group.title, *(f"  note: {label}" for label in group.labels)]
    lines += summary(group.parts, others)
    if group.fit is not None:
        on = "" if group.fit.rows == len(group.points) else f", fitted on {group.fit.rows} of these rows"
        lines.append(f"{group.fit.constants} constants: {group.fit}{on}")
    if group.tiny:
        lines.append(
            f"under 5 x floor: rows below five times the {group.floor_us:g} us that the clock adds; "
            "in no other line"
        )
    if rows:
        lines += ["", *row_table(group.points)]
    elif worst > 0:
        lines += ["", "worst rows:", *row_table(group.worst(worst))]
    return lines


def _skipped_lines(skipped: Sequence[Skipped]) -> list[str]:
    """Reasons with the devices and rows that they hold for."""
    reasons: dict[str, dict[str, int]] = {}
    for entry in skipped:
        of = reasons.setdefault(entry.reason, {})
        of[entry.device] = of.get(entry.device, 0) + entry.rows
    if not skipped:
        return []
    lines = ["", f"not compared: {sum(entry.rows for entry in skipped):,} rows"]
    for reason, devices in reasons.items():
        lines.append(f"  {reason}: {', '.join(f'{name} {count:,}' for name, count in devices.items())}")
    return lines
