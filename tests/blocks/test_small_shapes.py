"""Every small matmul on a 4 x 4 array: stepped, tiled and in closed form.

cases.md S-09 and S-12: all (m, n, k) in 1..9, all dataflows, here in both conventions. No crash, the plain
product, m * n * k MACs, and the cycles of DESIGN section 5 from each of the three models.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from systolic.chips import load_chip
from systolic.chips.tpu import CONVENTIONS, DATAFLOWS, TpuChip
from systolic.machines import tpu
from systolic.machines.base import MODES, Options
from systolic.machines.tpu.formats import formats_of
from systolic.workload import Gemm, Workload
from tests.blocks.tiling import chained, run_cycles, up

SIDES = range(1, 10)


@pytest.fixture(scope="module", params=CONVENTIONS)
def chip(request: pytest.FixtureRequest) -> TpuChip:
    return load_chip("teaching-4x4", {"array.convention": request.param})


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("m", SIDES)
def test_all_models_agree_with_design_and_the_values_are_right(chip: TpuChip, dataflow: str, m: int) -> None:
    rng = np.random.default_rng(m)
    for n, k in product(SIDES, SIDES):
        work = Workload(name="small", ops=(Gemm(m=m, n=n, k=k, dtype="int8", name="small"),))
        (step,) = tpu.lower(work, chip, Options(mode="stepped", dataflow=dataflow))
        assert_cycles(step, chip)
        assert_values(step, chip, rng)


def assert_cycles(step: tpu.GemmStep, chip: TpuChip) -> None:
    m, n, k = step.op.m, step.op.n, step.op.k
    rows, cols, stream = {"ws": (k, n, m), "os": (m, n, k), "is": (k, m, n)}[step.dataflow]
    cycles = run_cycles(chip.array, step.dataflow, [stream] * (up(rows, 4) * up(cols, 4)))
    for mode in MODES:
        result = tpu.cost(replace(step, mode=mode), chip)
        assert (result.cycles, result.array_macs, result.source) == (cycles, m * n * k, mode), (m, n, k)
        assert sum(result.cycles_by_cause.values()) == cycles, (m, n, k, mode)
        assert not {c for c in result.cycles_by_cause if c.startswith("stall")}, (m, n, k, mode)


def assert_values(step: tpu.GemmStep, chip: TpuChip, rng: np.random.Generator) -> None:
    """Integers are the plain product; float32 is DESIGN's chain bit for bit, and so is the value kernel's."""
    m, n, k = step.op.m, step.op.n, step.op.k
    a, b = rng.integers(-128, 128, (1, m, k), np.int8), rng.integers(-128, 128, (1, k, n), np.int8)
    stepped = tpu.values(step, chip, a, b)
    np.testing.assert_array_equal(stepped.out, a.astype(np.int32) @ b.astype(np.int32))
    assert stepped.overflows == 0

    # The plan of the int8 matmul serves as well: values do not depend on it.
    op = replace(step.op, dtype="fp32", rhs_dtype="fp32", acc_dtype="fp32", out_dtype="fp32")
    step = replace(step, op=op, formats=formats_of(op, chip))
    a, b = rng.standard_normal((1, m, k), np.float32), rng.standard_normal((1, k, n), np.float32)
    want = chained(a[0], b[0], k if step.dataflow == "os" else 4)
    for mode in ("stepped", "tiled"):
        np.testing.assert_array_equal(tpu.values(replace(step, mode=mode), chip, a, b).out[0], want)
