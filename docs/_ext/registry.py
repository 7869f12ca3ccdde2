"""Directives that print what the package itself knows, so that no table of it is written twice.

{metrics}     every metric: name, unit, meaning, how it is computed
{chips}       every chip of the catalogue, each number with its source
{models}      every model of the catalogue
{commands}    every command of the command line, as ``--help`` prints it
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def plain(text: object) -> str:
    """`text` as it stands, whatever Markdown would make of it."""
    return re.sub(r"([\\`*_{}\[\]<>|#$~])", r"\\\1", " ".join(str(text).split()))


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Lines of a Markdown table; cells come ready to print."""
    names = list(heads)
    yield f"| {' | '.join(names)} |"
    yield f"|{' --- |' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(str(cell) for cell in row)} |"
    yield ""


def code(text: object) -> str:
    """`text` in the typewriter face; "" where there is none."""
    return f"`{text}`" if text else ""


class Printed(SphinxDirective):
    """A directive whose content are lines of Markdown."""

    def lines(self) -> Iterator[str]:
        """What to print."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(self.lines()), allow_section_headings=True)


class Metrics(Printed):
    def lines(self) -> Iterator[str]:
        from systolic.metrics import METRICS

        rows = ((code(m.name), plain(m.unit), plain(m.meaning), plain(m.how)) for m in METRICS.values())
        yield from table(("metric", "unit", "meaning", "how it is computed"), rows)


class Chips(Printed):
    def lines(self) -> Iterator[str]:
        from systolic.chips import catalogue, describe, load_chip

        for name in catalogue():
            chip = load_chip(name)
            yield from (f"## {name}", "", *(f"{plain(note)}\n" for note in chip.notes))
            rows = ((code(f.field), plain(f.value), plain(f.source)) for f in describe(chip))
            yield from table(("field", "value", "source"), rows)


class Models(Printed):
    def lines(self) -> Iterator[str]:
        import systolic
        from systolic.models.load import catalogue

        def row(name: str) -> tuple[object, ...]:
            work = systolic.load_model(name)
            gemms = [op for op in work.ops if isinstance(op, systolic.Gemm)]
            macs = sum(op.macs for op in gemms)
            return code(name), f"{work.parameters:,}", f"{work.seq:,}", f"{macs:,}", len(gemms)

        heads = ("model", "parameters", "default seq", "MACs of a prefill of it", "distinct matmuls")
        yield from table(heads, map(row, catalogue()))


class Commands(Printed):
    def lines(self) -> Iterator[str]:
        listed = _help().partition("Commands:")[2]
        for name in re.findall(r"^  (\w+) ", listed, re.M):
            yield from (f"## systolic {name}", "", "```text", _help(name), "```", "")


def _help(*command: str) -> str:
    """What ``--help`` prints, as wide as a page."""
    words = (sys.executable, "-m", "systolic", *command, "--help")
    environment = {**os.environ, "COLUMNS": "100", "TERMINAL_WIDTH": "100"}
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout


def setup(app: Sphinx) -> dict[str, Any]:
    for directive in (Metrics, Chips, Models, Commands):
        app.add_directive(directive.__name__.lower(), directive)
    return {"parallel_read_safe": True}
