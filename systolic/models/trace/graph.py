"""A program as its front end hands it over: primitives with typed operands, and programs inside programs.

Primitives bear JAX's names, whatever the front end. Nothing here knows JAX.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, Literal

from .contraction import Contraction, Convolution, RaggedContraction


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of a graph, known by identity.

    Attributes
    ----------
    shape, dtype
        Sides, elements; number format in the front end's words.
    constant
        Whether it is written in the program.
    number
        Its value, where it is a whole number written in the program.
    """

    shape: tuple[int, ...]
    dtype: str
    constant: bool = False
    number: int | None = None

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class Label:
    """Where a primitive comes from.

    Attributes
    ----------
    stack
        Name stack, relative to the graph that holds the primitive: ``"transpose(jvp(net))/mlp"``.
    source
        File, line and function: ``"model.py:42 (mlp)"``.
    """

    stack: str = ""
    source: str = ""


InnerKind = Literal["call", "scan", "while", "branch"]


@dataclass(frozen=True, eq=False)
class Inner:
    """Programs inside a primitive.

    Attributes
    ----------
    kind
        ``call``: one body that takes the primitive's operands. ``scan``: one body; operands are `consts`,
        then `carried`, then slices. ``while``: condition and body; operands are the condition's
        `cond_consts`, the body's `consts`, then what is carried. ``branch``: one body per branch, the first
        operand chooses.
    bodies
        The programs.
    times
        How often a call's or scan's body runs; None where that is not known before the run.
    consts, carried, cond_consts
        Numbers of operands, see `kind`.
    note
        What the reader has to know, or "".
    opaque
        Whether how often the bodies run is a guess: the primitive is then named in `not_covered`.
    operands
        Which of the primitive's operands the bodies take; None: all.
    """

    kind: InnerKind
    bodies: tuple[Graph, ...]
    times: int | None = 1
    consts: int = 0
    carried: int = 0
    cond_consts: int = 0
    note: str = ""
    opaque: bool = False
    operands: tuple[int, ...] | None = None


Work = Contraction | Convolution | RaggedContraction | Inner


@dataclass(frozen=True, eq=False)
class Node:
    """A primitive: its name, operands, results, and what it does where that is a matmul or a program.

    `attributes` hold what else is needed of it, by JAX's parameter names.
    """

    primitive: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    work: Work | None = None
    label: Label = Label()
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Graph:
    """A program: nodes in the order in which they run.

    `constants` are values that it holds: arrays over which a function closes. `source` is what the front
    end read it from.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    constants: tuple[Tensor, ...] = ()
    name: str = ""
    source: Any = None

    @cached_property
    def multiplies(self) -> bool:
        """Whether a matmul is in it, or in a program inside it."""
        works = [node.work for node in self.nodes if node.work is not None]
        return any(any(b.multiplies for b in w.bodies) if isinstance(w, Inner) else True for w in works)

    def maker(self, tensor: Tensor) -> Node | None:
        """The node that yields `tensor`, or None for an input or a constant."""
        return next((node for node in self.nodes if tensor in node.outputs), None)
