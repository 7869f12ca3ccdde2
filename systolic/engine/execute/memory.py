"""What a later run of the same function on the same chip need not do again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...chips import Chip
from ...machines.base import Options
from ...workload import Workload
from ..hook import MatmulHook

if TYPE_CHECKING:
    from ...models.jaxpr import Traced
    from ...models.trace.arguments import Params
    from ..report import Report

_hooks: deque[MatmulHook] = deque(maxlen=8)
_reports: deque[tuple[Workload, Chip, Options, Report]] = deque(maxlen=8)
_traces: deque[tuple[Any, Traced]] = deque(maxlen=16)


def known_hook(chip: Chip, options: Options) -> MatmulHook:
    """A hook for an equal chip and choices that was used before, with the steps that it has lowered."""
    for hook in _hooks:
        if hook.chip == chip and hook.options == options:
            return hook
    _hooks.append(MatmulHook(chip, options))
    return _hooks[-1]


def known_report(work: Workload, chip: Chip, options: Options) -> Report:
    """The report of a workload on a chip; the same input gives the same report."""
    from ..simulation import simulate

    for known, on, choices, report in _reports:
        if (known, on, choices) == (work, chip, options):
            return report
    report = simulate(work, on=chip, dataflow=options.dataflow)
    _reports.append((work, chip, options, report))
    return report


def traced_once(fn: Callable[..., Any], args: Sequence[Any], params: Params) -> Traced:
    """The function traced for arguments of these shapes.

    What closes over arrays is traced each time, since they may have changed.
    """
    from ...models.jaxpr import trace

    key = _key(fn, args, params)
    for known, traced in _traces:
        if known == key:
            return traced
    traced = trace(fn, *args, params=params)
    if not traced.closed.consts:
        _traces.append((key, traced))
    return traced


def _key(fn: Callable[..., Any], args: Sequence[Any], params: Params) -> Any:
    import jax

    leaves, tree = jax.tree.flatten(tuple(args))
    shapes = [
        (leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False)) if hasattr(leaf, "dtype") else leaf
        for leaf in leaves
    ]
    return fn, tree, params, shapes
