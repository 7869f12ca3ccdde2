"""The registry of metrics: what each printed number means, its unit, and how it is computed.

``systolic explain METRIC`` and the report pages print from here; nothing else defines a metric.
"""

from __future__ import annotations

from ..errors import SystolicError, did_you_mean
from .causes import BOUND_OF_CAUSE, CAUSES
from .figures import FIGURES
from .frame import FRAME
from .metric import Metric

__all__ = ["BOUND_OF_CAUSE", "CAUSES", "METRICS", "Metric", "find"]

METRICS: dict[str, Metric] = {metric.name: metric for metric in (*FIGURES, *FRAME)}
"""Every metric by name, in the order in which ``systolic explain`` lists them."""


def find(word: str) -> tuple[Metric, ...]:
    """Metrics that `word` names: by name, by the last part of a name, or by JSON path.

    Raises
    ------
    SystolicError
        If there is none; the text suggests the closest name.
    """
    found = tuple(
        metric
        for metric in METRICS.values()
        if word in (metric.name, metric.name.rsplit(".")[-1])
        or any(metric.stands_at(path) for path in (word, f"chips.{word}"))
    )
    if not found:
        raise SystolicError(f"no metric is called {word!r}{did_you_mean(word, METRICS)}")
    return found
