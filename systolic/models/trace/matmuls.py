"""From a primitive that multiplies to a :class:`~systolic.workload.Gemm`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from ... import dtypes
from ...errors import SystolicError
from ...workload import Gemm
from .contraction import Contraction, Convolution, RaggedContraction, Sides
from .events import Missing, Product
from .graph import Inner, Node
from .labels import Scope
from .roles import Fact


def group_count(node: Node) -> int:
    """Groups of a ragged contraction whose sizes are data; 0 of anything else."""
    work = node.work
    if isinstance(work, RaggedContraction) and work.mode != "batch":
        return node.inputs[2].shape[-1]
    return 0


def occurrences(node: Node, groups: Mapping[int, int] | None) -> Iterator[tuple[Sides, int]]:
    """Products of a primitive, and how often each occurs when it runs once.

    Parameters
    ----------
    node
        A primitive that multiplies.
    groups
        Length of a ragged group -> how many groups had it, over all runs; None: as even as can be.
    """
    work = node.work
    lhs, rhs = (t.shape for t in node.inputs[:2])
    if isinstance(work, RaggedContraction):
        if work.mode == "batch":
            yield work.dot.sides(lhs, rhs), 1
            return
        lengths = work.balanced(lhs, group_count(node)) if groups is None else sorted(groups.items())
        for length, count in lengths:
            yield work.group_sides(lhs, rhs, length), count
        return
    assert work is not None and not isinstance(work, Inner)
    yield work.sides(lhs, rhs), 1


def matmul(
    node: Node, sides: Sides, facts: Sequence[Fact], role: tuple[str, bool], run: tuple[str, int, Scope]
) -> Product | Missing:
    """The matmul, or what is missing where the formats are none that any chip here multiplies.

    Parameters
    ----------
    node, sides
        The primitive, and one of its products.
    facts
        Of lhs and rhs.
    role
        rhs_kind, and whether the operands have to change sides.
    run
        Name, how often, and the scope around the primitive.
    """
    kind, swap = role
    name, count, scope = run
    dot = node.work.inner if isinstance(node.work, RaggedContraction) else node.work
    assert isinstance(dot, (Contraction, Convolution))
    operands, layout = list(node.inputs[:2]), "nn"
    if isinstance(dot, Contraction):
        layout = dot.layout()
        sides = _shared_folded(sides, dot, node, facts, swap)
        if swap:
            operands.reverse()
            sides = sides.swapped
            layout = "".join("n" if stored == "t" else "t" for stored in reversed(layout))
    try:
        gemm, narrowed = gemm_of(node, sides, [t.dtype for t in operands])
    except SystolicError:
        formats = " x ".join(t.dtype for t in operands)
        return Missing(f"{name}: matmul of {formats}", sides.macs * count)
    direction = scope.direction(node.label)
    gemm = replace(
        gemm,
        count=count,
        layers=count,
        rhs_kind=kind,  # type: ignore[arg-type]
        layout=layout,
        name=name,
        origin=", ".join(filter(None, (node.label.source, direction))),
    )
    return Product(gemm, direction, scope.inside(node.label).stack, node.label.source, narrowed)


def _shared_folded(sides: Sides, dot: Contraction, node: Node, facts: Sequence[Fact], swap: bool) -> Sides:
    """Batch dimensions along which the coming rhs repeats become rows of the other operand."""
    side, dims = (0, dot.lhs_batch) if swap else (1, dot.rhs_batch)
    shared = prod(node.inputs[side].shape[d] for d in dims if d in facts[side].repeated)
    if swap:
        return replace(sides, batch=sides.batch // shared, n=sides.n * shared)
    return replace(sides, batch=sides.batch // shared, m=sides.m * shared)


def gemm_of(node: Node, sides: Sides, operands: Sequence[str]) -> tuple[Gemm, str]:
    """The matmul in the program's formats, and the integer format that its result is narrowed to.

    Raises
    ------
    SystolicError
        If a format is none that a chip here multiplies.
    """
    work = node.work
    dot = work.dot if isinstance(work, RaggedContraction) else work
    assert isinstance(dot, (Contraction, Convolution))
    lhs, rhs = (dtypes.canonical(dtype) for dtype in operands)
    out = dtypes.canonical(node.outputs[0].dtype)
    narrowed = ""
    if dtypes.DTYPES[out].kind == "int" and out != "int32":
        narrowed, out = out, "int32"
    gemm = Gemm(
        m=sides.m,
        n=sides.n,
        k=sides.k,
        batch=sides.batch,
        masked_macs=sides.masked_macs,
        dtype=lhs,
        rhs_dtype=rhs,
        out_dtype=out,
        precision=dot.precision,
    )
    return gemm, narrowed
