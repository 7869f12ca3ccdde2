"""One walk over a program: its matmuls, the vector work between them, and what cannot be looked into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ...errors import SystolicError
from .events import Choices, Event, Missing, OpenLoop, Path, Product, macs_of
from .graph import Graph, Inner, Node, Tensor
from .labels import FORWARD, Scope, line_of
from .loops import static_trips
from .matmuls import group_count, matmul, occurrences
from .primitives import ALIASES, LOOK_UPS, REDUCTIONS, WRITES, is_known, solver_macs
from .roles import DATA, Fact, Kind, Roles, carried, fact_of
from .vector_work import Entry, Region, Value, operations_of


class Walk:
    """Walks a graph with abstract values; `events` holds what it met.

    Parameters
    ----------
    choices
        What the program leaves open.
    roles
        Settles which operands are weights.

    `open_names` holds what loops and branches with a choice can be called.
    """

    def __init__(self, choices: Choices, roles: Roles) -> None:
        self.events: list[Event] = []
        self._choices, self._roles = choices, roles
        self._observed = choices.observed
        self.open_names: dict[str, set[str]] = {"trips": set(), "branches": set()}
        self._region: Region | None = None
        self._last: tuple[str, Value] | None = None

    def run(self, graph: Graph, facts: Sequence[Fact]) -> None:
        """Walk the whole program; `facts` of its inputs."""
        inputs = [Value(t, f) for t, f in zip(graph.inputs, facts, strict=True)]
        for value in self._body(graph, inputs, 1, (), Scope()):
            value.base.escapes = True
        self._close()

    def _body(self, graph: Graph, inputs: list[Value], times: int, path: Path, scope: Scope) -> list[Value]:
        frame = {t: _seen_as(t, v) for t, v in zip(graph.inputs, inputs, strict=True)}
        for constant in graph.constants:
            kind = Kind.PARAMETER if "float" in constant.dtype else Kind.CONSTANT
            frame[constant] = Value(constant, Fact(kind, constant))

        def value(tensor: Tensor) -> Value:
            if tensor not in frame:  # written in the program
                frame[tensor] = Value(tensor, Fact(Kind.CONSTANT, number=tensor.number))
            return frame[tensor]

        for index, node in enumerate(graph.nodes):
            operands = [value(t) for t in node.inputs]
            results = self._node(node, operands, times, (*path, index), scope)
            frame.update(zip(node.outputs, results, strict=True))
        return [value(t) for t in graph.outputs]

    def _node(self, node: Node, inputs: list[Value], times: int, path: Path, scope: Scope) -> list[Value]:
        match node.work:
            case Inner():
                return self._inner(node, node.work, inputs, times, path, scope)
            case None:
                return self._vector(node, inputs, times, scope)
            case _:
                return self._matmul(node, inputs, times, path, scope)

    def _vector(self, node: Node, inputs: list[Value], times: int, scope: Scope) -> list[Value]:
        facts = [v.fact for v in inputs]
        if node.primitive in ALIASES:
            return [Value(t, fact_of(node, facts), base=inputs[0].base) for t in node.outputs]
        if not is_known(node.primitive):
            macs = solver_macs(node.primitive, [t.shape for t in node.inputs])
            self.events.append(Missing(node.primitive, None if macs is None else macs * times))
        alone = node.primitive in LOOK_UPS | WRITES
        results = [Value(tensor, fact_of(node, facts)) for tensor in node.outputs]
        feeders: list[Entry] = []
        if node.primitive in REDUCTIONS and self._region is not None and self._region.may_be_fused:
            feeders = self._region.take_feeders()
            self._close()
        if alone:
            self._close()
        region = self._open(node, times, scope)
        for entry in (*feeders, Entry(node, inputs, results)):
            region.add(entry)
        if alone:
            self._close()
        return results

    def _open(self, node: Node, times: int, scope: Scope) -> Region:
        if self._region is None or self._region.times != times:
            self._close()
            self._region = Region(node.label, times, after=self._last)
            self.events.append(self._region)
        if not any(operations_of(e.node) for e in self._region.entries):
            self._region.label, self._region.name = node.label, self._name(node, scope)
        return self._region

    def _close(self) -> None:
        if self._region is not None:
            self._last = None
        self._region = None

    def _matmul(self, node: Node, inputs: list[Value], times: int, path: Path, scope: Scope) -> list[Value]:
        self._close()
        for value in inputs[:2]:
            value.base.escapes = True
        out = Value(node.outputs[0], DATA)
        facts, name = [v.fact for v in inputs[:2]], self._name(node, scope)
        groups = self._observed.groups.get(path) if self._observed else None
        if groups is None and (ragged := group_count(node)):
            self.events.append(
                f"{self._where(node)}: {ragged} groups taken as equally long; their sizes are data"
            )
        kind, swap = self._roles.decide(*facts)
        for sides, count in occurrences(node, groups):
            runs = count * times
            if sides.macs and runs:
                self.events.append(matmul(node, sides, facts, (kind, swap), (name, runs, scope)))
                self._last = (name, out)
        return [out]

    def _name(self, node: Node, scope: Scope) -> str:
        direction = scope.direction(node.label)
        name = scope.name(node.label) or node.primitive
        return name if direction == FORWARD else f"{name} ({direction})"

    def _where(self, node: Node) -> str:
        return line_of(node.label.source) or node.primitive

    def _inner(
        self, node: Node, inner: Inner, inputs: list[Value], times: int, path: Path, scope: Scope
    ) -> list[Value]:
        scope = scope.inside(node.label)
        if inner.note:
            self.events.append(f"{self._where(node)}: {inner.note}")
        if inner.kind == "branch":
            return self._branch(node, inner, inputs, times, path, scope)
        if inner.kind == "call":
            return self._call(node, inner, inputs, times, path, scope)
        self._close()
        for value in inputs:
            value.base.escapes = True
        results = self._loop(node, inner, inputs, times, path, scope)
        self._close()
        return results

    def _call(
        self, node: Node, inner: Inner, inputs: list[Value], times: int, path: Path, scope: Scope
    ) -> list[Value]:
        (graph,) = inner.bodies
        if inner.times is None:
            return self._unknown(node, graph, inputs, times, path, scope)
        before, observed = len(self.events), self._observed
        if inner.times != 1 or inner.opaque:
            self._observed = None  # such programs are run whole, so nothing was seen of their inside
        results = self._body(graph, inputs, times * inner.times, (*path, 0), scope)
        self._observed = observed
        if inner.opaque:
            macs = sum(e.gemm.macs for e in self.events[before:] if isinstance(e, Product))
            self.events.append(Missing(f"{node.primitive} (its inner program is counted once)", macs or None))
        outputs = results[: len(node.outputs)] if inner.times == 1 else []
        more = node.outputs[len(outputs) :]
        return [*outputs, *(Value(t, DATA, self._region) for t in more)]

    def _branch(
        self, node: Node, inner: Inner, inputs: list[Value], times: int, path: Path, scope: Scope
    ) -> list[Value]:
        """Alternatives: all of them as they were seen, or the one chosen, or the one with most MACs."""
        self._close()
        start, taken, facts, seen = len(self.events), [], [], self._seen(path)
        for i, graph in enumerate(inner.bodies):
            runs = times if seen is None else seen[*path, i]
            skipped = seen is not None and not runs
            outputs = [] if skipped else self._body(graph, inputs[1:], runs, (*path, i), scope)
            self._close()
            for value in outputs:
                value.base.escapes = True
            facts.append([v.fact for v in outputs])
            taken.append(self.events[start:])
            del self.events[start:]
        every = [event for events in taken for event in events]
        self.events += self._chosen(node, inner, taken, scope) if seen is None else every
        joined: list[Fact] = next((f for f in facts if f), [])
        for other in (f for f in facts if f):
            joined = [carried(a, b) if a != b else a for a, b in zip(joined, other, strict=True)]
        return [Value(t, f) for t, f in zip(node.outputs, joined, strict=True)]

    def _chosen(self, node: Node, inner: Inner, taken: list[list[Event]], scope: Scope) -> list[Event]:
        macs = [macs_of(events) for events in taken]
        if not any(macs) and len({len(events) for events in taken}) == 1:
            return taken[0]
        names = self._names(node, scope)
        self.open_names["branches"].update(names)
        pick = next((self._choices.branches[n] for n in names if n in self._choices.branches), None)
        if pick is not None and not 0 <= pick < len(taken):
            raise SystolicError(f"branch {names[0]} must be from 0 to {len(taken) - 1}, got {pick}")
        index = max(range(len(taken)), key=lambda i: macs[i]) if pick is None else pick
        why = "the one with most MACs" if pick is None else "as chosen"
        parts = []
        for i, events in enumerate(taken):
            gemms = [e.gemm for e in events if isinstance(e, Product)]
            shapes = ", ".join(dict.fromkeys(f"{g.batch}x{g.m},{g.n},{g.k}" for g in gemms))
            held = f"{sum(g.count for g in gemms):,} matmuls of {shapes}" if gemms else "no matmul"
            parts.append(f"branch {i} {inner.bodies[i].name}: {held}, {macs[i]:,} MACs")
        return [f"{names[0]}: {'; '.join(parts)}; branch {index} is simulated, {why}", *taken[index]]

    def _loop(
        self, node: Node, inner: Inner, inputs: list[Value], times: int, path: Path, scope: Scope
    ) -> list[Value]:
        trips = self._trips(node, inner, inputs, path, scope)
        tests, runs = self._runs(inner, trips, times, path)
        head = inner.cond_consts
        consts = inputs[head : head + inner.consts]
        facts = [v.fact for v in inputs[head + inner.consts :]]
        start = len(self.events)
        while True:
            carry = [Value(v.tensor, f) for v, f in zip(inputs[head + inner.consts :], facts, strict=True)]
            body = inner.bodies[-1]
            slices = [_seen_as(t, v) for t, v in zip(body.inputs[len(consts) :], carry, strict=True)]
            if tests:
                self._body(inner.bodies[0], [*inputs[:head], *carry], tests, (*path, 0), scope)
                self._close()
            results = self._body(body, [*consts, *slices], runs, (*path, len(inner.bodies) - 1), scope)
            for value in results:
                value.base.escapes = True
            self._close()
            after = [v.fact for v in results[: inner.carried]]
            joined = [carried(a, b) for a, b in zip(facts[: inner.carried], after, strict=True)]
            if joined == facts[: inner.carried]:
                break
            facts[: inner.carried] = joined
            del self.events[start:]
        if trips is None and self._seen(path) is None:
            self._leave_open(node, start, scope)
        stacked = [v.fact for v in results[inner.carried :]]
        return [
            Value(t, replace(f, repeated=frozenset()))
            for t, f in zip(node.outputs, joined + stacked, strict=True)
        ]

    def _runs(self, inner: Inner, trips: int | None, times: int, path: Path) -> tuple[int, int]:
        """How often the condition and the body of a loop run in all."""
        seen = self._seen(path)
        if inner.kind == "scan":
            assert trips is not None
            return 0, times * trips if seen is None else seen[*path, 0]
        if seen is not None:
            return seen[*path, 0], seen[*path, 1]
        iterations = 1 if trips is None else trips
        return times * (iterations + 1), times * iterations

    def _seen(self, path: Path) -> Counter[Path] | None:
        """How often bodies ran, where the run went into the primitive at `path`."""
        if self._observed is None or path not in self._observed.entered:
            return None
        return self._observed.bodies

    def _trips(self, node: Node, inner: Inner, inputs: list[Value], path: Path, scope: Scope) -> int | None:
        """Iterations: as the program says, or the user; None where neither does."""
        if inner.kind == "scan":
            return inner.times
        known = static_trips(inner, [v.fact.number for v in inputs])
        return self._given(node, scope, known)

    def _given(self, node: Node, scope: Scope, otherwise: int | None) -> int | None:
        """The trip count that the user gives for a loop."""
        names = self._names(node, scope)
        self.open_names["trips"].update(names)
        return next((self._choices.trips[n] for n in names if n in self._choices.trips), otherwise)

    def _names(self, node: Node, scope: Scope) -> tuple[str, ...]:
        """What a loop or a branch can be called: by file and line, by its scope."""
        whole = scope.name(node.label)
        return tuple(dict.fromkeys(filter(None, (self._where(node), whole, whole.rpartition(".")[2]))))

    def _leave_open(self, node: Node, start: int, scope: Scope) -> None:
        """Replace what a loop of unknown length holds by one event."""
        macs = macs_of(self.events[start:])
        named = [Missing(e.op) for e in self.events[start:] if isinstance(e, Missing)]
        self.events[start:] = named
        name = self._names(node, scope)[0]
        if macs:
            self.events.append(OpenLoop(name, node.label.source, macs))
        else:
            self.events.append(Missing(f"vector work of the loop at {name}, whose iterations are unknown"))

    def _unknown(
        self, node: Node, graph: Graph, inputs: list[Value], times: int, path: Path, scope: Scope
    ) -> list[Value]:
        """A call that runs an unknown number of times, unless the user says how often."""
        given = self._given(node, scope, None)
        start = len(self.events)
        self._body(graph, inputs, times * (given or 1), (*path, 0), scope)
        self._close()
        if given is None:
            self._leave_open(node, start, scope)
        return [Value(t, DATA) for t in node.outputs]


def _seen_as(tensor: Tensor, value: Value) -> Value:
    """A value as a program inside sees it: a shard, a block, a slice of it."""
    if value.tensor.shape == tensor.shape:
        return value
    return Value(tensor, replace(value.fact, repeated=frozenset()), base=value.base)
