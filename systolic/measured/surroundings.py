"""What can be read of the machine that measures; what cannot is None, never a guess."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

THREAD_SETTINGS = ("XLA_FLAGS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that change how many threads a matmul runs on."""


def versions() -> dict[str, str]:
    """Versions of what a measured time depends on."""
    ours = sys.modules[__name__.partition(".")[0]].__version__
    found = {"python": platform.python_version(), "systolic": ours}
    for name in ("jax", "jaxlib", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def host() -> dict[str, Any]:
    """The host: processor, cores that this process may use, clock, caches, load, thread settings."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_line("model name"),
        "mhz": _number(_cpu_line("cpu MHz")),
        "cpus": _cores(),
        "caches": caches(),
        "load": _load(),
        "settings": {name: os.environ[name] for name in THREAD_SETTINGS if name in os.environ},
    }


def caches() -> dict[str, int] | None:
    """Level -> bytes of the data caches that the first core sees; None where the system does not say."""
    found: dict[str, int] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size = ((folder / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue
        if kind != "Instruction" and (number := re.fullmatch(r"(\d+)([KM])", size)):
            found[f"l{level}"] = int(number[1]) << (10 if number[2] == "K" else 20)
    return found or None


def _cores() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _cpu_line(name: str) -> str | None:
    if sys.platform != "linux":
        return platform.processor() or None
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return None
    found = re.search(rf"^{name}\s*:\s*(.+)$", text, re.M)
    return found[1] if found else None


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
