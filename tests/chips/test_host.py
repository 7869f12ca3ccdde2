"""This machine as the system describes it: descriptions that other machines gave, and this one's own."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from systolic.chips.host import ListedCache, read_host
from systolic.errors import SystolicError

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="reads Linux on x86-64"
)

CACHES = [  # level, type, size, ways, sharers: cpu0 of a Sapphire Rapids in a virtual machine
    ("1", "Data", "48K", "12", "0-1"),
    ("1", "Instruction", "32K", "8", "0-1"),
    ("2", "Unified", "2048K", "16", "0-1"),
    ("3", "Unified", "107520K", "15", "0-3,8"),
]


def described(
    folder: Path, caches: list[tuple[str, ...]] = CACHES, flags: str = "fma avx2 amx_bf16"
) -> tuple[Path, Path]:
    """Files as Linux has them under /proc and /sys."""
    cpuinfo = folder / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nmodel name\t: Some Xeon\nflags\t\t: {flags}\n\nprocessor\t: 1\n")
    for cpu in range(256):
        for at, values in enumerate(caches):
            index = folder / f"cpu{cpu}" / "cache" / f"index{at}"
            index.mkdir(parents=True)
            names = ("level", "type", "size", "ways_of_associativity", "shared_cpu_list")
            for name, value in zip(names, values, strict=True):
                (index / name).write_text(f"{value}\n")
            (index / "coherency_line_size").write_text("64\n")
        if cpu in read_host().cpus:
            break
    return cpuinfo, folder


def test_a_description_is_read_whole(tmp_path: Path) -> None:
    facts = read_host(*described(tmp_path, flags="fma avx2 amx_bf16 hypervisor"))
    assert (facts.model, facts.extensions, facts.virtual) == ("Some Xeon", ("fma", "avx2", "amx_bf16"), True)
    assert facts.caches[2:] == (
        ListedCache(level=2, kind="Unified", bytes=2 << 20, ways=16, line_bytes=64, sharers=2),
        ListedCache(level=3, kind="Unified", bytes=105 << 20, ways=15, line_bytes=64, sharers=5),
    )
    assert facts.notes == ()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\n\n")
    assert read_host(cpuinfo, tmp_path).notes == (
        f"{cpuinfo} does not give 'model name'",
        f"{cpuinfo} does not give 'flags'",
        f"{tmp_path} lists no caches",
    )
    assert (
        "the ways of L1 are not listed"
        in read_host(*described(tmp_path, [("1", "Data", "32K", "0", "0")])).notes
    )


def test_another_system_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    with pytest.raises(
        SystolicError, match=r"host can be read on Linux on x86-64, this is Darwin on arm64; name"
    ):
        read_host()
