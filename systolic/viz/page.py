"""One self-contained HTML page from typed parts: nothing is fetched, and every text stays text.

Whoever makes a page says what stands on it; layout, sorting, definitions, themes and print are settled here,
in ``page.css`` and ``page.js``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from ..metrics import METRICS
from .markup import Markup, joined, tag
from .palette import LIGHT, css_variables

_ROLES = {LIGHT[role]: role for role in ("card", "ink", "soft", "line")}
_ROLE_COLOURS = re.compile("|".join(_ROLES), re.IGNORECASE)
Tone = Literal["", "good", "bad", "soft"]


@dataclass(frozen=True)
class Definition:
    """What a word of the page means; shown on hover, focus and touch, and in the list at the end."""

    term: str
    text: str


def metric_definition(name: str) -> Definition:
    """The definition of a metric, from :data:`systolic.metrics.METRICS`."""
    metric = METRICS[name]
    unit = f" Unit: {metric.unit}." if metric.unit else ""
    how = f" {metric.how}" if metric.how else ""
    return Definition(metric.name, f"{metric.meaning}{how}{unit}")


@dataclass(frozen=True)
class Heading:
    """A heading of level 2 or 3; those of level 2 stand in the list of contents."""

    text: str
    level: Literal[2, 3] = 2


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Notes:
    """A list of lines."""

    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A name and its value, in a :class:`Facts` list."""

    name: str
    value: str
    about: Definition | None = None
    tone: Tone = ""


@dataclass(frozen=True)
class Facts:
    """A definition list; `are_large` for the few that a reader looks for first."""

    facts: tuple[Fact, ...]
    are_large: bool = False


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a :class:`DataTable`.

    Attributes
    ----------
    head
        Its name.
    unit
        Stands below the name; "" for texts.
    about
        What it means.
    is_text
        Texts stand to the left and sort as words, numbers to the right and by value.
    """

    head: str
    unit: str = ""
    about: Definition | None = None
    is_text: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell: the text that is read, and the number that it sorts by.

    `value` None is a blank in a column of numbers, which sorts last. `fraction`, 0..1, is drawn as a bar
    behind the text.
    """

    text: str
    value: float | None = None
    tone: Tone = ""
    fraction: float | None = None


Row = tuple[Cell | str, ...]
"""Cells from left to right; a plain string is a text."""


@dataclass(frozen=True, kw_only=True)
class DataTable:
    """A table that sorts. The first column names the row; `footer` rows stay at the end.

    Attributes
    ----------
    caption
        What the table shows.
    columns
        Left to right.
    rows, footer
        Top to bottom.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footer: tuple[Row, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An inline SVG with what a reader sees below it, and what one who does not see it hears."""

    svg: str
    caption: str
    alt: str


Part = Heading | Paragraph | Notes | Facts | DataTable | Picture


