"""An out-of-order core at a loop, cycle by cycle.

µops are dispatched in order, up to the core's width, while window, scheduler and buffers have room; each is
issued, oldest first, once its operands are there and one of its ports is free; results are renamed, so that
only true dependencies count; all retire in order. Branches are predicted, loads hit L1 and meet no store on
their way, and a compare is not fused with its branch: the assumptions of LLVM's machine code analyser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from ..chips.core import CoreSpec, UopClass
from .assembly import Instruction

ITERATIONS = 256
"""Iterations that are stepped; the pace is that of the second half."""


@dataclass(frozen=True, kw_only=True)
class CoreTiming:
    """What a loop takes in its steady state, per iteration.

    Attributes
    ----------
    cycles
        From one iteration to the next.
    uops
        µops.
    ports
        Port -> µops that it took.
    stalls
        Why less than the full width was dispatched: cycles by ``window``, ``scheduler``, ``load_buffer``,
        ``store_buffer``.
    bounds
        What no order of execution beats: ``front_end`` (µops over width), ``ports``, ``latency``.
    """

    cycles: Fraction
    uops: int
    ports: Mapping[str, Fraction]
    stalls: Mapping[str, Fraction]
    bounds: Mapping[str, Fraction]

    @property
    def bound_by(self) -> str:
        """The largest of the bounds."""
        return max(self.bounds, key=lambda name: self.bounds[name])


@dataclass(frozen=True)
class _Uop:
    """A µop of the body: where its operands come from (register, or the µop before it), and what it makes."""

    kind: UopClass
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    first: bool
    loads: bool = False
    stores: bool = False


def uops_of(body: Sequence[Instruction], core: CoreSpec) -> tuple[_Uop, ...]:
    """The µops of a loop's body, in order; the first of each instruction is marked."""
    found: list[_Uop] = []
    for at, each in enumerate(body):
        made: list[_Uop] = []
        loaded = (f"loaded {at}",)
        if each.loads:
            vector = "load_vector" if each.bits > 64 and not _is_scalar(each) else "load"
            if vector == "load" and each.bits > 64 and "load_vector256" not in core.uops:
                vector = "load_vector"
            target = loaded if each.kind else each.writes
            made.append(_Uop(core.uop(vector, each.bits), each.addressed, target, True, loads=True))
        if each.kind:
            reads = each.reads + (loaded if each.loads else ())
            made.append(_Uop(core.uop(each.kind, each.bits), reads, each.writes, not made))
        if each.stores and "store" in core.uops:
            made.append(
                _Uop(core.uop("store", each.bits), each.addressed + each.reads, (), True, stores=True)
            )
        elif each.stores:
            made.append(_Uop(core.uop("store_address", 64), each.addressed, (), True, stores=True))
            made.append(_Uop(core.uop("store_data", each.bits), each.reads, (), False))
        found += made
    return tuple(found)


def _is_scalar(each: Instruction) -> bool:
    """Whether a vector register receives one number: loaded as fast as a general one on Intel's cores."""
    return each.text.split()[0] in ("vmovss", "vmovsd")


def run_loop(body: Sequence[Instruction], core: CoreSpec, iterations: int = ITERATIONS) -> CoreTiming:
    """Step a loop.

    Parameters
    ----------
    body
        From :func:`systolic.blocks.assembly.read_loop`.
    core
        From :func:`systolic.chips.core.load_core`.
    iterations
        How often, at least 4.
    """
    made = uops_of(body, core)
    machine = _Machine(made, core, iterations)
    machine.run()
    half = iterations // 2
    steady = iterations - half
    return CoreTiming(
        cycles=Fraction(machine.ended[-1] - machine.ended[half - 1], steady),
        uops=len(made),
        ports={port: Fraction(count, iterations) for port, count in machine.taken.items() if count},
        stalls={cause: Fraction(count, iterations) for cause, count in machine.stalls.items() if count},
        bounds=bounds(made, core),
    )


