"""Names of matmuls from the name stacks and source lines that a front end hands over."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .graph import Label

FORWARD, BACKWARD, RECOMPUTED = "forward", "backward", "recomputed"

_WRAPPED = re.compile(r"^[\w.<>-]+\((.*)\)$", re.DOTALL)
_DROPPED = ("", "rematted_computation", "checkpoint", "remat", "main")


@dataclass(frozen=True)
class Scope:
    """Name stacks of the programs around a primitive, outermost first."""

    stack: str = ""

    def inside(self, label: Label) -> Scope:
        """The scope within a primitive with this label."""
        return Scope("/".join(filter(None, (self.stack, label.stack))))

    def direction(self, label: Label) -> str:
        """Forward, backward, or recomputed on the way back (``jax.checkpoint``)."""
        stack = self.inside(label).stack
        if "rematted_computation" in stack:
            return RECOMPUTED
        return BACKWARD if "transpose(" in stack else FORWARD

    def name(self, label: Label) -> str:
        """The user's names along the stack, joined by dots; else the function in the source; else ""."""
        parts: list[str] = []
        for part in _split(self.inside(label).stack):
            parts += [part] if parts[-1:] != [part] else []
        return ".".join(parts) or function_of(label.source)


def function_of(source: str) -> str:
    """The function in ``"model.py:42 (mlp)"``."""
    _, _, function = source.partition("(")
    name = function.removesuffix(")").rpartition(".")[2]
    return "" if name in ("", "<lambda>", "<module>") else name


def line_of(source: str) -> str:
    """File and line in ``"model.py:42 (mlp)"``."""
    return source.partition(" ")[0]


def _split(stack: str) -> list[str]:
    """The user's scopes in a stack: ``transpose(jvp(net))/mlp`` is net, mlp."""
    names = []
    for part in _components(stack):
        while match := _WRAPPED.match(part):
            part = match[1]
        if "/" in part:
            names += _split(part)
        elif part not in _DROPPED and "->" not in part:
            names.append(part)
    return names


def _components(stack: str) -> list[str]:
    """Parts between the slashes that stand outside all brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(stack):
        depth += (character == "(") - (character == ")")
        if character == "/" and depth == 0:
            parts.append(stack[start:at])
            start = at + 1
    return [*parts, stack[start:]]
