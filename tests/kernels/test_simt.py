"""Stepped SMs: against a twin that skips nothing, and on programs short enough to count by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from systolic.kernels.simt import layout as L
from systolic.kernels.simt.step import step_sms

from .plain_simt import Machine

OPERANDS = 3


class Case:
    """A program under construction, and the SMs that run it."""

    def __init__(self, **values: int) -> None:
        plain = {
            "SUB_CORES": 1, "SECTOR": 32, "LINE": 4, "L1_SETS": 4, "L1_WAYS": 2, "L1_LATENCY": 30,
            "L2_SETS": 4, "L2_WAYS": 2, "L2_LATENCY": 200, "DRAM_LATENCY": 300, "QUEUE": 1 << 20, "STAGES": 1,
            "HELD": 1, "PERIOD": 1,
        }  # fmt: skip
        self.settings = np.zeros(L.SETTINGS, np.int64)
        for name, value in (plain | values).items():
            self.settings[getattr(L, name)] = value
        self.code: list[list[int]] = []
        self.accesses: list[list[int]] = []
        self.offsets: list[int] = []
        self.hits = np.zeros(OPERANDS, np.int64)

    def put(
        self,
        op: int,
        *,
        busy: int = 1,
        latency: int = 1,
        dst: int = -1,
        srcs: Sequence[int] = (),
        **more: int,
    ) -> Case:
        """Append an instruction."""
        sources = [*srcs, -1, -1, -1][:3]
        pipe, arg, access = (more.get(name, 0) for name in ("pipe", "arg", "access"))
        self.code.append([op, pipe, busy, latency, dst, *sources, arg, access])
        return self

    def access(self, offsets: Sequence[int], width: int = 4, operand: int = 0, **more: int) -> int:
        """Declare an access."""
        stride, lead, cached, cycles = (more.get(x, 0) for x in ("stride", "lead", "cached", "cycles"))
        row = [operand, width, len(offsets), len(self.offsets), stride, lead, cached, cycles]
        self.accesses.append(row)
        self.offsets += offsets
        return len(self.accesses) - 1

    def arguments(
        self, blocks: int, starts: Sequence[int], trips: int, sms: int, apart: int, shift: int
    ) -> list[Any]:
        """Of ``step_sms``, without its results."""
        bases = np.arange(blocks)[:, None] * apart + np.arange(OPERANDS) * (1 << 30)
        shifts = np.arange(len(starts))[:, None] * np.full(len(self.accesses), shift)
        return [
            np.array(self.code, np.int64),
            np.array(self.accesses, np.int64).reshape(-1, L.ACCESS_COLUMNS),
            np.array(self.offsets, np.int64),
            np.array(starts, np.int64),
            shifts,
            bases,
            np.full(blocks, trips, np.int64),
            self.settings,
            self.hits,
            sms,
        ]

    def run(
        self, *, blocks: int = 1, starts: Sequence[int] = (0,), trips: int = 1, sms: int = 1,
        apart: int = 1 << 20, shift: int = 0,
    ) -> Ran:  # fmt: skip
        """Step it; the twin must agree with all of it."""
        arguments = self.arguments(blocks, starts, trips, sms, apart, shift)
        tally, times = np.zeros(L.READ + 2 * OPERANDS, np.int64), np.zeros((blocks, 2), np.int64)
        events = np.zeros((20_000, L.EVENT_COLUMNS), np.int64)
        cycles = step_sms(*[*arguments, tally, times, events])
        twin = Machine(*arguments)
        assert cycles == twin.run()
        assert times.tolist() == twin.times.tolist()
        assert tally.tolist() == twin.tally.tolist()
        assert tally[: L.REASONS].sum() == tally[L.COUNT + L.WARP_CYCLES]
        assert_events(events, tally, times)
        return Ran(cycles, tally, times)


def assert_events(events: np.ndarray, tally: np.ndarray, times: np.ndarray) -> None:
    """Each warp does one thing in every cycle of its block's life, and all of them add up to the tally."""
    kept = events[: int((events[:, L.EVENT_UNTIL] > 0).sum())]
    if len(kept) == len(events):
        return
    took = kept[:, L.EVENT_UNTIL] - kept[:, L.EVENT_FROM]
    by_reason = np.bincount(kept[:, L.EVENT_REASON], took, L.REASONS)
    assert by_reason.tolist() == tally[: L.REASONS].tolist()
    for block, (start, end) in enumerate(times):
        of_block = kept[kept[:, L.EVENT_BLOCK] == block]
        assert (of_block[:, L.EVENT_FROM].min(), of_block[:, L.EVENT_UNTIL].max()) == (start, end)
        for warp in np.unique(of_block[:, L.EVENT_WARP]):
            own = of_block[of_block[:, L.EVENT_WARP] == warp]
            assert (own[1:, L.EVENT_FROM] == own[:-1, L.EVENT_UNTIL]).all()


