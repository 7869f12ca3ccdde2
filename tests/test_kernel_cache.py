"""Where compiled kernels are kept.

A copy of the kernel package with two small kernels runs in processes of its own, since Numba reads its
settings once. This stands outside tests/kernels because each test sets the switches with which that folder
is run again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import systolic.kernels

CALLEE = """
from .compile import kernel

@kernel
def callee(x):
    return 2 * x
"""
CALLER = """
import numpy as np
from .callee import callee
from .compile import kernel

@kernel
def caller(x):
    return callee(x)

@kernel(error_model="numpy")
def fifth(a):
    return a[5]
"""
CALL = "from systolic.kernels.caller import caller; print(caller(10))"
# Hits of the disk cache, as Numba counts them.
HITS = CALL + "; print(sum(caller.stats.cache_hits.values()))"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a `systolic` package of kernels only, and room for a cache."""
    kernels = tmp_path / "systolic" / "kernels"
    kernels.mkdir(parents=True)
    (tmp_path / "systolic" / "__init__.py").touch()
    source = Path(systolic.kernels.__file__).parent
    for name in ("__init__.py", "compile.py"):
        shutil.copy(source / name, kernels)
    (kernels / "callee.py").write_text(CALLEE)
    (kernels / "caller.py").write_text(CALLER)
    return tmp_path


def python(home: Path, code: str, **settings: str | None) -> subprocess.CompletedProcess[str]:
    """Run `code` with the package of `home`; a setting that is None is taken out of the environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "SYSTOLIC_", "XDG_"))}
    given = {"SYSTOLIC_CACHE_DIR": str(home / "cache"), "PYTHONPATH": str(home), **settings}
    env = {k: v for k, v in (kept | given).items() if v is not None}
    command = [sys.executable, "-W", "default", "-c", code]
    return subprocess.run(
        command, env=env, cwd=home, capture_output=True, text=True, timeout=120, check=False
    )


def folders(home: Path) -> list[Path]:
    """The folders of compiled kernels, each for one state of the sources."""
    return sorted((home / "cache" / "kernels").iterdir())


def test_second_process_loads_what_the_first_compiled(home: Path) -> None:
    assert python(home, HITS).stdout.split() == ["20", "0"]
    assert python(home, HITS).stdout.split() == ["20", "1"]


def test_edit_of_a_callee_in_another_file_is_noticed(home: Path) -> None:
    # With Numba's own cache the second run printed 20 (Numba 0.68.1, and its documentation of `cache`).
    assert python(home, CALL).stdout == "20\n"
    (home / "systolic" / "kernels" / "callee.py").write_text(CALLEE.replace("2 * x", "3 * x"))
    assert python(home, CALL).stdout == "30\n"
    assert len(folders(home)) == 2


def test_bounds_checks_have_a_folder_of_their_own(home: Path) -> None:
    beyond = "import numpy as np; from systolic.kernels.caller import fifth; fifth(np.zeros(3))"
    assert python(home, beyond).returncode == 0
    checked = python(home, beyond, NUMBA_BOUNDSCHECK="1")
    assert "IndexError" in checked.stderr
    assert len(folders(home)) == 2


def test_without_jit_kernels_are_plain_functions(home: Path) -> None:
    code = "from systolic.kernels.caller import caller; print(type(caller).__name__, caller(10))"
    assert python(home, code, NUMBA_DISABLE_JIT="1").stdout == "function 20\n"
    assert not (home / "cache").exists()


def test_the_users_own_functions_stay_in_their_place(home: Path) -> None:
    (home / "mine.py").write_text("import numba\n\n@numba.njit(cache=True)\ndef mine(x):\n    return x + 1\n")
    code = CALL + "; from mine import mine; print(mine(1), mine.stats.cache_path)"
    assert python(home, code).stdout == f"20\n2 {home / '__pycache__'}\n"
    theirs = str(home / "theirs")
    assert python(home, code, NUMBA_CACHE_DIR=theirs).stdout.startswith(f"20\n2 {theirs}")
    assert not list((home / "cache").rglob("mine*"))


def test_no_home_and_a_package_that_cannot_be_written(home: Path) -> None:
    # cases S-81 (numba/numba #4032): works, with one notice. A file where a folder should be stands for a
    # place that cannot be written, which would be no hindrance to root.
    blocked = home / "blocked"
    blocked.touch()
    before = sorted(home.rglob("*"))
    unwritable = {"HOME": None, "XDG_CACHE_HOME": str(blocked), "PYTHONDONTWRITEBYTECODE": "1"}
    done = python(home, CALL, SYSTOLIC_CACHE_DIR=None, **unwritable)
    assert done.stdout == "20\n"
    assert done.stderr.count("compiled kernels cannot be kept on disk") == 1
    assert "set SYSTOLIC_CACHE_DIR to a folder that can be written" in done.stderr
    assert sorted(home.rglob("*")) == before


def test_named_folder_serves_where_there_is_no_home(home: Path) -> None:
    chosen = home / "chosen" / "place"
    done = python(home, HITS, HOME=None, SYSTOLIC_CACHE_DIR=str(chosen))
    assert done.stdout.split() == ["20", "0"]
    assert done.stderr == ""
    assert list(chosen.rglob("caller.caller-*.nbc"))


def test_fastmath_is_refused(home: Path) -> None:
    done = python(
        home, "from systolic.kernels.compile import kernel\n@kernel(fastmath=True)\ndef f(x): return x"
    )
    assert "TypeError: kernel() takes no fastmath: the order of a sum is part of the result" in done.stderr
