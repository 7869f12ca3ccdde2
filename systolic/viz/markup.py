"""HTML from Python values: whatever is not markup already is escaped."""

from __future__ import annotations

from html import escape

_VOID = ("meta",)


class Markup(str):
    """Text that is HTML already and is taken as it stands."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: str | int | bool | None) -> Markup:
    """An element. Children that are no :class:`Markup` are escaped, and so is each attribute.

    An attribute that is None or False is left out and True stands for its bare name; ``_`` in its name
    becomes ``-``, and a last ``_`` goes (``class_``).
    """
    opening = name
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.rstrip("_").replace("_", "-")
        opening += f" {word}" if value is True else f' {word}="{escape(str(value))}"'
    if name in _VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{joined(*children)}</{name}>")


def joined(*children: str | None) -> Markup:
    """Children behind one another; texts are escaped, None is nothing."""
    return Markup(
        "".join(child if isinstance(child, Markup) else escape(child) for child in children if child)
    )
