"""Tables of measured points, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .points import Errors, Point, Prediction, best_peer, error, roofline, simulated


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
