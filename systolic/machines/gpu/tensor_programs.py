"""Programs of the kernels that use tensor cores.

``tensor`` follows NVIDIA's multistage kernels (CUTLASS documentation, Efficient GEMM in CUDA): all warps
copy tiles asynchronously into shared memory, load fragments from there one step ahead, and multiply.
``warpgroup`` has a warp that copies whole tiles and warp groups whose matmuls read shared memory.
``tcgen05`` keeps the sums in tensor memory and issues from one thread.
"""

from __future__ import annotations

import numpy as np

from ...chips.gpu import GpuChip
from ...kernels.simt import layout as L
from .plan import Plan, Problem
from .program import Program, Writer, wavefronts
from .tiles import lane_bytes, pitch, requests, step_bytes, tile_lines

OPERAND_BITS = 256
"""Bits of k that one instruction of tensor cores takes: 16 elements of 16 bits (PTX ISA, mma and wgmma
shapes)."""

WARP_ROWS, WARP_COLS = 16, 8
"""Rows and columns of the result of one warp's instruction (PTX ISA, mma.m16n8)."""

GROUP_WARPS, GROUP_ROWS = 4, 64
"""Warps of a group, and rows of its instruction (PTX ISA, wgmma.m64)."""

ASYNC_LATENCY = 14
"""Cycles of an asynchronous matmul beyond its issue: m64n8k16 takes 18, 4 at the peak rate (Luo et al., arXiv
2501.12084)."""

BARRIER_LATENCY = 20
"""Cycles from a barrier's last arrival to the next instruction: about 20 on Volta to Ampere (CUDA
microbenchmarks of __syncthreads; no figure in vendors' documents)."""

ADDRESS_LATENCY = 4
STEP_ADDRESSES = 6
"""Integer instructions per tile of k: pointers of both operands, the stage, the loop."""

REGISTERS_BESIDE = 40
"""Registers of a thread for addresses and loop state, beside sums and fragments."""


