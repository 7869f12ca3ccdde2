"""Kernels that go once over their operands: norms, softmax, activations, copies, look-ups.

Each thread moves 16 contiguous bytes at a time, so that a warp's requests fill whole sectors; what bounds
such a kernel is the slowest of main memory, L2, the SMs' ports and their lanes, after the latency of the
first load. Operands are taken to lie in main memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...chips.gpu import GpuChip
from ...result import Result, Traffic
from ...workload import VectorOp

VECTOR_BYTES = 16
"""Bytes that a thread loads or stores at once: the widest access (PTX ISA, ``ld.global.v4.f32``)."""


@dataclass(frozen=True)
class Pass:
    """What a pass over memory takes.

    Attributes
    ----------
    dram, onchip, lanes
        Cycles that main memory, L2 and the SMs' ports, and the scalar lanes are at it.
    latency
        From the first load to its data.
    read, write
        Bytes moved, whole sectors.
    """

    dram: int
    onchip: int
    lanes: int
    latency: int
    read: int
    write: int

    @property
    def cycles(self) -> int:
        """All in parallel, behind the first load."""
        return max(self.dram, self.onchip, self.lanes) + self.latency

    @property
    def causes(self) -> dict[str, int]:
        """Cycles by cause: the lanes', then what the memories take longer."""
        onchip = max(0, self.onchip - self.lanes)
        dram = max(0, self.dram - max(self.onchip, self.lanes))
        causes = {
            "vector": self.lanes,
            "stall_onchip": onchip,
            "stall_dram": dram,
            "stall_latency": self.latency,
        }
        return {cause: cycles for cause, cycles in causes.items() if cycles}


def pass_of(op: VectorOp, read_bytes: int, write_bytes: int, chip: GpuChip) -> Pass:
    """One occurrence of an op that reads and writes so many bytes."""
    l1, l2, dram = (chip.memory[level] for level in ("l1", "l2", "dram"))
    sector = l2.sector_bytes
    read, write = (-(-size // sector) * sector for size in (read_bytes, write_bytes))
    moved = read + write
    ports = [(l2.bytes_per_cycle, 1), (l1.bytes_per_cycle, chip.sms)]
    onchip = max((-(-moved // (rate * units)) for rate, units in ports if rate is not None), default=0)
    latency = l2.latency_cycles + dram.latency_cycles(chip.clock_hz) if read else 0
    return Pass(
        dram=dram.transfer_cycles(moved, chip.clock_hz),
        onchip=onchip,
        lanes=-(-op.elements * op.vector_ops // (chip.sms * chip.sm.fp32_lanes)),
        latency=latency,
        read=read,
        write=write,
    )


def pass_cost(op: VectorOp, chip: GpuChip) -> Result:
    """All occurrences of an op that is a kernel of its own, launches left out."""
    one = pass_of(op, op.read_bytes, op.write_bytes, chip)
    traffic = {"other": Traffic(one.read, one.write)}
    moved = one.read + one.write
    sectors = moved // chip.memory["l2"].sector_bytes
    requests = -(-moved // (VECTOR_BYTES * chip.sm.warp_size))
    warps = -(-op.elements // chip.sm.warp_size)
    return Result(
        op=op,
        kind="gather" if op.kind == "gather" else "vector",
        cycles=one.cycles,
        busy_cycles=one.lanes,
        clock_hz=chip.clock_hz,
        cycles_by_cause=one.causes,
        bytes=dict.fromkeys(("dram", "l2", "l1"), traffic) if moved else {},
        counters={
            "instructions": requests + warps * op.vector_ops,
            "unit_cycles": one.cycles * chip.sms,
            "issue_slots": one.cycles * chip.sms * chip.sm.sub_cores,
            "requests": requests,
            "sectors": sectors,
            "l2_accesses": sectors,
            "l2_hits": 0,
        },
        source="tiled",
    ).times(op.count)


def epilogue_cost(op: VectorOp, chip: GpuChip) -> Result:
    """All occurrences of an op in a matmul's epilogue: what it would take alone, beside its matmul."""
    one = pass_of(op, op.side_bytes, 0, chip)
    traffic = {"other": Traffic(one.read, 0)}
    causes = {"vector": one.lanes} if one.lanes else {}
    return Result(
        op=op,
        kind="vector",
        cycles=one.lanes,
        busy_cycles=one.lanes,
        clock_hz=chip.clock_hz,
        cycles_by_cause=causes,
        bytes=dict.fromkeys(("dram", "l2", "l1"), traffic) if one.read else {},
        source="tiled",
    ).times(op.count)
