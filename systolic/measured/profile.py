"""The device's own account of a call: durations of its kernels, from the profiler that JAX has."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

DEVICE_LINES = ("Stream", "XLA Ops")
"""Beginnings of the names of lines that hold kernels on a GPU, and operations on a TPU; other lines of a
device's plane repeat them (modules, steps, names of the framework)."""

HOST_LINES = ("tf_XLAPjRtCpuClient", "tf_XLAEigen")
"""The same for the threads that run a program on a CPU."""

CALLS = 20
"""Calls under the profiler."""


def kernel_us(call: Callable[[int], object], platform: str) -> float | None:
    """Median microseconds that the device's kernels of one call take.

    Parameters
    ----------
    call
        Runs once and returns when the work is complete; its argument counts the calls.
    platform
        ``cpu``, ``gpu`` or ``tpu``.

    Returns
    -------
    float or None
        None where the profiler shows no kernels: then the host's clock is all there is.
    """
    import jax

    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for number in range(CALLS):
                call(number)
        found = sorted(Path(folder).rglob("*.xplane.pb"))
        if not found:
            return None
        data: Any = jax.profiler.ProfileData.from_file(str(found[0]))
        return per_call(_durations(data.planes, platform), CALLS)


def per_call(durations: list[tuple[float, float]], calls: int) -> float | None:
    """Microseconds of one call from (start, duration) of all kernels, nanoseconds; None where there are none.

    Where every call has as many kernels, they are added up call by call, and the median call is taken; where
    kernels do not divide evenly, the mean.
    """
    if not durations:
        return None
    times = [duration for _, duration in sorted(durations)]
    each, rest = divmod(len(times), calls)
    if rest or not each:
        return sum(times) / calls / 1000
    return statistics.median(sum(times[at : at + each]) for at in range(0, len(times), each)) / 1000


def _durations(planes: Iterable[Any], platform: str) -> list[tuple[float, float]]:
    """(start, duration) of the kernels on a device's planes."""
    host = platform == "cpu"
    lines = HOST_LINES if host else DEVICE_LINES
    return [
        (float(event.start_ns), float(event.duration_ns))
        for plane in planes
        if plane.name.startswith("/host:CPU" if host else "/device:")
        for line in plane.lines
        if line.name.startswith(lines)
        for event in line.events
        if not host or _is_kernel(event.name)
    ]


def _is_kernel(name: str) -> bool:
    """Whether an event of a CPU thread is an operation of the program, and not the runtime's bookkeeping."""
    return "::" not in name and not name.startswith("end: ")
