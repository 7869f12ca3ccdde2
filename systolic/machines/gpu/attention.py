"""Attention as one kernel: tiles of scores that never leave the SM (FlashAttention).

A thread block holds a tile of queries and goes through the keys: scores on the tensor cores, softmax with
running maxima and sums on the scalar lanes, their product with the values on the tensor cores (Dao,
FlashAttention-2, arXiv 2307.08691, algorithm 1). While one block of an SM does its softmax, another one
multiplies. Tiles that a causal mask or a window hides are skipped. Where there are fewer query tiles than SMs
(decode), the keys are split over blocks, as in Flash-Decoding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ...chips.gpu import GpuChip
from ...dtypes import bytes_of
from ...result import Result, Traffic
from ...workload import Gemm, VectorOp
from .formats import precision_of
from .steps import Attention, AttentionStep

ROWS, KEYS = 128, 64
"""Sides of a tile of scores where shared memory allows: FlashAttention-2's for heads of 64 and 128."""

WARP_ROWS = 32
"""Rows of a tile that a warp works on: FlashAttention-2 has four warps for 128."""

OTHER_REGISTERS = 40
"""Registers of a thread beside sums and scores: addresses, operands on their way, maxima."""

LEAST_ROWS = 16
"""Rows of the smallest tile: those of a tensor instruction (PTX ISA, ``mma.m16n8k16``)."""


def attention_of(scores: Gemm, softmax: VectorOp, values: Gemm, chip: GpuChip) -> Attention:
    """The kernel's tile: as large as the matmul, and a tile of keys and one of values on chip, allow."""
    rows = ROWS
    while rows > LEAST_ROWS and rows >= 2 * scores.m:
        rows //= 2
    keys = KEYS
    room = chip.memory["shared"].cta_bytes
    while _shared_bytes(scores, values, rows, keys) > room and keys > LEAST_ROWS:
        keys //= 2
    while _shared_bytes(scores, values, rows, keys) > room and rows > LEAST_ROWS:
        rows //= 2
    return Attention(scores=scores, softmax=softmax, values=values, rows=rows, keys=keys)


def _shared_bytes(scores: Gemm, values: Gemm, rows: int, keys: int) -> int:
    """Shared memory of a block: queries, and keys and values, of which one loads while the other is used."""
    return bytes_of(rows * scores.k, scores.dtype) + _pair_bytes(scores, values, keys)


def _pair_bytes(scores: Gemm, values: Gemm, keys: int) -> int:
    """A tile of keys and one of values."""
    sides = ((scores.k, scores.rhs_dtype), (values.n, values.rhs_dtype))
    return sum(bytes_of(keys * width, str(dtype)) for width, dtype in sides)


