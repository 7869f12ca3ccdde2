"""What a metric is, and where it stands in a report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes
    ----------
    name
        Its name in reports; qualified (``fits.bytes``) where two things share a word.
    unit
        Its unit; "" for texts and tables.
    meaning
        One line.
    how
        How it is computed, or "".
    paths
        Where it stands in the JSON of a report: keys joined by dots, lists left out, ``*`` for
        any key. Empty for what only the printed tables show.
    """

    name: str
    unit: str
    meaning: str
    how: str = ""
    paths: tuple[str, ...] = ()

    def stands_at(self, path: str) -> bool:
        """Whether it is the metric at this JSON path."""
        keys = path.split(".")
        return any(
            len(keys) == len(pattern) and all(map(fnmatchcase, keys, pattern))
            for pattern in (p.split(".") for p in self.paths)
        )


OPS = ("chips.matmuls.", "chips.ops.")
ROWS = ("chips.totals.", *OPS)


def _at(prefixes: Iterable[str], key: str) -> tuple[str, ...]:
    return tuple(prefix + key for prefix in prefixes)


def group(prefixes: Iterable[str], rows: Iterable[tuple[str, ...]], key: str = "{}") -> list[Metric]:
    """Metrics that stand under the same prefixes; a row is (name, unit, meaning[, how])."""
    return [
        Metric(name, unit, meaning, "".join(how), _at(prefixes, key.format(name.rsplit(".")[-1])))
        for name, unit, meaning, *how in rows
    ]
