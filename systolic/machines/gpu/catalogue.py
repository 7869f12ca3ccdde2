"""The tiles that a library has for each kernel, and how many blocks of each an SM holds."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ...chips.gpu import GpuChip
from .plan import Plan, Problem
from .program import Program
from .scalar_programs import naive_program, register_program, shared_program
from .tensor_programs import tcgen05_program, tensor_program, warpgroup_program

_PROGRAMS = {
    "naive": naive_program,
    "shared": shared_program,
    "register": register_program,
    "tensor": tensor_program,
    "warpgroup": warpgroup_program,
    "tcgen05": tcgen05_program,
}

_MMA = (
    ((256, 128), (4, 2)),
    ((128, 256), (2, 4)),
    ((128, 128), (2, 2)),
    ((256, 64), (4, 1)),
    ((64, 256), (1, 4)),
    ((128, 64), (2, 2)),
    ((64, 128), (2, 2)),
    ((64, 64), (2, 2)),
    ((32, 128), (1, 4)),
    ((32, 64), (1, 4)),
    ((16, 128), (1, 4)),
    ((16, 64), (1, 4)),
)
"""(m, n) and warps of the mma tiles: those of CUTLASS's generator for SM80, and the narrow ones that libraries add
for few rows."""

_WGMMA = (
    ((128, 256), 2),
    ((256, 128), 2),
    ((128, 192), 2),
    ((128, 128), 2),
    ((64, 256), 1),
    ((64, 192), 1),
    ((64, 128), 1),
    ((64, 64), 1),
    ((64, 32), 1),
    ((64, 16), 1),
)
"""(m, n) and warp groups of the wgmma tiles: CUTLASS's generator for SM90."""

_TCGEN05 = ((128, 256), (128, 192), (128, 128), (128, 64), (128, 32))
"""(m, n) of the tiles in tensor memory of one SM: CUTLASS's generator for SM100; pairs of SMs are clusters."""

_FMA = (
    ((128, 128), (4, 2)),
    ((128, 64), (4, 1)),
    ((64, 128), (2, 2)),
    ((64, 64), (2, 1)),
    ((32, 128), (1, 2)),
    ((128, 32), (2, 1)),
    ((32, 32), (1, 1)),
)
"""(m, n) and warps of the tiles that are blocked in registers: CUTLASS's generator for SM50 simt kernels."""

SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Parts of k that a library tries."""

LEAST_SPLIT_K = 256
"""Elements of k that a part keeps at least."""

LINE_BYTES = 128
"""Bytes of k in a tile: a swizzled line of shared memory (CUTLASS; 64 B on chips with little of it)."""

MOST_STAGES = 8


def candidates(problem: Problem, chip: GpuChip, kernel: str | None = None) -> tuple[Plan, ...]:
    """Every plan of the catalogue that fits an SM."""
    tiles = _tiles(problem, chip, kernel or _native(problem, chip))
    fitting = [plan for plan in tiles if resident(plan, problem, chip) and _clusters(plan, problem)]
    return tuple(split for plan in fitting for split in _split(plan, problem, chip))


def _clusters(plan: Plan, problem: Problem) -> bool:
    """Whether the blocks of a cluster all have a tile."""
    along = plan.blocks(problem)
    return all(blocks % side == 0 for blocks, side in zip(along[:2], plan.cluster, strict=True))


def _native(problem: Problem, chip: GpuChip) -> str:
    """The kernel that a library takes for a number format on this chip."""
    if problem.multiplied not in chip.tensor.group:
        return "register"
    return {"wgmma": "warpgroup", "tcgen05": "tcgen05"}.get(chip.tensor.instruction, "tensor")


def _tiles(problem: Problem, chip: GpuChip, kernel: str) -> list[Plan]:
    """Tiles of a kernel, each with as many stages as an SM has room for."""
    if kernel == "naive":
        return [Plan(kernel=kernel, tile=(8, chip.sm.warp_size, 4), warps=(8, 1))]
    if kernel == "shared":
        return [Plan(kernel=kernel, tile=(32, 32, 32), warps=(32 * 32 // chip.sm.warp_size, 1))]
    if kernel == "register":
        return [Plan(kernel=kernel, tile=(*sides, 8), warps=warps) for sides, warps in _FMA]
    k = LINE_BYTES * 8 // max(problem.lhs_bits, problem.rhs_bits)
    if kernel == "tensor":
        k = k // 2
        plain = [Plan(kernel=kernel, tile=(*sides, k), warps=warps) for sides, warps in _MMA]
    elif kernel == "warpgroup":
        plain = [
            Plan(kernel=kernel, tile=(*sides, k), warps=(groups, 1), cluster=cluster)
            for sides, groups in _WGMMA
            for cluster in ((1, 1), (2, 1))
        ]
    else:
        plain = [
            Plan(kernel=kernel, tile=(*sides, k), warps=(1, 1), cluster=cluster)
            for sides in _TCGEN05
            for cluster in ((1, 1), (2, 1), (2, 2))
        ]
    return [staged for plan in plain for staged in _staged(plan, problem, chip)]


def _staged(plan: Plan, problem: Problem, chip: GpuChip) -> list[Plan]:
    """A plan with the most stages that fit: for one block of an SM, and for two."""
    found = []
    for blocks in (1, 2):
        for stages in range(MOST_STAGES, 1, -1):
            staged = replace(plan, stages=stages)
            if resident(staged, problem, chip) >= blocks:
                found.append(staged)
                break
    return list(dict.fromkeys(found))


def _split(plan: Plan, problem: Problem, chip: GpuChip) -> list[Plan]:
    """A plan, and with its k in parts where its blocks leave SMs idle."""
    m, n, _ = plan.tile
    blocks = -(-problem.m // m) * -(-problem.n // n) * problem.batch
    room = chip.sms * resident(plan, problem, chip)
    return [
        replace(plan, split_k=parts)
        for parts in SPLITS
        if parts == 1
        or (plan.kernel != "naive" and problem.k >= parts * LEAST_SPLIT_K and blocks * (parts - 1) < 2 * room)
    ]


def program_of(plan: Plan, problem: Problem, chip: GpuChip) -> Program:
    """The program of a block; equal for problems whose tiles lie alike in memory."""
    return _program(replace(plan, split_k=1), alike(problem), chip)


@lru_cache(maxsize=4096)
def _program(plan: Plan, problem: Problem, chip: GpuChip) -> Program:
    return _PROGRAMS[plan.kernel](problem, plan, chip)


def alike(problem: Problem) -> Problem:
    """A problem whose full tiles have the same sectors: sides that count only by their alignment, and edges."""

    def side(length: int) -> int:
        return length if length <= _EDGE else _EDGE + length % _EDGE

    return replace(problem, m=side(problem.m), n=side(problem.n), k=side(problem.k), batch=1)


_EDGE = 512
"""Sides up to this are kept: twice the longest tile. Beyond, only their alignment to lines matters."""


@lru_cache(maxsize=4096)
def _resident(plan: Plan, problem: Problem, chip: GpuChip) -> int:
    program = _PROGRAMS[plan.kernel](problem, plan, chip)
    sm, shared = chip.sm, chip.memory["shared"]
    warp_registers = -(-program.registers * sm.warp_size // sm.register_unit) * sm.register_unit
    if program.registers > sm.max_registers or program.shared_bytes > shared.cta_bytes:
        return 0
    return min(
        sm.max_ctas,
        sm.max_warps // program.warps,
        sm.registers // (warp_registers * program.warps),
        shared.bytes // (program.shared_bytes + shared.reserved_bytes)
        if program.shared_bytes
        else sm.max_ctas,
    )


def resident(plan: Plan, problem: Problem, chip: GpuChip) -> int:
    """Blocks that an SM holds at once: by registers, shared memory, warps and slots; 0 where none fits."""
    return _resident(replace(plan, split_k=1), alike(problem), chip)
