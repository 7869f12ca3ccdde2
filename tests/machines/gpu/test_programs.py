"""Instruction streams of the kernels: what stands between what, and what an operand's layout costs."""

from __future__ import annotations

from itertools import pairwise

import pytest

from systolic import Gemm
from systolic.kernels.simt import layout as L
from systolic.machines.gpu.catalogue import program_of
from systolic.machines.gpu.plan import Plan, Problem
from systolic.machines.gpu.program import Writer

from .runs import chip_of, costed

SQUARE = Problem(m=4096, n=4096, k=4096, multiplied="bf16", layout="nt")


def test_woven_instructions_keep_their_orders_and_lie_evenly() -> None:
    writer = Writer(1)
    writer.put(L.BARRIER)
    for at in range(6):
        writer.put(L.MATH, arg=at)
    for at in range(3):
        writer.put(L.SHARED, arg=at)
    writer.weave(1, 7)
    found = [(entry[L.OP], entry[L.ARG]) for entry in writer.code[1:]]
    assert [arg for op, arg in found if op == L.MATH] == list(range(6))
    assert [op for op, _ in found] == [L.SHARED, L.MATH, L.MATH] * 3
    assert [arg for op, arg in found if op == L.SHARED] == list(range(3))


def test_loads_of_the_next_step_stand_between_multiplications() -> None:
    """In bursts they would stall the warp on shared memory while the tensor core has nothing to do."""
    plan = Plan(kernel="tensor", tile=(128, 128, 32), warps=(2, 2), stages=4)
    program = program_of(plan, SQUARE, chip_of("a100"))
    top = int(program.code[program.code[:, L.OP] == L.LOOP][0, L.ARG])
    loop = program.code[top : int((program.code[:, L.OP] == L.LOOP).argmax()), L.OP]
    tensor = program.code[top : top + len(loop), L.PIPE] == L.TENSOR
    multiplied = [at for at, op in enumerate(loop) if op == L.MATH and tensor[at]]
    # 4 x 8 products of 16 x 8 in each of two steps of 16.
    assert len(multiplied) == 64
    longest = max(after - before for before, after in pairwise(multiplied))
    assert longest <= 4


@pytest.mark.parametrize(("dtype", "turned"), [("bf16", False), ("tf32", True), ("fp8_e4m3", True)])
def test_wgmma_turns_what_lies_across_k_unless_it_has_16_bits(dtype: str, turned: bool) -> None:
    """PTX ISA: only 16-bit types have a transpose bit; others move once more through shared memory."""
    chip = chip_of("h100")

    def cycles(layout: str) -> int:
        op = Gemm(m=4096, n=4096, k=4096, dtype=dtype, layout=layout, out_dtype="fp32")
        return costed(
            op, chip, tile=(128, 128, 1024 // {"bf16": 16, "tf32": 32, "fp8_e4m3": 8}[dtype])
        ).cycles

    assert (cycles("nn") > 1.05 * cycles("nt")) == turned
