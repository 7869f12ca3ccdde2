"""Programs of the kernels that multiply on the scalar lanes: the three steps that a course teaches.

``naive``: a thread per element of the result, operands straight from memory. ``shared``: a block brings
tiles into shared memory first. ``register``: each thread keeps 8 x 8 sums in registers (Volkov and Demmel,
SC 2008; the simt kernels of CUTLASS).
"""

from __future__ import annotations

import numpy as np

from ...chips.gpu import GpuChip
from ...kernels.simt import layout as L
from .plan import Plan, Problem
from .program import Program, Writer, wavefronts
from .tiles import lane_bytes, pitch, requests, step_bytes, tile_lines

THREAD_SIDE = 8
"""Rows and columns of the sums that a thread of ``register`` keeps."""

SUM_NAMES = 32
BARRIER_LATENCY = 20
"""Cycles from a barrier's last arrival to the next instruction: about 20 on Volta to Ampere."""

WORD = 4
"""Bytes of an element in shared memory and in a register."""


def naive_program(problem: Problem, plan: Plan, chip: GpuChip) -> Program:
    """One thread per element: load a word of lhs, one of rhs, multiply and add, along all of k."""
    warps, writer = plan.warps[0], Writer(plan.warps[0])
    lhs, rhs = (bits // 8 for bits in (problem.lhs_bits, problem.rhs_bits))
    lanes = np.arange(chip.sm.warp_size)
    rows = np.arange(warps)
    down_lhs, along_lhs = _steps(problem, "lhs", lhs)
    down_rhs, along_rhs = _steps(problem, "rhs", rhs)
    top = writer.here
    for i in range(plan.tile[2]):
        access = writer.access(
            "lhs",
            lanes * 0 + i * along_lhs,
            lhs,
            stride=plan.tile[2] * along_lhs,
            cached=True,
            shifts=rows * down_lhs,
        )
        writer.put(L.LOAD, dst=SUM_NAMES + 2 * i, access=access)
        access = writer.access(
            "rhs", lanes * along_rhs + i * down_rhs, rhs, stride=plan.tile[2] * down_rhs, cached=True
        )
        writer.put(L.LOAD, dst=SUM_NAMES + 2 * i + 1, access=access)
    for i in range(plan.tile[2]):
        _fma(writer, chip, 0, SUM_NAMES + 2 * i, SUM_NAMES + 2 * i + 1)
    _addresses(writer, chip, 3)
    writer.put(L.LOOP, arg=top)
    out = problem.out_bits // 8
    access = writer.access("out", lanes * out, out, shifts=rows * pitch(problem, "out"))
    writer.put(L.STORE, access=access, srcs=(0,))
    writer.put(L.EXIT)
    return writer.finish([0] * warps, shared_bytes=0, registers=32)


def shared_program(problem: Problem, plan: Plan, chip: GpuChip) -> Program:
    """A block brings tiles into shared memory; each thread adds up one element of the result from there."""
    warps, side = plan.warps[0], plan.tile[2]
    writer = Writer(warps)
    lanes = np.arange(chip.sm.warp_size)
    shared = chip.memory["shared"]
    top = writer.here
    _through_registers(writer, problem, plan, chip)
    writer.put(L.BARRIER, latency=BARRIER_LATENCY)
    cycles = [
        wavefronts(offsets, WORD, shared.banks, shared.bank_bytes) for offsets in (lanes * 0, lanes * WORD)
    ]
    for i in range(side):
        for which, name in enumerate((SUM_NAMES + 2 * (i % 8), SUM_NAMES + 2 * (i % 8) + 1)):
            writer.put(L.SHARED, busy=cycles[which], latency=shared.latency_cycles, dst=name, arg=1)
        _fma(writer, chip, 0, SUM_NAMES + 2 * (i % 8), SUM_NAMES + 2 * (i % 8) + 1)
    writer.put(L.BARRIER, latency=BARRIER_LATENCY)
    _addresses(writer, chip, 3)
    writer.put(L.LOOP, arg=top)
    _store(writer, problem, plan, chip)
    operands = (plan.tile[0] + plan.tile[1]) * side * WORD
    return writer.finish([0] * warps, shared_bytes=operands, registers=32)


def register_program(problem: Problem, plan: Plan, chip: GpuChip) -> Program:
    """Tiles through two buffers of shared memory, and 8 x 8 sums in the registers of each thread."""
    warps = plan.warps[0] * plan.warps[1]
    writer = Writer(warps)
    shared = chip.memory["shared"]
    down = 4 if chip.sm.warp_size == 32 else 8
    rows = np.arange(chip.sm.warp_size) // (chip.sm.warp_size // down)
    cols = np.arange(chip.sm.warp_size) % (chip.sm.warp_size // down)
    reads = [(rows * 16, 2), (rows * 16 + down * 16, 2), (cols * 16, 2), (cols * 16 + 128, 2)]
    cycles = [wavefronts(offsets, 16, shared.banks, shared.bank_bytes) for offsets, _ in reads]
    _through_registers(writer, problem, plan, chip)
    writer.put(L.BARRIER, latency=BARRIER_LATENCY)
    top = writer.here
    loads = _loads(writer, problem, plan, chip, lead=1)
    _fragments(writer, chip, cycles, 0)
    for i in range(plan.tile[2]):
        if i + 1 < plan.tile[2]:
            _fragments(writer, chip, cycles, (i + 1) % 2)
        half = SUM_NAMES + i % 2 * 4
        for at in range(THREAD_SIDE * THREAD_SIDE):
            _fma(writer, chip, at % SUM_NAMES, half + at // 32, half + 2 + at % 8 // 4)
    _stores_to_shared(writer, chip, loads)
    writer.put(L.BARRIER, latency=BARRIER_LATENCY)
    _addresses(writer, chip, 4)
    writer.put(L.LOOP, arg=top)
    _store(writer, problem, plan, chip)
    operands = (plan.tile[0] + plan.tile[1]) * plan.tile[2] * WORD
    return writer.finish(
        [0] * warps, shared_bytes=2 * operands, registers=THREAD_SIDE * THREAD_SIDE + 4 * THREAD_SIDE + 32
    )


def _fragments(writer: Writer, chip: GpuChip, cycles: list[int], half: int) -> None:
    """Eight words of a column of lhs and eight of a row of rhs, in four loads of 16 bytes."""
    latency = chip.memory["shared"].latency_cycles
    for i, busy in enumerate(cycles):
        writer.put(L.SHARED, busy=busy, latency=latency, dst=SUM_NAMES + half * 4 + i, arg=1)


def _loads(writer: Writer, problem: Problem, plan: Plan, chip: GpuChip, lead: int) -> list[int]:
    """Load a tile of both operands into registers; their names."""
    names: list[int] = []
    for operand in ("lhs", "rhs"):
        lines, line = tile_lines(problem, operand, plan.tile)
        every = list(
            requests(lines, line, pitch(problem, operand), lane_bytes(problem, operand), chip.sm.warp_size)
        )
        stride = step_bytes(problem, operand, plan.tile[2])
        for turn in range(0, len(every), writer.warps):
            part = every[turn : turn + writer.warps]
            offsets, moved = part[0]
            firsts = [other[0][0] for other in part]
            shifts = np.array([firsts[w % len(firsts)] - offsets[0] for w in range(writer.warps)])
            access = writer.access(operand, offsets, moved, stride=stride, lead=lead, shifts=shifts)
            names.append(48 + len(names) % 16)
            writer.put(L.LOAD, dst=names[-1], access=access)
    return names


def _stores_to_shared(writer: Writer, chip: GpuChip, names: list[int]) -> None:
    shared = chip.memory["shared"]
    cycles = wavefronts(np.arange(chip.sm.warp_size) * 16, 16, shared.banks, shared.bank_bytes)
    for name in names:
        writer.put(L.SHARED, busy=cycles, latency=1, srcs=(name,), arg=cycles)


def _through_registers(writer: Writer, problem: Problem, plan: Plan, chip: GpuChip) -> None:
    """Bring a tile into shared memory by way of registers."""
    _stores_to_shared(writer, chip, _loads(writer, problem, plan, chip, lead=0))


def _store(writer: Writer, problem: Problem, plan: Plan, chip: GpuChip) -> None:
    """Store the tile of the result straight from registers."""
    lines, line = tile_lines(problem, "out", plan.tile)
    every = list(requests(lines, line, pitch(problem, "out"), lane_bytes(problem, "out"), chip.sm.warp_size))
    for turn in range(0, len(every), writer.warps):
        part = every[turn : turn + writer.warps]
        offsets, moved = part[0]
        firsts = [other[0][0] for other in part]
        shifts = np.array([firsts[w % len(firsts)] - offsets[0] for w in range(writer.warps)])
        writer.put(
            L.STORE, access=writer.access("out", offsets, moved, shifts=shifts), srcs=(turn % SUM_NAMES,)
        )
    writer.put(L.EXIT)


def _steps(problem: Problem, operand: str, width: int) -> tuple[int, int]:
    """Bytes from one row to the next, and from one column to the next."""
    turned = problem.layout[0 if operand == "lhs" else 1] == "t"
    line = pitch(problem, operand)
    return (width, line) if turned else (line, width)


def _fma(writer: Writer, chip: GpuChip, total: int, lhs: int, rhs: int) -> None:
    busy = max(1, chip.sm.warp_size * chip.sm.sub_cores // chip.sm.fp32_lanes)
    writer.put(
        L.MATH,
        pipe=L.VECTOR,
        busy=busy,
        latency=max(chip.sm.fma_latency, busy),
        dst=total,
        srcs=(lhs, rhs, total),
    )


def _addresses(writer: Writer, chip: GpuChip, count: int) -> None:
    for _ in range(count):
        writer.put(L.MATH, pipe=L.ADDRESS, busy=2, latency=4)
