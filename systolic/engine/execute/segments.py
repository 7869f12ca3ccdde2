"""What stands between two matmuls of a program, compiled by JAX as one function.

Layers that are written out one by one have equal segments; each is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...models.trace.graph import Graph, Inner, Node

if TYPE_CHECKING:
    from jax.extend.core import Jaxpr, JaxprEqn

_MOST_COMPILED = 512


@dataclass(frozen=True)
class Segment:
    """Equations without a matmul: the variables that they read and yield, and the compiled function."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    run: Callable[..., Sequence[Any]]


Plan = tuple[Segment | int, ...]
"""A program in order: segments, and indices of equations that hold a matmul."""

_plans: WeakKeyDictionary[Graph, Plan] = WeakKeyDictionary()
_compiled: dict[str, Callable[..., Sequence[Any]]] = {}


def plan(graph: Graph) -> Plan:
    """Cut a program that was read from a jaxpr at its matmuls."""
    if graph not in _plans:
        _plans[graph] = tuple(_parts(graph))
    return _plans[graph]


def _parts(graph: Graph) -> list[Segment | int]:
    jaxpr, _ = graph.source
    parts: list[Segment | int] = []
    start = 0
    for index, node in enumerate(graph.nodes):
        if _multiplies(node):
            parts += [_segment(jaxpr, start, index)] if start < index else []
            parts.append(index)
            start = index + 1
    parts += [_segment(jaxpr, start, len(graph.nodes))] if start < len(graph.nodes) else []
    return parts


def _multiplies(node: Node) -> bool:
    if isinstance(node.work, Inner):
        return any(body.multiplies for body in node.work.bodies)
    return node.work is not None


def _segment(jaxpr: Jaxpr, start: int, stop: int) -> Segment:
    """Equations start … stop - 1 as one function."""
    import jax
    from jax.extend.core import ClosedJaxpr, DebugInfo, Jaxpr, jaxpr_as_fun

    eqns = jaxpr.eqns[start:stop]
    made = dict.fromkeys(v for eqn in eqns for v in eqn.outvars)
    inputs = tuple(dict.fromkeys(v for v in _read(eqns) if v not in made))
    used = set(_read(jaxpr.eqns[stop:])) | {v for v in jaxpr.outvars if not hasattr(v, "val")}
    outputs = tuple(v for v in made if v in used)
    names = tuple(f"{which}{i}" for which, vs in (("in", inputs), ("out", outputs)) for i in range(len(vs)))
    part = Jaxpr(
        (),
        inputs,
        outputs,
        eqns,
        frozenset().union(*(eqn.effects for eqn in eqns)),
        DebugInfo("jit", "segment", names[: len(inputs)], names[len(inputs) :]),
    )
    key = str(part)
    if _closes_over_arrays(eqns):
        return Segment(inputs, outputs, jax.jit(jaxpr_as_fun(ClosedJaxpr(part, ()))))
    if key not in _compiled:
        if len(_compiled) >= _MOST_COMPILED:
            _compiled.clear()
        _compiled[key] = jax.jit(jaxpr_as_fun(ClosedJaxpr(part, ())))
    return Segment(inputs, outputs, _compiled[key])


def _read(eqns: Sequence[JaxprEqn]) -> list[Any]:
    return [v for eqn in eqns for v in eqn.invars if not hasattr(v, "val")]


def _closes_over_arrays(eqns: Sequence[JaxprEqn]) -> bool:
    """Whether programs inside hold arrays, which their text does not show."""
    from jax.extend.core import jaxprs_in_params

    inner = [program for eqn in eqns for program in jaxprs_in_params(eqn.params)]
    return any(
        bool(getattr(program, "consts", ())) or _closes_over_arrays(getattr(program, "jaxpr", program).eqns)
        for program in inner
    )
