"""Trip counts that can be read off a loop: a counter, a step, and a limit written in the program."""

from __future__ import annotations

from collections.abc import Sequence

from .graph import Graph, Inner, Node, Tensor

_ORDERS = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "ne": lambda a, b: a != b,
}


def static_trips(loop: Inner, numbers: Sequence[int | None]) -> int | None:
    """Iterations of a while loop that counts with a fixed step to a fixed limit; None if it does not.

    Parameters
    ----------
    loop
        The loop.
    numbers
        Values of its operands, where they are known whole numbers.
    """
    if loop.kind != "while":
        return loop.times
    condition, body = loop.bodies
    test = condition.maker(condition.outputs[0])
    if test is None or test.primitive not in _ORDERS:
        return None
    sides = [_operand(t, loop, condition, numbers) for t in test.inputs]
    counters = [i for i, (slot, _) in enumerate(sides) if slot is not None and _step(slot, loop, body)]
    if len(counters) != 1:
        return None
    slot, start = sides[counters[0]]
    limit_slot, limit = sides[1 - counters[0]]
    assert slot is not None
    step = _step(slot, loop, body)
    if start is None or limit is None or (limit_slot is not None and not _kept(limit_slot, loop, body)):
        return None
    order = test.primitive
    if counters[0] == 1:
        order = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}[order]
    return _count(start, limit, step, order)


def _count(start: int, limit: int, step: int, order: str) -> int | None:
    if not _ORDERS[order](start, limit):
        return 0
    distance = limit - start
    if order == "ne":
        return distance // step if distance % step == 0 and distance // step > 0 else None
    if (distance >= 0) != (step > 0):
        return None
    reached = order in ("le", "ge")
    return (abs(distance) + (0 if reached else abs(step) - 1)) // abs(step) + reached


def _operand(
    tensor: Tensor, loop: Inner, condition: Graph, numbers: Sequence[int | None]
) -> tuple[int | None, int | None]:
    """(index among the carried values, or None; number) of an operand of the test."""
    if tensor.number is not None:
        return None, tensor.number
    if tensor not in condition.inputs:
        return None, None
    at = condition.inputs.index(tensor)
    if at < loop.cond_consts:
        return None, numbers[at]
    return at - loop.cond_consts, numbers[at + loop.consts]


def _step(slot: int, loop: Inner, body: Graph) -> int:
    """What an iteration adds to a carried number; 0 where that is no fixed number."""
    before, after = body.inputs[loop.consts + slot], body.outputs[slot]
    node = body.maker(after)
    if node is None:
        return 0
    return _added(node, before)


def _added(node: Node, before: Tensor) -> int:
    if node.primitive not in ("add", "sub") or before not in node.inputs:
        return 0
    other = node.inputs[1] if node.inputs[0] is before else node.inputs[0]
    if other.number is None or (node.primitive == "sub" and node.inputs[0] is not before):
        return 0
    return other.number if node.primitive == "add" else -other.number


def _kept(slot: int, loop: Inner, body: Graph) -> bool:
    return body.outputs[slot] is body.inputs[loop.consts + slot]