class Ran:
    """What a run left behind."""

    def __init__(self, cycles: int, tally: np.ndarray, times: np.ndarray) -> None:
        self.cycles, self.tally, self.times = cycles, tally, times

    def count(self, name: int) -> int:
        """A counter."""
        return int(self.tally[L.COUNT + name])

    def stall(self, reason: int) -> int:
        """Warp cycles of a reason."""
        return int(self.tally[reason])


def instructions(case: Case, accesses: list[int]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Short runs of instructions that any warp of a block can go through."""
    small, name, access = st.integers(1, 5), st.integers(-1, 5), st.sampled_from(accesses)

    def some(op: int, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
        return st.fixed_dictionaries(fields).map(lambda drawn: [{"op": op, **drawn}])

    def grouped(work: dict[str, Any], kind: int, left: int) -> list[dict[str, Any]]:
        commit, wait = ((L.COMMIT, L.WAIT_COPY), (L.COMMIT_MATH, L.WAIT_MATH))[kind]
        return [work, {"op": commit}, {"op": wait, "arg": left}]

    srcs = st.lists(st.integers(0, 5), max_size=3)
    math = some(L.MATH, pipe=st.integers(0, 3), busy=small, latency=st.integers(1, 9), dst=name, srcs=srcs)
    shared = some(L.SHARED, busy=small, latency=st.integers(1, 30), dst=name, srcs=srcs, arg=st.just(1))
    load = some(L.LOAD, access=access, dst=st.integers(0, 5))
    store = some(L.STORE, access=access, srcs=srcs)
    copy = st.builds(lambda a, n: grouped({"op": L.COPY, "access": a}, 0, n), access, st.integers(0, 3))
    matmul = st.builds(
        lambda b, c, n: grouped({"op": L.ASYNC_MATH, "busy": b, "arg": c, "latency": 9}, 1, n),
        small,
        small,
        st.integers(0, 2),
    )
    barrier = some(L.BARRIER, latency=small)
    one = st.one_of(math, math, shared, load, store, copy, matmul, barrier)
    return st.lists(one, max_size=8).map(lambda parts: [entry for part in parts for entry in part])


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_stepping_equals_looking_at_every_cycle(data: st.DataObject) -> None:
    draw = data.draw
    case = Case(
        SUB_CORES=draw(st.integers(1, 3)),
        POLICY=draw(st.sampled_from((L.LRR, L.GTO, L.GTY))),
        HELD=draw(st.integers(1, 3)),
        QUEUE=draw(st.sampled_from((0, 3, 64))),
        STEPPED_L2=draw(st.integers(0, 1)),
        LAUNCH=draw(st.sampled_from((0, 7))),
        PORT_MILLI=draw(st.sampled_from((0, 500, 1000))),
        L2_MILLI=draw(st.sampled_from((0, 333, 2000))),
        DRAM_MILLI=draw(st.sampled_from((0, 1700, 9000))),
        WRITE_BACK=draw(st.sampled_from((0, 400, 1000))),
    )
    case.hits[:] = draw(st.lists(st.integers(0, 1000), min_size=OPERANDS, max_size=OPERANDS))
    offset = st.one_of(st.integers(0, 300), st.sampled_from((0, 4, 128, 512)))
    accesses = [
        case.access(
            draw(st.lists(offset, min_size=1, max_size=8)),
            width=draw(st.sampled_from((1, 4, 16, 40))),
            operand=draw(st.integers(0, OPERANDS - 1)),
            stride=draw(st.sampled_from((0, 64))),
            lead=draw(st.integers(0, 2)),
            cached=draw(st.integers(0, 1)),
            cycles=draw(st.integers(0, 3)),
        )
        for _ in range(3)
    ]
    parts = instructions(case, accesses)
    for entry in draw(parts):
        case.put(**entry)
    top = len(case.code)
    for entry in draw(parts):
        case.put(**entry)
    case.put(L.LOOP, arg=top)
    for entry in draw(parts):
        case.put(**entry)
    case.put(L.EXIT)
    case.run(
        blocks=draw(st.integers(1, 7)),
        starts=(0,) * draw(st.integers(1, 5)),
        trips=draw(st.integers(1, 4)),
        sms=draw(st.integers(1, 2)),
        apart=draw(st.sampled_from((0, 96, 4096))),
        shift=draw(st.sampled_from((0, 20, 256))),
    )


def pipelined(case: Case, groups: int, tensor_memory: bool, busy: int) -> list[int]:
    """A warp that copies tiles into stages, and warps that multiply from them; where each warp begins."""
    tiles = [case.access((0, 128, 256), 128, operand, stride=512, cycles=2) for operand in (0, 1)]
    out = case.access(range(0, 512, 16), 16, 2)
    case.put(L.WAIT_EMPTY).put(L.BULK, access=tiles[0]).put(L.BULK, access=tiles[1], arg=1)
    case.put(L.LOOP, arg=0).put(L.EXIT)
    multiply = len(case.code)
    if tensor_memory:
        case.put(L.WAIT_STORED)
    case.put(L.WAIT_FULL).put(L.ASYNC_MATH, busy=busy, latency=9, arg=3).put(L.COMMIT_MATH)
    case.put(L.WAIT_MATH, arg=1).put(L.RELEASE, arg=1)
    skip = len(case.code)
    case.put(L.UNLESS_LAST).put(L.WAIT_MATH, arg=0)
    if tensor_memory:
        case.put(L.SIGNAL)
    else:
        case.put(L.BARRIER, arg=groups).put(L.STORE, access=out)
    case.code[skip][L.ARG] = len(case.code)
    case.put(L.LOOP, arg=multiply).put(L.EXIT)
    store = len(case.code)
    case.put(L.AWAIT).put(L.STORE, access=out).put(L.LOOP_TILES, arg=store).put(L.EXIT)
    case.settings[L.CONSUMERS] = 1 if tensor_memory else groups
    if not tensor_memory:
        return [multiply] * groups + [0]
    case.settings[L.STORERS] = 2
    return [store, store, multiply, 0]


@settings(deadline=None, max_examples=40)
@example(stages=2, groups=1, tensor_memory=True, busy=1, tiles=1, period=1, dram=0, stepped=0)
@given(
    stages=st.integers(2, 5),
    groups=st.integers(1, 3),
    tensor_memory=st.booleans(),
    busy=st.integers(1, 90),
    tiles=st.integers(1, 3),
    period=st.integers(1, 5),
    dram=st.sampled_from((0, 800, 5000)),
    stepped=st.integers(0, 1),
)
def test_warps_of_different_roles_equal_their_twin(
    stages: int, groups: int, tensor_memory: bool, busy: int, tiles: int, period: int, dram: int, stepped: int
) -> None:
    case = Case(SUB_CORES=2, STAGES=stages, PERIOD=period, DRAM_MILLI=dram, STEPPED_L2=stepped, HELD=2)
    starts = pipelined(case, groups, tensor_memory, busy)
    case.run(blocks=3, starts=starts, trips=tiles * period)


@pytest.mark.parametrize(("lanes", "warp_size", "each"), [(16, 64, 4), (16, 32, 2), (32, 32, 1)])
def test_issue_slots_of_narrow_pipes(lanes: int, warp_size: int, each: int) -> None:
    """An instruction of 64 lanes on a pipe of 16 takes 4 cycles (mgpusim issues 29 and 31)."""
    busy = warp_size // lanes
    assert busy == each

    def cycles(count: int) -> int:
        case = Case()
        for _ in range(count):
            case.put(L.MATH, busy=busy, latency=busy)
        return case.put(L.EXIT).run().cycles

    assert cycles(200) - cycles(100) == 100 * each


def test_a_chain_of_dependent_operations_pays_each_latency() -> None:
    """Fused multiply-adds of 4 cycles (V100, A100): one warp at a quarter of the rate, four at all of it."""

    def cycles(warps: int, count: int = 64) -> int:
        case = Case()
        for _ in range(count):
            case.put(L.MATH, latency=4, dst=0, srcs=(0,))
        return case.put(L.EXIT).run(starts=(0,) * warps).cycles

    assert cycles(1) == 63 * 4 + 1 + 1  # the last one issues, then the end
    assert 4 * 64 < cycles(4) <= 4 * 64 + 8


def test_two_sub_cores_issue_side_by_side() -> None:
    def cycles(sub_cores: int) -> int:
        case = Case(SUB_CORES=sub_cores)
        for _ in range(50):
            case.put(L.MATH)
        return case.put(L.EXIT).run(starts=(0,) * 4).cycles

    assert (cycles(1), cycles(2), cycles(4)) == (4 * 51, 2 * 51, 51)


ROW = 4096
"""Bytes of a matrix's line."""


@pytest.mark.parametrize(
    ("offsets", "width", "sectors"),
    [
        (range(0, 128, 4), 4, 4),  # 32 neighbouring words
        (range(4, 132, 4), 4, 5),  # the same, one word further
        (range(0, 256, 8), 4, 8),  # every other word
        (range(0, 1024, 32), 4, 32),  # one word of each sector
        (range(0, 32 * ROW, ROW), 4, 32),  # down a column: a transposed operand
        (range(0, 32 * (ROW + 4), ROW + 4), 4, 32),
        ((0,) * 32, 4, 1),  # all the same word
        (range(0, 512, 16), 16, 16),  # 16 bytes per lane
        (range(0, 64, 2), 2, 2),  # 16-bit elements
        (range(28, 28 + 32 * 16, 16), 16, 17),
    ],
)
def test_sectors_of_a_request(offsets: Sequence[int], width: int, sectors: int) -> None:
    """Each sector of 32 bytes that any lane touches counts once (NVIDIA, Nsight Compute, memory tables)."""
    case = Case()
    access = case.access(list(offsets), width)
    ran = case.put(L.LOAD, dst=0, access=access).put(L.EXIT).run()
    assert (ran.count(L.REQUESTS), ran.count(L.SECTORS)) == (1, sectors)
    assert ran.tally[L.READ] == 32 * sectors  # bytes, not requests (accel-sim-framework issue 14)


@pytest.mark.parametrize(("stride", "ratio"), [(8, 2), (16, 4), (32, 8), (ROW, 8)])
def test_a_pass_bound_by_dram_takes_as_long_as_its_sectors(stride: int, ratio: int) -> None:
    """Time within 10% of the ratio of sectors."""

    def ran(step: int) -> Ran:
        case = Case(DRAM_MILLI=20_000, QUEUE=64, SUB_CORES=4, HELD=4)
        access = case.access(range(0, 32 * step, step), stride=1 << 18)
        case.put(L.LOAD, dst=0, access=access).put(L.LOOP, arg=0).put(L.EXIT)
        return case.run(blocks=8, starts=(0,) * 4, trips=3, shift=1 << 14)

    plain, strided = ran(4), ran(stride)
    assert strided.count(L.SECTORS) == ratio * plain.count(L.SECTORS)
    assert strided.cycles / plain.cycles == pytest.approx(ratio, rel=0.1)


def test_one_load_on_the_way_pays_the_whole_latency() -> None:
    """Little's law: n loads on the way divide it by n."""

    def cycles(ahead: int) -> int:
        case = Case()
        access = case.access([0], stride=32)
        for name in range(ahead):
            case.put(L.LOAD, dst=name, access=access)
        return case.put(L.MATH, srcs=(0,)).put(L.LOOP, arg=0).put(L.EXIT).run(trips=9).cycles

    assert cycles(1) == pytest.approx(9 * 500, rel=0.02)
    assert cycles(4) == pytest.approx(9 * 500, rel=0.02)  # four times the loads in the same time


def test_l1_keeps_what_comes_again() -> None:
    case = Case()
    access = case.access(range(0, 128, 4), cached=1)
    case.put(L.LOAD, dst=0, access=access).put(L.MATH, srcs=(0,)).put(L.LOAD, dst=0, access=access)
    ran = case.put(L.MATH, srcs=(0,)).put(L.EXIT).run()
    assert (ran.count(L.L1_LOOKUPS), ran.count(L.L1_HITS), ran.count(L.L2_LOOKUPS)) == (8, 4, 4)


def test_l2_writes_back_only_what_leaves() -> None:
    """8 lines fit: a result that stays there never reaches DRAM, one of twice the size leaves half."""

    def written(lines: int) -> int:
        case = Case(STEPPED_L2=1)
        access = case.access([128 * i for i in range(lines)], 128, 2)
        return int(case.put(L.STORE, access=access).put(L.EXIT).run().tally[L.READ + 5])

    assert written(8) == 0
    assert written(16) == 8 * 128


@pytest.mark.parametrize(("share", "hits"), [(0, 0), (250, 8), (900, 28), (1000, 32)])
def test_a_share_of_hits_is_kept_exactly(share: int, hits: int) -> None:
    case = Case()
    case.hits[:] = share
    access = case.access(range(0, 1024, 32))
    assert case.put(L.LOAD, dst=0, access=access).put(L.EXIT).run().count(L.L2_HITS) == hits


def test_bank_conflicts_take_the_port_of_shared_memory() -> None:
    """32 words of one bank follow one another; without conflicts a request takes one cycle."""

    def ran(busy: int) -> Ran:
        case = Case()
        for _ in range(20):
            case.put(L.SHARED, busy=busy, latency=29, dst=0, arg=1)
        return case.put(L.MATH, srcs=(0,)).put(L.EXIT).run()

    assert ran(1).count(L.CONFLICTS) == 0
    assert ran(32).count(L.CONFLICTS) == 20 * 31
    assert ran(32).cycles - ran(1).cycles >= 19 * 31


def test_a_full_queue_stalls_the_warp() -> None:
    case = Case(QUEUE=8)
    for _ in range(9):
        case.put(L.SHARED, busy=4, arg=1)
    assert case.put(L.EXIT).run().stall(L.MIO) > 0


def test_policies_pick_different_warps() -> None:
    """Two blocks of one warp: taking turns both end last, staying with one the other waits for its end."""

    def ends(policy: int) -> list[int]:
        case = Case(POLICY=policy, HELD=2)
        for _ in range(10):
            case.put(L.MATH)
        return [int(end) for end in case.put(L.EXIT).run(blocks=2).times[:, 1]]

    assert ends(L.LRR) == [21, 22]
    assert ends(L.GTO) == [11, 22]
    assert ends(L.GTY) == [22, 11]


def test_a_barrier_waits_for_the_slowest() -> None:
    case = Case(SUB_CORES=2)
    case.put(L.MATH, latency=100, dst=0).put(L.MATH, srcs=(0,))
    meet = len(case.code)
    case.put(L.BARRIER, latency=20).put(L.EXIT)
    ran = case.run(starts=(0, meet))
    assert ran.cycles == 100 + 1 + 20 + 1  # the dependent one, the barrier, its latency, the end
    assert ran.stall(L.SYNC) == 100 + 20 + 19  # the early warp from cycle 1 on, the late one from 102 on


def test_copies_in_groups_overlap_with_what_is_there() -> None:
    """Two tiles on the way: each trip waits for half of the latency."""

    def cycles(stages: int, trips: int = 40) -> int:
        case = Case()
        ahead = [case.access([0], stride=32, lead=i) for i in range(stages)]
        for access in ahead[:-1]:
            case.put(L.COPY, access=access).put(L.COMMIT)
        top = len(case.code)
        case.put(L.COPY, access=ahead[-1]).put(L.COMMIT).put(L.WAIT_COPY, arg=stages - 1)
        return case.put(L.LOOP, arg=top).put(L.EXIT).run(trips=trips).cycles

    assert cycles(1) == pytest.approx(40 * 500, rel=0.03)
    assert cycles(2) == pytest.approx(20 * 500, rel=0.06)
    assert cycles(4) == pytest.approx(10 * 500, rel=0.1)


def test_a_pipeline_of_stages_hides_latency_behind_multiplication() -> None:
    """4 warps that multiply 128 cycles per trip, copies of 700: enough stages leave the multiplier busy."""

    def cycles(stages: int) -> int:
        case = Case(SUB_CORES=4, STAGES=stages, PERIOD=64)
        return case.run(starts=pipelined(case, 4, False, 128), trips=64).cycles

    busy = 64 * 128
    assert cycles(8) < busy * 1.12
    assert cycles(2) > 2 * busy


def test_warps_that_wait_for_one_another_are_an_error() -> None:
    case = Case()
    case.put(L.WAIT_FULL).put(L.EXIT)
    arguments = case.arguments(1, (0,), 1, 1, 0, 0)
    with pytest.raises(RuntimeError, match="all warps wait for one another"):
        step_sms(*[*arguments, np.zeros(L.READ + 2 * OPERANDS, np.int64), np.zeros((1, 2), np.int64)])
