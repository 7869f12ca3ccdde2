"""The registry of metrics: what each printed number means, its unit, and how it is computed.

``systolic explain METRIC`` and the report pages print from here; nothing else defines a metric.
"""

from __future__ import annotations

from ..errors import SystolicError, did_you_mean, shown
from .causes import BOUND_OF_CAUSE, CAUSES
from .figures import FIGURES
from .frame import FRAME
from .metric import Metric
from .profile import COUNTERS, PROFILE, RATIOS, STALLS, ratios_of

__all__ = [
    "BOUND_OF_CAUSE",
    "CAUSES",
    "COUNTERS",
    "METRICS",
    "RATIOS",
    "STALLS",
    "Metric",
    "find",
    "ratios_of",
]

METRICS: dict[str, Metric] = {metric.name: metric for metric in (*FIGURES, *PROFILE, *FRAME)}
"""Every metric by name, in the order in which ``systolic explain`` lists them."""


_HEADS = {
    "op": "name",
    "time": "seconds",
    "work": "macs",
    "util": "utilization",
    "mapped_util": "mapped_utilization",
    "clock": "clock_hz",
    "result": "passed",
}
"""Heads of printed columns that are shorter than the names of what stands below them."""


def find(word: str) -> tuple[Metric, ...]:
    """Metrics that `word` names: by name, by the head of a printed column, or by JSON path.

    A word that is only the last part of a name (``bytes`` of ``fits.bytes``) finds that one as well.

    Raises
    ------
    SystolicError
        If there is none; the text suggests the closest name.
    """
    plain = "_".join(word.lower().split())
    name = _HEADS.get(plain, plain)
    found = tuple(
        metric
        for metric in METRICS.values()
        if name in (metric.name, metric.name.rsplit(".")[-1])
        or any(metric.stands_at(path) for path in (name, f"chips.{name}"))
    )
    if not found:
        raise SystolicError(f"no metric is called {shown(word)}{did_you_mean(plain, METRICS)}")
    return found