class _Machine:
    """The state of a core between two cycles; µop number u is µop u % body of iteration u // body."""

    def __init__(self, made: Sequence[_Uop], core: CoreSpec, iterations: int) -> None:
        self.made, self.core, self.total = made, core, len(made) * iterations
        self.sources = _sources(made)
        self.done = [-1] * self.total
        self.waiting: list[int] = []
        self.dispatched = self.retired = self.held = self.loads = self.stores = 0
        self.taken = dict.fromkeys(core.ports, 0)
        self.stalls = dict.fromkeys(("window", "scheduler", "load_buffer", "store_buffer"), 0)
        self.ended: list[int] = []

    def run(self) -> None:
        """Until all has retired."""
        now = 0
        while self.retired < self.total:
            self._retire(now)
            self._issue(now)
            self._dispatch()
            now += 1

    def _retire(self, now: int) -> None:
        while self.retired < self.dispatched and 0 <= self.done[self.retired] <= now:
            uop = self.made[self.retired % len(self.made)]
            self.loads -= uop.loads
            self.stores -= uop.stores
            self.held -= uop.first or not self.core.fuses
            self.retired += 1
            if self.retired % len(self.made) == 0:
                self.ended.append(now)

    def _issue(self, now: int) -> None:
        free, left = set(self.core.ports), []
        for u in self.waiting:
            kind = self.made[u % len(self.made)].kind
            ports = [port for port in kind.ports if port in free]
            if not ports or not self._is_ready(u, now):
                left.append(u)
                continue
            port = min(ports, key=lambda name: self.taken[name])
            free.remove(port)
            self.taken[port] += 1
            self.done[u] = now + kind.latency
        self.waiting = left

    def _is_ready(self, u: int, now: int) -> bool:
        base = u - u % len(self.made)
        for place, back in self.sources[u % len(self.made)]:
            source = base + place - back * len(self.made)
            if source >= 0 and not 0 <= self.done[source] <= now:
                return False
        return True

    def _dispatch(self) -> None:
        room = self.core.width
        while self.dispatched < self.total:
            count = self._length(self.dispatched)
            slots = 1 if self.core.fuses else count
            if slots > room:
                return
            cause = self._lacks(self.dispatched, count, slots)
            if cause:
                self.stalls[cause] += 1
                return
            for u in range(self.dispatched, self.dispatched + count):
                uop = self.made[u % len(self.made)]
                self.loads += uop.loads
                self.stores += uop.stores
                self.waiting.append(u)
            self.dispatched += count
            self.held += slots
            room -= slots

    def _length(self, u: int) -> int:
        """µops of the instruction that begins at `u`."""
        at = u % len(self.made)
        end = at + 1
        while end < len(self.made) and not self.made[end].first:
            end += 1
        return end - at

    def _lacks(self, u: int, count: int, slots: int) -> str:
        """What has no room for an instruction, or ""."""
        uop, core = self.made[u % len(self.made)], self.core
        if self.held + slots > core.window:
            return "window"
        if len(self.waiting) + count > core.scheduler:
            return "scheduler"
        if uop.loads and self.loads == core.load_buffer:
            return "load_buffer"
        return "store_buffer" if uop.stores and self.stores == core.store_buffer else ""


def _sources(made: Sequence[_Uop]) -> list[list[tuple[int, int]]]:
    """For each µop, the µops whose results it needs, and how many iterations ago they ran."""
    last = {name: at for at, uop in enumerate(made) for name in uop.writes}
    found, before = [], dict[str, int]()
    for at, uop in enumerate(made):
        found.append(
            [(before[name], 0) if name in before else (last[name], 1) for name in uop.reads if name in last]
        )
        before |= dict.fromkeys(uop.writes, at)
    return found


def bounds(made: Sequence[_Uop], core: CoreSpec) -> dict[str, Fraction]:
    """Cycles per iteration that no order beats, each from one limit alone."""
    kinds = sorted({tuple(sorted(uop.kind.ports)) for uop in made})
    ports = Fraction(0)
    for count in range(1, len(kinds) + 1):
        for some in combinations(kinds, count):
            union = set().union(*some)
            inside = sum(set(uop.kind.ports) <= union for uop in made)
            ports = max(ports, Fraction(inside, len(union)))
    slots = sum(uop.first for uop in made) if core.fuses else len(made)
    return {"front_end": Fraction(slots, core.width), "ports": ports, "latency": _latency(made)}


def _latency(made: Sequence[_Uop]) -> Fraction:
    """The pace of the dependencies alone: how much later each iteration's results are than the last one's."""
    sources, rounds = _sources(made), 4 * len(made) + 8
    done = [[0] * len(made) for _ in range(rounds)]
    for i in range(rounds):
        for at, uop in enumerate(made):
            needs = [done[i - back][place] for place, back in sources[at] if i >= back]
            done[i][at] = max(needs, default=0) + uop.kind.latency
    half = rounds // 2
    return max(Fraction(done[-1][at] - done[half - 1][at], rounds - half) for at in range(len(made)))
