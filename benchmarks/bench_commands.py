"""Commands as a user runs them: whole processes, from start to exit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import Promise

# The peak is read inside the process: what wait4 reports includes the memory of whoever started it.
MEASURED = """
import sys
from pathlib import Path
from systolic.cli import main
try:
    main(sys.argv[1:])
finally:
    print(Path("/proc/self/status").read_text(), file=sys.stderr)
"""


def systolic(*arguments: str) -> int:
    """Run the command line; return the most memory that it held, bytes."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments], capture_output=True, text=True, check=True
    )
    peak = re.search(r"VmHWM:\s*(\d+) kB", done.stderr)
    assert peak is not None
    return 1024 * int(peak[1])


def test_help(benchmark: Any, promise: Promise) -> None:
    benchmark.pedantic(systolic, args=("--help",), warmup_rounds=1, rounds=7)
    promise("systolic --help", benchmark.stats.stats.median, "s", at_most=0.3)


def test_second_run_of_gpt2(benchmark: Any, promise: Promise, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    run = ("run", "gpt2", "--on", "tpu-v4", "--check", "off", "--json", str(file))
    simulations = []

    def measured() -> None:
        systolic(*run)
        simulations.append(json.loads(file.read_text())["host"]["simulation_seconds"])

    benchmark.pedantic(measured, warmup_rounds=1, rounds=5)
    promise("gpt2 on tpu-v4, second run", benchmark.stats.stats.median, "s", at_most=2)
    promise("  its simulation", sorted(simulations[1:])[2], "s", at_most=0.3)


@pytest.mark.parametrize(
    "phase", [("--seq", "8192"), ("--phase", "decode", "--kv-len", "8192")], ids=["prefill", "decode"]
)
def test_llama_405b(
    benchmark: Any, promise: Promise, phase: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    run = ("run", "llama-3-405b", "--on", "tpu-v5p", "--check", "off", *phase)
    peak = benchmark.pedantic(systolic, args=run, warmup_rounds=1, rounds=3)
    name = f"llama-3-405b {request.node.callspec.id}"
    promise(name, benchmark.stats.stats.median, "s", at_most=2)
    promise("  its memory", peak, "B", at_most=500e6)


def test_shipped_measurements(benchmark: Any, promise: Promise) -> None:
    benchmark.pedantic(systolic, args=("compare", "--shipped", "--overview"), rounds=1)
    promise("sample of all shipped measurements compared", benchmark.stats.stats.max, "s", at_most=60)


def test_full_check_of_gpt2(benchmark: Any, promise: Promise) -> None:
    run = ("run", "gpt2", "--on", "tpu-v4", "--seq", "1024", "--check", "full")
    benchmark.pedantic(systolic, args=run, rounds=1)
    promise("gpt2, all values checked", benchmark.stats.stats.max, "s", at_most=60)
