"""Bytes and port cycles of a plan in closed form, for one plan or for arrays of plans at once.

A block of an operand moves when one of its indices changes: with the third dimension inside both of its own
loops it moves once; with it outside a loop that really iterates, once for each of its iterations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..blocks.array import AXES
from .plan import DIMS, OPERAND_DIMS, Problem, array_work, step_cycles


class Sums(NamedTuple):
    """Totals over one batch element: `bytes` across the port, `cycles` of the port."""

    bytes: Any
    cycles: Any


def sides(length: int, tile: Any) -> tuple[tuple[Any, Any], ...]:
    """((how many, side), …) of the full blocks and of the last one along a dimension."""
    count = -(-length // tile)
    return ((count - 1, tile), (1, length - (count - 1) * tile))


def once(problem: Problem, name: str, tile: Mapping[str, Any]) -> Sums:
    """Totals when every block of operand `name` (``psum`` lies like ``out``) moves exactly once."""
    operand = problem.operands[name]
    rows, cols = OPERAND_DIMS["out" if name == "psum" else name]
    full_rows, full_cols = problem.size(rows), problem.size(cols)
    total_bytes: Any = 0
    total_cycles: Any = 0
    for row_count, row_side in sides(full_rows, tile[rows]):
        for col_count, col_side in sides(full_cols, tile[cols]):
            size = operand.moved_bytes(row_side, col_side, full_rows, full_cols)
            total_bytes = total_bytes + row_count * col_count * size
            cycles = operand.moved_cycles(row_side, col_side, full_rows, full_cols)
            total_cycles = total_cycles + row_count * col_count * cycles
    return Sums(total_bytes, total_cycles)


def visits(order: str, blocks: Mapping[str, Any], name: str) -> Any:
    """How often each block of an operand is brought to the array: 1, or the third dimension's blocks."""
    own = OPERAND_DIMS["out" if name == "psum" else name]
    third = next(d for d in DIMS if d not in own)
    inside = order[order.index(third) + 1 :]
    iterates: Any = False
    for dim in own:
        if dim in inside:
            iterates = iterates | (blocks[dim] > 1)
    return 1 + iterates * (blocks[third] - 1)


class PortTotals(NamedTuple):
    """Port bytes of one batch element by (operand, direction), and port cycles of loads and stores."""

    bytes: dict[tuple[str, str], Any]
    load_cycles: Any
    store_cycles: Any


def all_once(problem: Problem, tile: Mapping[str, Any]) -> dict[str, Sums]:
    """:func:`once` for each operand."""
    return {name: once(problem, name, tile) for name in problem.operands}


