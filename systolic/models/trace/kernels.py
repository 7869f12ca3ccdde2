"""A program as a list of kernels: what is launched, the bytes that each reads and writes, its MACs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...errors import SystolicError
from .graph import Graph, Inner, Node
from .labels import Scope, line_of
from .loops import static_trips
from .matmuls import occurrences
from .vector_work import bits_of


@dataclass(frozen=True)
class Kernel:
    """One kernel, launched `count` times.

    Attributes
    ----------
    name
        Of the primitive, or of the fusion.
    bytes
        What one launch reads and writes, each operand and result once.
    macs, matmuls
        MACs and matmuls of one launch.
    """

    name: str
    bytes: int
    macs: int = 0
    matmuls: int = 0
    count: int = 1

    def times(self, count: int) -> Kernel:
        """The same kernel, so many times as often."""
        return replace(self, count=self.count * count)


COMPILED_WHOLE = frozenset(("jit", "scan", "while", "cond", "pallas_call", "custom_linear_solve"))
"""Primitives that JAX compiles into one executable when it meets them outside of ``jit``."""


def op_by_op(graph: Graph, trips: Mapping[str, int], scope: Scope | None = None) -> list[Kernel]:
    """Every primitive as a kernel that reads its operands from memory and writes its results there."""
    kernels = []
    for node in graph.nodes:
        if isinstance(node.work, Inner):
            kernels += _inside(node, node.work, trips, scope or Scope())
        else:
            kernels.append(_kernel(node, *_matmuls(node)))
    return kernels


def eager(graph: Graph, trips: Mapping[str, int]) -> list[Kernel]:
    """What JAX runs without ``jit`` around the whole: a nested ``jit``, a loop or a branch is one kernel."""
    kernels = []
    for node in graph.nodes:
        if not isinstance(node.work, Inner):
            kernels.append(_kernel(node, *_matmuls(node)))
        elif node.primitive in COMPILED_WHOLE:
            inner = _inside(node, node.work, trips, Scope())
            _, _, matmuls, macs = totals(inner)
            kernels.append(_kernel(node, macs, matmuls, node.work.bodies[0].name))
        else:
            kernels += [
                k.times(node.work.times or 1) for body in node.work.bodies for k in eager(body, trips)
            ]
    return kernels


def _inside(node: Node, inner: Inner, trips: Mapping[str, int], scope: Scope) -> list[Kernel]:
    scope = scope.inside(node.label)
    bodies = [op_by_op(body, trips, scope) for body in inner.bodies]
    if inner.kind == "branch":  # the branch that moves most
        return max(bodies, key=lambda kernels: sum(k.count * k.bytes for k in kernels))
    times = _iterations(node, inner, trips, scope)
    kernels = [k.times(times) for k in bodies[-1]]
    return kernels + [k.times(times + 1) for k in bodies[0]] if inner.kind == "while" else kernels


def _iterations(node: Node, inner: Inner, trips: Mapping[str, int], scope: Scope) -> int:
    name = line_of(node.label.source) or node.primitive
    given = trips.get(name, trips.get(scope.name(node.label)))
    known = static_trips(inner, [t.number for t in node.inputs])
    times = known if given is None else given
    if times is None:
        raise SystolicError(
            f"{node.label.source or name}: how often this loop runs is not known before the run; say it with "
            f"--trip {name}=COUNT"
        )
    return times


def _kernel(node: Node, macs: int = 0, matmuls: int = 0, name: str = "") -> Kernel:
    tensors = (*node.inputs, *node.outputs)
    moved = sum(-(-t.size * bits_of(t.dtype) // 8) for t in tensors)
    return Kernel(name or node.primitive, moved, macs, matmuls)


def _matmuls(node: Node) -> tuple[int, int]:
    if node.work is None or isinstance(node.work, Inner):
        return 0, 0
    found: Sequence[tuple[int, int]] = [(sides.macs * n, n) for sides, n in occurrences(node, None)]
    return sum(macs for macs, _ in found), sum(n for _, n in found)


def totals(kernels: Sequence[Kernel]) -> Iterator[int]:
    """Launches, bytes, matmuls and MACs of all."""
    yield sum(k.count for k in kernels)
    yield sum(k.count * k.bytes for k in kernels)
    yield sum(k.count * k.matmuls for k in kernels)
    yield sum(k.count * k.macs for k in kernels)
