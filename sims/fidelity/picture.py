"""Predicted beside measured time, all devices on one sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from systolic.measured.points import Point, roofline


def draw(devices: Mapping[str, Sequence[Point]], path: Path) -> None:
    """One panel per device with rows: predicted over measured time of each, ours and the roofline's."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    shown = {title: points for title, points in devices.items() if points}
    size = (5 * max(1, len(shown)), 4.2)
    figure, axes = pyplot.subplots(1, max(1, len(shown)), figsize=size, sharey=True, squeeze=False)
    for axis, (title, points) in zip(axes[0], shown.items(), strict=False):
        measured = [1e6 * point.measured for point in points]
        axis.axhspan(0.92, 1.08, color="0.92", label="within 8%")
        axis.axhline(1, color="0.6", linewidth=0.8)
        axis.plot(measured, [roofline(p) / p.measured for p in points], "x", color="0.5", label="roofline")
        axis.plot(measured, [p.simulated / p.measured for p in points], "o", markersize=4, label="systolic")
        axis.set_xscale("log")
        axis.set_xlabel("measured, µs")
        axis.set_title(title)
    axes[0][0].set_ylabel("predicted / measured")
    if shown:
        axes[0][-1].legend(loc="lower right", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
