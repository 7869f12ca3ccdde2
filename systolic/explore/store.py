"""The store of a sweep: one SQLite file, one writer, nothing half-written.

A batch of outcomes goes in as one transaction, so whatever kills the program leaves each point either whole
or absent. Points are kept under a key that says all that their figures depend on, so a second sweep finds
what it shares with the first.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from types import TracebackType

from ..errors import SystolicError
from .evaluating import Asked, Outcome
from .space import Point

SCHEMA = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS about (schema INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS outcomes (
    key BLOB PRIMARY KEY, figures TEXT, reason TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS points (
    sweep TEXT NOT NULL, number INTEGER NOT NULL, key BLOB NOT NULL, point TEXT NOT NULL,
    PRIMARY KEY (sweep, number)) WITHOUT ROWID;
"""
MOST_KEYS = 500
"""Keys in one query: SQLite has had a limit of 999 variables."""
PATIENCE_S = 5.0
"""How long the store waits for another program that is writing to it."""


class Store:
    """A store, open for writing. Use as a context manager."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        # An engine may ask for its next batch in a thread of its own.
        self._turn = RLock()
        with self._told():
            self._db = sqlite3.connect(
                self.path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            with self._written():
                for statement in filter(str.strip, _TABLES.split(";")):
                    self._db.execute(statement)
                found = self._db.execute("SELECT schema FROM about").fetchone()
                if found is None:
                    self._db.execute("INSERT INTO about VALUES (?)", (SCHEMA,))
                elif found[0] != SCHEMA:
                    raise SystolicError(
                        f"{self.path}: schema must be {SCHEMA}, got {found[0]}; name another file"
                    )
            # From here on no other program may write: a second sweep on one store is told so at once.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("BEGIN EXCLUSIVE")
            self._db.execute("COMMIT")

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Those of `keys` that have an outcome."""
        found: set[bytes] = set()
        with self._told():
            for start in range(0, len(keys), MOST_KEYS):
                some = keys[start : start + MOST_KEYS]
                marks = ",".join("?" * len(some))
                rows = self._db.execute(f"SELECT key FROM outcomes WHERE key IN ({marks})", some)
                found.update(key for (key,) in rows)
        return found

    def outcome(self, key: bytes) -> Outcome | None:
        """The outcome of a key, or None."""
        with self._told():
            row = self._db.execute("SELECT figures, reason FROM outcomes WHERE key = ?", (key,)).fetchone()
        return None if row is None else Outcome(key, row[0] and json.loads(row[0]), row[1])

    def add(self, sweep: str, asked: Iterable[Asked], outcomes: Iterable[Outcome]) -> None:
        """Keep points of a sweep and outcomes, all or none; an outcome that is there already stays.

        A point may come before its outcome: it is part of the table once that is there.

        Raises
        ------
        SystolicError
            If the file cannot be written, as where the disk is full.
        """
        points = [(sweep, a.number, a.key, json.dumps(a.point)) for a in asked]
        rows = [(o.key, None if o.figures is None else json.dumps(o.figures), o.reason) for o in outcomes]
        with self._told(), self._written():
            self._db.executemany("INSERT OR IGNORE INTO outcomes VALUES (?, ?, ?)", rows)
            self._db.executemany("INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?)", points)

    def rows(self, sweep: str) -> Iterator[tuple[int, Point, Outcome]]:
        """Points of a sweep in order, with their outcomes; one at a time, however many there are."""
        query = (
            "SELECT number, point, key, figures, reason FROM points JOIN outcomes USING (key) "
            "WHERE sweep = ? ORDER BY number"
        )
        with self._told():
            for number, point, key, figures, reason in self._db.execute(query, (sweep,)):
                yield number, json.loads(point), Outcome(key, figures and json.loads(figures), reason)

    def count(self, sweep: str) -> tuple[int, int]:
        """(points that are done, those of them that failed)."""
        query = (
            "SELECT count(*), count(*) - count(figures) FROM points JOIN outcomes USING (key) WHERE sweep = ?"
        )
        with self._told():
            done, failed = self._db.execute(query, (sweep,)).fetchone()
        return done, failed

    @contextmanager
    def _written(self) -> Iterator[None]:
        """One transaction."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite, or the system, refuses as one line with what to do."""
        try:
            with self._turn:
                yield
        except sqlite3.Error as error:
            raise SystolicError(f"{self.path}: {_reason(error, self.path)}") from error
        except OSError as error:
            raise SystolicError(f"{self.path}: the store cannot be written: {error.strerror}") from error


def _reason(error: sqlite3.Error, path: Path) -> str:
    text = str(error)
    kept = "what is done is kept, and the same command goes on from there"
    if "full" in text:
        return f"the disk is full; {kept} once there is room"
    if "locked" in text or "busy" in text:
        return "another sweep or program has this store open; wait for it, or name another file"
    if not path.parent.is_dir():
        return f"there is no folder {str(path.parent)!r}; create it first"
    if "readonly" in text or "read-only" in text or "unable to open" in text:
        return "the store must be a file in a folder that can be written; name another with --store"
    if "not a database" in text or "malformed" in text:
        return "is no store of a sweep; name another file"
    return f"the store cannot be used: {text}; {kept}"
