"""A file of StableHLO, as ``jax.export`` and others write it, as a workload.

Text, bytecode, and what ``jax.export`` serialises are read. Nothing is compiled and nothing is executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ..errors import SystolicError
from .trace.arguments import Argument, kinds_of
from .trace.contraction import Contraction, Convolution
from .trace.events import Choices
from .trace.graph import Graph, Inner, Label, Node, Tensor, Work
from .trace.program import Counted, Program, count
from .trace.roles import Fact, Kind

_BYTECODE = b"ML\xefR"
_FORMATS = {
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    "i1": "bool",
    "bf16": "bfloat16",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
}
_NAMES = {
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "log_plus_one": "log1p",
    "maximum": "max",
    "minimum": "min",
    "power": "pow",
    "negate": "neg",
    "remainder": "rem",
    "select": "select_n",
    "convert": "convert_element_type",
    "reverse": "rev",
    "cosine": "cos",
    "sine": "sin",
    "round_nearest_afz": "round",
    "round_nearest_even": "round",
    "bitcast_convert": "bitcast_convert_type",
    "count_leading_zeros": "clz",
    "popcnt": "population_count",
    "shift_right_arithmetic": "shift_right_arithmetic",
}
"""StableHLO's names of primitives -> JAX's, where they differ."""

_LOWERED = ("while", "body", "cond", "closed_call")
"""Parts of a name stack that JAX's lowering adds."""

_LOCATION = re.compile(r'"([^"]*\.py)":(\d+)')
_STACK = re.compile(r'^loc\("([^"]*)"')


