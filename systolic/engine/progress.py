"""How long work tells its caller what it is about to do, and how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives what long work has to say."""

    def announce(self, line: str) -> None:
        """Take a line for the user, said before the work it is about begins."""

    def start(self, label: str, total: int) -> None:
        """Begin work of `total` units; the work before it is done."""

    def advance(self, units: int) -> None:
        """Take `units` more of the current work as done."""


class Silent:
    """Progress that nobody watches."""

    def announce(self, line: str) -> None:
        """Drop the line."""

    def start(self, label: str, total: int) -> None:
        """Begin silently."""

    def advance(self, units: int) -> None:
        """Go on silently."""
