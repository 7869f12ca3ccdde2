"""Arithmetic over the names of axes and figures: constraints and derived columns. Nothing is executed."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..errors import SystolicError, shown

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: lambda base, power: _power(base, power),
}
_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
    "sqrt": math.sqrt,
}
LARGEST_POWER = 4096
"""Bits of the largest whole number that a power may give."""


@dataclass(frozen=True)
class Expression:
    """A checked expression: its text, its tree, and the names that it speaks of."""

    text: str
    tree: ast.expr
    names: frozenset[str]

    @classmethod
    def parse(cls, text: object, label: str) -> Expression:
        """Read ``array.rows * array.cols == 16384`` and its like.

        Numbers, texts, names (dots allowed), ``+ - * / // % **``, comparisons, ``and or not``, and ``min max
        abs ceil floor log2 sqrt`` are all there is.

        Raises
        ------
        SystolicError
            One line that begins with `label`, if the text is anything else.
        """
        if not isinstance(text, str):
            raise SystolicError(f"{label} must be a text such as 'array.rows >= 8', got {shown(text)}")
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise SystolicError(
                f"{label} must be an arithmetic expression such as 'array.rows * array.cols <= 16384', "
                f"got {shown(text)}"
            ) from None
        names: set[str] = set()
        try:
            _check(tree, names)
        except (_NotAllowed, RecursionError) as error:
            raise SystolicError(
                f"{label} must be arithmetic over names, {error}, got {shown(text)}"
            ) from None
        return cls(text, tree, frozenset(names))

    def value(self, names: Mapping[str, Any]) -> Any:
        """What it gives where `names` has these values.

        Raises
        ------
        SystolicError
            If the arithmetic fails: a division by zero, a text where a number is due.
        """
        try:
            return _value(self.tree, names)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise SystolicError(f"{self.text!r} cannot be computed: {error}") from None


class _NotAllowed(Exception):
    """Some part that is no arithmetic; its text says which."""


def _check(node: ast.expr, names: set[str]) -> None:
    """Refuse all that is not on the list, and collect names."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            return
        case ast.Name() | ast.Attribute():
            names.add(_dotted(node))
            return
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            inner = [left, right]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            inner = [operand]
        case ast.BoolOp(values=values):
            inner = values
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(o) in _COMPARE for o in ops):
            inner = [left, *others]
        case ast.Call(func=ast.Name(id=name), args=[_, *_], keywords=[]) if name in _FUNCTIONS:
            inner = node.args
        case _:
            raise _NotAllowed(f"and {ast.unparse(node)!r} is none")
    for part in inner:
        _check(part, names)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    raise _NotAllowed(f"and {ast.unparse(node)!r} is none")


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name() | ast.Attribute():
            return names[_dotted(node)]
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, names), _value(right, names))
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_value(operand, names))
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(v, names) for v in values)
        case ast.BoolOp(values=values):
            return any(_value(v, names) for v in values)
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_value(v, names) for v in (left, *others)]
            return all(_COMPARE[type(op)](*pair) for op, pair in zip(ops, pairwise(sides), strict=True))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name](*(_value(v, names) for v in args))
    raise AssertionError(ast.dump(node))


def _power(base: Any, power: Any) -> Any:
    if isinstance(base, int) and isinstance(power, int) and base.bit_length() * power > LARGEST_POWER:
        raise OverflowError(f"a power of more than {LARGEST_POWER} bits")
    return base**power
