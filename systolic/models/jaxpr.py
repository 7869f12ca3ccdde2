"""Any JAX function as a workload: its jaxpr, read into a graph.

The function is traced with arrays or ``jax.ShapeDtypeStruct`` alike, so that a model of any size is read
without its memory. Nothing is compiled and nothing is executed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SystolicError
from .trace.arguments import Argument, Params, kinds_of
from .trace.events import Choices
from .trace.graph import Graph, Inner, Label, Node, Tensor, Work
from .trace.jax_params import MATMULS
from .trace.primitives import CALLS, SCALAR_PROGRAMS
from .trace.program import Counted, Program, count
from .trace.roles import Fact, Kind

if TYPE_CHECKING:
    from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

JAX_NAMES = {
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
}
"""Canonical number formats whose names JAX does not know."""

LIBRARIES = ("equinox", "flax")
"""An argument of a class of theirs is a model."""


@dataclass(frozen=True)
class Traced:
    """A traced function.

    Attributes
    ----------
    closed
        The jaxpr without dead code.
    program
        The same, and the jaxpr as traced, as graphs.
    takes
        Which leaves of the arguments are arrays: the jaxpr's inputs.
    rebuild
        From the jaxpr's results to what the function returns.
    """

    closed: ClosedJaxpr
    program: Program
    takes: tuple[bool, ...]
    rebuild: Callable[[Sequence[Any]], Any]

    def inputs(self, args: Sequence[Any]) -> list[Any]:
        """The arrays of arguments like those with which it was traced."""
        import jax

        return [leaf for leaf, taken in zip(jax.tree.leaves(args), self.takes, strict=True) if taken]

    def count(self, choices: Choices | None = None) -> Counted:
        """Its matmuls; see :func:`systolic.models.trace.program.count`."""
        return count(self.program, choices)


def count_function(
    fn: Callable[..., Any],
    *args: Any,
    trips: Mapping[str, int] | None = None,
    branches: Mapping[str, int] | None = None,
    params: Params = None,
) -> Counted:
    """The matmuls of a JAX function, and the vector work between them.

    Parameters
    ----------
    fn, args
        The function and its arguments: pytrees of arrays or ``jax.ShapeDtypeStruct``.
    trips
        Iterations of loops whose length is not known before the run: name of the loop (``"model.py:42"``, or
        its ``jax.named_scope``) -> count.
    branches
        Branch of a ``cond`` or ``switch`` to simulate, by the same names; else the one with most MACs.
    params
        Positions or names of the arguments that hold the model. Default: as
        :mod:`systolic.models.trace.arguments` finds them.

    Raises
    ------
    SystolicError
        If a loop's length is neither known nor given, or an argument cannot be traced.
    """
    return trace(fn, *args, params=params).count(Choices(trips or {}, branches or {}))


def trace(fn: Callable[..., Any], *args: Any, params: Params = None, inline: bool = True) -> Traced:
    """Trace a function; see :func:`count_function`.

    Without `inline`, functions of the library that a jaxpr writes out stay the ``jit`` calls that they are
    outside of one.
    """
    import jax

    flat = _Flat(fn, args)
    with nullcontext() if inline else _nothing_inlined():
        closed = jax.make_jaxpr(flat)(*flat.arrays)
    live = _without_dead_code(closed)
    graph = _Reader().closed(live)
    kinds = [k for k, t in zip(kinds_of(flat.arguments, params), flat.takes, strict=True) if t]
    facts = (
        Fact(k if _may_hold_weights(t) else Kind.DATA, t) for k, t in zip(kinds, graph.inputs, strict=True)
    )
    program = Program(name=_name_of(fn), traced=_Reader().closed(closed), live=graph, facts=tuple(facts))

    return Traced(live, program, flat.takes, flat.rebuild)


def compiled(fn: Callable[..., Any], *args: Any) -> tuple[str, str]:
    """The HLO text of the function as XLA compiles it for the default backend, and that backend's name."""
    import jax

    flat = _Flat(fn, args)
    return str(jax.jit(flat).lower(*flat.arrays).compile().as_text()), jax.default_backend()


