"""Bayesian search: where the points so far promise most, by optuna's tree-structured Parzen estimator.

Everything follows from the seed and the figures, so a search that was killed asks for the same points again
and finds them in the store.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..errors import SystolicError
from .design import Design
from .space import MOST_TRIES, Point

GENERATION = 8
"""Points that are asked for before their figures are told."""

Told = Callable[[Sequence[Mapping[str, Any] | None]], None]


def generations(design: Design) -> Iterator[tuple[list[tuple[int, Point]], Told]]:
    """Points to evaluate next, numbered, and whom to tell their figures (None where a point failed).

    Raises
    ------
    SystolicError
        If optuna is not installed, or the constraints leave so little that no draw finds it.
    """
    try:
        import optuna
    except ImportError as error:
        raise SystolicError(
            "search.method 'bayesian' needs optuna, which is not installed; "
            "run pip install 'systolic[search]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    search, space = design.search, design.space
    aims = (*search.minimize, *search.maximize)
    minimize, maximize = optuna.study.StudyDirection.MINIMIZE, optuna.study.StudyDirection.MAXIMIZE
    ways = [minimize] * len(search.minimize) + [maximize] * len(search.maximize)
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=search.seed),
        directions=ways,
    )
    failed = optuna.trial.TrialState.FAIL
    total, number = search.points or 0, 0
    while number < total:
        trials = [_allowed(study, design, failed) for _ in range(min(GENERATION, total - number))]
        points = [(number + i, space.at(index)) for i, (_, index) in enumerate(trials)]

        def told(
            figures: Sequence[Mapping[str, Any] | None],
            trials: Sequence[tuple[Any, int]] = trials,
            points: Sequence[tuple[int, Point]] = points,
        ) -> None:
            for (trial, _), (_, point), found in zip(trials, points, figures, strict=True):
                values = [] if found is None else [_value(design, point, found, name) for name in aims]
                numbers = [value for value in values if value is not None]
                if len(numbers) < len(aims):
                    study.tell(trial, state=failed)
                else:
                    study.tell(trial, numbers)

        yield points, told
        number += len(points)


def _allowed(study: Any, design: Design, failed: Any) -> tuple[Any, int]:
    """A trial whose point the constraints allow, and its index in the grid."""
    space = design.space
    for _ in range(MOST_TRIES):
        trial = study.ask()
        index = 0
        for axis in space.axes:
            index = index * len(axis) + trial.suggest_int(", ".join(axis.names), 0, len(axis) - 1)
        if space.allows(space.at(index)):
            return trial, index
        study.tell(trial, state=failed)
    raise SystolicError(
        f"constraints leave so little of {space.size:,} points that {MOST_TRIES:,} draws found none; "
        "narrow the axes"
    )


def _value(design: Design, point: Point, figures: Mapping[str, Any], name: str) -> float | None:
    """A figure or a derived column, where it is a finite number."""
    names = {**point, **figures}
    try:
        for column, expression in design.derived.items():
            names[column] = expression.value(names)
    except SystolicError:
        return None
    value = names[name]
    number = isinstance(value, (int, float)) and math.isfinite(value)
    return float(value) if number else None
