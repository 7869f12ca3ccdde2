"""What `make test` does about a missing system tool, on a search path that holds what the test puts there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / ".ci" / "tools"


@pytest.fixture
def tool_path(tmp_path: Path) -> Path:
    """A search path with bash and nothing else, `id` answering as an ordinary user."""
    for name in ("bash", "env"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    program(tmp_path / "id", "echo 1000")
    return tmp_path


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/usr/bin/env bash\n{script}\n")
    path.chmod(0o755)


def check_tools(tool_path: Path, needed: str, **settings: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(tool_path), "CI_TOOLS": needed, **settings}
    return subprocess.run([SCRIPT], env=env, capture_output=True, text=True, check=False)


def test_nothing_missing_says_nothing(tool_path: Path) -> None:
    done = check_tools(tool_path, "bash:bash env:coreutils")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_missing_tool_stops_with_the_line_to_run(tool_path: Path) -> None:
    done = check_tools(tool_path, "bash:bash iverilog:iverilog chromium:chromium-browser")
    assert done.returncode == 1
    assert "the tests need iverilog chromium" in done.stderr
    assert "sudo apt-get install iverilog chromium-browser\n" in done.stderr


def test_root_on_debian_updates_then_installs(tool_path: Path) -> None:
    program(tool_path / "id", "echo 0")
    program(tool_path / "apt-get", 'echo "apt-get $*"')
    done = check_tools(tool_path, "bash:bash chromium:chromium-browser")
    assert done.returncode == 0
    update, install = done.stdout.splitlines()
    assert update == "apt-get update"
    assert install == "apt-get install --yes --no-install-recommends chromium-browser"


def test_failing_installation_stops(tool_path: Path) -> None:
    program(tool_path / "id", "echo 0")
    program(tool_path / "apt-get", "[[ $1 == update ]]")
    assert check_tools(tool_path, "chromium:chromium-browser").returncode != 0


def test_skip_goes_on_and_says_what_it_left_out(tool_path: Path) -> None:
    done = check_tools(tool_path, "bash:bash iverilog:iverilog", TOOLS="skip")
    assert done.returncode == 0
    assert done.stdout == "left out (TOOLS=skip): the tests that need iverilog\n"


@pytest.mark.parametrize("needed", ["bash:bash", "iverilog:iverilog"])
def test_skip_is_refused_where_ci_is_set(tool_path: Path, needed: str) -> None:
    done = check_tools(tool_path, needed, TOOLS="skip", CI="true")
    assert done.returncode == 2
    assert "TOOLS=skip is refused where CI is set" in done.stderr