class _Flat:
    """A function of the arrays among the leaves of its arguments; other leaves are fixed.

    `arguments` describe the arguments, `takes` says which leaves are arrays, `arrays` holds them.
    """

    def __init__(self, fn: Callable[..., Any], args: Sequence[Any]) -> None:
        import jax

        _refuse_missing(fn, args)
        leaves, self._tree = jax.tree.flatten(tuple(args))
        self.arguments = _arguments(fn, args)
        bare = [argument.bare for argument in self.arguments for _ in range(argument.leaves)]
        self.takes = tuple(
            _is_array(x) or (alone and _is_number(x)) for x, alone in zip(leaves, bare, strict=True)
        )
        self.arrays = [leaf for leaf, taken in zip(leaves, self.takes, strict=True) if taken]
        self._fn = fn
        self._fixed = [None if taken else leaf for leaf, taken in zip(leaves, self.takes, strict=True)]
        self._out: Any = None
        self._out_fixed: list[Any] = []

    def __call__(self, *arrays: Any) -> list[Any]:
        import jax

        remaining = iter(arrays)
        pairs = zip(self._fixed, self.takes, strict=True)
        whole = [next(remaining) if taken else leaf for leaf, taken in pairs]
        out, self._out = jax.tree.flatten(self._fn(*jax.tree.unflatten(self._tree, whole)))
        self._out_fixed = [None if _is_traceable(leaf) else leaf for leaf in out]
        return [leaf for leaf in out if _is_traceable(leaf)]

    def rebuild(self, results: Sequence[Any]) -> Any:
        """What the function returns, from the results of the flat one."""
        import jax

        remaining = iter(results)
        whole = [next(remaining) if leaf is None else leaf for leaf in self._out_fixed]
        return jax.tree.unflatten(self._out, whole)


@contextmanager
def _nothing_inlined() -> Iterator[None]:
    """Keep library functions that JAX compiles by themselves, but writes out within a jaxpr, together."""
    from jax.extend.core import primitives

    jit_p: Any = primitives.jit_p
    bind = jit_p.bind
    jit_p.bind = lambda *args, **params: bind(*args, **{**params, "inline": False})
    try:
        yield
    finally:
        del jit_p.bind  # the class's own appears again


def _refuse_missing(fn: Callable[..., Any], args: Sequence[Any]) -> None:
    try:
        inspect.signature(fn).bind(*args)
    except TypeError as error:
        raise SystolicError(
            f"{_name_of(fn)}: {error}; give its arguments behind it, arrays or jax.ShapeDtypeStruct"
        ) from error
    except ValueError:  # a callable without a signature: tracing will tell
        return


def shaped(text: str) -> Any:
    """An argument by its shape: ``8x128:bf16`` is 8 by 128 elements of bf16, ``:int32`` a scalar.

    Raises
    ------
    SystolicError
        If it is no such text, or the number format is unknown.
    """
    import jax

    sides, colon, name = text.partition(":")
    shape = sides.split("x") if sides else []
    if not all(side.isdecimal() for side in shape) or not (shape or colon):
        raise SystolicError(f"--arg must be sides and a number format such as 8x128:bf16, got {text!r}")
    shape_of: Any = jax.ShapeDtypeStruct  # untyped in jax
    try:
        return shape_of(tuple(map(int, shape)), JAX_NAMES.get(name, name) if name else "float32")
    except TypeError as error:
        raise SystolicError(f"--arg {text}: {name!r} is no number format of JAX") from error


