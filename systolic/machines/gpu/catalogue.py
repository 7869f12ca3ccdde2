"""The tiles that a library has for each kernel, and how many blocks of each an SM holds."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ...chips.gpu import GpuChip
from .plan import Plan, Problem
from .program import Program
from .scalar_programs import THREAD_SIDE, naive_program, register_program, shared_program
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
    ((128, 128), (2, 4)),
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
"""(m, n) and warps of the mma tiles: those of CUTLASS's generator for SM80, and the narrow ones that
libraries add for few rows."""

_WGMMA = tuple(
    ((64 * groups * tall, n), groups)
    for groups, tall in ((1, 1), (2, 1), (3, 1), (2, 2))
    for n in (16, 32, 64, 96, 128, 160, 192, 224, 256)
    if groups * tall * n <= 768
)
"""(m, n) and warp groups of the wgmma tiles: rows in steps of 64, columns of 32, as in the names of
cuBLAS's kernels for SM90; no more sums than the registers of three groups hold."""

_TCGEN05 = tuple((128, n) for n in (32, 64, 96, 128, 160, 192, 224, 256))
"""(m, n) of the tiles in tensor memory of one SM, columns in steps of 32; pairs of SMs are clusters."""

_FMA = ((128, 128), (128, 64), (64, 128), (64, 64), (128, 32), (32, 128))
"""(m, n) of the tiles that are blocked in registers: CUTLASS's generator for SM50 simt kernels."""

CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1))
"""Blocks along (m, n) that share what they load, as in the names of cuBLAS's kernels for SM90."""

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
    fitting = [plan for plan in tiles if resident(plan, problem, chip)]
    return tuple(split for plan in fitting for split in _split(plan, problem, chip))


def _clustered(plan: Plan, problem: Problem) -> Plan:
    """A plan with the cluster that loads least, of those whose blocks all have a tile."""
    if not plan.persistent:
        return plan
    along = plan.blocks(problem)
    whole = [c for c in CLUSTERS if not along[0] % c[0] and not along[1] % c[1]]
    m, n, _ = plan.tile
    return replace(
        plan, cluster=min(whole, key=lambda c: min(m, problem.m) / c[1] + min(n, problem.n) / c[0])
    )


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
        per_warp = chip.sm.warp_size * THREAD_SIDE * THREAD_SIDE
        return [
            Plan(kernel=kernel, tile=(m, n, 8), warps=(m * n // per_warp, 1))
            for m, n in _FMA
            if m * n >= per_warp
        ]
    k = LINE_BYTES * 8 // max(problem.lhs_bits, problem.rhs_bits)
    if kernel == "tensor":
        k = k // 2
        plain = [Plan(kernel=kernel, tile=(*sides, k), warps=warps) for sides, warps in _MMA]
    elif kernel == "warpgroup":
        plain = [Plan(kernel=kernel, tile=(*sides, k), warps=(groups, 1)) for sides, groups in _WGMMA]
    else:
        plain = [Plan(kernel=kernel, tile=(*sides, k), warps=(1, 1)) for sides in _TCGEN05]
    return [staged for plan in plain for staged in _staged(_clustered(plan, problem), problem, chip)]


def _staged(plan: Plan, problem: Problem, chip: GpuChip) -> list[Plan]:
    """A plan with the most stages that fit: for one block of an SM, and for two."""
    found = []
    for blocks in (1, 2):
        for stages in range(MOST_STAGES, 1 if blocks == 1 else 2, -1):
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


def program_of(plan: Plan, problem: Problem, chip: GpuChip, *, exact: bool = False) -> Program:
    """The program of a block; the same one for problems whose tiles lie alike in memory, unless `exact`."""
    shape = replace(problem, batch=1) if exact else alike(problem)
    return _program(replace(plan, split_k=1), shape, chip)


@lru_cache(maxsize=4096)
def _program(plan: Plan, problem: Problem, chip: GpuChip) -> Program:
    return _PROGRAMS[plan.kernel](problem, plan, chip)


def alike(problem: Problem) -> Problem:
    """A problem whose full tiles have the same sectors: sides that count only by their alignment, and
    edges."""

    def side(length: int) -> int:
        return length if length <= _EDGE else _EDGE + length % _EDGE

    m, n, k = side(problem.m), side(problem.n), side(problem.k)
    return replace(problem, m=m, n=n, k=k, batch=1, lhs_in_l2=False, rhs_in_l2=False, out_in_l2=False)


_EDGE = 512
"""Sides up to this are kept: twice the longest tile. Beyond, only their alignment to lines matters."""


def resident(plan: Plan, problem: Problem, chip: GpuChip) -> int:
    """Blocks that an SM holds at once: by registers, shared memory, warps and slots; 0 where none fits."""
    bits = (problem.lhs_bits, problem.rhs_bits, problem.out_bits)
    return _resident(plan.kernel, plan.tile, plan.warps, plan.stages, problem.multiplied, bits, chip)


@lru_cache(maxsize=4096)
def _resident(
    kernel: str,
    tile: tuple[int, int, int],
    warps: tuple[int, int],
    stages: int,
    multiplied: str,
    bits: tuple[int, int, int],
    chip: GpuChip,
) -> int:
    whole = Problem(
        m=_EDGE, n=_EDGE, k=_EDGE, multiplied=multiplied, lhs_bits=bits[0], rhs_bits=bits[1], out_bits=bits[2]
    )
    program = _program(Plan(kernel=kernel, tile=tile, warps=warps, stages=stages), whole, chip)
    sm, shared = chip.sm, chip.memory["shared"]
    warp_registers = -(-program.registers * sm.warp_size // sm.register_unit) * sm.register_unit
    if program.registers > sm.max_registers or program.shared_bytes > shared.cta_bytes:
        return 0
    taken = program.shared_bytes + shared.reserved_bytes if program.shared_bytes else 0
    return min(
        sm.max_ctas,
        sm.max_warps // program.warps,
        sm.registers // (warp_registers * program.warps),
        shared.bytes // taken if taken else sm.max_ctas,
    )