def _warps(rows: int) -> int:
    """Warps of a block: four at least, one for each sub-core."""
    return max(4, rows // WARP_ROWS)


@dataclass(frozen=True)
class Kernel:
    """What one occurrence of the kernel takes.

    Attributes
    ----------
    blocks, resident, slices
        Thread blocks; how many of them an SM holds; parts of the keys that different blocks take.
    tensor, softmax, wait, latency, tail
        Cycles of the slowest SM: its tensor cores at work; what softmax and shared memory take beyond that;
        what L2 and main memory take beyond both; the first load; what an SM with the mean number of blocks
        would not have taken.
    dram
        Cycles of `wait` that main memory takes.
    macs
        Multiply-adds of scores and of values that are not skipped.
    """

    blocks: int
    resident: int
    slices: int
    tensor: int
    softmax: int
    wait: int
    latency: int
    tail: int
    dram: int
    macs: tuple[int, int]


@lru_cache(maxsize=256)
def kernel_of(attention: Attention, multiplied: str, chip: GpuChip) -> Kernel:
    """Time one occurrence of the kernel on the chip."""
    scores, values = attention.scores, attention.values
    tiles = scores.batch * -(-scores.m // attention.rows)
    resident = _resident(attention, chip)
    steps = -(-scores.n // attention.keys)
    slices = max(1, min(steps, chip.sms * resident // tiles)) if tiles < chip.sms else 1
    blocks = tiles * slices
    macs = (_computed(scores, attention), _computed(values, attention))
    done = sum(macs) / (scores.macs + values.macs) * scores.count if scores.count else 0.0
    trips = max(1, round(steps * done / slices))
    tile = attention.rows * attention.keys
    sm = chip.sm
    tensor = -(-tile * (scores.k + values.n) // sm.macs[multiplied])
    # One exponential per score; the other operations, the turn into the tensor cores' format and the scaling
    # of the running result are on the lanes.
    lanes = tile * attention.softmax.vector_ops + attention.rows * values.n
    softmax = -(-tile // sm.special_lanes) - (-lanes // sm.fp32_lanes)
    # Each warp reads all keys and values of a tile for its own rows; a warp group reads them once.
    readers = _warps(attention.rows) // (4 if chip.tensor.instruction in ("wgmma", "tcgen05") else 1)
    port = chip.memory["shared"].banks * chip.memory["shared"].bank_bytes
    feed = -(-readers * _pair_bytes(scores, values, attention.keys) // port)
    most = -(-blocks // chip.sms)

    def elapsed(held: int) -> int:
        """Cycles of a step of `held` blocks that share an SM."""
        return max(held * tensor, held * softmax, held * feed, tensor + softmax + feed) if held else 0

    full, rest = divmod(most, resident)
    busy = trips * (full * elapsed(resident) + elapsed(rest))
    work = trips * most * tensor
    onchip, dram = _memory_cycles(attention, blocks, trips, chip)
    wait = max(0, max(onchip, dram) - busy)
    latency = chip.memory["l2"].latency_cycles + chip.memory["dram"].latency_cycles(chip.clock_hz)
    tail = busy - -(-busy * blocks // (most * chip.sms))
    compute = work - -(-work * tail // busy)
    return Kernel(
        blocks=blocks,
        resident=resident,
        slices=slices,
        tensor=compute,
        softmax=busy - tail - compute,
        wait=wait,
        latency=latency,
        tail=tail,
        dram=wait if dram >= onchip else 0,
        macs=macs,
    )


def _resident(attention: Attention, chip: GpuChip) -> int:
    """Blocks that an SM holds: by shared memory, registers of running sums and scores, and warps."""
    scores, values, sm, shared = attention.scores, attention.values, chip.sm, chip.memory["shared"]
    needed = _shared_bytes(scores, values, attention.rows, attention.keys) + shared.reserved_bytes
    warps = _warps(attention.rows)
    registers = attention.rows * (values.n + attention.keys) + OTHER_REGISTERS * warps * sm.warp_size
    limits = (shared.bytes // needed, sm.registers // registers, sm.max_warps // warps, sm.max_ctas)
    return max(1, min(int(limit) for limit in limits))


def _computed(op: Gemm, attention: Attention) -> int:
    """MACs of one occurrence that are not skipped: those inside the mask, and half the tiles on its edge."""
    everything = op.macs // op.count
    if not op.masked_macs:
        return everything
    depth = op.k if op is attention.scores else op.n
    edge = op.batch * op.m * attention.keys * depth // 2
    return min(everything, op.useful_macs // op.count + edge)


def _memory_cycles(attention: Attention, blocks: int, trips: int, chip: GpuChip) -> tuple[int, int]:
    """Cycles that L2 and main memory take for what the kernel moves."""
    scores, values = attention.scores, attention.values
    once = scores.lhs_bytes + scores.rhs_bytes + values.rhs_bytes + values.out_bytes
    per_trip = _pair_bytes(scores, values, attention.keys)
    rate = chip.memory["l2"].bytes_per_cycle
    onchip = 0 if rate is None else -(-blocks * trips * per_trip // int(rate))
    return onchip, chip.memory["dram"].transfer_cycles(once, chip.clock_hz)


def attention_cost(step: AttentionStep, chip: GpuChip) -> Result:
    """The part of one of the three ops in the kernel, all occurrences, launches left out.

    The scores have the wait for operands, the values the tail; each has its share of the tensor cores' time.
    """
    attention = step.attention
    kernel = kernel_of(attention, step.formats.multiplied, chip)
    scores, values = attention.scores, attention.values
    first = kernel.tensor * kernel.macs[0] // max(1, sum(kernel.macs))
    if step.op is attention.softmax:
        return _row(step, chip, {"vector": kernel.softmax}, {}, 0)
    if step.op is scores:
        causes = {
            "compute": first,
            "stall_dram": kernel.dram,
            "stall_onchip": kernel.wait - kernel.dram,
            "stall_latency": kernel.latency,
        }
        moved = {"lhs": Traffic(scores.lhs_bytes, 0), "rhs": Traffic(scores.rhs_bytes, 0)}
        return _row(step, chip, causes, moved, kernel.macs[0])
    moved = {"rhs": Traffic(values.rhs_bytes, 0), "out": Traffic(0, values.out_bytes)}
    return _row(step, chip, {"compute": kernel.tensor - first, "tail": kernel.tail}, moved, kernel.macs[1])


def _row(
    step: AttentionStep, chip: GpuChip, causes: dict[str, int], moved: dict[str, Traffic], macs: int
) -> Result:
    op, attention = step.op, step.attention
    cycles = sum(causes.values())
    kernel = kernel_of(attention, step.formats.multiplied, chip)
    peak = chip.sms * chip.sm.macs[step.formats.multiplied]
    again = -(-attention.scores.m // attention.rows)
    reread = {name: replace(t, read=t.read * (again if name == "rhs" else 1)) for name, t in moved.items()}
    result = Result(
        op=op,
        kind="matmul" if isinstance(op, Gemm) else "vector",
        cycles=cycles,
        busy_cycles=causes.get("compute", causes.get("vector", 0)),
        clock_hz=chip.clock_hz,
        cycles_by_cause={cause: c for cause, c in causes.items() if c},
        bytes={"dram": moved, "l2": reread} if moved else {},
        array_macs=macs,
        pe_cycles=cycles * peak if macs else 0,
        mapped_pe_cycles=cycles * peak if macs else 0,
        mapping={
            "kernel": "attention",
            "tile": {"m": attention.rows, "n": attention.keys, "k": attention.scores.k},
            "split_k": kernel.slices,
            "ctas": kernel.blocks,
            "resident": kernel.resident,
        }
        if isinstance(op, Gemm)
        else None,
        precision=str(precision_of(step.formats, chip, op.k, 1)) if isinstance(op, Gemm) else None,
        source="tiled",
    )
    return result.times(op.count)
