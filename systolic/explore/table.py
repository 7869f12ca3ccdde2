"""What a sweep hands over: its table, and the views on it."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SystolicError
from .design import Design
from .store import Store

if TYPE_CHECKING:
    from pandas import DataFrame

CHUNK = 10_000
"""Rows that an export holds at once."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A finished sweep: its rows lie in the store.

    Attributes
    ----------
    design
        What was swept.
    store
        The SQLite file.
    identity
        Under which name the store keeps its points.
    """

    design: Design
    store: Path
    identity: str

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row per point in the order of the grid (or of the search), column -> value.

        ``status`` is ``done`` or ``failed``, with the reason; derived columns come last.
        """
        columns = self.design.columns
        with Store(self.store) as kept:
            for number, point, outcome in kept.rows(self.identity):
                row = dict.fromkeys(columns) | {"point": number} | point
                row["status"] = "failed" if outcome.figures is None else "done"
                row["reason"] = outcome.reason
                if outcome.figures is not None:
                    row |= outcome.figures
                    self._derive(row)
                yield row

    def _derive(self, row: dict[str, Any]) -> None:
        for name, expression in self.design.derived.items():
            try:
                row[name] = expression.value(row)
            except SystolicError:
                row[name] = None

    def to_dataframe(self) -> DataFrame:
        """The table, one row per point."""
        from pandas import DataFrame

        return DataFrame(list(self.rows()), columns=list(self.design.columns))

    @property
    def counts(self) -> tuple[int, int]:
        """(points done or failed, those that failed)."""
        with Store(self.store) as kept:
            return kept.count(self.identity)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV, row by row: the same points give the same bytes."""
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.design.columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows())

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table as Parquet, a piece at a time.

        Raises
        ------
        SystolicError
            If pyarrow is not installed.
        """
        try:
            import pyarrow
            import pyarrow.parquet as parquet
        except ImportError as error:
            raise SystolicError(
                f"{path}: Parquet needs pyarrow, which is not installed; run "
                "pip install 'systolic[parquet]', or "
                "write .csv"
            ) from error
        schema = self._schema(pyarrow)
        with parquet.ParquetWriter(path, schema) as writer:
            for rows in _pieces(self.rows()):
                plain = [{c: _as(v, schema.field(c).type, pyarrow) for c, v in row.items()} for row in rows]
                writer.write_table(pyarrow.Table.from_pylist(plain, schema=schema))

    def _schema(self, arrow: Any) -> Any:
        texts = {"status", "reason", "bound_by", "source"}
        floats = {"seconds", "utilization", "mapped_utilization", "flop_per_s", "peak_flop_per_s"}
        swept = {
            name: {type(values[i]) for values in axis.values}
            for axis in self.design.space.axes
            for i, name in enumerate(axis.names)
        }
        kinds = {}
        for column in self.design.columns:
            if column in swept:
                kinds[column] = {
                    frozenset({int}): arrow.int64(),
                    frozenset({float}): arrow.float64(),
                    frozenset({int, float}): arrow.float64(),
                }.get(frozenset(swept[column]), arrow.string())
            elif column in texts:
                kinds[column] = arrow.string()
            elif column in floats or column in self.design.derived:
                kinds[column] = arrow.float64()
            else:
                kinds[column] = arrow.int64()
        return arrow.schema(list(kinds.items()))


def _pieces(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while piece := list(islice(rows, CHUNK)):
        yield piece


def _as(value: Any, kind: Any, arrow: Any) -> Any:
    if value is None:
        return None
    if kind == arrow.string():
        return str(value)
    return float(value) if kind == arrow.float64() else int(value)
