"""The one decorator of every cycle loop: compile with Numba, keep the machine code on disk.

Numba's own disk cache notices a change in the file of the function it compiled, and nothing else: edit a
callee in another file and the caller keeps the old machine code. So the machine code lies in a folder whose
name is a digest of all kernel sources and of whatever else changes what Numba emits. An edited kernel finds
an empty folder, and functions that a user compiles with Numba's own decorators stay in Numba's own place.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, overload

import llvmlite
import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])

CACHE_SETTING = "SYSTOLIC_CACHE_DIR"
"""The environment variable that names the folder for compiled kernels."""


@overload
def kernel(function: _Function, /) -> _Function: ...
@overload
def kernel(**options: Any) -> Callable[[_Function], _Function]: ...
def kernel(function: Any = None, /, **options: Any) -> Any:
    """Compile a function of plain arrays; it runs without the interpreter lock.

    Use as ``@kernel`` or ``@kernel(...)``.

    Parameters
    ----------
    function
        The function to compile, on its first call with each set of argument types.
    **options
        Options of ``numba.njit`` such as ``inline="always"`` or ``error_model="numpy"``. ``fastmath`` is
        refused: it would let LLVM change the order of a sum, which the values must not depend on.

    Notes
    -----
    ``NUMBA_DISABLE_JIT=1`` leaves the plain function, ``NUMBA_BOUNDSCHECK=1`` checks every index.
    """
    if "fastmath" in options:
        raise TypeError("kernel() takes no fastmath: the order of a sum is part of the result")
    if function is None:
        return functools.partial(kernel, **options)
    folder = None if numba.config.DISABLE_JIT else cache_folder()
    if folder is None:
        return numba.njit(nogil=True, **options)(function)
    with _numba_caches_in(folder):
        return numba.njit(nogil=True, cache=True, **options)(function)


@functools.cache
def cache_folder() -> Path | None:
    """Return the folder of this version's compiled kernels, or None where no folder can be written.

    It lies in ``$SYSTOLIC_CACHE_DIR``, else in ``systolic`` under ``$XDG_CACHE_HOME`` or ``~/.cache``.
    When it cannot be written, one warning says so, and kernels are compiled anew in each process.
    """
    try:
        folder = cache_root() / "kernels" / source_digest(Path(__file__).parent)
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError) as error:
        warnings.warn(
            f"compiled kernels cannot be kept on disk ({error}), so each run compiles them again; "
            f"set {CACHE_SETTING} to a folder that can be written",
            stacklevel=2,
        )
        return None
    return folder


def source_digest(sources: Path) -> str:
    """Return 16 hex digits that change with any Python file below `sources` and with how Numba compiles.

    Numba's own key holds the argument types, the CPU and the Python version, but not these switches.
    """
    switches = (numba.config.BOUNDSCHECK, numba.config.OPT, numba.config.DEBUGINFO_DEFAULT)
    digest = hashlib.sha256(repr((numba.__version__, llvmlite.__version__, switches)).encode())
    for path in sorted(sources.rglob("*.py")):
        digest.update(repr((path.relative_to(sources).as_posix(), path.read_bytes())).encode())
    return digest.hexdigest()[:16]


def cache_root() -> Path:
    """Return the user's folder for what systolic keeps between runs; see :func:`cache_folder`."""
    if chosen := os.environ.get(CACHE_SETTING):
        return Path(chosen).absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "systolic"


@contextlib.contextmanager
def _numba_caches_in(folder: Path) -> Iterator[None]:
    # Numba reads this setting once for each function, when it is decorated, so that setting it for that
    # moment only leaves every function that is not ours where its author put it.
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before
