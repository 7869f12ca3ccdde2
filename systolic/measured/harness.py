"""``measure``: the matmuls of a workload timed on the devices that JAX has."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..chips import Chip
from ..engine.progress import Progress, Silent
from ..errors import SystolicError, raise_if_any, shown
from ..quantity import format_rate
from ..workload import Gemm, Workload
from .device import devices, observed_precision, prepare
from .profile import kernel_us
from .record import NOISY, OK, Measurement, Measurements, Session, read
from .sources import device_of
from .surroundings import caches, host, versions
from .timing import time_calls

CACHE_BYTES = {"gpu": 128 << 20, "tpu": 256 << 20}
"""At least as much as the largest on-chip memory of the platform's devices: B200 has 126 MiB of L2, TPU v6e
128 MiB of vector memory."""

ROTATED_CACHES = 2
"""Inputs that calls take in turn fill the caches so many times over."""

MOST_BYTES = 2 << 30
MOST_COPIES = 512
"""Limits on all inputs of a matmul together."""

TOLERATED = 1.02
"""Times the peak that a rate may reach before it raises an alarm: clocks and peaks are known to about 1%."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """How to measure.

    Attributes
    ----------
    device
        ``cpu``, ``gpu`` or ``tpu``; None for one of each that is there.
    warm
        Whether all calls take the same inputs, which caches may then hold.
    spread
        Distance of two medians over their mean that counts as agreement.
    budget_s
        Seconds for a matmul.
    again
        Whether to measure what the file holds already.
    seed
        Of the inputs.
    """

    device: str | None = None
    warm: bool = False
    spread: float = 0.02
    budget_s: float = 10.0
    again: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        lines = []
        for name, most in (("spread", 1.0), ("budget_s", float("inf"))):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 < value <= most:
                limit = f" and <= {most:g}" if most < float("inf") else ""
                lines.append(f"{name.removesuffix('_s')} must be > 0{limit}, got {shown(value)}")
        if self.device not in (None, "cpu", "gpu", "tpu"):
            lines.append(f"--device must be one of cpu, gpu, tpu, got {shown(self.device)}")
        raise_if_any(lines)

    @property
    def options(self) -> dict[str, Any]:
        """What a session records."""
        return {"inputs": "warm" if self.warm else "cold", "spread": self.spread, "budget_s": self.budget_s}


def measure(
    workload: Workload,
    out: Path | None = None,
    request: Request | None = None,
    *,
    progress: Progress | None = None,
) -> Measurements:
    """Time every distinct matmul of a workload on each device.

    Parameters
    ----------
    workload
        Its matmuls are measured one by one; what lies between them is not.
    out
        A file to begin or to go on with. It is written after every row, as a whole; rows that a session equal
        to this one has measured are not measured again.
    request
        How; by default cold inputs, one device of each kind.
    progress
        Receives progress.

    Returns
    -------
    Measurements
        All that the file holds then.

    Raises
    ------
    SystolicError
        If there is no such device, or it does not multiply a format; if the file is no file of measurements,
        or cannot be written.
    """
    asked, watch = request or Request(), progress or Silent()
    content = read(out) if out is not None and out.exists() and out.stat().st_size else Measurements()
    for note in content.notes:
        watch.announce(note)
    for device in devices(asked.device):
        gemms = list(distinct(_for_platform(workload, device.platform)))
        session = _session(device, gemms, asked, 1 + max((s.id for s in content.sessions), default=0))
        done = set() if asked.again else content.measured(session)
        waiting = [gemm for gemm in gemms if _key(gemm) not in done]
        if len(waiting) < len(gemms):
            watch.announce(f"{device.device_kind}: {len(gemms) - len(waiting)} rows are in the file already")
        if not waiting:
            continue
        content = replace(content, sessions=(*content.sessions, session))
        watch.start(f"measuring on {device.device_kind}", len(waiting))
        for gemm in waiting:
            row = _row(gemm, device, session, asked)
            content = replace(content, rows=(*content.rows, row))
            if out is not None:
                content.write(out)
            watch.advance(1)
    return content


def distinct(workload: Workload) -> Iterator[Gemm]:
    """Each matmul of a workload once, with all its occurrences counted."""
    seen: dict[tuple[object, ...], Gemm] = {}
    for op in workload.ops:
        if isinstance(op, Gemm):
            before = seen.get(_key(op))
            count = op.count + (before.count if before else 0)
            seen[_key(op)] = replace(before or op, count=count)
    yield from seen.values()


def _key(gemm: Gemm) -> tuple[object, ...]:
    return (
        *(gemm.batch, gemm.m, gemm.n, gemm.k, gemm.layout),
        *(gemm.dtype, gemm.rhs_dtype, gemm.out_dtype, gemm.precision),
    )


def _for_platform(workload: Workload, platform: str) -> Workload:
    """The workload in the format that suits a device where none was asked for."""
    if workload.dtype is not None:
        return workload
    return workload.with_dtype("fp32" if platform == "cpu" else "bf16")


def _session(device: Any, gemms: Iterable[Gemm], asked: Request, number: int) -> Session:
    kinds = dict.fromkeys((gemm.dtype, gemm.precision) for gemm in gemms)
    one = prepare(Gemm(m=1, n=1, k=1, dtype="fp32"), device, copies=1, seed=asked.seed)
    dispatch = time_calls(one.call, spread=0.1, budget_s=1.0)
    return Session(
        id=number,
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        device=device.device_kind,
        platform=device.platform,
        driver=" ".join(str(device.client.platform_version).split()),
        versions=versions(),
        host=host(),
        clock="host",
        options=asked.options,
        observed={
            f"{dtype} {precision}": observed_precision(device, dtype, precision) for dtype, precision in kinds
        },
        dispatch_us=dispatch.median or 0.0,
    )


def _row(gemm: Gemm, device: Any, session: Session, asked: Request) -> Measurement:
    operands = gemm.lhs_bytes + gemm.rhs_bytes
    copies = 1 if asked.warm else _copies(operands, device.platform)
    prepared = prepare(gemm, device, copies=copies, seed=asked.seed)
    timing = time_calls(prepared.call, spread=asked.spread, budget_s=asked.budget_s)
    row = Measurement(
        session=session.id,
        name=gemm.name,
        batch=gemm.batch,
        m=gemm.m,
        n=gemm.n,
        k=gemm.k,
        layout=gemm.layout,
        dtype=gemm.dtype,
        rhs_dtype=str(gemm.rhs_dtype),
        out_dtype=str(gemm.out_dtype),
        precision=gemm.precision,
        count=gemm.count,
        verdict=NOISY if timing.median is None else OK,
        median_us=timing.median,
        lo_us=timing.lo,
        hi_us=timing.hi,
        repeats=timing.repeats,
        spread=timing.spread,
        kernel_us=None if timing.median is None else kernel_us(prepared.call, device.platform),
        compile_s=prepared.compile_s,
        transfer_s=prepared.transfer_s,
        rotated_bytes=prepared.rotated_bytes,
    )
    return replace(row, alarm=alarm_of(row, gemm, _chip(device), cold=not asked.warm))


def _copies(operand_bytes: int, platform: str) -> int:
    """Sets of inputs that calls take in turn, so that each finds its own out of the caches."""
    largest = CACHE_BYTES.get(platform) or max((caches() or {"": 64 << 20}).values())
    wanted = 1 + -(-ROTATED_CACHES * largest // operand_bytes)
    return max(2, min(wanted, MOST_BYTES // operand_bytes, MOST_COPIES))


def _chip(device: Any) -> Chip | None:
    """The chip of the catalogue that the device is, None where there is none."""
    try:
        return device_of(device.device_kind).load()
    except SystolicError:
        return None


def alarm_of(row: Measurement, gemm: Gemm, chip: Chip | None, *, cold: bool) -> str:
    """What cannot be true about a row: a rate above the peak of the chip; ``""`` where nothing is wrong."""
    if chip is None or row.median_us is None:
        return ""
    seconds = 1e-6 * row.median_us
    alarms = []
    if row.dtype in chip.formats:
        peak = 2 * chip.peak_macs_per_s(row.dtype)
        if row.flop / seconds > TOLERATED * peak:
            alarms.append(f"{row.flop / seconds / 1e12:.4g} TFLOP/s is above the peak of {peak / 1e12:.4g}")
    memory = chip.memory["dram"].bytes_per_s
    moved = (gemm.lhs_bytes + gemm.rhs_bytes + gemm.out_bytes) / seconds
    if cold and memory is not None and moved > TOLERATED * memory:
        alarms.append(f"{format_rate(moved)} is above the memory's {format_rate(memory)}")
    return "; ".join(alarms)
