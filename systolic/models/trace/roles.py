"""Which operand is a weight: from where it comes, not from its side.

Every value has a kind, and the kind of a result follows from those of its operands:

- *constant*: written in the program, or made of constants.
- *parameter*: a leaf of an argument that holds the model, an array over which the function closes, or
  anything computed from these and constants alone (a cast, a transposed or scaled weight, a layer's slice).
- *cache*: a leaf of an argument that holds the KV cache, moved, sliced, or with new keys written into it.
- *argument*: a leaf of an argument of which nothing says whether it is a parameter or data, moved or
  computed from itself alone.
- *data*: everything else.

An argument is settled at the first matmul that it meets. Beside data it is a weight. Beside another
argument, the rhs as written is the weight and the lhs is data from then on; beside itself it is data.

A value that a loop carries is data once an iteration makes it so, except that a parameter stays one: loops
update parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from .graph import Node, Tensor
from .primitives import ALIASES, UPDATES


class Kind(IntEnum):
    """See the module's text."""

    CONSTANT = 0
    PARAMETER = 1
    CACHE = 2
    ARGUMENT = 3
    DATA = 4


@dataclass(frozen=True)
class Fact:
    """What is known of a value.

    Attributes
    ----------
    kind
        See the module's text.
    root
        The argument or constant of which it is made, where it is only one.
    repeated
        Dimensions along which its elements repeat: it was broadcast along them.
    number
        Its value, where it is a whole number known before the run.
    """

    kind: Kind
    root: Tensor | None = None
    repeated: frozenset[int] = frozenset()
    number: int | None = None


DATA = Fact(Kind.DATA)


def fact_of(node: Node, facts: Sequence[Fact]) -> Fact:
    """What is known of the results of a primitive that is neither a matmul nor a program."""
    if not facts:
        return Fact(Kind.CONSTANT)
    first = facts[0]
    if node.primitive in UPDATES and Kind.CACHE in (f.kind for f in facts):
        return Fact(Kind.CACHE, root=next(f.root for f in facts if f.kind == Kind.CACHE))
    if node.primitive in ALIASES:
        return Fact(first.kind, first.root, _repeated(node, first.repeated), first.number)
    kind, root = joined(facts)
    return DATA if kind == Kind.CACHE else Fact(kind, root)


def joined(facts: Sequence[Fact]) -> tuple[Kind, Tensor | None]:
    """Kind and root of what is made of several values."""
    made_of = [f for f in facts if f.kind != Kind.CONSTANT]
    if not made_of:
        return Kind.CONSTANT, None
    roots = {f.root for f in made_of}
    root = made_of[0].root if len(roots) == 1 else None
    kinds = {f.kind for f in made_of}
    if kinds == {Kind.PARAMETER} or (len(kinds) == 1 and root is not None):
        return made_of[0].kind, root
    return Kind.DATA, None


def carried(before: Fact, after: Fact) -> Fact:
    """What a loop knows of a value that it carries, given what it was and what an iteration makes of it."""
    if before.kind in (Kind.PARAMETER, Kind.CACHE):
        return before
    kind, root = joined((before, after))
    number = before.number if before == after else None
    return Fact(kind, root, before.repeated & after.repeated, number)


def _repeated(node: Node, before: frozenset[int]) -> frozenset[int]:
    shape, attributes = node.outputs[0].shape, node.attributes
    if node.primitive == "broadcast_in_dim":
        source, dims = node.inputs[0].shape, attributes["broadcast_dimensions"]
        kept = {d for i, d in enumerate(dims) if source[i] == shape[d] and i not in before}
        return frozenset(d for d, side in enumerate(shape) if d not in kept and side > 1)
    if node.primitive == "transpose":
        return frozenset(i for i, d in enumerate(attributes["permutation"]) if d in before)
    return before if shape == node.inputs[0].shape else frozenset()


@dataclass
class Roles:
    """Settles which arguments are weights while a program is walked.

    `weights` are the arguments and constants that some matmul takes as its weight; `tied` says of one
    whether it was the weight of another matmul before.
    """

    guessed: bool = False
    _settled: dict[Tensor, Kind] = field(default_factory=dict)
    weights: dict[Tensor, None] = field(default_factory=dict)

    def decide(self, lhs: Fact, rhs: Fact) -> tuple[str, bool]:
        """The rhs_kind of a matmul, and whether its operands have to change sides.

        A weight is always the rhs; so is a cache, and, between activations, an operand that a batch
        shares.
        """
        lhs, rhs = self._settle(lhs, rhs)
        if Kind.PARAMETER in (lhs.kind, rhs.kind):
            swap = rhs.kind != Kind.PARAMETER
            weight = lhs if swap else rhs
            if weight.root is not None:
                self.weights.setdefault(weight.root)
            return "weight", swap
        if Kind.CACHE in (lhs.kind, rhs.kind):
            return "kv_cache", rhs.kind != Kind.CACHE
        return "activation", bool(lhs.repeated) and not rhs.repeated

    def kind(self, fact: Fact) -> Kind:
        """Kind of a value; that of an argument once it is settled."""
        if fact.kind == Kind.ARGUMENT and fact.root in self._settled:
            return self._settled[fact.root]
        return fact.kind

    def _settle(self, lhs: Fact, rhs: Fact) -> tuple[Fact, Fact]:
        lhs, rhs = (replace(f, kind=self.kind(f)) for f in (lhs, rhs))
        if lhs.kind == rhs.kind == Kind.ARGUMENT:
            if lhs.root is rhs.root:
                return self._as(lhs, Kind.DATA), self._as(rhs, Kind.DATA)
            self.guessed = True
            return self._as(lhs, Kind.DATA), self._as(rhs, Kind.PARAMETER)
        other = {Kind.DATA: Kind.PARAMETER, Kind.CACHE: Kind.PARAMETER, Kind.PARAMETER: Kind.DATA}
        if lhs.kind == Kind.ARGUMENT:
            lhs = self._as(lhs, other.get(rhs.kind, Kind.DATA))
        if rhs.kind == Kind.ARGUMENT:
            rhs = self._as(rhs, other.get(lhs.kind, Kind.DATA))
        return lhs, rhs

    def _as(self, fact: Fact, kind: Kind) -> Fact:
        assert fact.root is not None
        self._settled[fact.root] = kind
        return replace(fact, kind=kind)
