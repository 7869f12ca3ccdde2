"""What a walk over a program meets, and what it is told beforehand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...workload import Gemm
from .vector_work import Region

Path = tuple[int, ...]
"""Where a primitive stands: indices of nodes and bodies, outermost first."""


@dataclass
class Observed:
    """What a run of the program has seen.

    Attributes
    ----------
    bodies
        How often the body (or branch) at a path ran, over the whole run.
    entered
        Paths of the loops and branches whose bodies are counted so.
    groups
        Path of a ragged contraction -> length of a group -> how many groups had it.
    """

    bodies: Counter[Path] = field(default_factory=Counter)
    entered: set[Path] = field(default_factory=set)
    groups: dict[Path, Counter[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Choices:
    """What the program leaves open: iterations of loops, branches taken; by name or by ``file:line``."""

    trips: Mapping[str, int] = field(default_factory=dict)
    branches: Mapping[str, int] = field(default_factory=dict)
    observed: Observed | None = None


@dataclass(frozen=True)
class Product:
    """A matmul of the program.

    Attributes
    ----------
    gemm
        Its shape and formats, with `count`.
    direction
        ``forward``, ``backward`` or ``recomputed``.
    stack
        Whole name stack.
    source
        File, line and function.
    narrowed
        Integer format into which the program stores the sums, where that is narrower than int32.
    """

    gemm: Gemm
    direction: str
    stack: str
    source: str
    narrowed: str = ""


@dataclass(frozen=True)
class Missing:
    """Work that is in no row: `macs` where they can be counted, None where nothing is known."""

    op: str
    macs: int | None = None


@dataclass(frozen=True)
class OpenLoop:
    """A loop with matmuls in it whose trip count nobody knows."""

    name: str
    source: str
    macs_per_iteration: int


Event = Product | Region | Missing | OpenLoop | str
"""What a walk meets, in order; texts are notes."""


def macs_of(events: Sequence[Event]) -> int:
    """MACs of all matmuls among the events; of a loop of unknown length, those of one iteration."""
    return sum(
        e.gemm.macs if isinstance(e, Product) else e.macs_per_iteration
        for e in events
        if isinstance(e, (Product, OpenLoop))
    )
