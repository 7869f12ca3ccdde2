"""Evaluates a traced program: matmuls by a chip, everything else by JAX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...errors import SystolicError
from ...models.trace.contraction import Contraction, Convolution, Sides
from ...models.trace.events import Observed, Path
from ...models.trace.graph import Graph, Inner, Node
from ...models.trace.matmuls import gemm_of
from ..hook import MatmulHook
from .operands import contract, contract_groups, convolve
from .segments import Segment, plan

NUMBERS = (bool, int, float, complex)


class Runner:
    """Evaluates a graph: matmuls by the hook, everything else by JAX, and sees what ran."""

    def __init__(self, hook: MatmulHook) -> None:
        self.observed = Observed()
        self._hook = hook
        self._overflows = self._narrowed = self._beyond = 0
        self._by_jax: dict[str, None] = {}

    def notes(self) -> list[str]:
        """What the reader has to know of the values."""
        notes = []
        if self._overflows:
            notes.append(f"{self._overflows:,} integer sums wrapped in the accumulator")
        if self._narrowed:
            notes.append(
                f"{self._narrowed:,} integer results do not fit the format in which the program stores them "
                "and wrapped, as in plain JAX"
            )
        if self._beyond:
            notes.append(f"{self._beyond:,} results lie beyond the range of the format that stores them: inf")
        notes += [f"{name}: its matmuls were computed by JAX, not by the chip" for name in self._by_jax]
        return notes

    def run(self, graph: Graph, arrays: Sequence[Any]) -> list[Any]:
        """The results of the whole program."""
        import jax.numpy as jnp

        return self._graph(
            graph, [jnp.asarray(a) if isinstance(a, (np.ndarray, *NUMBERS)) else a for a in arrays], ()
        )

    def _graph(self, graph: Graph, arrays: Sequence[Any], path: Path) -> list[Any]:
        jaxpr, consts = graph.source
        frame = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arrays), strict=True))

        def value(atom: Any) -> Any:
            return atom.val if hasattr(atom, "val") else frame[atom]

        for part in plan(graph):
            if isinstance(part, Segment):
                results = part.run(*(frame[v] for v in part.inputs))
                frame.update(zip(part.outputs, results, strict=True))
            else:
                eqn, node = jaxpr.eqns[part], graph.nodes[part]
                results = self._equation(eqn, node, [value(v) for v in eqn.invars], (*path, part))
                frame.update(zip(eqn.outvars, results, strict=True))
        return [value(v) for v in jaxpr.outvars]

    def _equation(self, eqn: Any, node: Node, inputs: list[Any], path: Path) -> Sequence[Any]:
        work = node.work
        if isinstance(work, Inner):
            if not any(body.multiplies for body in work.bodies):
                return _by_jax(eqn, inputs)
            if (work.times is None and work.kind == "call") or work.opaque or node.primitive in _WHOLE:
                self._by_jax.setdefault(node.primitive)
                return _by_jax(eqn, inputs)
            return self._inner(eqn, node, work, inputs, path)
        return self._matmul(eqn, node, inputs, path)

    def _inner(self, eqn: Any, node: Node, inner: Inner, inputs: list[Any], path: Path) -> Sequence[Any]:
        if inner.kind == "call":
            used = [inputs[i] for i in inner.operands] if inner.operands is not None else inputs
            return self._graph(inner.bodies[0], used, (*path, 0))
        self.observed.entered.add(path)
        if inner.kind == "branch":
            taken = min(max(int(inputs[0]), 0), len(inner.bodies) - 1)
            return self._body(inner, taken, inputs[1:], path)
        if inner.kind == "scan":
            return self._scan(eqn, inner, inputs, path)
        tests, consts, carry = _parted(inputs, inner.cond_consts, inner.consts)
        while bool(self._body(inner, 0, [*tests, *carry], path)[0]):
            carry = self._body(inner, 1, [*consts, *carry], path)
        return carry

    def _scan(self, eqn: Any, inner: Inner, inputs: list[Any], path: Path) -> Sequence[Any]:
        import jax.numpy as jnp

        consts, carry, sliced = _parted(inputs, inner.consts, inner.carried)
        assert inner.times is not None
        order = range(inner.times)
        stacked = []
        for i in reversed(order) if eqn.params["reverse"] else order:
            results = self._body(inner, 0, [*consts, *carry, *(s[i] for s in sliced)], path)
            carry = results[: inner.carried]
            stacked.append(results[inner.carried :])
        if eqn.params["reverse"]:
            stacked.reverse()
        if not stacked:
            avals = [v.aval for v in eqn.outvars[inner.carried :]]
            return [*carry, *(jnp.zeros(a.shape, a.dtype) for a in avals)]
        return [*carry, *(jnp.stack(each) for each in zip(*stacked, strict=True))]

    def _body(self, inner: Inner, which: int, arrays: Sequence[Any], path: Path) -> list[Any]:
        self.observed.bodies[*path, which] += 1
        return self._graph(inner.bodies[which], arrays, (*path, which))

    def _matmul(self, eqn: Any, node: Node, inputs: list[Any], path: Path) -> Sequence[Any]:
        import jax.numpy as jnp

        work, multiply = node.work, partial(self._multiply, node)
        if node.primitive in _WHOLE or not _is_modelled(node):
            self._by_jax.setdefault(f"{node.primitive} of {node.inputs[0].dtype} x {node.inputs[1].dtype}")
            return _by_jax(eqn, inputs)
        lhs, rhs = (_plain(x) for x in inputs[:2])
        if isinstance(work, Contraction):
            out = contract(work, lhs, rhs, multiply)
        elif isinstance(work, Convolution):
            out = convolve(work, lhs, rhs, multiply)
        else:
            out = self._ragged(work, lhs, rhs, inputs, multiply, path)
        aval = eqn.outvars[0].aval
        result = jnp.asarray(out.astype(aval.dtype, copy=False))
        if out.dtype == np.int32 and aval.dtype != np.int32:
            self._narrowed += int((out != np.asarray(result).astype(np.int32)).sum())
        return [result]

    def _ragged(
        self,
        work: Any,
        lhs: np.ndarray,
        rhs: np.ndarray,
        inputs: list[Any],
        multiply: Callable[[np.ndarray, np.ndarray], np.ndarray],
        path: Path,
    ) -> np.ndarray:
        if work.mode == "batch":
            return contract(work.dot, lhs, rhs, multiply)
        sizes = np.asarray(inputs[2])
        if sizes.ndim != 1 or len(inputs) > 3:
            raise SystolicError("ragged_dot_general with group sizes per batch or an offset is not run here")
        self.observed.groups.setdefault(path, Counter()).update(int(s) for s in sizes)
        return contract_groups(work, lhs, rhs, sizes, multiply)

    def _multiply(self, node: Node, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        batch, m, k = a.shape
        n = b.shape[2]
        if not a.size or not b.size:
            kind = np.int32 if a.dtype.kind == "i" else np.float32
            return np.zeros((batch, m, n), kind)
        gemm, _ = gemm_of(node, Sides(batch, m, n, k), [t.dtype for t in node.inputs[:2]])
        values = self._hook.values(gemm, a, b)
        self._overflows += values.overflows
        if gemm.out_dtype in NARROW_RANGE:
            self._beyond += int((~np.isfinite(values.out)).sum())
        return values.out


NARROW_RANGE = ("fp16", "fp8_e4m3", "fp8_e5m2")
"""Formats whose range a sum of ordinary numbers leaves."""

_WHOLE = ("pallas_call", "shard_map", "scaled_dot")
"""What JAX runs whole: kernels on blocks, programs on shards, products with scales inside."""


def _is_modelled(node: Node) -> bool:
    """Whether some chip here may multiply the formats of a matmul."""
    try:
        gemm_of(node, Sides(1, 1, 1, 1), [t.dtype for t in node.inputs[:2]])
    except SystolicError:
        return False
    return True


def _by_jax(eqn: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    with eqn.ctx.manager:
        out = eqn.primitive.bind(*inputs, **eqn.primitive.get_bind_params(eqn.params))
    return out if eqn.primitive.multiple_results else [out]


def _parted(inputs: Sequence[Any], first: int, second: int) -> tuple[list[Any], list[Any], list[Any]]:
    return list(inputs[:first]), list(inputs[first : first + second]), list(inputs[first + second :])


def _plain(array: Any) -> np.ndarray:
    """float32, or an integer format that NumPy has."""
    values = np.asarray(array)
    if values.dtype.kind == "i":
        return values
    return values.astype(np.int8 if "int" in values.dtype.name else np.float32, copy=False)
