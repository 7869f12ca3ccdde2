"""What stands between the matmuls, as :class:`~systolic.workload.VectorOp`: coarse, one per region.

A region is a run of elementwise primitives and reductions between two matmuls, look-ups or loops, as a
fusing compiler would make one kernel of it: it reads once what comes from outside and writes what is used
outside. The elementwise work that follows a matmul on its result, up to the first reduction, is fused into
the matmul (XLA's output fusion, as for the models of :mod:`systolic.models.vector_ops`). Moves alone
(reshapes, transposes, casts, slices) count as no work: compilers fold them into the way in which operands
are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...dtypes import DTYPES, canonical
from ...errors import SystolicError
from ...workload import VectorOp
from .graph import Label, Node, Tensor
from .primitives import MAPS, OPERATIONS, REDUCTIONS
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


@dataclass(eq=False)
class Region:
    """Elementwise work in the making.

    Attributes
    ----------
    label, scope, times
        Of its first primitive that computes; how often it occurs.
    after
        Name and result of the matmul on which it works, while no reduction has come.
    operations
        Vector operations of one occurrence.
    """

    label: Label
    times: int
    name: str = ""
    after: tuple[str, Value] | None = None
    operations: int = 0
    reduces: bool = False
    gathers: bool = False
    writes_part: int = 0
    largest: Tensor | None = None
    reads: dict[Value, None] = field(default_factory=dict)
    made: dict[Value, None] = field(default_factory=dict)
    primitives: dict[str, None] = field(default_factory=dict)

    def add(self, node: Node, inputs: list[Value], outputs: list[Value]) -> None:
        """Take in a primitive; aliases are no part of a region."""
        for value in inputs:
            if value.base.maker is not self:
                self.reads.setdefault(value.base)
        for value in outputs:
            self.made.setdefault(value)
        operations = operations_of(node)
        self.operations += operations
        if operations:
            self.primitives.setdefault(node.primitive)
            worked = node.inputs[0] if node.primitive in REDUCTIONS else node.outputs[0]
            if self.largest is None or worked.size > self.largest.size:
                self.largest = worked

    def finished(self) -> VectorOp | None:
        """The op, or None where nothing is computed, looked up or written."""
        if self.largest is None or not self.times or not self.largest.size:
            return None
        if not (self.operations or self.gathers or self.writes_part):
            return None
        bits = bits_of(self.largest.dtype)
        written = self.writes_part or sum(v.bytes for v in self.made if v.escapes)
        read = sum(v.bytes for v in self.reads)
        if self.gathers or self.writes_part:
            read = written = self.largest.size * bits // 8
        fused = self.after is not None and self.after[1] in self.reads and not self.reduces
        side = sum(v.bytes for v in self.reads if self.after is None or v is not self.after[1])
        return VectorOp(
            name=f"{self.name}.{self.kind}",
            kind=self.kind,
            elements=self.largest.size,
            vector_ops=-(-self.operations // self.largest.size),
            read_elements=-(-read * 8 // bits),
            write_elements=-(-written * 8 // bits),
            fused_into=self.after[0] if fused and self.after else "",
            side_elements=-(-side * 8 // bits) if fused else 0,
            count=self.times,
            layers=self.times,
            dtype=format_of(self.largest.dtype),
            origin=self.label.source,
        )

    @property
    def kind(self) -> str:
        """What it is, as far as its primitives tell."""
        if self.gathers:
            return "gather"
        if self.writes_part:
            return "cache"
        if self.reduces and "exp" in self.primitives:
            return "softmax"
        if self.reduces and self.primitives.keys() & {"rsqrt", "sqrt"}:
            return "norm"
        if self.reduces:
            return "reduce"
        return "add" if self.primitives.keys() <= {"add", "add_any"} else "elementwise"


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
