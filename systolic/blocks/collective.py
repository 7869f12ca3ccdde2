"""Collectives as the messages of their algorithms: what crosses which link, when, in which order sums form.

A schedule is a list of messages in the order in which sums form. :func:`step_collective` times it: a message
leaves as soon as its chip has received all that it passes on and the link is free. :func:`carry_out` gives
the values. One list answers both.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from ..errors import SystolicError, shown
from .network import Network, Port

Kind = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]
KINDS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")

Span = tuple[int, int]
"""Elements [start, stop) of the vector that a collective works on."""

Spans = dict[int, Span]
"""Chip -> the span that it holds."""

ALGORITHMS = ("ring", "torus", "direct", "tree")

TREE_SEGMENTS = 8
"""Pieces in which a vector goes up and down a tree, one behind the other."""


class Message(NamedTuple):
    """Elements [start, stop) from one chip to another, added to what lies there or put in its place."""

    source: int
    target: int
    start: int
    stop: int
    adds: bool


Way = Callable[[Span], "tuple[list[Message], Spans, list[list[Message]]]"]
"""How a span is reduced: the messages, who then owns which part, and the messages that gather it again."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The messages of one collective.

    Attributes
    ----------
    kind, algorithm
        What it does, and how.
    chips, elements, element_bytes
        How many chips; elements of the whole vector (all_to_all: of each chip's own, in equal blocks for all
        chips), and bytes of each.
    messages
        In the order in which sums form.
    owned
        (chip, span) of each span that a chip ends with (reduce_scatter) or starts with (all_gather).
    """

    kind: Kind
    algorithm: str
    chips: int
    elements: int
    element_bytes: int
    messages: tuple[Message, ...]
    owned: tuple[tuple[int, Span], ...]


@dataclass(frozen=True, kw_only=True)
class CollectiveTiming:
    """What stepping a schedule showed.

    Attributes
    ----------
    cycles
        From the start on all chips to the last arrival.
    link_bytes
        Bytes over all links, each hop counted.
    busiest_cycles
        Cycles in which the busiest port is at work.
    """

    cycles: int
    link_bytes: int
    busiest_cycles: int


def parts_of(span: Span, count: int) -> list[Span]:
    """A span in `count` parts, as equal as can be."""
    start, length = span[0], span[1] - span[0]
    cuts = [start + length * i // count for i in range(count + 1)]
    return list(pairwise(cuts))


def _ring_scatter(line: Sequence[int], span: Span) -> tuple[list[Message], Spans]:
    """Reduce-scatter round a ring: in step s chip i sends part i - s on, and ends with part i + 1."""
    count, parts = len(line), parts_of(span, len(line))
    messages = [
        Message(line[i], line[(i + 1) % count], *parts[(i - s) % count], True)
        for s in range(count - 1)
        for i in range(count)
    ]
    return messages, {chip: parts[(i + 1) % count] for i, chip in enumerate(line)}


def _ring_gather(line: Sequence[int], owned: Spans) -> list[Message]:
    """All-gather round a ring: in step s chip i sends on what chip i - s owned."""
    count = len(line)
    return [
        Message(line[i], line[(i + 1) % count], *owned[line[(i - s) % count]], False)
        for s in range(count - 1)
        for i in range(count)
    ]


def _line_scatter(line: Sequence[int], span: Span) -> tuple[list[Message], Spans]:
    """Reduce-scatter along a line that is no ring: sums of each part come from both ends to its owner.

    Parts with the longest way go first.
    """
    count, parts = len(line), parts_of(span, len(line))
    up = [
        Message(line[i], line[i + 1], *parts[owner], True)
        for owner in range(count - 1, 0, -1)
        for i in range(owner)
    ]
    down = [
        Message(line[i], line[i - 1], *parts[owner], True)
        for owner in range(count - 1)
        for i in range(count - 1, owner, -1)
    ]
    return [*up, *down], dict(zip(line, parts, strict=True))


def _line_gather(line: Sequence[int], owned: Spans) -> list[Message]:
    """All-gather along a line: each part goes from its owner to both ends, those of the ends first."""
    count = len(line)
    up = [
        Message(line[i], line[i + 1], *owned[line[owner]], False)
        for owner in range(count)
        for i in range(owner, count - 1)
    ]
    down = [
        Message(line[i], line[i - 1], *owned[line[owner]], False)
        for owner in range(count - 1, -1, -1)
        for i in range(owner, 0, -1)
    ]
    return [*up, *down]


def _direct_scatter(chips: int, span: Span) -> tuple[list[Message], Spans]:
    """Reduce-scatter with a message from each chip to each owner; chip i starts with owner i + 1."""
    parts = parts_of(span, chips)
    messages = [
        Message(i, (i + s) % chips, *parts[(i + s) % chips], True)
        for s in range(1, chips)
        for i in range(chips)
    ]
    return messages, dict(enumerate(parts))


def _direct_gather(owned: Spans) -> list[Message]:
    chips = len(owned)
    return [Message(i, (i + s) % chips, *owned[i], False) for s in range(1, chips) for i in range(chips)]


def _along(
    network: Network, order: Sequence[int], span: Span, reverse: bool
) -> tuple[list[Message], Spans, list[list[Message]]]:
    """Reduce-scatter dimension by dimension; also returns how to gather, last dimension first."""
    wraps = network.kind == "torus"
    owned: Spans = dict.fromkeys(range(network.chips), span)
    messages: list[Message] = []
    gathers: list[list[Message]] = []
    for dim in order:
        gathered: list[Message] = []
        after: Spans = {}
        for line in network.lines(dim):
            chips = line[::-1] if reverse else line
            scatter, gather = (_ring_scatter, _ring_gather) if wraps else (_line_scatter, _line_gather)
            sent, own = scatter(chips, owned[chips[0]])
            messages += sent
            gathered += gather(chips, own)
            after |= own
        owned = after
        gathers.append(gathered)
    return messages, owned, gathers[::-1]


def _tree(chips: int, span: Span, segments: int) -> Iterator[Message]:
    """All-reduce up a binary tree and down again, segment by segment."""
    for start, stop in parts_of(span, segments):
        for node in range(chips - 1, 0, -1):
            yield Message(node, (node - 1) // 2, start, stop, True)
        for node in range(1, chips):
            yield Message((node - 1) // 2, node, start, stop, False)


def schedule(
    kind: Kind, network: Network, elements: int, element_bytes: int, algorithm: str = ""
) -> Schedule:
    """The messages of a collective on a network.

    Parameters
    ----------
    kind
        One of `KINDS`.
    network
        The chips and their links.
    elements, element_bytes
        As for :class:`Schedule`.
    algorithm
        ``ring``: one ring in the order of the chips. ``torus``: dimension by dimension, a part of the vector
        for each dimension to begin with and each direction (on one dimension: the bidirectional ring; on a
        mesh: lines). ``direct``: a message for each pair. ``tree``: a binary tree, all_reduce only. ``""``:
        ``torus`` on a torus or mesh, ``direct`` otherwise.

    Raises
    ------
    SystolicError
        If there is no such kind or algorithm, or it does not apply.
    """
    algorithm = algorithm or ("torus" if network.kind in ("torus", "mesh") else "direct")
    _refuse_unknown(kind, algorithm, network)
    messages: list[Message] = []
    owned: list[tuple[int, Span]] = []
    if kind == "all_to_all":
        messages = _exchange(network.chips, elements)
    elif algorithm == "tree":
        messages = list(_tree(network.chips, (0, elements), TREE_SEGMENTS))
    else:
        ways = _ways(network, algorithm)
        for span, way in zip(parts_of((0, elements), len(ways)), ways, strict=True):
            sent, own, gathers = way(span)
            messages += sent if kind != "all_gather" else []
            messages += [m for gather in gathers for m in gather] if kind != "reduce_scatter" else []
            owned += own.items()
    return Schedule(
        kind=kind,
        algorithm=algorithm,
        chips=network.chips,
        elements=elements,
        element_bytes=element_bytes,
        messages=tuple(m for m in messages if m.stop > m.start),
        owned=tuple(owned),
    )


def _refuse_unknown(kind: str, algorithm: str, network: Network) -> None:
    if kind not in KINDS:
        raise SystolicError(f"collective must be one of {', '.join(KINDS)}, got {shown(kind)}")
    allowed = {"all_to_all": ("direct", "torus"), "all_reduce": ALGORITHMS}.get(kind, ALGORITHMS[:3])
    if algorithm not in allowed:
        raise SystolicError(
            f"algorithm of {kind} must be one of {', '.join(allowed)}, got {shown(algorithm)}"
        )
    if algorithm == "torus" and kind != "all_to_all" and network.kind not in ("torus", "mesh"):
        raise SystolicError(
            f"algorithm torus needs a torus or a mesh, got a {network.kind}; use ring or direct"
        )


def _ways(network: Network, algorithm: str) -> list[Way]:
    """How the parts of a vector are reduced and gathered, each part in a way of its own."""
    chips = range(network.chips)

    def ring(span: Span) -> tuple[list[Message], Spans, list[list[Message]]]:
        sent, own = _ring_scatter(chips, span)
        return sent, own, [_ring_gather(chips, own)]

    def direct(span: Span) -> tuple[list[Message], Spans, list[list[Message]]]:
        sent, own = _direct_scatter(network.chips, span)
        return sent, own, [_direct_gather(own)]

    if algorithm != "torus":
        return [ring if algorithm == "ring" else direct]
    dims = range(len(network.sides))
    orders = [tuple((first + d) % len(dims) for d in dims) for first in dims]
    # Along a line both directions are in use as it is.
    directions = (False, True) if network.kind == "torus" else (False,)
    return [partial(_along, network, order, reverse=back) for order in orders for back in directions]


def _exchange(chips: int, elements: int) -> list[Message]:
    """All-to-all: block j of chip i becomes block i of chip j."""
    blocks = parts_of((0, elements), chips)
    return [
        Message(i, (i + s) % chips, *blocks[(i + s) % chips], False)
        for s in range(1, chips)
        for i in range(chips)
    ]


def step_collective(plan: Schedule, network: Network) -> CollectiveTiming:
    """Step a schedule: each message leaves when what it carries is complete and its ports are free.

    Ports serve messages in the order in which they become ready, then in the order of the schedule; a
    message that finds the far port of a switch taken keeps its own port waiting. A message of several hops
    is received in full before it is sent on. Additions take no time of their own: they stream through the
    vector unit at more than any link's rate.
    """
    routes = [network.route(m.source, m.target) for m in plan.messages]
    waits, followers = _dependencies(plan)
    ready = [0] * len(routes)
    # (when to look at it, since when it is ready, message, hop)
    queue = [(0, 0, i, 0) for i, count in enumerate(waits) if not count]
    heapq.heapify(queue)
    free: dict[Port, int] = {}
    busy: dict[Port, int] = {}
    finished = moved = 0
    while queue:
        now, since, i, hop = heapq.heappop(queue)
        ports = routes[i][hop].ports
        if (leaves := free.get(ports[0], 0)) > now:
            heapq.heappush(queue, (leaves, since, i, hop))
            continue
        size = (plan.messages[i].stop - plan.messages[i].start) * plan.element_bytes
        taken = network.cycles(size)
        begin = max(now, *(free.get(port, 0) for port in ports))
        for port in ports:
            free[port] = begin + taken
            busy[port] = busy.get(port, 0) + taken
        arrived = begin + taken + network.latency
        moved += size
        if hop + 1 < len(routes[i]):
            heapq.heappush(queue, (arrived, arrived, i, hop + 1))
            continue
        finished = max(finished, arrived)
        for later in followers[i]:
            waits[later] -= 1
            ready[later] = max(ready[later], arrived)
            if not waits[later]:
                heapq.heappush(queue, (ready[later], ready[later], later, 0))
    return CollectiveTiming(cycles=finished, link_bytes=moved, busiest_cycles=max(busy.values(), default=0))


def _dependencies(plan: Schedule) -> tuple[list[int], list[list[int]]]:
    """How many messages each one waits for, and which wait for it: those into its chip that it passes on."""
    waits = [0] * len(plan.messages)
    followers: list[list[int]] = [[] for _ in plan.messages]
    if plan.kind == "all_to_all":
        return waits, followers
    received: list[list[int]] = [[] for _ in range(plan.chips)]
    for i, message in enumerate(plan.messages):
        for before in received[message.source]:
            other = plan.messages[before]
            if other.start < message.stop and message.start < other.stop:
                waits[i] += 1
                followers[before].append(i)
        received[message.target].append(i)
    return waits, followers


def carry_out(
    plan: Schedule, vectors: np.ndarray, add: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """What each chip holds afterwards, with sums formed in the order of the messages.

    Parameters
    ----------
    plan
        The schedule.
    vectors
        (chips, elements): what each chip starts with.
    add
        Adds two arrays as the chips do, rounding included.

    Returns
    -------
    numpy.ndarray
        (chips, elements). After a reduce_scatter only the spans that `plan.owned` names are finished.
    """
    held = vectors.copy()
    if plan.kind == "all_to_all":
        blocks = parts_of((0, plan.elements), plan.chips)
        for source, target, start, stop, _ in plan.messages:
            at = blocks[source][0]
            held[target, at : at + stop - start] = vectors[source, start:stop]
        return held
    for source, target, start, stop, adds in plan.messages:
        here, there = held[target, start:stop], held[source, start:stop]
        held[target, start:stop] = add(here, there) if adds else there
    return held


def least_link_bytes(plan: Schedule, network: Network) -> int:
    """Bytes over all links in closed form, where each message crosses one link.

    A reduce_scatter or an all_gather moves each element from (or to) each chip but one: n - 1 vectors in all,
    dimension by dimension as well, since what a line moves the lines before have thinned out. An all_reduce
    is one of each (Thakur, Rabenseifner, Gropp, IJHPCA 19, 2005). An all_to_all moves each block as many hops
    as its way is long.
    """
    chips, vector = network.chips, plan.elements * plan.element_bytes
    if plan.kind == "all_to_all":
        sizes = [(stop - start) * plan.element_bytes for start, stop in parts_of((0, plan.elements), chips)]
        return sum(len(network.route(i, j)) * sizes[j] for i in range(chips) for j in range(chips) if i != j)
    once = (chips - 1) * vector
    return 2 * once if plan.kind == "all_reduce" else once