def port_totals(
    problem: Problem, tile: Mapping[str, Any], order: str, each: Mapping[str, Sums] | None = None
) -> PortTotals:
    """What a plan moves through memory ports for one batch element; `each` is what `all_once` gave before."""
    blocks = {d: -(-problem.size(d) // tile[d]) for d in DIMS}
    each = each or all_once(problem, tile)
    moved: dict[tuple[str, str], Any] = {}
    loads: Any = 0
    for name in ("lhs", "rhs"):
        sums, times = each[name], visits(order, blocks, name)
        moved[name, "read"] = times * sums.bytes
        loads = loads + times * sums.cycles
    spills = visits(order, blocks, "psum") - 1
    psum, out = each["psum"], each["out"]
    moved["psum", "read"] = moved["psum", "write"] = spills * psum.bytes
    moved["out", "write"] = out.bytes
    return PortTotals(moved, loads + spills * psum.cycles, out.cycles + spills * psum.cycles)


def block_bytes(problem: Problem, tile: Mapping[str, Any]) -> tuple[Any, Any]:
    """(on-chip bytes, accumulator bytes) that a plan's buffers take.

    As many buffers each as the problem says where blocks change; one where a single block serves all.
    """
    blocks = {d: -(-problem.size(d) // tile[d]) for d in DIMS}
    total: Any = 0
    for name in ("lhs", "rhs"):
        rows, cols = OPERAND_DIMS[name]
        operand = problem.operands[name]
        if operand.place is not None:
            total = total + _buffers(problem, blocks[rows] * blocks[cols]) * operand.packed_bytes(
                tile[rows], tile[cols]
            )
    sums = _buffers(problem, blocks["m"] * blocks["n"]) * problem.operands["psum"].packed_bytes(
        tile["m"], tile["n"]
    )
    if problem.acc_bytes is None:
        return total + sums, 0 * sums
    if problem.operands["out"].place is None:
        return total, sums
    out = _buffers(problem, blocks["m"] * blocks["n"]) * problem.operands["out"].packed_bytes(
        tile["m"], tile["n"]
    )
    return total + out, sums


def _buffers(problem: Problem, blocks: Any) -> Any:
    return 1 + (problem.buffers - 1) * (blocks * problem.batch > 1)


def array_cycles(problem: Problem, tile: Mapping[str, Any], split: tuple[int, int]) -> Any:
    """Cycles that the busiest array is fed or waits for its own loads and port, all batches, memory aside.

    The last tile's wait is left out, and so is the drain: a lower bound of the time from the first word in
    to the last word in.
    """
    timing = problem.timing
    stream = AXES[problem.dataflow].stream
    one_chain = -(-problem.size(stream) // tile[stream]) == 1
    step = step_cycles(problem, split, tile)
    total: Any = 0
    widest: Any = 0
    for m_count, m_side in sides(problem.m, tile["m"]):
        for n_count, n_side in sides(problem.n, tile["n"]):
            for k_count, k_side in sides(problem.k, tile["k"]):
                sizes = {"m": m_side, "n": n_side, "k": k_side}
                tiles, streamed, port = array_work(problem, split, sizes, step)
                if timing.serial:
                    pace = larger(timing.tile(streamed), port)
                elif problem.dataflow == "os":
                    pace = larger(larger(streamed, one_chain * timing.shift_out), port)
                else:
                    pace = larger(larger(streamed, timing.load), port)
                if not timing.serial:
                    widest = larger(widest, pace - streamed)
                total = total + m_count * n_count * k_count * tiles * pace
    return problem.batch * total - widest


def larger(a: Any, b: Any) -> Any:
    """The larger of two ints or integer arrays."""
    return a + (b > a) * (b - a)


def onchip_bytes(
    problem: Problem, tile: Mapping[str, Any], split: tuple[int, int]
) -> dict[tuple[str, str, str], Any]:
    """Bytes through the on-chip memory and the accumulators for one batch element, by (level, operand, way).

    Each array reads its own copy: a streamed row once for each tile that it passes, a stationary tile once
    for each load, both again for each pass. Sums go to the accumulators once per tile of k and pass, and are
    read back to be added to. Each amount is packed as a whole.
    """
    axes, timing, ops = AXES[problem.dataflow], problem.timing, problem.operands
    across = problem.passes * _covering(problem.size(axes.cols), tile[axes.cols], timing.cols)
    down = problem.passes * _covering(problem.size(axes.rows), tile[axes.rows], timing.rows)
    if problem.dataflow == "os":
        times, rounds = {"lhs": across, "rhs": down}, 1
    else:
        loads = problem.passes * _parts(problem.size(axes.stream), tile[axes.stream], split[1])
        times, rounds = {problem.streaming: across, problem.stationary: loads}, down

    def size(name: str, rows: str, cols: str, times: Any) -> Any:
        return ops[name].packed_bytes(times * problem.size(rows), problem.size(cols))

    sums = size("psum", "m", "n", rounds)
    return {
        ("vmem", "lhs", "read"): size("lhs", "m", "k", times["lhs"]),
        ("vmem", "rhs", "read"): size("rhs", "k", "n", times["rhs"]),
        ("vmem", "out", "write"): size("out", "m", "n", 1),
        ("acc", "psum", "write"): sums,
        ("acc", "psum", "read"): sums,
    }


def _covering(length: int, tile: Any, side: int) -> Any:
    """Array tiles along a dimension, summed over its blocks."""
    return sum(count * -(-part // side) for count, part in sides(length, tile))


def _parts(length: int, tile: Any, ways: int) -> Any:
    """Pieces that a streamed dimension is cut into: by blocks, and each block over `ways` arrays."""
    total: Any = 0
    for count, part in sides(length, tile):
        share = -(-part // ways)
        total = total + count * -(-part // share)
    return total


def block_cycles(problem: Problem, name: str, side: Mapping[str, Any]) -> Any:
    """Port cycles of one block of an operand with the given sides."""
    operand = problem.operands[name]
    rows, cols = OPERAND_DIMS["out" if name == "psum" else name]
    return operand.moved_cycles(side[rows], side[cols], problem.size(rows), problem.size(cols))
