"""What is promised, and what was measured: a table at the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from systolic.quantity import format_count, format_seconds

Promise = Callable[..., None]

_measured = pytest.StashKey[list[tuple[str, str, str, str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_measured] = []


@pytest.fixture
def promise(request: pytest.FixtureRequest, benchmark: Any) -> Iterator[Promise]:
    """Note a figure beside its promise: ``promise(name, value, unit, at_least=…)`` or ``at_most=…``."""

    def note(
        name: str, value: float, unit: str, *, at_least: float | None = None, at_most: float | None = None
    ) -> None:
        assert (at_least is None) != (at_most is None)
        bar = at_least if at_most is None else at_most
        assert bar is not None
        met = value >= bar if at_most is None else value <= bar
        benchmark.extra_info[name] = value
        sign = ">=" if at_most is None else "<="
        row = (name, shown(value, unit), f"{sign} {shown(bar, unit)}", "met" if met else "MISSED")
        request.config.stash[_measured].append(row)

    yield note


def shown(value: float, unit: str) -> str:
    """A figure for a reader."""
    return format_seconds(value) if unit == "s" else f"{format_count(value)}{unit}"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = config.stash[_measured]
    if not rows:
        return
    terminalreporter.section("promises")
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        terminalreporter.write_line("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)))
