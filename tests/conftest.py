"""What every test run shares: how hard Hypothesis searches, and what happens without a system tool."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import HealthCheck, settings

# No deadlines: the first example of a kernel pays for compiling it. The two profiles of `make test` repeat
# the same examples in each run, so that a change is what turns a test red; "deep" looks for new ones.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("usual", _COMMON, max_examples=60, derandomize=True)
settings.register_profile("few", _COMMON, max_examples=8, derandomize=True)
settings.register_profile("deep", _COMMON, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave a test out for want of a system tool only when the caller said so."""
    missing = [mark.args[0] for mark in item.iter_markers("tool") if shutil.which(mark.args[0]) is None]
    if missing and os.environ.get("TOOLS") == "skip":
        pytest.skip(f"TOOLS=skip, and not installed: {', '.join(missing)}")
    if missing:
        pytest.fail(f"not installed: {', '.join(missing)}; `make test` says what to do", pytrace=False)
