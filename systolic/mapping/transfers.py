"""The transfers of a plan, one by one: what moves, from where, and when."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from ..blocks.pipeline import State, states
from .plan import OPERAND_DIMS, Plan, Problem
from .schedule import Block, Index, Move, block_at, indices, kind_of, loop_counts, stages


class Transfer(NamedTuple):
    """One transfer of a block.

    `operand` moves, `write` toward memory, from cycle `start` on for `cycles` cycles of the port, in which
    `bytes` bytes cross it. The block is `rows` x `cols` elements at (`row`, `col`) of batch element
    `batch` of the core's share.
    """

    operand: str
    write: bool
    start: int
    cycles: int
    bytes: int
    batch: int
    row: int
    col: int
    rows: int
    cols: int


def transfers_of(problem: Problem, plan: Plan, ahead: int = 0) -> Iterator[Transfer]:
    """Transfers of one core in the order in which its port serves them.

    `ahead` port cycles of the very first weights were spent before the run; what is left of them is here.
    """
    counts = loop_counts(problem, plan)
    before = states(counts, stages(problem, plan, ahead), problem.timing, buffers=problem.buffers)
    known: dict[tuple[int, ...], Block] = {}
    stored: tuple[Index, Block] | None = None
    for state, index in zip_longest(before, indices(problem, plan)):
        block = None
        if index is not None:
            kind = kind_of(index, counts)
            block = known.get(kind) or known.setdefault(kind, block_at(problem, plan, index))
            if ahead and not any(index):
                block = _begun(block, ahead)
        if problem.buffers == 1:
            port, store = _store(plan, state, stored, state.port)
            yield from store
            if block is not None:
                yield from _loads(plan, index, block, max(port, state.end))
        else:
            port = state.port
            for load in () if block is None else _loads(plan, index, block, max(port, state.before)):
                port = load.start + load.cycles
                yield load
            yield from _store(plan, state, stored, port)[1]
        stored = None if block is None else (index, block)


def _begun(block: Block, ahead: int) -> Block:
    """The first block, of whose weights `ahead` port cycles are behind it."""
    loads = (
        move._replace(cycles=max(0, move.cycles - ahead)) if move.operand == "rhs" else move
        for move in block.loads
    )
    return block._replace(loads=tuple(loads))


def _loads(plan: Plan, index: Index, block: Block, port: int) -> Iterator[Transfer]:
    """The loads of a block, one behind the other from `port` on."""
    for move in block.loads:
        yield _transfer(plan, index, block, move, False, port)
        port += move.cycles


def _store(
    plan: Plan, state: State, stored: tuple[Index, Block] | None, port: int
) -> tuple[int, list[Transfer]]:
    """When the port is free again, and the store of the block before where it has one."""
    if stored is None or (move := stored[1].store) is None:
        return port, []
    begin = max(state.ready, port) if move.cycles else state.ready
    return (begin + move.cycles if move.cycles else port), [_transfer(plan, *stored, move, True, begin)]


def _transfer(plan: Plan, index: Index, block: Block, move: Move, write: bool, start: int) -> Transfer:
    at = dict(zip(plan.order, index[1:], strict=True))
    rows, cols = OPERAND_DIMS["out" if move.operand == "psum" else move.operand]
    return Transfer(
        operand=move.operand,
        write=write,
        start=start,
        cycles=move.cycles,
        bytes=move.bytes,
        batch=index[0],
        row=at[rows] * plan.tile[rows],
        col=at[cols] * plan.tile[cols],
        rows=block.size[rows],
        cols=block.size[cols],
    )
