"""The frame of a page that steps through a record: time, keys, link and theme."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from .palette import css_variables


def shell_html(name: str, data: Mapping[str, Any]) -> str:
    """The page as HTML: nothing is fetched, and every text of the user's stays text.

    Parameters
    ----------
    name
        Its own part in ``player/``: ``NAME.html``, ``NAME.css`` and ``NAME.js``.
    data
        What the scripts look up: ``title``, ``subtitle``, ``about``, ``facts`` (pairs), ``at`` (the step at
        which the page opens), and what ``NAME.js`` reads.
    """
    folder = files(__package__) / "player"

    def read(*names: str) -> str:
        return "\n".join((folder / each).read_text(encoding="utf-8") for each in names)

    page = read("shell.html").replace("<!--{main}-->", read(f"{name}.html"))
    page = page.replace("/*{style}*/", css_variables() + read("style.css", "shell.css", f"{name}.css"))
    page = page.replace("/*{script}*/", read("data.js", "transport.js", f"{name}.js"))
    # "<" is the one letter with which a text could leave the element that holds the data.
    return page.replace("/*{data}*/", json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))
