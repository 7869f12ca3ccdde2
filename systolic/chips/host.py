"""What the operating system says about this machine's CPU. Nothing is timed here."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import SystolicError

CPUINFO = Path("/proc/cpuinfo")
SYSTEM_CPUS = Path("/sys/devices/system/cpu")
EXTENSIONS = ("fma", "avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8")


@dataclass(frozen=True, kw_only=True)
class ListedCache:
    """A cache as the kernel lists it; inside a virtual machine that need not be what one gets.

    Attributes
    ----------
    level, kind
        1, 2, …; ``Data``, ``Instruction`` or ``Unified``.
    bytes, ways, line_bytes
        Its geometry; `ways` is None where it is not listed.
    sharers
        CPUs that share it.
    """

    level: int
    kind: str
    bytes: int
    ways: int | None
    line_bytes: int
    sharers: int


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """This machine, as read.

    Attributes
    ----------
    model
        Name of the CPU.
    cpus
        CPUs that this process may run on.
    extensions
        Those of :data:`EXTENSIONS` that it has.
    virtual
        Whether a hypervisor stands below.
    caches
        Of the first CPU, from L1 on.
    notes
        What could not be read.
    """

    model: str
    cpus: tuple[int, ...]
    extensions: tuple[str, ...]
    virtual: bool
    caches: tuple[ListedCache, ...]
    notes: tuple[str, ...]


def read_host(cpuinfo: Path = CPUINFO, system_cpus: Path = SYSTEM_CPUS) -> HostFacts:
    """Read what Linux says about the CPU.

    Parameters
    ----------
    cpuinfo, system_cpus
        Where it says it.

    Raises
    ------
    SystolicError
        Where this is no Linux on x86-64.
    """
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise SystolicError(
            f"host can be read on Linux on x86-64, this is {platform.system()} on {platform.machine()}; "
            "name a chip of the catalogue instead (systolic chips)"
        )
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    fields = _first_cpu(cpuinfo)
    flags = fields.get("flags", "").split()
    caches = _caches(system_cpus / f"cpu{cpus[0]}" / "cache")
    notes = [f"{cpuinfo} does not give {name!r}" for name in ("model name", "flags") if name not in fields]
    if not caches:
        notes.append(f"{system_cpus} lists no caches")
    notes += [f"the ways of L{cache.level} are not listed" for cache in caches if cache.ways is None]
    return HostFacts(
        model=fields.get("model name", "unknown x86-64 CPU"),
        cpus=cpus,
        extensions=tuple(name for name in EXTENSIONS if name in flags),
        virtual="hypervisor" in flags,
        caches=caches,
        notes=tuple(notes),
    )


def _first_cpu(cpuinfo: Path) -> dict[str, str]:
    try:
        first = cpuinfo.read_text().split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _caches(folder: Path) -> tuple[ListedCache, ...]:
    found = []
    for entry in sorted(folder.glob("index*")):
        read = {path.name: path.read_text().strip() for path in entry.iterdir() if path.is_file()}
        size = re.fullmatch(r"(\d+)([KM])", read.get("size", ""))
        if size is None or not {"level", "type"} <= read.keys():
            continue
        ways = int(read.get("ways_of_associativity", 0))
        found.append(
            ListedCache(
                level=int(read["level"]),
                kind=read["type"],
                bytes=int(size[1]) << (10 if size[2] == "K" else 20),
                ways=ways or None,
                line_bytes=int(read.get("coherency_line_size", 64)),
                sharers=len(_numbers(read.get("shared_cpu_list", "0"))),
            )
        )
    return tuple(sorted(found, key=lambda cache: (cache.level, cache.kind)))


def _numbers(ranges: str) -> list[int]:
    """The numbers in a list such as ``0-3,8``."""
    pairs = (part.partition("-") for part in ranges.split(",") if part)
    return [n for first, _, last in pairs for n in range(int(first), int(last or first) + 1)]
