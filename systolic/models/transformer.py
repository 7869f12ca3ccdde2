"""One pass over a model as a :class:`~systolic.workload.Workload`.

Ops stand in the order in which one layer runs; an op that several layers have alike is one row with
``count = layers``. Kinds of layers share the rows that are equal and have rows of their own beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from ..workload import Gemm, NotCovered, Op, VectorOp, Workload
from . import vector_ops as vec
from .architecture import Frames, Head, Layers, Model, Moe, Patches, Stack
from .attention import cross_attention, cross_keys, self_attention
from .feed_forward import feed_forward_ops, idle_experts
from .matmuls import last_gemm, linear, renamed
from .notes import pass_notes
from .passes import Pass
from .training import backward, saved_elements

Group = tuple[Op, ...]
"""A matmul and what is fused into it, or a vector op alone."""


def forward(model: Model, run: Pass, *, phase: str, notes: Sequence[str] = ()) -> Workload:
    """The workload of one pass.

    Parameters
    ----------
    model, run
        The model and what is run on its last stack; an encoder before it runs over `run.source` tokens,
        and not at all once the decoder has cached what it needs. The caller has checked `run` against
        the model's positions.
    phase
        ``"prefill"``, ``"decode"`` or ``"train"``: a forward pass, and for each matmul the two that
        carry the gradient back.
    notes
        Lines for the reader, beside those of the model and of the pass.
    """
    ops, idle = _stacks(model, run)
    ops += _heads(model, run)
    held, notes = sum(op.parameters for op in (*ops, *idle)), [*notes, *pass_notes(model, run)]
    if idle:
        active = sum(op.parameters for op in ops)
        notes.append(f"{active:,} of {held:,} parameters are of ops that run")
    saved, parts = 0, list(model.not_covered)
    if phase == "train":
        saved = saved_elements(ops) + held
        ops += [*_loss(model, ops), *backward(ops)]
        parts.append("the optimizer's step")
    return Workload(
        name=model.name,
        ops=tuple(replace(op, origin=model.source) for op in ops),
        idle=tuple(replace(op, origin=model.source) for op in idle),
        phase=phase,
        batch=run.batch,
        seq=run.queries,
        kv_len=run.keys if run.cached else 0,
        kv_cache_elements=_cache_elements(model, run) if run.cached else 0,
        saved_elements=saved,
        notes=(*model.notes, *notes),
        not_covered=tuple(NotCovered(op=part) for part in parts),
    )


def _stacks(model: Model, run: Pass) -> tuple[list[Op], list[Op]]:
    """Ops of the stacks, and those that this pass leaves idle."""
    if model.decoder is None or model.encoder is None:
        only = model.decoder or model.encoder
        assert only is not None
        return _stack(only, model.hidden, run)
    source = Pass(batch=run.batch, queries=run.source, keys=run.source, cached=False)
    encoder, none = _stack(model.encoder, model.hidden, source)
    decoder, idle = _stack(model.decoder, model.hidden, run)
    encoder, none, decoder, idle = (
        [renamed(op, f"{stack}.{{}}".format) for op in ops]
        for stack, ops in (("encoder", encoder), ("encoder", none), ("decoder", decoder), ("decoder", idle))
    )
    return (decoder, encoder + none + idle) if run.source_cached else (encoder + decoder, none + idle)


def _stack(stack: Stack, hidden: int, run: Pass) -> tuple[list[Op], list[Op]]:
    if not stack.causal:
        run = replace(run, causal=False)
    ops = _embedding(stack, hidden, run)
    if stack.distance_buckets:
        ops.append(_distances(stack, run))
    ops += _merged([(kind, _layer(stack, kind, hidden, run)) for kind in stack.layers])
    if stack.final_norm:
        ops.append(vec.norm("final.norm", stack.norm, run.tokens, hidden))
    if stack.scaled:
        ops.append(vec.scale("final.scale", run.tokens * hidden))
    idle = [_repeat(op, kind.count) for kind in stack.layers for op in _idle(kind, hidden, run)]
    return ops, idle


def _embedding(stack: Stack, hidden: int, run: Pass) -> list[Op]:
    part, elements = stack.embedding, run.tokens * hidden
    if isinstance(part, Patches):
        patches = linear("embed.patches", run.batch * part.count, hidden, part.elements, part.bias)
        return [*patches, vec.table_add("embed.positions", elements, (part.tokens + 1) * hidden)]
    if isinstance(part, Frames):
        ops: list[Op] = []
        for name, rows, inputs in (("1", 2 * run.tokens, part.bins), ("2", run.tokens, hidden)):
            ops += linear(f"embed.conv{name}", rows, hidden, 3 * inputs, bias=True)
            ops.append(vec.activation(f"embed.act{name}", "gelu", last_gemm(ops)))
        return [*ops, vec.table_add("embed.positions", elements, part.tokens * hidden)]
    ops = [vec.gather("embed", run.tokens, hidden, 0 if part.shared else part.vocab)]
    if part.scaled:
        ops.append(vec.scale("embed.scale", elements))
    if part.positions:
        ops.append(vec.gather("embed.positions", run.queries, hidden, part.positions))
        ops.append(vec.add("embed.add", elements))
    if part.types:
        ops.append(vec.gather("embed.types", run.tokens, hidden, part.types))
        ops.append(vec.add("embed.types.add", elements))
    return [*ops, vec.norm("embed.norm", stack.norm, run.tokens, hidden)] if part.norm else ops


def _distances(stack: Stack, run: Pass) -> VectorOp:
    """Terms for each head, query and key, looked up once for all layers and sequences."""
    attention = stack.layers[0].attention
    table = stack.distance_buckets * attention.heads
    op = vec.gather("attn.positions", run.queries * run.keys, attention.heads, 0)
    return replace(op, parameters=table)


def _layer(stack: Stack, kind: Layers, hidden: int, run: Pass) -> list[Op]:
    half = partial(_half, stack, hidden, run)
    ops = half("attn", "attn", self_attention(kind.attention, hidden, run))
    if kind.cross:
        ops += half("cross", "cross", cross_attention(kind.cross, hidden, run))
    add = "moe" if isinstance(kind.feed_forward, Moe) else "mlp"
    return ops + half("mlp", add, feed_forward_ops(kind.feed_forward, hidden, run))


def _half(stack: Stack, hidden: int, run: Pass, name: str, add: str, body: list[Op]) -> list[Op]:
    """Half a layer: its norms, `body`, and the residual, which `body` takes along if a matmul ends it."""
    norm = partial(vec.norm, formula=stack.norm, rows=run.tokens, width=hidden)
    before = [norm(f"{name}.norm")]
    if stack.arrangement == "post" or (stack.arrangement == "parallel" and name == "mlp"):
        before = []
    if stack.arrangement == "sandwich":
        after = [norm(f"{name}.post_norm"), vec.add(f"{add}.add", run.tokens * hidden)]
        return [*before, *body, *after]
    ends_in_matmul = isinstance(body[-1], Gemm) or bool(body[-1].fused_into)
    residual = (
        vec.residual(f"{add}.add", last_gemm(body))
        if ends_in_matmul
        else vec.add(f"{add}.add", run.tokens * hidden)
    )
    after = [norm(f"{name}.norm")] if stack.arrangement == "post" else []
    return [*before, *body, residual, *after]


def _idle(kind: Layers, hidden: int, run: Pass) -> list[Op]:
    """Ops of one layer that hold parameters and do not run."""
    once = cross_keys(kind.cross, hidden, run) if kind.cross and run.source_cached else []
    return once + idle_experts(kind.feed_forward, hidden, run)


def _merged(kinds: Iterable[tuple[Layers, list[Op]]]) -> list[Op]:
    """The rows of all kinds of layers: what is equal in several of them is one row.

    The others stand before the next equal row, under their own name, or labelled where it is taken.
    """
    rows: list[tuple[Group, int]] = []
    for kind, ops in kinds:
        start, own = 0, []
        for group in _groups(ops):
            found = next((i for i in range(start, len(rows)) if rows[i][0] == group), None)
            if found is None:
                own.append(group)
                continue
            rows[found] = (group, rows[found][1] + kind.count)
            rows[found:found] = _labelled(own, rows, kind)
            start, own = found + len(own) + 1, []
        rows += _labelled(own, rows, kind)
    return [_repeat(op, count) for group, count in rows for op in group]


def _groups(ops: Iterable[Op]) -> list[Group]:
    groups: list[Group] = []
    for op in ops:
        if isinstance(op, VectorOp) and op.fused_into:
            groups[-1] = (*groups[-1], op)
        else:
            groups.append((op,))
    return groups


def _labelled(groups: list[Group], rows: list[tuple[Group, int]], kind: Layers) -> list[tuple[Group, int]]:
    taken = {op.name for group, _ in rows for op in group}
    assert kind.attention.label or not any(group[0].name in taken for group in groups), "names are unique"
    label = f"{{}}.{kind.attention.label}".format
    return [
        (tuple(renamed(op, label) for op in group) if group[0].name in taken else group, kind.count)
        for group in groups
    ]


def _repeat(op: Op, layers: int) -> Op:
    """`op` once in each layer. A Gemm's parameters follow from its count, a VectorOp's are stored."""
    if isinstance(op, VectorOp):
        return replace(op, count=layers, layers=layers, parameters=layers * op.parameters)
    return replace(op, count=layers, layers=layers)


def _heads(model: Model, run: Pass) -> list[Op]:
    table = "decoder.embed" if model.encoder and model.decoder else "embed"
    ops: list[Op] = []
    for head in model.heads:
        one_each = head.rows == "sequences" or (head.rows == "logits" and run.logits == "last")
        ops += _head(head, run.batch if one_each else run.tokens, table)
    return ops


def _head(head: Head, rows: int, table: str) -> list[Op]:
    ops = linear(head.name, rows, head.outputs, head.inputs, head.bias)
    gemm = last_gemm(ops)
    if head.tied:  # the table holds a row per word, so the product reads it transposed
        ops[0] = replace(gemm, tied_to=table, layout="nt")
    if head.activation:
        ops.append(vec.activation(f"{head.name}.act", head.activation, gemm))
    if head.softcap:
        ops.append(vec.activation(f"{head.name}.softcap", "softcap", gemm))
    return [*ops, vec.norm(f"{head.name}.norm", head.norm, rows, head.outputs)] if head.norm else ops


def _loss(model: Model, ops: list[Op]) -> list[Op]:
    """The loss on the last head, unless that ends in a function of its own."""
    if not model.heads or model.heads[-1].activation:
        return []
    logits = last_gemm(ops)
    return [vec.loss("loss", logits.m, logits.n)]


def _cache_elements(model: Model, run: Pass) -> int:
    stack = model.decoder
    if stack is None:
        return 0
    each = sum(
        kind.count
        * (
            kind.attention.cache_elements(run.keys)
            + (kind.cross.cache_elements(run.source) if kind.cross else 0)
        )
        for kind in stack.layers
    )
    return run.batch * each
