"""Which arguments of a function hold its model, and which hold data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import did_you_mean, raise_if_any, shown
from .roles import Kind

MODEL_NAMES = re.compile(
    r"params?|parameters?|weights?|variables|model|net|module|kernel|theta|[wW]\d*|[wW]_\w+"
    r"|\w+_(params|weights|kernel)"
)
"""Names of arguments that hold a model."""

DATA_NAMES = re.compile(r"xs?|inputs?|tokens?|batch|targets?|labels?|mask")
"""Names of arguments that hold what the model works on."""

ATTENTION_NAMES = frozenset(("q", "k", "v", "query", "key", "value"))
"""Names of arguments that hold data where a query is among them."""

CACHE_NAMES = re.compile(r"(\w+_)?(kv_?)?caches?|past_key_values|kv")
"""Names of arguments that hold a KV cache."""

Params = int | str | Sequence[int | str] | None
"""Positions or names of arguments, as a user gives them."""


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One argument of a function.

    Attributes
    ----------
    name
        In its signature.
    leaves
        Arrays and other values that it holds.
    bare
        Whether it is a single array or number.
    module
        Whether it is a model of a library, such as an Equinox module.
    """

    name: str
    leaves: int
    bare: bool
    module: bool


def kinds_of(arguments: Sequence[Argument], params: Params = None) -> list[Kind]:
    """The kind of each leaf of all arguments, in order.

    The model is what `params` says; else the arguments with a name that says so and those that are
    modules; else, where bare arrays stand beside containers, the containers. What is not the model is data;
    without a model all but caches and names that say data are settled by the matmuls they meet.

    Raises
    ------
    SystolicError
        If `params` names no argument.
    """
    names = [argument.name for argument in arguments]
    models = _models(arguments) if params is None else _named(names, params)
    attention = ATTENTION_NAMES if {"q", "query"} & set(names) else frozenset()
    kinds = []
    for i, argument in enumerate(arguments):
        kind = Kind.DATA if models else Kind.ARGUMENT
        if i in models:
            kind = Kind.PARAMETER
        elif CACHE_NAMES.fullmatch(argument.name):
            kind = Kind.CACHE
        elif DATA_NAMES.fullmatch(argument.name) or argument.name in attention:
            kind = Kind.DATA
        kinds += [kind] * argument.leaves
    return kinds


def _models(arguments: Sequence[Argument]) -> set[int]:
    found = {i for i, a in enumerate(arguments) if MODEL_NAMES.fullmatch(a.name) or a.module}
    if found or not any(a.bare for a in arguments):
        return found
    return {
        i
        for i, a in enumerate(arguments)
        if not a.bare and not CACHE_NAMES.fullmatch(a.name) and not DATA_NAMES.fullmatch(a.name)
    }


def _named(names: Sequence[str], params: int | str | Sequence[int | str]) -> set[int]:
    chosen = (params,) if isinstance(params, (int, str)) else tuple(params)
    problems = []
    for one in chosen:
        if isinstance(one, str) and one not in names:
            problems.append(f"params must name arguments, got {shown(one)}{did_you_mean(one, names)}")
        elif not isinstance(one, str) and not 0 <= one < len(names):
            problems.append(f"params must be from 0 to {len(names) - 1}, got {shown(one)}")
    raise_if_any(problems)
    return {names.index(one) if isinstance(one, str) else one for one in chosen}


def refuse_unknown(kind: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names of loops or branches that a program does not have.

    Raises
    ------
    SystolicError
        One line for each.
    """
    raise_if_any(
        [
            f"{kind} must name one of the program's, got {name!r}"
            + (did_you_mean(name, known) if known else "; it has none that needs a choice")
            for name in given
            if name not in known
        ]
    )
