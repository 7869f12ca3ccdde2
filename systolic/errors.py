"""Errors that a user can cause: one line per mistake, no traceback, exit status 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class SystolicError(ValueError):
    """Wrong input. Its text names the field, the rule, the value found and the remedy.

    Parameters
    ----------
    problems
        One line for each mistake; all mistakes of one input are reported at once.
    """

    def __init__(self, *problems: str) -> None:
        if not problems:
            raise AssertionError("a SystolicError needs at least one line")
        self.problems: tuple[str, ...] = problems
        super().__init__(*problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


def raise_if_any(problems: Sequence[str]) -> None:
    """Raise one :class:`SystolicError` that holds all `problems`; do nothing when there are none."""
    if problems:
        raise SystolicError(*problems)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest known word, or the list of what is known.

    Returns
    -------
    str
        Text to append to an error line that has just quoted `word`.
    """
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(names)}"


def shown(value: object) -> str:
    """A value as an error text quotes it: its repr, cut where it would fill the screen."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an int of thousands of digits, a table nested too deeply
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