def count_file(
    path: Path, *, trips: Mapping[str, int] | None = None, branches: Mapping[str, int] | None = None
) -> Counted:
    """The matmuls of a file of StableHLO; its ``main`` is counted as it is written.

    Parameters
    ----------
    path
        Text (``.mlir``), bytecode (``.mlirbc``), or the bytes of ``jax.export.Exported.serialize``.
    trips, branches
        As for :func:`systolic.models.jaxpr.count_function`.

    Raises
    ------
    SystolicError
        If there is no such file, it is no StableHLO, or a loop's length is neither known nor given.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SystolicError(f"{path}: cannot be read: {error.strerror}") from error
    from jax.extend.mlir import ir
    from jax.interpreters.mlir import make_ir_context

    with make_ir_context() as context:
        context.allow_unregistered_dialects = True
        try:
            module = _module(content, context)
        except (ValueError, ir.MLIRError) as error:
            first = str(error).strip().partition("\n")[0]
            raise SystolicError(f"{path}: is no StableHLO that this jaxlib reads: {first}") from error
        program = _Reader(module).program(path.name)
    return count(program, Choices(trips or {}, branches or {}))


def _module(content: bytes, context: Any) -> Any:
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    if content.startswith(_BYTECODE):
        return stablehlo.deserialize_portable_artifact(context, content)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = _serialized(content)
    return ir.Module.parse(text)


def _serialized(content: bytes) -> str:
    """The text in what ``jax.export.Exported.serialize`` wrote."""
    from jax import export

    try:
        return str(export.deserialize(bytearray(content)).mlir_module())
    except ImportError as error:
        raise ValueError("reading what jax.export serialised needs the package flatbuffers") from error
    except Exception as error:  # bytes that are something else fail anywhere in the decoder
        raise ValueError("it is neither text nor bytecode, nor written by jax.export") from error


class _Reader:
    """Reads the functions of a module into graphs, each once."""

    def __init__(self, module: Any) -> None:
        self._functions = {op.attributes["sym_name"].value: op for op in module.body.operations}
        self._read: dict[str, Graph] = {}

    def program(self, name: str) -> Program:
        """The module's entry function as a program."""
        entry = "main" if "main" in self._functions else next(iter(self._functions), None)
        if entry is None:
            raise SystolicError(f"{name}: holds no function")
        graph = self._function(entry)
        block = self._functions[entry].regions[0].blocks[0]
        kinds = kinds_of(_arguments([_stack(a.location) for a in block.arguments]))
        facts = tuple(
            Fact(kind if any(w in t.dtype for w in ("float", "int8", "int4")) else Kind.DATA, t)
            for kind, t in zip(kinds, graph.inputs, strict=True)
        )
        return Program(name=name, traced=graph, live=graph, facts=facts)

    def _function(self, name: str) -> Graph:
        if name not in self._read:
            block = self._functions[name].regions[0].blocks[0]
            self._read[name], _ = self._block(block, {}, name)
        return self._read[name]

    def _block(self, block: Any, around: Mapping[Any, Tensor], name: str = "") -> tuple[Graph, list[Any]]:
        """The graph of a block, and the values from around it that it uses: its first inputs."""
        frame = {value: _tensor(value.type) for value in block.arguments}
        captured: dict[Any, Tensor] = {}
        constants: list[Tensor] = []

        def tensor(value: Any) -> Tensor:
            if value in frame:
                return frame[value]
            if around[value].constant:
                return around[value]
            return captured.setdefault(value, _tensor(value.type))

        nodes: list[Node] = []
        outputs: tuple[Tensor, ...] = ()
        for op in block.operations:
            kind = op.operation.name.rpartition(".")[2]
            if kind == "return":
                outputs = tuple(tensor(v) for v in op.operands)
            elif kind == "constant":
                frame[op.results[0]] = constant = _constant(op)
                constants += [constant] if constant.size > 1 and not constant.constant else []
            else:
                scope = {**around, **frame}
                nodes.append(self._node(op, kind, tensor, scope))
                frame.update(zip(op.results, nodes[-1].outputs, strict=True))
        inputs = (*captured.values(), *(frame[a] for a in block.arguments))
        return Graph(inputs, outputs, tuple(nodes), tuple(constants), name), list(captured)

    def _node(self, op: Any, kind: str, tensor: Callable[[Any], Tensor], scope: Mapping[Any, Tensor]) -> Node:
        operands = list(op.operands)
        work: Work | None = None
        if kind in _MATMULS:
            work = _MATMULS[kind](op)
        elif kind in ("call", "composite"):
            callee = op.attributes["callee" if kind == "call" else "decomposition"].value
            work = Inner("call", (self._function(callee),))
        elif kind == "while":
            (test, test_uses), (body, uses) = (self._block(r.blocks[0], scope) for r in op.regions)
            work = Inner("while", (test, body), None, len(uses), len(operands), len(test_uses))
            operands = [*test_uses, *uses, *operands]
        elif kind in ("case", "if"):
            work, operands = self._branches(op, kind, scope)
        return Node(
            primitive=_primitive(op, kind),
            inputs=tuple(tensor(v) for v in operands),
            outputs=tuple(_tensor(v.type) for v in op.results),
            work=work,
            label=_label(op.location),
            attributes=_attributes(op),
        )

    def _branches(self, op: Any, kind: str, scope: Mapping[Any, Tensor]) -> tuple[Inner, list[Any]]:
        """All branches take what any of them uses, in one order."""
        read = [self._block(region.blocks[0], scope) for region in op.regions]
        if kind == "if":
            read.reverse()  # its first region runs where the operand is true, index 1
        uses = list(dict.fromkeys(value for _, used in read for value in used))
        graphs = []
        for graph, used in read:
            own = dict(zip(used, graph.inputs, strict=True))
            inputs = tuple(own.get(value) or _tensor(value.type) for value in uses)
            graphs.append(Graph(inputs, graph.outputs, graph.nodes, graph.constants))
        return Inner("branch", tuple(graphs)), [op.operands[0], *uses]


def _contraction(op: Any) -> Contraction:
    from jax.extend.mlir.dialects import stablehlo

    if "dot_dimension_numbers" not in op.attributes:  # stablehlo.dot: vectors and matrices
        left = len(_tensor(op.operands[0].type).shape)
        return Contraction((), (), (left - 1,), (0,), _precision(op))
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return Contraction(
        tuple(numbers.lhs_batching_dimensions),
        tuple(numbers.rhs_batching_dimensions),
        tuple(numbers.lhs_contracting_dimensions),
        tuple(numbers.rhs_contracting_dimensions),
        _precision(op),
    )


