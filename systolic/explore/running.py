"""``sweep``: plan, say how much it is, evaluate what the store lacks, keep it, hand it over."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from ..engine.progress import Progress, Silent
from ..errors import raise_if_any, shown
from ..quantity import count_problem
from .design import Design, design_of, read_design
from .engines import Batch, Cluster, Engine, Here, Processes, usable_cores
from .evaluating import Asked, Evaluator, code_version, evaluate_batch
from .store import Store
from .table import Sweep

PROBES = 6
"""Points that are evaluated to tell how long the rest will take."""
BATCH_SECONDS = 0.25
"""What a batch should take: long beside what an engine adds, short beside what a kill may cost."""
MOST_IN_BATCH = 512
ROUND = 2048
"""Points whose keys are looked up in the store together."""
FEW_SECONDS = 2.0
"""Up to this much work is done in this process: starting others takes as long."""


def sweep(
    design: str | os.PathLike[str] | Mapping[str, Any] | Design,
    *,
    store: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Simulate all points of a design space, or go on where the store says that a sweep stood.

    Parameters
    ----------
    design
        The path of a sweep file, or its content as a mapping, such as
        ``{"model": "512,768,768", "axes": {"array.rows": [64, 128]}}``.
    store
        SQLite file that keeps outcomes; None: beside the sweep file, with the suffix ``.sqlite``, and
        ``sweep.sqlite`` in the current folder for a mapping.
    workers
        Processes; None: one for each CPU. 1 runs all in this process.
    scheduler
        Address of a Dask scheduler whose workers evaluate the points, instead of processes here.
    progress
        Receives announcements and the progress.

    Returns
    -------
    Sweep
        The table of points, done and failed, and the views on it.

    Raises
    ------
    SystolicError
        All mistakes of the design at once; a store or a scheduler that cannot be used. What is in the
        store by then stays there.
    """
    problems = [] if workers is None else count_problem("workers", workers)
    if workers is not None and scheduler is not None:
        problems.append(f"workers are those of the scheduler {shown(scheduler)}; give one of the two")
    raise_if_any(problems)
    if isinstance(design, Design):
        plan, place = design, Path("sweep.sqlite")
    elif isinstance(design, Mapping):
        plan, place = design_of(design, name="sweep"), Path("sweep.sqlite")
    else:
        plan, place = read_design(design), Path(design).with_suffix(".sqlite")
    where = Path(store) if store is not None else place
    tell = progress or Silent()
    with Store(where) as kept:
        _Running(plan, kept, tell).run(workers, scheduler)
    return Sweep(design=plan, store=where, identity=identity_of(plan))


def identity_of(design: Design) -> str:
    """The name under which a store keeps the points of a design, of this version of the code."""
    return f"{design.digest}-{code_version()}"


def planned(design: Design) -> int:
    """How many points a sweep will have; of a large random one with constraints, at most."""
    search, space = design.search, design.space
    if search.method == "bayesian":
        return search.points or 0
    count = space.size if search.method == "random" and space.size > ROUND else space.count()
    return count if search.points is None else min(count, search.points)


class _Running:
    """One sweep while it runs."""

    def __init__(self, design: Design, store: Store, progress: Progress) -> None:
        self.design, self.store, self.progress = design, store, progress
        self.identity = identity_of(design)
        self.keys = Evaluator(design)

    def run(self, workers: int | None, scheduler: str | None) -> None:
        if self.design.search.method == "bayesian":
            from .bayesian import generations

            self._announce(self.design.search.points or 0, None, 1)
            self.progress.start("points", self.design.search.points or 0)
            for points, told in generations(self.design):
                told(self._generation(points))
            return
        total = planned(self.design)
        each = self._probe()
        done = self.store.count(self.identity)[0]
        engine = _engine(workers, scheduler, each * max(0, total - done))
        self._announce(total, each, engine.workers, done)
        self.progress.start("points", total)
        self.progress.advance(min(done, total))
        size = max(1, min(MOST_IN_BATCH, int(BATCH_SECONDS / each) if each else MOST_IN_BATCH))
        size = max(1, min(size, -(-(total - done) // (4 * engine.workers)) or 1))
        with closing(engine) if isinstance(engine, Cluster) else nullcontext():
            for batch, outcomes in engine.run(self.design, _cut(self._missing(), size)):
                self.store.add(self.identity, (), outcomes)
                self.progress.advance(len(batch))

    def _points(self) -> Iterator[tuple[int, Any]]:
        search, space = self.design.search, self.design.space
        if search.method == "random":
            drawn = space.sample(search.points or 0, search.seed)
            return ((number, point) for number, (_, point) in enumerate(drawn))
        return iter(space) if search.points is None else islice(iter(space), search.points)

    def _asked(self) -> Iterator[Asked]:
        return (Asked(number, self.keys.key(point), point) for number, point in self._points())

    def _probe(self) -> float:
        """Seconds that a point takes, from a few that are evaluated here, and kept; 0 where none is left."""
        some = list(islice(self._asked(), PROBES))
        known = self.store.known([asked.key for asked in some])
        left = [asked for asked in some if asked.key not in known]
        # The first one also loads what a process loads once.
        outcomes = evaluate_batch(self.design, left[:1])
        started = perf_counter()
        outcomes += evaluate_batch(self.design, left[1:])
        each = (perf_counter() - started) / max(1, len(left) - 1)
        self.store.add(self.identity, some, outcomes)
        return each

    def _missing(self) -> Iterator[Asked]:
        """Points without an outcome, each key once; the store learns of all points."""
        asked = self._asked()
        while some := list(islice(asked, ROUND)):
            self.store.add(self.identity, some, ())
            known = self.store.known([a.key for a in some])
            for a in some:
                if a.key not in known:
                    known.add(a.key)
                    yield a

    def _generation(self, points: Sequence[tuple[int, Any]]) -> list[Mapping[str, Any] | None]:
        """Figures of the points of one generation, from the store where it has them."""
        asked = [Asked(number, self.keys.key(point), point) for number, point in points]
        known = self.store.known([a.key for a in asked])
        left = [a for a in asked if a.key not in known]
        self.store.add(self.identity, asked, evaluate_batch(self.design, left))
        self.progress.advance(len(asked))
        found = [self.store.outcome(a.key) for a in asked]
        return [outcome.figures if outcome else None for outcome in found]

    def _announce(self, total: int, each: float | None, workers: int, done: int = 0) -> None:
        known = f", {done:,} of them done" if done else ""
        left = max(0, total - done)
        time = ""
        if each is not None and left:
            time = f"; about {_seconds(left * each / workers)} on {workers} worker(s)"
        self.progress.announce(f"{total:,} points{known}{time}")


def _engine(workers: int | None, scheduler: str | None, seconds: float) -> Engine:
    if scheduler is not None:
        return Cluster(scheduler)
    count = workers or usable_cores()
    return Here() if count == 1 or (workers is None and seconds < FEW_SECONDS) else Processes(count)


def _cut(asked: Iterable[Asked], size: int) -> Iterator[Batch]:
    source = iter(asked)
    while batch := tuple(islice(source, size)):
        yield batch


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 1 else "1 s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
