"""The examples of a document: commands and programs with what they print under them.

    ```console          commands after "$ ", each followed by its output
    ```python           a program; a ```text block right after it is its output
    ```toml             a file, named by the comment on its first line

Outputs are verbatim. A line "..." stands for lines that are left out. ``python -m tests.readme`` runs the
examples of README.md and of the pages in docs/, and renews the lines that are shown.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEFT_OUT = "..."
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")))


@dataclass(frozen=True)
class Example:
    """Something to run, and what the document shows under it.

    Attributes
    ----------
    command
        Words of the command.
    title
        The command line, or the first line of the program.
    start, shown
        Index of the first shown line in the document, and the shown lines.
    """

    command: tuple[str, ...]
    title: str
    start: int
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the index of its first line, its lines."""

    language: str
    start: int
    lines: tuple[str, ...]


def blocks(document: str) -> list[Block]:
    """All fenced blocks."""
    found: list[Block] = []
    opened: tuple[str, int] | None = None
    lines = document.splitlines()
    for at, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = line[3:], at + 1
        else:
            found.append(Block(opened[0], opened[1], tuple(lines[opened[1] : at])))
            opened = None
    assert opened is None, "a fenced block is not closed"
    return found


def files(document: str) -> dict[str, str]:
    """Name -> content of the files that the document shows."""
    shown = [block.lines for block in blocks(document) if block.language == "toml"]
    return {lines[0].removeprefix("#").strip(): "\n".join(lines) + "\n" for lines in shown}


def examples(document: str) -> list[Example]:
    """All commands and programs, in order."""
    found: list[Example] = []
    listed = blocks(document)
    for block, after in zip_longest(listed, listed[1:]):
        if block.language == "console":
            found += _commands(block)
        elif block.language == "python":
            assert after is not None and after.language == "text", f"no output under {block.lines[0]!r}"
            program = "\n".join(block.lines)
            found.append(Example((sys.executable, "-c", program), block.lines[0], after.start, after.lines))
    return found


def _commands(block: Block) -> Iterator[Example]:
    at = [i for i, line in enumerate(block.lines) if line.startswith("$ ")]
    assert at and at[0] == 0, f"a console block begins with a command, got {block.lines[0]!r}"
    for begin, end in zip(at, [*at[1:], len(block.lines)], strict=True):
        line = block.lines[begin].removeprefix("$ ")
        yield Example(_words(line), line, block.start + begin + 1, block.lines[begin + 1 : end])


def _words(line: str) -> tuple[str, ...]:
    program, *rest = shlex.split(line)
    if program == "systolic":
        return (sys.executable, "-m", "systolic", *rest)
    assert program == "python", f"an example runs systolic or python, got {line!r}"
    script, *rest = rest
    return (sys.executable, str(ROOT / script), *rest)


def run(example: Example, folder: Path) -> list[str]:
    """What an example prints in `folder`, errors included."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        example.command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def stable(line: str) -> str:
    """A line without what differs from host to host: spacing, and the last bits of a check."""
    words = line.split()
    if re.fullmatch(r"\S+ (passed|failed) (full|sample)", " ".join(words[:3])):
        return " ".join(words[:3])
    return re.sub("─+", "─", " ".join(words))


def place(
    shown: Sequence[str], printed: Sequence[str], key: Callable[[str], str] = stable
) -> list[int | None] | str:
    """Find each shown line among the printed ones.

    Returns
    -------
    list or str
        For each shown line the index of its printed one (None for "..." and blank lines); or what is wrong.
    """
    full = [i for i, line in enumerate(printed) if line.strip()]
    keys = [key(printed[i]) for i in full]
    found: list[int | None] = []
    at, free = 0, False
    for line in shown:
        if not line.strip() or line == LEFT_OUT:
            free = free or line == LEFT_OUT
            found.append(None)
            continue
        if free and key(line) in keys[at:]:
            at = keys.index(key(line), at)
        if at == len(keys) or keys[at] != key(line):
            was = repr(printed[full[at]]) if at < len(keys) else "the end"
            return f"shown {line!r}, printed {was}"
        found.append(full[at])
        at, free = at + 1, False
    if at < len(keys) and not free:
        return f"not shown: {printed[full[at]]!r}"
    return found


def first_word(line: str) -> str:
    """What a renewed line keeps: its first word, or that it begins with a number."""
    if not line[:1].strip():
        return ""
    word = stable(line.split()[0])
    return re.sub(r"[\d,.]+", "0", word) if word[0].isdigit() else word


def renewed(document: str) -> str:
    """The document with the outputs of today."""
    lines = document.splitlines()
    with tempfile.TemporaryDirectory() as name:
        for file, content in files(document).items():
            Path(name, file).write_text(content)
        for example in reversed(examples(document)):
            printed = run(example, Path(name))
            places = place(example.shown, printed, first_word)
            if isinstance(places, str):
                raise SystemExit(f"{example.title}: {places}")
            old = zip(example.shown, places, strict=True)
            new = [line if at is None else printed[at] for line, at in old]
            lines[example.start : example.start + len(new)] = new
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for path in DOCUMENTS:
        path.write_text(renewed(path.read_text()))