def _convolution(op: Any) -> Convolution:
    from jax.extend.mlir.dialects import stablehlo

    n = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    rank = len(n.input_spatial_dimensions)
    attributes = _attributes(op)
    pads = attributes.get("padding", [0] * (2 * rank))
    return Convolution(
        lhs_dims=(n.input_batch_dimension, n.input_feature_dimension, *n.input_spatial_dimensions),
        rhs_dims=(
            n.kernel_output_feature_dimension,
            n.kernel_input_feature_dimension,
            *n.kernel_spatial_dimensions,
        ),
        out_dims=(n.output_batch_dimension, n.output_feature_dimension, *n.output_spatial_dimensions),
        strides=tuple(attributes.get("window_strides", [1] * rank)),
        padding=tuple(zip(pads[::2], pads[1::2], strict=True)),
        lhs_dilation=tuple(attributes.get("lhs_dilation", [1] * rank)),
        rhs_dilation=tuple(attributes.get("rhs_dilation", [1] * rank)),
        feature_groups=op.attributes["feature_group_count"].value,
        batch_groups=op.attributes["batch_group_count"].value,
        precision=_precision(op),
    )


_MATMULS: dict[str, Callable[[Any], Contraction | Convolution]] = {
    "dot_general": _contraction,
    "dot": _contraction,
    "convolution": _convolution,
}


def _precision(op: Any) -> str:
    if "precision_config" not in op.attributes:
        return "default"
    words = [str(p).rpartition(" ")[2].rstrip(">").lower() for p in op.attributes["precision_config"]]
    return min(words, key=("default", "high", "highest").index, default="default")


_LISTS = (
    *("window_strides", "padding", "lhs_dilation", "rhs_dilation", "window_dimensions"),
    *("broadcast_dimensions", "permutation"),
)


def _attributes(op: Any) -> dict[str, Any]:
    """Lists of whole numbers among the attributes, by the names that JAX gives them."""
    return {name: [int(x) for x in op.attributes[name]] for name in _LISTS if name in op.attributes}


def _primitive(op: Any, kind: str) -> str:
    if kind == "compare":
        direction = str(op.attributes["comparison_direction"]).rpartition(" ")[2].rstrip(">").lower()
        return direction if direction in ("lt", "le", "gt", "ge", "eq", "ne") else "eq"
    if kind == "custom_call":
        return f"custom_call {op.attributes['call_target_name'].value}"
    return _NAMES.get(kind, kind)


def _tensor(kind: Any) -> Tensor:
    from jax.extend.mlir import ir

    if not isinstance(kind, ir.RankedTensorType):
        return Tensor((), str(kind))
    element = str(kind.element_type)
    return Tensor(tuple(kind.shape), _FORMATS.get(element, element))


def _constant(op: Any) -> Tensor:
    from jax.extend.mlir import ir

    tensor, value = _tensor(op.results[0].type), op.attributes["value"]
    number = None
    if tensor.shape == () and isinstance(value, ir.DenseIntElementsAttr):
        number = int(value[0])
    splat = not isinstance(value, ir.DenseElementsAttr) or value.is_splat
    return Tensor(tensor.shape, tensor.dtype, constant=splat or tensor.size == 1, number=number)


def _label(location: Any) -> Label:
    text = str(location)
    stack, _, _ = _stack(location).rpartition("/")  # the last part is the primitive
    parts = [part for part in stack.split("/") if part not in _LOWERED]
    if parts and parts[0].startswith("jit("):
        del parts[0]
    found = _LOCATION.search(text)
    source = f"{Path(found[1]).name}:{found[2]}" if found else ""
    return Label("/".join(parts), source)


def _stack(location: Any) -> str:
    found = _STACK.match(str(location))
    return found[1] if found else ""


def _arguments(names: Sequence[str]) -> list[Argument]:
    """Leaves that begin with one name are one argument: ``params['w']``, ``params['b']``."""
    heads = [re.split(r"[\[.]", name)[0] for name in names]
    arguments = []
    for head, group in groupby(range(len(names)), key=lambda i: heads[i]):
        leaves = list(group)
        bare = len(leaves) == 1 and names[leaves[0]] == head
        arguments.append(Argument(name=head, leaves=len(leaves), bare=bare, module=False))
    return arguments
