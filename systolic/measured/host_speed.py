"""This machine's CPU, measured: clock, peak of its multiply-adds, and each level of its memory.

Nothing is taken on trust: inside a virtual machine the caches that the system lists are often not the ones
that a process gets. What differs is named in the notes. The result is kept in the user's cache folder under a
fingerprint of the machine, so that it is measured once.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ..chips.host import HostFacts, ListedCache, read_host
from ..quantity import format_bytes

VERSION = 1
"""Of the way of measuring; a result of another version is measured anew."""
LINE_BYTES = 64
REPEATS = 15
"""Each loop is timed so often; the fastest counts, since others can only slow it down."""
FMA_ROUNDS = 100_000
CHAIN_ROUNDS = 200_000
READ_BYTES = 1 << 25
FOLLOWED = 50_000
LEAST_DRAM_BYTES = 1 << 27
"""Working set that stands for main memory; four times the largest listed cache where that is more …"""
MOST_DRAM_BYTES = 1 << 29
"""… and no more than this: a list that lies in a virtual machine must not fill the memory."""


@dataclass(frozen=True, kw_only=True)
class MeasuredLevel:
    """One level of memory from one core, at a working set that it should hold.

    Attributes
    ----------
    name
        ``l1``, ``l2``, ``l3`` or ``dram``.
    working_set_bytes
        Bytes that were read and chased through.
    bytes_per_s, latency_ns
        Reads in order, one core; a load whose address is the load before, at random.
    """

    name: str
    working_set_bytes: int
    bytes_per_s: int
    latency_ns: float


@dataclass(frozen=True, kw_only=True)
class MeasuredHost:
    """This machine's CPU.

    Attributes
    ----------
    facts
        What the system says.
    clock_hz
        From a chain of known length, Hz.
    core_flop_per_s
        fp32 vector multiply-adds of one core, FLOP/s.
    flop_per_s
        The same on all cores at once.
    dram_bytes_per_s
        Reads of all cores at once, bytes per second.
    levels
        From L1 to main memory.
    notes
        What could not be read, and where measurement and list disagree.
    """

    facts: HostFacts
    clock_hz: int
    core_flop_per_s: int
    flop_per_s: int
    dram_bytes_per_s: int
    levels: tuple[MeasuredLevel, ...]
    notes: tuple[str, ...]


def measure_host(*, again: bool = False) -> MeasuredHost:
    """Measure this machine (some seconds the first time), or return what was measured before.

    Parameters
    ----------
    again
        Measure even where a result is kept.

    Raises
    ------
    SystolicError
        Where this is no Linux on x86-64.
    """
    from ..kernels.compile import cache_root

    facts = read_host()
    place = cache_root() / "hosts" / f"{_fingerprint(facts)}.json"
    kept = None if again else _kept(place, facts)
    if kept is not None:
        return kept
    measured = _measure(facts)
    _keep(place, measured)
    return measured


def _measure(facts: HostFacts) -> MeasuredHost:
    levels = tuple(_level(name, size) for name, size in working_sets(facts.caches))
    return MeasuredHost(
        facts=facts,
        clock_hz=_clock_hz(),
        core_flop_per_s=_flop_per_s(1),
        flop_per_s=_flop_per_s(len(facts.cpus)),
        dram_bytes_per_s=_bytes_per_s(levels[-1].working_set_bytes, len(facts.cpus)),
        levels=levels,
        notes=(*facts.notes, *_disagreements(facts, levels)),
    )


def _clock_hz() -> int:
    from ..kernels import probes

    seconds = _best(lambda: probes.chain(CHAIN_ROUNDS, 1))
    return round(CHAIN_ROUNDS * probes.ROUND_CYCLES / seconds)


def _flop_per_s(cores: int) -> int:
    from ..kernels import probes

    one = np.float32(1)
    seconds = _best(*[lambda: probes.fma_rounds(FMA_ROUNDS, one, one)] * cores)
    return round(cores * FMA_ROUNDS * probes.CHAINS * probes.FMA_LANES * 2 / seconds)


def _bytes_per_s(size: int, cores: int) -> int:
    """Reads of `size` bytes, split over `cores`, again and again."""
    from ..kernels import probes

    parts = [np.ones(size // 8 // cores, np.int64) for _ in range(cores)]
    passes = max(1, READ_BYTES // size)

    def reading(part: Any) -> Callable[[], object]:
        return lambda: probes.read_words(part, passes)

    return round(passes * sum(part.nbytes for part in parts) / _best(*map(reading, parts)))


def _level(name: str, size: int) -> MeasuredLevel:
    return MeasuredLevel(
        name=name,
        working_set_bytes=size,
        bytes_per_s=_bytes_per_s(size, 1),
        latency_ns=_latency_ns(size),
    )


def _latency_ns(size: int) -> float:
    """One word of each line of `size` bytes, all lines in one random cycle: no prefetcher helps."""
    from ..kernels import probes

    lines = size // LINE_BYTES
    order = np.random.default_rng(0).permutation(lines) * (LINE_BYTES // 8)
    following = np.zeros(lines * (LINE_BYTES // 8), np.int64)
    following[order] = np.roll(order, -1)
    seconds = _best(lambda: probes.follow(following, int(order[0]), FOLLOWED))
    return round(seconds / FOLLOWED * 1e9, 2)


def working_sets(caches: Sequence[ListedCache]) -> list[tuple[str, int]]:
    """What to measure each level with: half of L1 and of L2, twice the level above for the others, far more
    than all of them for main memory.

    A last-level cache is shared with neighbours that a virtual machine does not see; what is just too large
    for the level above is the most likely to be there.
    """
    listed = [cache for cache in caches if cache.kind != "Instruction"]
    found = []
    for at, cache in enumerate(listed):
        shared = cache.level > 2 and at > 0
        size = min(cache.bytes // 2, 2 * listed[at - 1].bytes) if shared else cache.bytes // 2
        found.append((f"l{cache.level}", size))
    last = max((cache.bytes for cache in listed), default=0)
    return [*found, ("dram", min(max(LEAST_DRAM_BYTES, 4 * last), MOST_DRAM_BYTES))]


def _disagreements(facts: HostFacts, levels: Sequence[MeasuredLevel]) -> list[str]:
    """Where the last listed cache holds less than the list says."""
    listed = [cache for cache in facts.caches if cache.kind != "Instruction"]
    if not listed:
        return []
    last, level, dram = listed[-1], levels[-2], levels[-1]
    between = math.sqrt(level.latency_ns * dram.latency_ns)
    size = level.working_set_bytes
    while size < last.bytes // 2 and _latency_ns(2 * size) < between:
        size *= 2
    if size >= last.bytes // 2:
        return []
    return [
        f"the system lists {format_bytes(last.bytes)} of {level.name}, but a load from "
        f"{format_bytes(2 * size)} takes nearly as long as one from memory ({dram.latency_ns:.0f} ns): "
        f"count on {format_bytes(size)}"
    ]


def _best(*work: Callable[[], object]) -> float:
    """Seconds until all of `work` is done side by side, the least of some repeats."""
    with ThreadPoolExecutor(len(work)) as threads:
        list(threads.map(lambda each: each(), work))  # compiled, and memory touched, before anything is timed

        def seconds() -> float:
            start = perf_counter()
            list(threads.map(lambda each: each(), work))
            return perf_counter() - start

        return min(seconds() for _ in range(REPEATS))


def _fingerprint(facts: HostFacts) -> str:
    parts = (VERSION, asdict(facts), platform.node(), platform.release())
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _kept(place: Path, facts: HostFacts) -> MeasuredHost | None:
    """What an earlier run kept; None where nothing (or nothing that can be read) is there."""
    try:
        values = json.loads(place.read_text())
        levels = tuple(MeasuredLevel(**level) for level in values.pop("levels"))
        return MeasuredHost(**values | {"facts": facts, "levels": levels, "notes": tuple(values["notes"])})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _keep(place: Path, measured: MeasuredHost) -> None:
    """Write the result whole or not at all; where the folder cannot be written, it is measured again."""
    partial = place.with_suffix(f".{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(asdict(measured), indent=1))
        partial.replace(place)
    except OSError:
        partial.unlink(missing_ok=True)