def page_html(title: str, subtitle: str, parts: Iterable[Part]) -> str:
    """The parts as one HTML document.

    Parameters
    ----------
    title, subtitle
        Heading of the page, and the line below it.
    parts
        What stands on it, in order.

    Returns
    -------
    str
        HTML; the same parts give the same text. It holds its style, script and pictures, and its content
        security policy lets it load nothing.
    """
    parts = tuple(parts)
    body = joined(
        tag(
            "header",
            tag("div", tag("h1", title), tag("p", subtitle, class_="soft")),
            tag("button", "dark or light", id="theme", type="button", hidden=True),
        ),
        _contents(parts),
        tag("main", *_numbered(parts), _definitions(parts)),
        tag("div", id="tip", role="tooltip", hidden=True),
        tag("p", id="said", class_="unseen", role="status"),
        tag("script", _own("page.js")),
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    head = joined(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("title", title),
        tag("style", Markup(css_variables()), _own("page.css")),
    )
    return f"<!DOCTYPE html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _own(name: str) -> Markup:
    return Markup((files(__package__) / name).read_text(encoding="utf-8"))


def _contents(parts: Iterable[Part]) -> Markup | None:
    links = [
        tag("li", tag("a", part.text, href=f"#part-{index}"))
        for index, part in enumerate(parts)
        if isinstance(part, Heading) and part.level == 2
    ]
    return tag("nav", tag("ul", *links), aria_label="On this page") if len(links) > 2 else None


def _numbered(parts: Iterable[Part]) -> Iterator[Markup]:
    for index, part in enumerate(parts):
        yield _part(part, f"part-{index}")


def _part(part: Part, name: str) -> Markup:
    match part:
        case Heading():
            return tag(f"h{part.level}", part.text, id=name)
        case Paragraph():
            return tag("p", part.text, class_=part.tone or None)
        case Notes():
            return tag("ul", *(tag("li", line) for line in part.lines), class_="notes")
        case Facts():
            return _facts(part)
        case DataTable():
            return _table(part, name)
        case Picture():
            return _picture(part, name)


def _facts(facts: Facts) -> Markup:
    pairs = (
        tag("div", tag("dt", _term(fact.name, fact.about)), tag("dd", fact.value, class_=fact.tone or None))
        for fact in facts.facts
    )
    return tag("dl", *pairs, class_="facts large" if facts.are_large else "facts")


def _term(text: str, about: Definition | None) -> Markup:
    """A word; one that is defined can be hovered, focused and touched."""
    if about is None:
        return joined(text)
    return tag("span", text, class_="term", tabindex=0, role="note", aria_describedby=_id_of(about))


def _table(table: DataTable, name: str) -> Markup:
    heads = tag("tr", *map(_head, table.columns))
    body = (_row(row, table.columns) for row in table.rows)
    footer = (_row(row, table.columns) for row in table.footer)
    caption = tag("caption", table.caption, id=f"{name}-caption")
    whole = tag(
        "table",
        caption,
        tag("thead", heads),
        tag("tbody", *body),
        tag("tfoot", *footer) if table.footer else "",
    )
    # A box that scrolls has to be reachable by keyboard.
    return tag("div", whole, class_="box", tabindex=0, role="region", aria_labelledby=f"{name}-caption")


def _head(column: Column) -> Markup:
    unit = tag("small", column.unit) if column.unit else None
    described = _id_of(column.about) if column.about else None
    button = tag("button", column.head, unit, type="button", aria_describedby=described)
    kind = "text" if column.is_text else "number"
    return tag("th", button, scope="col", class_=kind, aria_sort="none")


def _row(cells: Row, columns: tuple[Column, ...]) -> Markup:
    assert len(cells) == len(columns), f"{len(cells)} cells in {len(columns)} columns"
    shown = []
    for index, (cell, column) in enumerate(zip(cells, columns, strict=True)):
        cell = Cell(cell) if isinstance(cell, str) else cell
        kind = " ".join(filter(None, ("text" if column.is_text else "number", cell.tone)))
        value = None if cell.value is None else repr(cell.value)
        bar = None if cell.fraction is None else f"--part:{min(max(cell.fraction, 0.0), 1.0):.4f}"
        head = {"scope": "row"} if index == 0 else {}
        element = "td" if index else "th"
        shown.append(tag(element, cell.text, class_=kind, data_value=value, style=bar, **head))
    return tag("tr", *shown)


def _picture(picture: Picture, name: str) -> Markup:
    drawing = picture.svg[picture.svg.index("<svg") :]
    # Two pictures of one page may use the same names inside.
    drawing = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", drawing)
    # What is drawn in a role's colour follows the theme.
    drawing = _ROLE_COLOURS.sub(lambda match: f"var(--{_ROLES[match[0].lower()]})", drawing)
    drawing = drawing.replace("<svg", f'<svg role="img" aria-labelledby="{name}-alt"', 1)
    alt = tag("p", picture.alt, id=f"{name}-alt", class_="unseen")
    box = tag("div", Markup(drawing), class_="box art", tabindex=0, role="group", aria_label=picture.caption)
    return tag("figure", box, alt, tag("figcaption", picture.caption))


def _id_of(about: Definition) -> str:
    return "means-" + re.sub(r"[^a-z0-9_.-]", "-", about.term.lower())


def _definitions(parts: Iterable[Part]) -> Markup | None:
    """All definitions that the page uses, once each, in alphabetical order."""
    found: dict[str, Definition] = {}
    for part in parts:
        if isinstance(part, Facts):
            defined = [fact.about for fact in part.facts]
        else:
            defined = [column.about for column in part.columns] if isinstance(part, DataTable) else []
        for about in filter(None, defined):
            same = found.setdefault(_id_of(about), about)
            assert same == about, f"two definitions of {about.term}"
    if not found:
        return None
    entries = (
        tag("div", tag("dt", about.term), tag("dd", about.text, id=name))
        for name, about in sorted(found.items())
    )
    return joined(tag("h2", "What the figures mean", id="definitions"), tag("dl", *entries, class_="means"))
