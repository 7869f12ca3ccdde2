"""Who evaluates the batches of a sweep: this process, joblib's processes, or a Dask cluster.

Each engine takes a stream of batches and gives back (batch, outcomes) in the order in which they are done.
A worker that dies takes nothing with it but the batches that it was at; they are tried again in smaller
ones, and a point that kills its worker by itself is an outcome with that reason.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Protocol

from ..errors import SystolicError
from .design import Design
from .evaluating import Asked, Outcome, evaluate_batch

Batch = tuple[Asked, ...]
Done = tuple[Batch, list[Outcome]]

IN_FLIGHT = 3
"""Batches under way for each worker: enough that none waits, few enough that memory stays flat."""
STRIKES = 2
"""Workers that a point may kill while it runs by itself before it counts as failed."""
DIED = "the process that evaluated it died: out of memory, or killed"


class Engine(Protocol):
    """Evaluates batches."""

    workers: int

    def run(self, design: Design, batches: Iterable[Batch]) -> Iterator[Done]:
        """Outcomes of all batches, as they are done."""


class Here:
    """One batch after the other in this process."""

    workers = 1

    def run(self, design: Design, batches: Iterable[Batch]) -> Iterator[Done]:
        """Outcomes of all batches, in order."""
        for batch in batches:
            yield batch, evaluate_batch(design, batch)


class Processes:
    """joblib's processes, one numeric thread each."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, design: Design, batches: Iterable[Batch]) -> Iterator[Done]:
        """Outcomes of all batches, as they are done."""
        from joblib.externals.loky.process_executor import BrokenProcessPool

        waiting, strikes = iter(batches), dict[int, int]()
        under_way: dict[int, Batch] = {}
        again: deque[Batch] = deque()
        while True:
            one_by_one = bool(again) and all(len(batch) == 1 for batch in again)
            source = iter(tuple(again)) if again else waiting
            again.clear()
            try:
                yield from self._round(design, source, under_way, 1 if one_by_one else None)
            except BrokenProcessPool:
                lost = [*under_way.values(), *source] if source is not waiting else [*under_way.values()]
                under_way.clear()
                if one_by_one and lost:
                    # Only the first was under way when the worker died.
                    culprit = lost[0]
                    strikes[culprit[0].number] = strikes.get(culprit[0].number, 0) + 1
                    if strikes[culprit[0].number] >= STRIKES:
                        yield culprit, [Outcome(culprit[0].key, None, DIED)]
                        lost = lost[1:]
                again.extend(chain.from_iterable(map(_halved, lost)))
                continue
            if source is waiting:
                return

    def _round(
        self, design: Design, source: Iterator[Batch], under_way: dict[int, Batch], most: int | None
    ) -> Iterator[Done]:
        """Run batches until there are none, or a worker dies; `under_way` holds what is not done."""
        from joblib import Parallel, delayed

        def jobs() -> Iterator[Any]:
            for batch in source:
                under_way[batch[0].number] = batch
                yield delayed(_numbered)(design, batch)

        parallel = Parallel(
            n_jobs=max(2, self.workers),
            backend="loky",
            batch_size=1,
            pre_dispatch=most or IN_FLIGHT * self.workers,
            return_as="generator_unordered",
            inner_max_num_threads=1,
        )
        for first, outcomes in parallel(jobs()):
            yield under_way.pop(first), outcomes


class Cluster:
    """A Dask cluster.

    Parameters
    ----------
    address
        Of its scheduler, as ``tcp://host:8786``.

    Raises
    ------
    SystolicError
        If Dask is not installed, or nobody answers at the address.
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise SystolicError(
                "scheduler needs Dask, which is not installed; run pip install 'systolic[cluster]'"
            ) from error
        try:
            self._client = Client(address, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            raise SystolicError(
                f"scheduler must be the address of a running Dask scheduler such as tcp://host:8786, and "
                f"{address!r} does not answer"
            ) from error
        self.workers = sum(self._client.nthreads().values())
        if not self.workers:
            self._client.close()
            raise SystolicError(
                f"scheduler {address!r} has no workers; start some with dask worker {address}"
            )

    def run(self, design: Design, batches: Iterable[Batch]) -> Iterator[Done]:
        """Outcomes of all batches, as they are done."""
        from distributed import KilledWorker, as_completed

        client = self._client
        shared = client.scatter(design, broadcast=True, hash=True)
        source = iter(batches)

        def submit(batch: Batch) -> Any:
            future = client.submit(_numbered, shared, batch, pure=False)
            under_way[future.key] = batch
            return future

        under_way: dict[Any, Batch] = {}
        begun = [submit(batch) for batch in islice(source, IN_FLIGHT * self.workers)]
        running = as_completed(begun, loop=client.loop)
        for future in running:
            batch = under_way.pop(future.key)
            error = future.exception() if future.status == "error" else None
            if isinstance(error, KilledWorker):
                if len(batch) == 1:
                    yield batch, [Outcome(batch[0].key, None, DIED)]
                for half in _halved(batch) if len(batch) > 1 else ():
                    running.add(submit(half))
            elif error is not None:
                raise SystolicError(
                    f"scheduler: a worker cannot evaluate points: {type(error).__name__}: {error}; it needs "
                    "the same version of systolic; what is done is kept"
                ) from error
            else:
                yield batch, future.result()[1]
            future.release()
            for batch in islice(source, 1):
                running.add(submit(batch))

    def close(self) -> None:
        """Leave the cluster; it goes on running."""
        self._client.close()


def _numbered(design: Design, batch: Batch) -> tuple[int, list[Outcome]]:
    """What a worker does; the number of its first point says which batch it was."""
    return batch[0].number, evaluate_batch(design, batch)


def _halved(batch: Batch) -> list[Batch]:
    if len(batch) == 1:
        return [batch]
    middle = len(batch) // 2
    return [batch[:middle], batch[middle:]]


def usable_cores() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