def tensor_program(problem: Problem, plan: Plan, chip: GpuChip) -> Program:
    """Asynchronous copies by all warps, fragments one step ahead, multiplications of single warps."""
    warps = plan.warps[0] * plan.warps[1]
    writer = Writer(warps)
    bits = max(problem.lhs_bits, problem.rhs_bits)
    step = OPERAND_BITS // bits
    rows, cols = plan.tile[0] // plan.warps[0], plan.tile[1] // plan.warps[1]
    fragments = _Fragments(writer, chip, plan, bits, rows, cols, step)
    for stage in range(plan.stages - 1):
        _copies(writer, problem, plan, chip, lead=stage)
        writer.put(L.COMMIT)
    writer.put(L.WAIT_COPY, arg=plan.stages - 2)
    writer.put(L.BARRIER, latency=BARRIER_LATENCY)
    fragments.load(0)
    top = writer.here
    steps = plan.tile[2] // step
    for at in range(steps):
        if at == steps - 1:
            writer.put(L.WAIT_COPY, arg=plan.stages - 2)
            writer.put(L.BARRIER, latency=BARRIER_LATENCY)
        first = writer.here
        fragments.multiply(at % 2)
        second = writer.here
        fragments.load((at + 1) % 2)
        if at == 0:
            _copies(writer, problem, plan, chip, lead=plan.stages - 1)
            writer.put(L.COMMIT)
            _addresses(writer)
        # Loads and copies stand between multiplications, as compilers put them (CUTLASS, MmaMultistage).
        writer.weave(first, second)
    writer.put(L.LOOP, arg=top)
    sums = rows * cols // chip.sm.warp_size
    _epilogue(writer, problem, plan, chip, passes=max(1, rows // 8), sums=sums, names=fragments.sums)
    writer.put(L.EXIT)
    operands = (plan.tile[0] + plan.tile[1]) * plan.tile[2] * bits // 8
    return writer.finish(
        [0] * warps,
        shared_bytes=max(plan.stages * operands, _out_bytes(problem, plan)),
        registers=sums + (rows + cols) * step * bits // 32 // chip.sm.warp_size * 2 + REGISTERS_BESIDE,
    )


class _Fragments:
    """Fragments of one warp: two sets, so that one is loaded while the other is multiplied."""

    def __init__(
        self, writer: Writer, chip: GpuChip, plan: Plan, bits: int, rows: int, cols: int, step: int
    ) -> None:
        self.writer, self.chip = writer, chip
        self.tall = -(-rows // WARP_ROWS)
        self.wide = -(-cols // WARP_COLS)
        self.sums = min(32, self.tall * self.wide)
        self.bits = bits
        per_cycle = chip.sm.macs[_multiplied(chip, bits)] // chip.sm.sub_cores
        self.busy = max(1, WARP_ROWS * WARP_COLS * step // per_cycle)
        shared = chip.memory["shared"]
        # Pieces of 16 bytes change places along a line from line to line, so that those of eight lines
        # below one another lie in different banks.
        line = max(16, plan.tile[2] * bits // 8)
        row, piece = np.arange(32) % 16, np.arange(32) // 16
        turn = row * line // min(line * 8, shared.banks * shared.bank_bytes)
        swizzled = row * line + (piece ^ turn % (line // 16)) * 16
        self.cycles = wavefronts(swizzled, 16, shared.banks, shared.bank_bytes)
        self.latency = shared.latency_cycles

    def load(self, half: int) -> None:
        """Load the fragments of a step into one of the two sets."""
        for i in range(self.tall + -(-self.wide // 2)):
            name = 32 + half * 16 + i % 16
            self.writer.put(L.SHARED, busy=self.cycles, latency=self.latency, dst=name, arg=4)

    def multiply(self, half: int) -> None:
        """Multiply one set: each sum is an operand and the result."""
        for i in range(self.tall):
            for j in range(self.wide):
                total = (i * self.wide + j) % 32
                lhs, rhs = 32 + half * 16 + i % 16, 32 + half * 16 + (self.tall + j // 2) % 16
                self.writer.put(
                    L.MATH,
                    pipe=L.TENSOR,
                    busy=self.busy,
                    latency=max(self.chip.tensor.latency, self.busy),
                    dst=total,
                    srcs=(lhs, rhs),
                )


def warpgroup_program(problem: Problem, plan: Plan, chip: GpuChip) -> Program:
    """One warp copies whole tiles; each warp group multiplies its rows of them from shared memory."""
    groups = plan.warps[0]
    consumers = groups * GROUP_WARPS
    writer = Writer(consumers + 1)
    bits = max(problem.lhs_bits, problem.rhs_bits)
    step = OPERAND_BITS // bits
    producer = _producer(writer, problem, plan, chip)
    start = writer.here
    top = writer.here
    writer.put(L.WAIT_FULL)
    tall = max(1, plan.tile[0] // groups // GROUP_ROWS)
    per_cycle = chip.sm.macs[_multiplied(chip, bits)] // chip.sm.sub_cores
    busy = max(1, GROUP_ROWS // GROUP_WARPS * plan.tile[1] * step // per_cycle)
    read = (GROUP_ROWS + plan.tile[1]) * step * bits // 8
    steps = plan.tile[2] // step
    read += 2 * _turned_bytes(problem, plan) // (steps * tall * groups)
    fed = -(-read // (_shared_bytes_per_cycle(chip) * GROUP_WARPS))
    for _ in range(steps):
        for _ in range(tall):
            writer.put(L.ASYNC_MATH, busy=busy, latency=ASYNC_LATENCY, arg=fed)
    writer.put(L.COMMIT_MATH)
    writer.put(L.WAIT_MATH, arg=1)
    writer.put(L.RELEASE, arg=1)
    _addresses(writer, count=2)
    skip = writer.here
    writer.put(L.UNLESS_LAST)
    writer.put(L.WAIT_MATH, arg=0)
    sums = plan.tile[0] * plan.tile[1] // (consumers * chip.sm.warp_size)
    _epilogue(writer, problem, plan, chip, passes=_passes(plan), sums=sums, names=0, warps=consumers)
    writer.code[skip][L.ARG] = writer.here
    writer.put(L.LOOP, arg=top)
    writer.put(L.EXIT)
    operands = (plan.tile[0] + plan.tile[1]) * plan.tile[2] * bits // 8
    return writer.finish(
        [start] * consumers + [producer],
        stages=plan.stages,
        consumers=consumers,
        shared_bytes=plan.stages * operands + min(_out_bytes(problem, plan), 32768),
        registers=sums + REGISTERS_BESIDE,
    )


def _turned_bytes(problem: Problem, plan: Plan) -> int:
    """Bytes of a trip's operands that are read and written once more to lie along k in shared memory: wgmma
    takes only operands of 16 bits as they lie (PTX ISA, wgmma, transposed matrices)."""
    m, n, k = plan.tile
    lhs = m * k * problem.lhs_bits // 8 if problem.layout[0] == "t" and problem.lhs_bits != 16 else 0
    rhs = n * k * problem.rhs_bits // 8 if problem.layout[1] == "n" and problem.rhs_bits != 16 else 0
    return lhs + rhs


def tcgen05_program(problem: Problem, plan: Plan, chip: GpuChip) -> Program:
    """One warp copies, one issues multiplications whose sums lie in tensor memory, four store the result.

    Tensor memory holds two tiles of sums, so that one is stored while the next is computed.
    """
    storing = 4
    writer = Writer(storing + 2)
    bits = max(problem.lhs_bits, problem.rhs_bits)
    step = OPERAND_BITS // bits
    producer = _producer(writer, problem, plan, chip)
    issuer = writer.here
    writer.put(L.WAIT_STORED)
    writer.put(L.WAIT_FULL)
    busy = max(1, plan.tile[0] * plan.tile[1] * step // chip.sm.macs[_multiplied(chip, bits)])
    fed = -(-(plan.tile[0] + plan.tile[1]) * step * bits // 8 // _shared_bytes_per_cycle(chip))
    for _ in range(plan.tile[2] // step):
        writer.put(L.ASYNC_MATH, busy=busy, latency=ASYNC_LATENCY, arg=fed)
    writer.put(L.COMMIT_MATH)
    writer.put(L.WAIT_MATH, arg=1)
    writer.put(L.RELEASE, arg=1)
    _addresses(writer, count=2)
    skip = writer.here
    writer.put(L.UNLESS_LAST)
    writer.put(L.WAIT_MATH, arg=0)
    writer.put(L.SIGNAL)
    writer.code[skip][L.ARG] = writer.here
    writer.put(L.LOOP, arg=issuer)
    writer.put(L.EXIT)
    store = writer.here
    writer.put(L.AWAIT)
    sums = plan.tile[0] * plan.tile[1] // (storing * chip.sm.warp_size)
    _epilogue(writer, problem, plan, chip, passes=_passes(plan), sums=sums, names=0, warps=storing)
    writer.put(L.LOOP_TILES, arg=store)
    writer.put(L.EXIT)
    operands = (plan.tile[0] + plan.tile[1]) * plan.tile[2] * bits // 8
    return writer.finish(
        [store] * storing + [issuer, producer],
        stages=plan.stages,
        consumers=1,
        storers=storing,
        shared_bytes=plan.stages * operands + min(_out_bytes(problem, plan), 32768),
        registers=64,
    )


def _producer(writer: Writer, problem: Problem, plan: Plan, chip: GpuChip) -> int:
    """A warp that waits for an empty stage and copies the next tiles into it; where it begins.

    In a cluster each block copies its part of the tiles that it has in common with others, and gets theirs.
    """
    start = writer.here
    writer.put(L.WAIT_EMPTY)
    for operand, sharers in (("lhs", plan.cluster[1]), ("rhs", plan.cluster[0])):
        lines, line = tile_lines(problem, operand, plan.tile)
        offsets = np.arange(-(-lines // sharers)) * pitch(problem, operand)
        stride = step_bytes(problem, operand, plan.tile[2])
        cycles = -(-lines * line // _shared_bytes_per_cycle(chip))
        access = writer.access(operand, offsets, line, stride=stride, shared_cycles=cycles)
        writer.put(L.BULK, access=access, arg=int(operand == "rhs"))
    writer.put(L.LOOP, arg=start)
    writer.put(L.EXIT)
    return start


def _copies(writer: Writer, problem: Problem, plan: Plan, chip: GpuChip, lead: int) -> None:
    """Asynchronous copies of one tile of k, `lead` tiles ahead, divided among all warps."""
    for operand in ("lhs", "rhs"):
        lines, line = tile_lines(problem, operand, plan.tile)
        width = lane_bytes(problem, operand)
        every = list(requests(lines, line, pitch(problem, operand), width, chip.sm.warp_size))
        stride = step_bytes(problem, operand, plan.tile[2])
        for turn in range(0, len(every), writer.warps):
            part = every[turn : turn + writer.warps]
            offsets, moved = part[0]
            cycles = -(-len(offsets) * moved // _shared_bytes_per_cycle(chip))
            firsts = [other[0][0] for other in part]
            shifts = np.array([firsts[w % len(firsts)] - offsets[0] for w in range(writer.warps)])
            access = writer.access(
                operand, offsets, moved, stride=stride, lead=lead, shared_cycles=cycles, shifts=shifts
            )
            writer.put(L.COPY, access=access)


def _addresses(writer: Writer, count: int = STEP_ADDRESSES) -> None:
    for _ in range(count):
        writer.put(L.MATH, pipe=L.ADDRESS, busy=2, latency=ADDRESS_LATENCY)


def _epilogue(
    writer: Writer,
    problem: Problem,
    plan: Plan,
    chip: GpuChip,
    *,
    passes: int,
    sums: int,
    names: int,
    warps: int | None = None,
) -> None:
    """Store the tile in passes: sums through shared memory, so that whole lines leave; barriers around each.

    CUTLASS's epilogues go by 8 rows of each warp, or by 32 columns with stores of whole tiles.
    """
    warps = warps or writer.warps
    shared = chip.memory["shared"]
    rate = max(1, chip.sm.warp_size * chip.sm.sub_cores // chip.sm.fp32_lanes)
    lines, line = tile_lines(problem, "out", plan.tile)
    width = lane_bytes(problem, "out")
    every = list(requests(lines, line, pitch(problem, "out"), width, chip.sm.warp_size))
    turns = [every[first : first + warps] for first in range(0, len(every), warps)]
    through = -(-_out_bytes(problem, plan) // (warps * passes * chip.sm.warp_size * 16))
    cycles = chip.sm.warp_size * 16 // _shared_bytes_per_cycle(chip)
    for at in range(passes):
        for i in range(-(-sums // (2 * passes))):
            srcs = ((i + at) % names,) if names else ()
            writer.put(L.MATH, pipe=L.VECTOR, busy=rate, latency=chip.sm.fma_latency, srcs=srcs)
        for _ in range(through):
            writer.put(L.SHARED, busy=cycles, latency=shared.latency_cycles, arg=cycles)
        writer.put(L.BARRIER, latency=BARRIER_LATENCY, arg=warps)
        for part in turns[at * len(turns) // passes : (at + 1) * len(turns) // passes]:
            offsets, moved = part[0]
            firsts = [other[0][0] for other in part]
            shifts = np.array([firsts[w % len(firsts)] - offsets[0] for w in range(writer.warps)])
            access = writer.access("out", offsets, moved, shifts=shifts)
            writer.put(L.SHARED, busy=cycles, latency=shared.latency_cycles, dst=63, arg=cycles)
            writer.put(L.STORE, access=access, srcs=(63,))
        writer.put(L.BARRIER, latency=BARRIER_LATENCY, arg=warps)


def _passes(plan: Plan) -> int:
    return max(1, plan.tile[1] // 32)


def _multiplied(chip: GpuChip, bits: int) -> str:
    """The widest-rated number format of so many bits that the tensor cores multiply."""
    from ...dtypes import DTYPES

    return next(d for d in chip.tensor.group if DTYPES[d].bits == bits)


def _out_bytes(problem: Problem, plan: Plan) -> int:
    return plan.tile[0] * plan.tile[1] * problem.out_bits // 8


def _shared_bytes_per_cycle(chip: GpuChip) -> int:
    shared = chip.memory["shared"]
    return int(shared.banks * shared.bank_bytes)
