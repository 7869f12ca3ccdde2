"""C programs of a few lines, compiled and traced for real."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

SOURCE = Path(__file__).with_name("loops.c")


def compiled(folder: Path, run: str, **macros: int) -> Path:
    """The program whose only work is the function `run`; optimised, but nothing vectorised or replaced."""
    program = folder / "_".join([run, *(f"{name}{value}" for name, value in macros.items())])
    options = ["-O2", "-fno-tree-vectorize", "-fno-tree-loop-distribute-patterns", "-ffreestanding"]
    options += ["-nostdlib", "-static", "-no-pie", "-fno-stack-protector", "-fno-unroll-loops"]
    defined = [f"-D{name}={value}" for name, value in {"RUN": run, **macros}.items()]
    command = ["gcc", *options, *defined, "-o", str(program), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return program


def symbols(program: Path) -> dict[str, int]:
    """Name -> address of what the program defines."""
    listed = subprocess.run(["nm", str(program)], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in listed.splitlines())
    return {row[2]: int(row[0], 16) for row in rows if len(row) == 3}


@contextmanager
def lackey(program: Path) -> Iterator[BinaryIO]:
    """The memory trace of a run of `program`, as a stream.

    ``setarch -R`` turns off the random placing of the stack, so that two runs are the same access by access.
    """
    command = ["setarch", "-R", "valgrind", "--tool=lackey", "--trace-mem=yes", str(program)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env={"PATH": "/usr/bin:/bin"}) as process:
        yield cast(BinaryIO, process.stderr)
    assert process.returncode == 0


def cachegrind(program: Path, folder: Path, **caches: tuple[int, int, int]) -> dict[str, int]:
    """Event -> count of a run of `program`; `caches`: (bytes, ways, line bytes) of I1, D1 and LL."""
    counts = folder / "cachegrind.out"
    options = [f"--{name}={size},{ways},{line}" for name, (size, ways, line) in caches.items()]
    command = ["setarch", "-R", "valgrind", "--tool=cachegrind", "--cache-sim=yes", *options]
    command += [f"--cachegrind-out-file={counts}", str(program)]
    subprocess.run(command, check=True, capture_output=True, env={"PATH": "/usr/bin:/bin"})
    lines = counts.read_text().splitlines()
    events = next(line for line in lines if line.startswith("events:")).split()[1:]
    totals = next(line for line in lines if line.startswith("summary:")).split()[1:]
    return dict(zip(events, map(int, totals), strict=True))
