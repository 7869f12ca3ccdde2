"""The command line as processes: what loads, how they end, and what they leave behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SYSTOLIC = (sys.executable, "-m", "systolic")


def ended(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        [*SYSTOLIC, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def loaded_after(*arguments: str) -> set[str]:
    """Top-level modules in a process after one command."""
    code = (
        "import sys\n"
        "from systolic.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print('loaded', *{name.partition('.')[0] for name in sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(run.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("explain", "cycles"), ("chips",)])
def test_small_commands_load_nothing_heavy(arguments: tuple[str, ...]) -> None:
    heavy = {"numpy", "jax", "numba", "pandas", "matplotlib", "rich"}
    assert not loaded_after(*arguments) & heavy


def test_run_without_check_loads_neither_jax_nor_numba_nor_matplotlib() -> None:
    loaded = loaded_after("run", "gpt2", "--seq", "16", "--check", "off")
    assert "numpy" in loaded
    assert not loaded & {"jax", "numba", "matplotlib", "pandas"}


def test_fresh_processes_give_the_same_bytes(tmp_path: Path) -> None:
    """KULeuven-MICAS/zigzag issue 72: totals differed from run to run. Wall time stands apart in `host`."""
    texts = []
    for seed in ("1", "2", "3"):
        target = tmp_path / f"{seed}.json"
        run = ended("run", "104,104,104", "--check", "off", "--json", str(target), PYTHONHASHSEED=seed)
        assert run.returncode == 0, run.stderr
        report = json.loads(target.read_text())
        assert report.pop("host")["wall_seconds"] > 0
        texts.append(json.dumps(report))
    assert len(set(texts)) == 1


def test_interrupt_ends_in_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    command = [*SYSTOLIC, "run", "gpt2-xl", "--check", "full", "--json", str(tmp_path / "report.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        try:
            announced = run.stderr.readline()
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=60)
        finally:
            run.kill()
    assert announced.startswith("systolic: check full of ")
    assert run.returncode == 130
    assert (out, err) == ("", "systolic: interrupted; nothing half-written was left\n")
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_no_error_worth_a_word() -> None:
    with subprocess.Popen([*SYSTOLIC, "explain"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None and run.stderr is not None
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 1


def test_version_is_the_packages() -> None:
    import systolic

    assert ended("--version").stdout == f"systolic {systolic.__version__}\n"
