"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import SystolicError


def check_target(path: Path, option: str) -> None:
    """Refuse, before long work, a file that could not be written after it.

    Raises
    ------
    SystolicError
        If `path` is a folder, or lies in none that exists and can be written.
    """
    if path.is_dir():
        raise SystolicError(f"{option} must name a file, got the folder {str(path)!r}")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise SystolicError(f"{option}: there is no folder {str(folder)!r}; create it first")
    if not os.access(path if _is_special(path) else folder, os.W_OK):
        raise SystolicError(f"{option}: no permission to write {str(path)!r}")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write `content` (text in UTF-8) as a whole: see :func:`whole_file`."""
    with whole_file(path) as target:
        target.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside `path` to write to, renamed when the block ends well; links are followed.

    A device or a pipe (``/dev/null``) is written to as it is, since renaming would replace it.

    Raises
    ------
    SystolicError
        If the system refuses; nothing is left behind then.
    """
    target = path.resolve()
    try:
        if _is_special(target):
            yield target
            return
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            yield temporary
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise SystolicError(f"{path}: cannot be written: {error.strerror}") from error


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()
