"""From a graph to a workload: what is simulated, what is said about it, and what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ...dtypes import DTYPES, canonical
from ...errors import SystolicError, raise_if_any
from ...workload import Gemm, NotCovered, Op, Workload
from .arguments import refuse_unknown
from .events import Choices, Event, Missing, OpenLoop, Product
from .graph import Graph, Tensor
from .labels import BACKWARD, RECOMPUTED
from .repeats import fold_repeats, named_apart
from .roles import Fact, Kind, Roles
from .vector_work import Region
from .walk import Walk


@dataclass(frozen=True, kw_only=True)
class Program:
    """A traced program.

    Attributes
    ----------
    name
        Of the function or file.
    traced, live
        The program as written, and without what no result needs.
    facts
        What is known of its inputs.
    """

    name: str
    traced: Graph
    live: Graph
    facts: tuple[Fact, ...]


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Matmuls of a program.

    Attributes
    ----------
    workload
        What is simulated: the live matmuls and the vector work between them.
    products
        The live matmuls in order, layers not folded, with labels.
    traced
        The matmuls as traced, dead ones included.
    """

    workload: Workload
    products: tuple[Product, ...]
    traced: tuple[Product, ...]

    @property
    def live_count(self) -> int:
        """Live matmuls, each as often as it runs."""
        return sum(p.gemm.count for p in self.products)

    @property
    def traced_count(self) -> int:
        """Traced matmuls, each as often as it would run."""
        return sum(p.gemm.count for p in self.traced)


def count(program: Program, choices: Choices | None = None) -> Counted:
    """Walk a program.

    Raises
    ------
    SystolicError
        If a loop holds matmuls and nothing says how often it runs, a choice names no loop or branch of
        the program, or nothing is left to simulate.
    """
    choices = choices or Choices()
    roles = Roles()
    events = _events(program.live, program.facts, choices, roles)
    _refuse_open_loops(events)
    products = tuple(e for e in events if isinstance(e, Product))
    unobserved = replace(choices, observed=None)
    traced = products
    if program.traced is not program.live and choices.observed is None:
        everything = _events(program.traced, program.facts, unobserved, Roles())
        traced = tuple(e for e in everything if isinstance(e, Product))
    ops = named_apart(fold_repeats(tuple(_ops(events))))
    if not ops:
        raise SystolicError(f"{program.name}: nothing to simulate: no matmul and no vector work was found")
    first = next((op.dtype for op in ops if isinstance(op, Gemm)), ops[0].dtype)
    counted = Counted(
        workload=Workload(
            name=program.name,
            ops=ops,
            phase="train" if any(p.direction in (BACKWARD, RECOMPUTED) for p in products) else "prefill",
            kv_cache_elements=sum(t.size for t in _leaves(program, roles, Kind.CACHE)),
            dtype=first,
            stored=_stored(_leaves(program, roles, Kind.PARAMETER)),
            not_covered=_not_covered(events, products),
        ),
        products=products,
        traced=traced,
    )
    return replace(counted, workload=replace(counted.workload, notes=_notes(counted, events, roles)))


def _events(graph: Graph, facts: Sequence[Fact], choices: Choices, roles: Roles) -> list[Event]:
    walk = Walk(choices, roles)
    walk.run(graph, facts)
    for kind, given in (("trips", choices.trips), ("branches", choices.branches)):
        refuse_unknown(kind, tuple(given), sorted(walk.open_names[kind]))
    return walk.events


def _refuse_open_loops(events: Sequence[Event]) -> None:
    raise_if_any(
        [
            f"{e.source}: how often this loop runs is not known before the run (one iteration has "
            f"{e.macs_per_iteration:,} MACs); say it with --trip {e.name}=COUNT (Python: "
            f"trips={{{e.name!r}: COUNT}})"
            for e in events
            if isinstance(e, OpenLoop)
        ]
    )


def _ops(events: Sequence[Event]) -> list[Op]:
    ops: list[Op] = []
    for event in events:
        if isinstance(event, Product):
            ops.append(event.gemm)
        elif isinstance(event, Region) and (op := event.finished()) is not None:
            ops.append(op)
    return ops


def _leaves(program: Program, roles: Roles, kind: Kind) -> list[Tensor]:
    """Arguments and constants of a kind, each once."""
    inputs = zip(program.live.inputs, program.facts, strict=True)
    found = {t: None for t, f in inputs if f.kind == kind}
    if kind == Kind.PARAMETER:
        found |= roles.weights | {t: None for t in program.live.constants if "float" in t.dtype and t.shape}
    return list(found)


def _stored(tensors: Sequence[Tensor]) -> tuple[tuple[str, int], ...]:
    """(format, elements) of parameters, each format once; those of unknown formats as the next wider."""
    sizes: dict[str, int] = {}
    for tensor in tensors:
        try:
            name = canonical(tensor.dtype)
        except SystolicError:
            continue
        sizes[name] = sizes.get(name, 0) + prod(tensor.shape)
    return tuple(sorted(sizes.items()))


def _not_covered(events: Sequence[Event], products: Sequence[Product]) -> tuple[NotCovered, ...]:
    macs: dict[str, int | None] = {}
    for event in events:
        if isinstance(event, Missing):
            before = macs.get(event.op, 0)
            macs[event.op] = None if event.macs is None or before is None else before + event.macs
    whole = sum(p.gemm.macs for p in products) + sum(filter(None, macs.values()))
    return tuple(
        NotCovered(op=op, share=None if number is None or not whole else number / whole)
        for op, number in macs.items()
    )


def _notes(counted: Counted, events: Sequence[Event], roles: Roles) -> tuple[str, ...]:
    notes = [e for e in events if isinstance(e, str)]
    dead = counted.traced_count - counted.live_count
    if dead:
        macs = sum(p.gemm.macs for p in counted.traced)
        live = sum(p.gemm.macs for p in counted.products)
        notes.append(
            f"{counted.traced_count:,} matmuls traced ({macs:,} MACs), {counted.live_count:,} live "
            f"({live:,} MACs): what no result needs is not simulated"
        )
    by_direction: dict[str, list[Product]] = {}
    for product in counted.products:
        by_direction.setdefault(product.direction, []).append(product)
    if len(by_direction) > 1:
        parts = (
            f"{direction} {sum(p.gemm.count for p in group):,} ({sum(p.gemm.macs for p in group):,} MACs)"
            for direction, group in by_direction.items()
        )
        notes.append(f"matmuls: {', '.join(parts)}")
    for narrowed in sorted({p.narrowed for p in counted.products if p.narrowed}):
        names = ", ".join(dict.fromkeys(p.gemm.name for p in counted.products if p.narrowed == narrowed))
        notes.append(f"{names}: the program stores the sums as {narrowed}; the chip yields int32")
    if roles.guessed:
        notes.append(
            "no argument is named as the model: where a matmul met two arguments, the right one was taken "
            "as the weight; name the model's argument with params"
        )
    assert all(p.gemm.dtype in DTYPES for p in counted.products)
    return tuple(dict.fromkeys(notes))
