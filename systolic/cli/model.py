"""``MODEL`` of the commands: a workload from whatever it names."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..errors import raise_if_any

if TYPE_CHECKING:
    from ..workload import Workload


def load_work(model: str, options: dict[str, Any], program: dict[str, Any]) -> Workload:
    """The workload of a model or of a program; options that belong to the other are refused."""
    from ..models import load_model
    from ..models.programs import is_program, load_program

    if not is_program(model):
        raise_if_any(
            [
                f"--{flag} applies to a program such as file.py:function, not to the model {model!r}; drop it"
                for flag, given in zip(("arg", "trip", "branch"), program.values(), strict=True)
                if given
            ]
        )
        return load_model(model, **options)
    defaults = inspect.signature(load_model).parameters
    raise_if_any(
        [
            f"--{name.replace('_', '-')} applies to a model, and {model} states its own shapes; drop it"
            for name, value in options.items()
            if value != defaults[name].default
        ]
    )
    return load_program(model, **program)
