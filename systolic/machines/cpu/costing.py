"""Cycles, bytes and counts of one step, launches left out."""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import Any

from ...chips.cpu import LEVELS, CpuChip
from ...errors import SystolicError
from ...result import Result, Traffic
from ...workload import Gemm, VectorOp
from ..base import Mode
from .blocking import blocks_of, share_of
from .formats import precision_of
from .loops import body_of, loop_cycles
from .steps import LOOPS, GemmStep, Kernel, Step, VectorStep
from .traffic import Bytes, bytes_of, compulsory


def cost(step: Step, chip: CpuChip, record: Any = None) -> Result:
    """Cost of all occurrences of a step."""
    if isinstance(step, VectorStep):
        return pass_cost(step.op, chip)
    return gemm_cost(step, chip)


def core_cycles(op: Gemm, kernel: Kernel, dtype: str, chip: CpuChip) -> int:
    """Cycles of the busiest core in its innermost loops, all operands in L1.

    A vector of columns that do not lie side by side is gathered one by one: ``simd`` is then ``reordered``.
    """
    share = share_of(op, chip)
    if kernel == "simd" and op.layout[1] == "t":
        kernel = "reordered"
    body = body_of(kernel, dtype, chip)
    blocks = ceil(share.m / body.rows) * ceil(share.n / body.cols) * ceil(op.k / body.depth)
    return ceil(share.matmuls * blocks * loop_cycles(kernel, dtype, chip))


def pack_cycles(op: Gemm, kernel: Kernel, dtype: str, chip: CpuChip) -> int:
    """Cycles in which a core copies blocks of its operands: a load and a store for each vector."""
    if kernel in LOOPS:
        return 0
    share, blocks = share_of(op, chip), blocks_of(kernel, dtype, chip)
    lhs = share.matmuls * share.m * op.k * ceil(share.n / blocks.n)
    rhs = op.batch * op.k * op.n / share.cores
    return ceil((lhs + rhs) / chip.core.lanes / min(chip.core.load_ports, chip.core.store_ports))


def gemm_cost(step: GemmStep, chip: CpuChip) -> Result:
    """Cost of all occurrences of a matmul."""
    op, share = step.op, share_of(step.op, chip)
    table, causes = _timed(op, step.kernel, step.dtype, chip, step.mode)
    body = body_of(step.kernel, step.dtype, chip)
    padded = (
        ceil(share.m / body.rows) * body.rows
        * ceil(share.n / body.cols) * body.cols
        * ceil(op.k / body.depth) * body.depth
        * share.matmuls * share.cores
    )  # fmt: skip
    macs = op.batch * op.m * op.n * op.k
    cycles = sum(causes.values())
    slots = cycles * chip.cores * max(chip.macs_per_cycle(step.dtype), 1)
    mapping: dict[str, Any] = {
        "kernel": step.kernel,
        "cores": share.cores,
        "split": share.axis,
        "share": {"m": share.m, "n": share.n, "k": op.k, "matmuls": share.matmuls},
    }
    if step.kernel not in LOOPS:
        blocks = blocks_of(step.kernel, step.dtype, chip)
        mapping["tile"] = {"m": blocks.m, "n": blocks.n, "k": blocks.k}
    return Result(
        op=op,
        kind="matmul",
        cycles=cycles,
        busy_cycles=causes.get("compute", 0),
        clock_hz=chip.clock_hz,
        cycles_by_cause=causes,
        bytes=table,
        array_macs=macs,
        padded_macs=max(0, padded - macs),
        pe_cycles=slots,
        mapped_pe_cycles=cycles * share.cores * max(chip.macs_per_cycle(step.dtype), 1),
        precision=str(precision_of(step, chip)),
        # Bytes of the packed kernels follow from the sizes of their blocks: nothing of them is stepped.
        source=step.mode if step.kernel in LOOPS else "bound",
        mapping=mapping,
    ).times(op.count)


@lru_cache(maxsize=1024)
def _timed(op: Gemm, kernel: Kernel, dtype: str, chip: CpuChip, mode: Mode) -> tuple[Bytes, dict[str, int]]:
    """Bytes, and cycles by cause, of one occurrence."""
    share = share_of(op, chip)
    if mode == "bound":
        least = ceil(op.batch * op.m * op.n * op.k / (chip.cores * chip.macs_per_cycle(dtype)))
        table: Bytes = {level: compulsory(op) for level in LEVELS}
        return table, _by_cause(least, 0, 0, _dram_cycles(table, chip), 0)
    if mode == "stepped" and kernel not in LOOPS:
        raise SystolicError(
            f"mode stepped walks the nests of {', '.join(LOOPS)} through the caches, not {kernel}; pin one "
            "with --kernel, or take mode tiled"
        )
    table = bytes_of(op, kernel, dtype, chip, share, mode == "stepped")
    ports = [_port_cycles(table, level, share.cores, chip) for level in ("l2", "l3")]
    latency = chip.memory["dram"].latency_cycles(chip.clock_hz)
    return table, _by_cause(
        core_cycles(op, kernel, dtype, chip),
        pack_cycles(op, kernel, dtype, chip),
        max(ports),
        _dram_cycles(table, chip),
        latency,
    )


def _by_cause(compute: int, packing: int, onchip: int, dram: int, latency: int) -> dict[str, int]:
    """Cycles by cause: the core's, then what the memories take longer, behind the first load."""
    busy = compute + packing
    causes = {
        "preload": packing,
        "compute": compute,
        "stall_onchip": max(0, onchip - busy),
        "stall_dram": max(0, dram - max(onchip, busy)),
        "stall_latency": latency,
    }
    return {cause: cycles for cause, cycles in causes.items() if cycles}


def _port_cycles(table: Bytes, level: str, cores: int, chip: CpuChip) -> int:
    rate = chip.memory[level].bytes_per_cycle
    return 0 if rate is None else ceil(_moved(table, level) / (rate * cores))


def _dram_cycles(table: Bytes, chip: CpuChip) -> int:
    return int(chip.memory["dram"].transfer_cycles(_moved(table, "dram"), chip.clock_hz))


def _moved(table: Bytes, level: str) -> int:
    return sum(traffic.total for traffic in table[level].values())


def pass_cost(op: VectorOp, chip: CpuChip) -> Result:
    """All occurrences of an op that goes once over its operands, which are taken to lie in main memory."""
    table: Bytes = {level: {"other": Traffic(op.read_bytes, op.write_bytes)} for level in LEVELS}
    lanes = chip.cores * chip.core.fma_ports * chip.core.lanes
    compute = ceil(op.elements * op.vector_ops / lanes)
    onchip = max(_port_cycles(table, level, chip.cores, chip) for level in ("l2", "l3"))
    latency = chip.memory["dram"].latency_cycles(chip.clock_hz) if op.read_bytes else 0
    causes = _by_cause(compute, 0, onchip, _dram_cycles(table, chip), latency)
    if "compute" in causes:
        causes["vector"] = causes.pop("compute")
    return Result(
        op=op,
        kind="gather" if op.kind == "gather" else "vector",
        cycles=sum(causes.values()),
        busy_cycles=compute,
        clock_hz=chip.clock_hz,
        cycles_by_cause=causes,
        bytes=table if op.read_bytes + op.write_bytes else {},
        source="tiled",
    ).times(op.count)
