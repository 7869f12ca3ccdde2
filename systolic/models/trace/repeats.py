"""Layers written out one by one become one set of rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ...workload import Gemm, Op

_NUMBER = re.compile(r"\d+")
_LONGEST = 400  # ops of a layer; a longer period is not looked for


def fold_repeats(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Merge each run of equal blocks of ops into one block whose ops have `count` and `layers` of all.

    Ops are equal when they differ only in the numbers within their names (``h_0`` and ``h_1``), which
    become ``*``. The order of the first block is kept. The last block of a run may lack its end: what a
    compiler fuses across the border of two layers has nothing to join behind the last one.
    """
    keys: dict[object, int] = {}
    tokens = [keys.setdefault(_key(op), len(keys)) for op in ops]
    folded: list[Op] = []
    at = 0
    while at < len(ops):
        period, length = _best(tokens, at)
        folded += [_merged(ops[at + i : at + length : period]) for i in range(period)]
        at += length
    return tuple(folded)


def named_apart(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Number the matmuls that share a name; what is fused into one follows it."""
    totals = Counter(op.name for op in ops if isinstance(op, Gemm))
    seen: Counter[str] = Counter()
    latest: dict[str, str] = {}
    renamed: list[Op] = []
    for op in ops:
        if isinstance(op, Gemm):
            seen[op.name] += 1
            latest[op.name] = op.name if totals[op.name] == 1 else f"{op.name} #{seen[op.name]}"
            renamed.append(replace(op, name=latest[op.name]))
        else:
            renamed.append(replace(op, fused_into=latest.get(op.fused_into, "")))
    return tuple(renamed)


def _best(tokens: Sequence[int], at: int) -> tuple[int, int]:
    """(period, length) of the repetition at `at` that covers most ops; the shortest period of equal ones."""
    best = (1, 1)
    left = len(tokens) - at
    for period in range(1, min(_LONGEST, left // 2) + 1):
        if tokens[at] != tokens[at + period]:
            continue
        length = period
        while length < left and tokens[at + length] == tokens[at + length - period]:
            length += 1
        if length >= 2 * period and length > best[1]:
            best = (period, length)
    return best


def _key(op: Op) -> object:
    general = replace(op, name=_NUMBER.sub("*", op.name), tied_to="") if isinstance(op, Gemm) else op
    if not isinstance(op, Gemm):
        fused = _NUMBER.sub("*", op.fused_into)
        general = replace(op, name=_NUMBER.sub("*", op.name), fused_into=fused)
    return general


def _merged(ops: Sequence[Op]) -> Op:
    first = ops[0]
    if len(ops) == 1:
        return first
    count, layers = sum(op.count for op in ops), sum(op.layers for op in ops)
    whole = replace(first, name=_common(ops, "name"), count=count, layers=layers)
    if isinstance(whole, Gemm):
        return whole
    return replace(whole, fused_into=_common(ops, "fused_into"))


def _common(ops: Sequence[Op], field: str) -> str:
    """The text that all share, with ``*`` for numbers in which they differ."""
    texts = [str(getattr(op, field)) for op in ops]
    if len(set(texts)) == 1:
        return texts[0]
    columns = zip(*(_NUMBER.findall(t) for t in texts), strict=True)
    numbers = iter(["*" if len(set(column)) > 1 else column[0] for column in columns])
    return _NUMBER.sub(lambda _: next(numbers), texts[0])
