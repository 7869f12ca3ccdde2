"""The calibration of this machine: what physics allows, what is kept, and the probes against their twins."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np
import pytest

from systolic.chips.host import ListedCache
from systolic.kernels import probes
from systolic.kernels.compile import CACHE_SETTING
from systolic.measured import host_speed


def test_the_probes_compute_what_they_say() -> None:
    factor, term = np.float32(0.75), np.float32(1.5)
    assert probes.fma_rounds(3, factor, term) == probes._plain_multiply_adds(3, factor, term)
    x = 12345
    for _ in range(3):
        x = (x * 6364136223846793005) % 2**64 ^ (x >> 7)
    assert int(probes.chain(3, 12345)) == x
    assert probes.read_words(np.array([5, 6, 9], np.int64), 2) == (5 ^ 6 ^ 9) + ((5 ^ 6 ^ 9) ^ 1)
    assert probes.follow(np.array([2, 0, 1], np.int64), 0, 4) == 2


def test_working_sets_fit_what_they_stand_for() -> None:
    kinds = [
        (1, "Data", 48 << 10),
        (1, "Instruction", 32 << 10),
        (2, "Unified", 2 << 20),
        (3, "Unified", 105 << 20),
    ]
    caches = [
        ListedCache(level=level, kind=kind, bytes=size, ways=8, line_bytes=64, sharers=1)
        for level, kind, size in kinds
    ]
    assert host_speed.working_sets(caches) == [
        ("l1", 24 << 10),
        ("l2", 1 << 20),
        ("l3", 4 << 20),
        ("dram", 420 << 20),
    ]
    assert host_speed.working_sets([]) == [("dram", 128 << 20)]


@pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="measures Linux on x86-64"
)
def test_this_machine_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_SETTING, str(tmp_path))
    monkeypatch.setattr(host_speed, "REPEATS", 1)
    first = host_speed.measure_host()
    assert 5e8 < first.clock_hz < 7e9
    # A core starts two multiply-adds of the widest vector per cycle at the very most; shared cores do less.
    assert 0 < first.core_flop_per_s < 7e9 * 2 * 2 * probes.FMA_LANES
    assert first.levels[-1].name == "dram"
    assert first.levels[0].latency_ns < first.levels[-1].latency_ns

    kept, *others = (tmp_path / "hosts").iterdir()
    assert not others
    values = json.loads(kept.read_text())
    kept.write_text(json.dumps(values | {"clock_hz": 1}))
    assert host_speed.measure_host().clock_hz == 1
    kept.write_text("{")
    assert host_speed.measure_host().clock_hz != 1