def _without_dead_code(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr without equations that no result and no effect needs.

    ``dce_jaxpr`` has no public name in jax 0.10; this is the one place that uses it.
    """
    from jax.extend.core import ClosedJaxpr
    from jax.interpreters import partial_eval

    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return ClosedJaxpr(jaxpr, closed.consts)


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, (bool, int, float, complex))


def _is_traceable(leaf: Any) -> bool:
    return _is_array(leaf) or _is_number(leaf)


def _may_hold_weights(tensor: Tensor) -> bool:
    return any(word in tensor.dtype for word in ("float", "int8", "int4"))


def _arguments(fn: Callable[..., Any], args: Sequence[Any]) -> list[Argument]:
    """The arguments by name, and what holds them."""
    import jax

    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [
        Argument(
            name=names[i] if i < len(names) else f"argument {i}",
            leaves=len(jax.tree.leaves(arg)),
            bare=_is_array(arg) or _is_number(arg),
            module=any(base.__module__.partition(".")[0] in LIBRARIES for base in type(arg).__mro__),
        )
        for i, arg in enumerate(args)
    ]


def _name_of(fn: Callable[..., Any]) -> str:
    name = getattr(fn, "__name__", type(fn).__name__)
    return "function" if name == "<lambda>" else name


class _Reader:
    """Reads jaxprs into graphs; each jaxpr once, however often it is called."""

    def __init__(self) -> None:
        self._read: dict[int, tuple[Any, Graph]] = {}

    def closed(self, closed: ClosedJaxpr, name: str = "") -> Graph:
        """The graph of a closed jaxpr."""
        return self.jaxpr(closed.jaxpr, name, consts=closed.consts)

    def jaxpr(
        self, jaxpr: Jaxpr, name: str = "", inputs: int | None = None, consts: Sequence[Any] = ()
    ) -> Graph:
        """The graph of a jaxpr; its first `inputs` variables (default: all) are inputs."""
        if id(jaxpr) in self._read:
            return self._read[id(jaxpr)][1]
        frame: dict[Any, Tensor] = {}

        def tensor(atom: Any) -> Tensor:
            if hasattr(atom, "val"):
                return _literal(atom)
            if atom not in frame:
                frame[atom] = _tensor(atom.aval)
            return frame[atom]

        variables = tuple(tensor(v) for v in jaxpr.invars)
        constants = tuple(tensor(v) for v in jaxpr.constvars)
        nodes = tuple(self._node(eqn, tensor) for eqn in jaxpr.eqns)
        outputs = tuple(tensor(v) for v in jaxpr.outvars)
        graph = Graph(variables[:inputs], outputs, nodes, constants, name, source=(jaxpr, tuple(consts)))
        self._read[id(jaxpr)] = (jaxpr, graph)  # holding the jaxpr keeps its id from being given away
        return graph

    def _node(self, eqn: JaxprEqn, tensor: Callable[[Any], Tensor]) -> Node:
        inputs = tuple(tensor(v) for v in eqn.invars)
        work = self._work(eqn)
        if isinstance(work, Inner) and work.operands is not None:
            inputs = tuple(inputs[i] for i in work.operands)
        return Node(
            primitive=eqn.primitive.name,
            inputs=inputs,
            outputs=tuple(tensor(v) for v in eqn.outvars),
            work=work,
            label=_label(eqn),
            attributes={} if work is not None else eqn.params,
        )

    def _work(self, eqn: JaxprEqn) -> Work | None:
        name, params = eqn.primitive.name, eqn.params
        if name in MATMULS:
            return MATMULS[name](params)
        if name == "scan":
            body = self.closed(params["jaxpr"])
            return Inner("scan", (body,), params["length"], params["num_consts"], params["num_carry"])
        if name == "while":
            bodies = self.closed(params["cond_jaxpr"]), self.closed(params["body_jaxpr"])
            cond_consts, consts = params["cond_nconsts"], params["body_nconsts"]
            carried = len(eqn.invars) - cond_consts - consts
            return Inner("while", bodies, None, consts, carried, cond_consts)
        if name == "cond":
            return Inner("branch", tuple(self.closed(b, _function(b)) for b in params["branches"]))
        if name == "custom_linear_solve":
            return self._solve(params)
        if name == "pallas_call":
            return self._kernel(eqn)
        if name == "shard_map":
            devices = prod(params["mesh"].shape[axis] for axis in params["newly_manual_axes"])
            note = f"shard_map over {devices} devices: the work of all of them, on one chip"
            return Inner("call", (self.jaxpr(params["jaxpr"]),), devices, note=note)
        return self._call(name, params)

    def _call(self, name: str, params: Mapping[str, Any]) -> Work | None:
        from jax.extend.core import jaxprs_in_params

        inner = [] if name in SCALAR_PROGRAMS else list(jaxprs_in_params(params))
        if not inner:
            return None
        if name in CALLS and len(inner) == 1:
            (program,) = inner
            jaxpr, consts = getattr(program, "jaxpr", program), getattr(program, "consts", ())
            return Inner("call", (self.jaxpr(jaxpr, str(params.get("name", "")), consts=consts),))
        graphs = [self.jaxpr(getattr(j, "jaxpr", j)) for j in inner]
        nodes = tuple(node for graph in graphs for node in graph.nodes)
        return Inner("call", (Graph((), (), nodes),), opaque=True, operands=())

    def _solve(self, params: Mapping[str, Any]) -> Work:
        """``custom_linear_solve`` holds four programs, of which a run takes one."""
        lengths, programs = params["const_lengths"], params["jaxprs"]
        before = lengths.matvec + lengths.vecmat
        after = before + lengths.solve + lengths.transpose_solve
        body = self.closed(programs.solve)
        operands = len(body.inputs) - lengths.solve
        used = (*range(before, before + lengths.solve), *range(after, after + operands))
        return Inner("call", (body,), operands=used)

    def _kernel(self, eqn: JaxprEqn) -> Inner:
        """A Pallas kernel: its program once per step of the grid."""
        jaxpr, grid = eqn.params["jaxpr"], eqn.params["grid_mapping"].grid
        known = all(isinstance(side, int) for side in grid)
        body = self.jaxpr(jaxpr, inputs=len(eqn.invars))
        return Inner("call", (body,), prod(grid) if known else None)


def _tensor(aval: Any) -> Tensor:
    return Tensor(tuple(getattr(aval, "shape", ())), str(getattr(aval, "dtype", "none")))


def _literal(literal: Any) -> Tensor:
    tensor = _tensor(literal.aval)
    whole = tensor.shape == () and "int" in tensor.dtype
    return Tensor(tensor.shape, tensor.dtype, True, int(literal.val) if whole else None)


def _function(closed: Any) -> str:
    return str(getattr(closed.jaxpr.debug_info, "func_name", ""))


def _label(eqn: JaxprEqn) -> Label:
    from jax.extend import source_info_util

    place, _, function = source_info_util.summarize(eqn.source_info).partition(" ")
    path, _, position = place.partition(":")
    source = f"{Path(path).name}:{position.partition(':')[0]} {function}".rstrip() if position else ""
    return Label(str(eqn.source_info.name_stack), source)
