"""Where the operands of an op lie, and how much on-chip memory is left for its blocks."""

from __future__ import annotations

from dataclasses import replace

from ...chips.tpu import TpuChip
from ...workload import Gemm, VectorOp

UNLIMITED = 1 << 62
"""Bytes of a memory without a limit: more than any sum of sizes."""


def operand_levels(op: Gemm, chip: TpuChip) -> dict[str, str]:
    """Level where each operand of `op` lies: as the op says, else by the chip's policy.

    Weights and the KV cache lie in main memory, activations where :func:`_stay` says.
    """
    active = [n for n in ("lhs", "rhs", "out") if n != "rhs" or op.rhs_kind == "activation"]
    sizes = _sizes(op)
    level = _stay(sum(sizes[n] for n in active), sum(sizes.values()), chip)
    chosen = {n: level if n in active else "dram" for n in ("lhs", "rhs", "out")}
    for name, asked in _asked(op).items():
        if asked is not None:
            chosen[name] = "dram" if asked == "memory" else "vmem"
    return {**chosen, "psum": chosen["out"]}


def vector_level(op: VectorOp, chip: TpuChip) -> str:
    """Level where the operands of a vector op lie: by the chip's policy, tables in main memory."""
    amount = op.read_bytes + op.write_bytes
    return "dram" if op.kind == "gather" else _stay(amount, amount, chip)


def in_memory(op: Gemm) -> Gemm:
    """`op` with its operands in main memory, but for those whose place it states itself."""
    lhs, rhs, out = (asked or "memory" for asked in (op.lhs_at, op.rhs_at, op.out_at))
    return replace(op, lhs_at=lhs, rhs_at=rhs, out_at=out)


def block_room(op: Gemm, chip: TpuChip, sharers: int) -> int | None:
    """On-chip bytes of a core for the blocks of `op`, or None where nothing limits them.

    Operands that lie on chip in full take room, in equal parts on each of `sharers` cores; a stream takes
    none.
    """
    levels, asked = operand_levels(op, chip), _asked(op)
    held = sum(
        size for name, size in _sizes(op).items() if levels[name] == "vmem" and asked[name] != "stream"
    )
    whole, most = chip.memory["vmem"].bytes, chip.policy.block_bytes
    left = None if whole is None else whole - -(-held // sharers)
    return min((room for room in (left, most) if room is not None), default=None)


def capacity(chip: TpuChip, level: str) -> int:
    """Bytes of a level over the whole chip; a huge number where it is unlimited."""
    memory = chip.memory[level]
    if memory.bytes is None:
        return UNLIMITED
    return memory.bytes * (chip.cores if level == "vmem" else 1)


def _stay(active: int, all_operands: int, chip: TpuChip) -> str:
    """Level where `active` bytes of activations of an op with `all_operands` bytes in all stay.

    At the policy's level when they take at most half of it, which leaves the other half to blocks.
    ``small``: on chip when they take less than half of what blocks may take, so that the next op's fit
    beside them, or when all operands of the op fit into that together.
    """
    level = chip.policy.activations
    if level == "dram":
        return level
    if level != "small":
        return level if active <= capacity(chip, level) // 2 else "dram"
    most = chip.policy.block_bytes
    room = capacity(chip, "vmem")
    if most is not None:
        room = min(room, most * chip.cores)
    return "vmem" if 2 * active < room or all_operands <= room else "dram"


def _asked(op: Gemm) -> dict[str, str | None]:
    return {"lhs": op.lhs_at, "rhs": op.rhs_at, "out": op.out_at}


def _sizes(op: Gemm) -> dict[str, int]:
    return {"lhs": op.lhs_bytes, "rhs": op.rhs_bytes, "out": op.out_bytes}
