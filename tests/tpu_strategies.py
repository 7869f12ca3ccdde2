"""Hypothesis strategies of mapping problems, and of TPUs that are small enough to be stepped."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from systolic.blocks.array import Timing, folds
from systolic.chips.tpu import DATAFLOWS, OVERLAPS, PREFETCHES, Memory, Policy, TpuChip, Vector
from systolic.mapping.plan import DIMS, ORDERS, Operand, Place, Plan, Problem
from systolic.mapping.space import array_splits
from systolic.workload import LAYOUTS, RHS_KINDS, Gemm

from .strategies import MATRIX_DTYPES, arrays, shapes, sides


@st.composite
def memory_paths(draw: st.DrawFn, clock_hz: int, room: st.SearchStrategy[int | None]) -> Memory:
    """A memory that moves from 1/2 to 40 bytes per cycle, so that neither side always waits for the other."""
    rate = draw(st.none() | st.sampled_from((5, 7, 10, 33, 130, 400)))
    return Memory(
        bytes=draw(room),
        bytes_per_s=None if rate is None else rate * clock_hz // 10,
        latency_ns=draw(st.sampled_from((0, 0, 3, 40))),
        burst_bytes=draw(st.sampled_from((1, 8))),
        sustained_percent=draw(st.sampled_from((100, 100, 83))),
    )


@st.composite
def busy_chips(draw: st.DrawFn, largest: int = 5) -> TpuChip:
    """A TPU small enough to be stepped, on whose memories matmuls of :func:`small_gemms` press.

    Every choice that the engines model is drawn.
    """
    clock_hz = draw(st.sampled_from((7, 10))) * 10**8
    vmem = draw(memory_paths(clock_hz, st.none() | st.integers(1400, 6000)))
    banks = draw(st.none() | st.sampled_from((1, 2, 8)))
    levels = {
        "dram": draw(memory_paths(clock_hz, st.none())),
        "vmem": replace(
            vmem, latency_ns=0, burst_bytes=1, banks=banks, bank_bytes=None if banks is None else 4
        ),
    }
    if draw(st.booleans()):
        levels["cmem"] = draw(memory_paths(clock_hz, st.integers(1000, 4000)))
    if draw(st.booleans()):
        levels["acc"] = Memory(bytes=draw(st.integers(300, 1000)))
    latency, interval = draw(st.sampled_from(((1, 1), (1, 1), (1, 1), (1, 1), (3, 1), (3, 2), (2, 2))))
    activations = draw(st.sampled_from(("dram", "small", *sorted({*levels} & {"vmem", "cmem"}))))
    return TpuChip(
        name="drawn",
        clock_hz=clock_hz,
        cores=draw(st.integers(1, 3)),
        mxus_per_core=draw(st.sampled_from((1, 2, 4))),
        array=replace(draw(arrays(largest)), mac_latency=latency, mac_interval=interval),
        memory=levels,
        vector=Vector(lanes=draw(st.sampled_from((1, 8)))),
        policy=Policy(
            activations=activations,
            overlap=draw(st.sampled_from(OVERLAPS)),
            prefetch=draw(st.sampled_from(PREFETCHES)),
            block_bytes=draw(st.none() | st.integers(700, 3000)),
            block_tiles=draw(st.none() | st.integers(1, 4)),
        ),
    )


@st.composite
def small_gemms(draw: st.DrawFn, largest: int = 18) -> Gemm:
    """A matmul with operands in any layout, at times batched or repeated."""
    m, n, k = draw(shapes(largest))
    return Gemm(
        m=m,
        n=n,
        k=k,
        batch=draw(st.sampled_from((1, 1, 2, 3))),
        count=draw(st.sampled_from((1, 1, 5))),
        dtype=draw(st.sampled_from(MATRIX_DTYPES)),
        rhs_kind=draw(st.sampled_from(RHS_KINDS)),
        layout=draw(st.sampled_from(LAYOUTS)),
        name="drawn",
    )


@st.composite
def places(draw: st.DrawFn) -> Place:
    """A memory port as one core sees it, at times without a limit."""
    num, den = draw(st.sampled_from(((0, 1), (1, 1), (1, 7), (10, 3), (3, 40))))
    return Place(
        level=draw(st.sampled_from(("dram", "cmem"))),
        cycles_num=num,
        bytes_den=den,
        latency=draw(st.sampled_from((0, 0, 5, 60))),
        burst=draw(st.sampled_from((1, 1, 16))),
    )


@st.composite
def problems(draw: st.DrawFn, largest: int = 20) -> Problem:
    """What one core may get to do, without limits of capacity."""
    array, dataflow = draw(arrays()), draw(st.sampled_from(DATAFLOWS))
    where = {name: draw(st.none() | places()) for name in ("lhs", "rhs", "out")}
    bits = {name: draw(st.sampled_from((8, 16, 32))) for name in where}
    m, n, k = draw(shapes(largest))
    return Problem(
        m=m,
        n=n,
        k=k,
        batch=draw(st.integers(1, 3)),
        dataflow=dataflow,
        timing=Timing.of(array, dataflow),
        lanes=draw(st.integers(1, 3)),
        mxus=draw(st.sampled_from((1, 2, 4))),
        operands={
            **{
                n: Operand(bits=bits[n], place=where[n], transposed=draw(st.booleans()))
                for n in ("lhs", "rhs")
            },
            "out": Operand(bits=bits["out"], place=where["out"]),
            "psum": Operand(bits=32, place=where["out"]),
        },
        buffers=draw(st.integers(1, 2)),
        onchip_bytes=None,
        acc_bytes=draw(st.none() | st.just(1000)),
        port=Place(
            level="vmem", cycles_num=draw(st.integers(0, 1)), bytes_den=draw(sides(60)), latency=0, burst=1
        ),
    )


@st.composite
def plans(draw: st.DrawFn, problem: Problem) -> Plan:
    """Any legal way to cut `problem`, whole tiles of the array or not."""
    tile = {d: draw(sides(problem.size(d))) for d in DIMS}
    order, split = draw(st.sampled_from(ORDERS)), draw(st.sampled_from(array_splits(problem)))
    if problem.dataflow == "os":
        timing = problem.timing
        one_tile = folds(tile["m"], timing.rows) <= split[1] and folds(tile["n"], timing.cols) <= split[0]
        if not (order[-1] == "k" and one_tile and tile["k"] >= timing.rows):
            tile["k"] = problem.k
    return Plan(tile=tile, order=order, split=split)


@st.composite
def planned_problems(draw: st.DrawFn, largest: int = 20) -> tuple[Problem, Plan]:
    """A problem and a legal plan for it."""
    problem = draw(problems(largest))
    return problem, draw(plans(problem))
