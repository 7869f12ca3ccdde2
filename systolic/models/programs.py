"""Programs that the user names: ``file.py:function``, or a file of StableHLO."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import SystolicError, did_you_mean
from ..workload import Workload

STABLEHLO = (".mlir", ".mlirbc", ".stablehlo", ".jaxexport")
"""Endings of files of StableHLO: text, bytecode, or what ``jax.export`` serialises."""


def is_program(text: str) -> bool:
    """Whether a model's name stands for a program."""
    path, colon, function = text.rpartition(":")
    return (bool(colon) and path.endswith(".py") and function.isidentifier()) or text.endswith(STABLEHLO)


def load_program(
    text: str,
    *,
    arguments: Sequence[str] = (),
    trips: Mapping[str, int] | None = None,
    branches: Mapping[str, int] | None = None,
) -> Workload:
    """The matmuls of a program.

    Parameters
    ----------
    text
        ``file.py:function``: the file is executed, and the function is traced, not run. Or a file of
        StableHLO (`STABLEHLO`), of which nothing is executed.
    arguments
        Arguments of the function as ``8x128:bf16`` (sides and number format; ``:int32`` is a scalar), in
        order. Without them: those of ``<function>_args`` in the same file, a tuple or a function that
        returns one, of arrays or ``jax.ShapeDtypeStruct``; parameters with a default take it.
    trips, branches
        What the program leaves open: see :func:`systolic.models.jaxpr.count_function`.

    Raises
    ------
    SystolicError
        If there is no such file or function, or an argument is missing or wrong.
    """
    if text.endswith(STABLEHLO):
        from .hlo import count_file

        if arguments:
            raise SystolicError(f"--arg applies to a function, and {text} states its own shapes; drop it")
        return count_file(Path(text), trips=trips, branches=branches).workload
    from .jaxpr import count_function

    function, given = load_function(text, arguments)
    with _users_code(text):
        work: Workload = count_function(function, *given, trips=trips, branches=branches).workload
        return work


def load_function(text: str, arguments: Sequence[str] = ()) -> tuple[Callable[..., Any], Sequence[Any]]:
    """The function that ``file.py:function`` names, and its arguments; see :func:`load_program`."""
    from .jaxpr import shaped

    path, _, name = text.rpartition(":")
    module = _module(Path(path))
    function = _function(module, name, path)
    given = [shaped(argument) for argument in arguments] or _own_arguments(module, name)
    _refuse_missing(function, given, text)
    return function, given


@contextmanager
def _users_code(text: str) -> Iterator[None]:
    """What the user's own code raises becomes one line."""
    try:
        yield
    except SystolicError:
        raise
    except Exception as error:
        first = str(error).partition("\n")[0]
        raise SystolicError(f"{text} raised {type(error).__name__}: {first}") from error


def _module(path: Path) -> Any:
    if not path.is_file():
        raise SystolicError(f"{path}: there is no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its folder comes first, as when Python runs it, so that it can import its neighbours.
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with _users_code(str(path)):
            spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _function(module: Any, name: str, path: str) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    known = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
    raise SystolicError(f"{path}: there is no function {name!r}{did_you_mean(name, known)}")


def _own_arguments(module: Any, name: str) -> Sequence[Any]:
    own = getattr(module, f"{name}_args", ())
    values = own() if callable(own) else own
    return values if isinstance(values, (tuple, list)) else (values,)


def _refuse_missing(function: Callable[..., Any], given: Sequence[Any], text: str) -> None:
    try:
        inspect.signature(function).bind(*given)
    except TypeError as error:
        name = text.rpartition(":")[2]
        raise SystolicError(
            f"{text}: {error}; give each argument as --arg 8x128:bf16, or define {name}_args in the file, a "
            "tuple of arrays or jax.ShapeDtypeStruct"
        ) from error
    except ValueError:  # a callable without a signature: tracing will tell
        return
