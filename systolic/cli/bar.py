"""Progress on the terminal: a bar with the time left, on standard error."""

from __future__ import annotations

import signal
import sys
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


class Bar:
    """Announcements always; a bar where standard error is a terminal. rich loads with the first bar.

    Ctrl-C ends the work even where a library swallows the exception: it is raised again at the next sign
    of progress.

    Implements :class:`systolic.engine.progress.Progress`.
    """

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._interrupted = False

    def __enter__(self) -> Bar:
        self._handler = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._handler)
        self._stop()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupted = True
        raise KeyboardInterrupt

    def _go_on(self) -> None:
        if self._interrupted:
            raise KeyboardInterrupt

    def announce(self, line: str) -> None:
        """Print the line."""
        self._go_on()
        self._stop()
        print(f"systolic: {line}", file=sys.stderr, flush=True)

    def start(self, label: str, total: int) -> None:
        """Show a bar for `total` units of work."""
        self._go_on()
        self._stop()
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
        self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
        self._bar.start()
        self._bar.add_task(label, total=total)

    def advance(self, units: int) -> None:
        """Move the bar."""
        self._go_on()
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], units)

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
