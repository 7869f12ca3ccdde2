"""What stands between the matmuls, as :class:`~systolic.workload.VectorOp`: coarse, one per region.

A region is a run of elementwise primitives and reductions between two matmuls, look-ups or loops, as a
fusing compiler would make one kernel of it: it reads once what comes from outside and writes what is used
outside. The elementwise work that follows a matmul on its result, up to the first reduction, is fused into
the matmul (XLA's output fusion, as for the models of :mod:`systolic.models.vector_ops`). Moves alone
(reshapes, transposes, casts, slices) count as no work: compilers fold them into the way in which operands
are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...dtypes import DTYPES, canonical
from ...errors import SystolicError
from ...workload import VectorOp
from .graph import Label, Node, Tensor
from .primitives import LOOK_UPS, MAPS, OPERATIONS, REDUCTIONS, WRITES
from .roles import Fact


class Value:
    """A value in one occurrence of a graph.

    `base` is the value of which it is an alias, or itself; `maker` the region or matmul that yields it;
    `escapes` whether something else uses it.
    """

    __slots__ = ("base", "escapes", "fact", "maker", "tensor")

    def __init__(
        self, tensor: Tensor, fact: Fact, maker: object | None = None, base: Value | None = None
    ) -> None:
        self.tensor, self.fact, self.maker = tensor, fact, maker
        self.base: Value = self if base is None else base
        self.escapes = False

    @property
    def bytes(self) -> int:
        """Bytes of the value that is really held."""
        return self.base.tensor.size * bits_of(self.base.tensor.dtype) // 8


def bits_of(dtype: str) -> int:
    """Width of one element in a front end's number format, bits."""
    try:
        return DTYPES[canonical(dtype)].bits
    except SystolicError:
        digits = "".join(c for c in dtype if c.isdigit())
        return 8 if dtype == "bool" else int(digits or 32)


def format_of(dtype: str) -> str:
    """The canonical format that is as wide as the front end's: booleans move as int8."""
    try:
        return canonical(dtype)
    except SystolicError:
        return {8: "int8", 16: "fp16"}.get(bits_of(dtype), "int32")


@dataclass(frozen=True, eq=False)
class Entry:
    """A primitive of a region, with its values."""

    node: Node
    inputs: Sequence[Value]
    outputs: Sequence[Value]


@dataclass(eq=False)
class Region:
    """Elementwise work in the making.

    Attributes
    ----------
    label, name
        Of its first primitive that computes.
    times
        How often it occurs.
    after
        Name and result of the matmul on which it may work; None behind a reduction.
    entries
        Its primitives. A look-up and a write into a part of something stand alone.
    """

    label: Label
    times: int
    name: str = ""
    after: tuple[str, Value] | None = None
    entries: list[Entry] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Take in a primitive."""
        self.entries.append(entry)
        for value in entry.outputs:
            value.maker = self
        for value in self._read_by(entry):
            value.escapes = True

    def take_feeders(self) -> list[Entry]:
        """Remove and return the last primitives that work on nothing but results of the region.

        They feed a reduction, which recomputes them from what it reads (a norm squares what it reads)
        rather than read their results.
        """
        at = len(self.entries)
        while at > 1 and self._works_inside(self.entries[at - 1]):
            at -= 1
        moved = self.entries[at:]
        del self.entries[at:]
        return moved

    def finished(self) -> VectorOp | None:
        """The op, or None where nothing is computed, looked up or written."""
        working = [e.node for e in self.entries if operations_of(e.node)]
        alone = self.entries[0].node if self.kind in ("gather", "cache") else None
        if not self.times or not (working or alone):
            return None
        largest = worked_on(alone) if alone else max(map(worked_on, working), key=lambda t: t.size)
        if not largest.size:
            return None
        bits = bits_of(largest.dtype)
        reads = dict.fromkeys(v for entry in self.entries for v in self._read_by(entry))
        read = sum(v.bytes for v in reads)
        written = sum(v.bytes for e in self.entries for v in e.outputs if v.escapes)
        if alone:
            read = written = largest.size * bits // 8
        fused = self.may_be_fused and self.after is not None and self.after[1] in reads
        side = sum(v.bytes for v in reads if self.after is None or v is not self.after[1])
        return VectorOp(
            name=f"{self.name}.{self.kind}",
            kind=self.kind,
            elements=largest.size,
            vector_ops=-(-sum(map(operations_of, working)) // largest.size),
            read_elements=-(-read * 8 // bits),
            write_elements=-(-written * 8 // bits),
            fused_into=self.after[0] if fused and self.after else "",
            side_elements=-(-side * 8 // bits) if fused else 0,
            count=self.times,
            layers=self.times,
            dtype=format_of(largest.dtype),
            origin=self.label.source,
        )

    @property
    def kind(self) -> str:
        """What it is, as far as its primitives tell."""
        names = {e.node.primitive for e in self.entries}
        if names & LOOK_UPS:
            return "gather"
        if names & WRITES:
            return "cache"
        if self._reduces:
            return "softmax" if "exp" in names else "norm" if names & {"rsqrt", "sqrt"} else "reduce"
        return "add" if names & MAPS <= {"add", "add_any"} else "elementwise"

    @property
    def may_be_fused(self) -> bool:
        """Whether it computes something, behind a matmul, and no reduction."""
        return (
            self.after is not None and not self._reduces and any(operations_of(e.node) for e in self.entries)
        )

    @property
    def _reduces(self) -> bool:
        return any(e.node.primitive in REDUCTIONS for e in self.entries)

    def _read_by(self, entry: Entry) -> list[Value]:
        """What a primitive reads from outside the region."""
        return [v.base for v in entry.inputs if v.base.maker is not self]

    def _works_inside(self, entry: Entry) -> bool:
        outside = [v for v in self._read_by(entry) if v.tensor.size > 1]
        return entry.node.primitive in MAPS and not outside


def worked_on(node: Node) -> Tensor:
    """The tensor over whose elements a primitive works."""
    if node.primitive in REDUCTIONS:
        return node.inputs[0]
    if node.primitive in WRITES:  # what it writes into its first operand
        return node.inputs[1 if node.primitive == "dynamic_update_slice" else 2]
    return node.outputs[0]


def operations_of(node: Node) -> int:
    """Vector operations of a primitive: elements times operations per element; 0 for scalars."""
    if all(t.size == 1 for t in (*node.inputs, *node.outputs)):
        return 0
    if node.primitive in REDUCTIONS:
        window = 1
        for side in node.attributes.get("window_dimensions", ()):
            window *= side
        return node.outputs[0].size * window if window > 1 else node.inputs[0].size
    if node.primitive not in MAPS:
        return 0
    per_element = OPERATIONS.get(node.primitive, 1)
    if node.primitive == "integer_pow":
        power = abs(int(node.attributes["y"]))
        per_element = max(1, power.bit_length() - 1 + power.bit_count() - 1)
    return per_element * node.outputs[0].size
