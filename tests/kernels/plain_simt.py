"""SMs stepped the slow way: every cycle, every scheduler, every warp is looked at anew.

A warp's registers, groups and stages are dictionaries and lists, caches are lists in the order of their last
use, and every cycle of every warp is given its reason by itself. Nothing is skipped, and nothing is counted
ahead.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from systolic.kernels.simt import layout as L

WAITS = (L.WAIT_FULL, L.WAIT_EMPTY, L.AWAIT, L.WAIT_STORED)


@dataclass(eq=False)
class Warp:
    """A warp of a block."""

    block: Block
    rank: int
    pc: int
    look_at: int
    why: int = L.NOTHING
    trip: int = 0
    ready: dict[int, tuple[int, int]] = field(default_factory=dict)
    opened: list[int] = field(default_factory=lambda: [0, 0, 0])
    groups: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))


@dataclass(eq=False)
class Block:
    """A block on an L.SM."""

    number: int
    sm: int
    start: int
    warps: list[Warp] = field(default_factory=list)
    full: dict[int, tuple[int, int]] = field(default_factory=dict)
    released: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    at_barrier: list[Warp] = field(default_factory=list)
    summed: int = 0
    stored: int = 0


class Cache:
    """Lines of sectors, the least recently used of a set leaves."""

    def __init__(self, sets: int, ways: int, per_line: int) -> None:
        self.ways, self.per_line = ways, per_line
        self.sets: list[list[tuple[int, set[int], set[int]]]] = [[] for _ in range(sets)]

    def look(self, sector: int, stores: bool) -> tuple[bool, int]:
        """Whether a sector was there, and the dirty ones that leave for it."""
        line, lines = sector // self.per_line, self.sets[sector // self.per_line % len(self.sets)]
        for i, (tag, there, dirty) in enumerate(lines):
            if tag == line:
                hit = sector in there
                there.add(sector)
                dirty |= {sector} if stores else set()
                lines.append(lines.pop(i))
                return hit, 0
        leaving = lines.pop(0)[2] if len(lines) == self.ways else set()
        lines.append((line, {sector}, {sector} if stores else set()))
        return False, len(leaving)


class Machine:
    """SMs with one L2 and one DRAM; arguments as for ``step_sms``."""

    def __init__(
        self,
        program: np.ndarray,
        accesses: np.ndarray,
        offsets: np.ndarray,
        starts: np.ndarray,
        shifts: np.ndarray,
        bases: np.ndarray,
        trips: np.ndarray,
        settings: np.ndarray,
        hits: np.ndarray,
        sms: int,
    ) -> None:
        self.program, self.accesses, self.offsets = program.tolist(), accesses.tolist(), offsets.tolist()
        self.starts, self.shifts, self.bases = starts.tolist(), shifts.tolist(), bases.tolist()
        self.trips, self.set, self.hits = trips.tolist(), settings.tolist(), hits.tolist()
        self.sms = sms
        s = self.set
        self.l1 = [Cache(max(1, s[L.L1_SETS]), max(1, s[L.L1_WAYS]), s[L.LINE]) for _ in range(sms)]
        self.l2 = Cache(max(1, s[L.L2_SETS]), max(1, s[L.L2_WAYS]), s[L.LINE])
        self.pipes = [[[0] * L.PIPES for _ in range(s[L.SUB_CORES])] for _ in range(sms)]
        self.mio, self.port = [0] * sms, [0] * sms
        self.l2_free = self.dram_free = 0
        self.owed: dict[tuple[int, bool], int] = defaultdict(int)
        self.tally = np.zeros(L.READ + 2 * len(hits), np.int64)
        self.times = np.zeros((len(bases), 2), np.int64)
        self.slots: list[list[Block | None]] = [[None] * s[L.HELD] for _ in range(sms)]
        self.lanes: list[list[list[Warp]]] = [[[] for _ in range(s[L.SUB_CORES])] for _ in range(sms)]
        self.last: dict[tuple[int, int], Warp] = {}
        self.waiting = list(range(len(bases)))

    def run(self) -> int:
        """Cycles until the last store has left."""
        for turn in range(self.set[L.HELD]):
            for sm in range(self.sms):
                self.begin(sm, turn, 0)
        now = 0
        while any(block for slots in self.slots for block in slots):
            for sm in range(self.sms):
                for sub in range(self.set[L.SUB_CORES]):
                    self.cycle(sm, sub, now)
            now += 1
        return int(max(now, -(-max(*self.port, self.l2_free, self.dram_free) // L.MILLI)))

    def begin(self, sm: int, turn: int, at: int) -> None:
        """Put the next block into a slot."""
        self.slots[sm][turn] = None
        if not self.waiting:
            return
        block = Block(self.waiting.pop(0), sm, at)
        self.slots[sm][turn] = block
        self.times[block.number, 0] = at
        for rank, pc in enumerate(self.starts):
            warp = Warp(block, rank, pc, at)
            block.warps.append(warp)
            place = turn * len(self.starts) + rank
            self.lanes[sm][place % self.set[L.SUB_CORES]].append(warp)

    def cycle(self, sm: int, sub: int, now: int) -> None:
        """One cycle of one scheduler."""
        able = []
        for warp in self.lanes[sm][sub]:
            if warp.block.start > now:
                continue
            if warp.look_at <= now:
                until, warp.why = self.blocked(warp, sub, now)
                if until == L.NEVER:
                    warp.look_at = L.NEVER
                if until <= now:
                    able.append(warp)
                    continue
            self.tally[L.STALL + warp.why] += 1
        self.tally[L.COUNT + L.ELIGIBLE] += len(able)
        if not able:
            return
        chosen = self.choice(self.lanes[sm][sub], able, self.last.get((sm, sub)))
        self.last[sm, sub] = chosen
        self.tally[L.STALL + L.SELECTED] += 1
        self.tally[L.STALL + L.NOT_SELECTED] += len(able) - 1
        self.tally[L.COUNT + L.ISSUED] += 1
        self.issue(chosen, sm, sub, now)

    def choice(self, lane: list[Warp], able: list[Warp], last: Warp | None) -> Warp:
        """By policy; lanes are sorted by age."""
        ages = {id(warp): i for i, warp in enumerate(lane)}
        favourite = ages.get(id(last), -1)
        if self.set[L.POLICY] == L.LRR:
            return min(able, key=lambda warp: (ages[id(warp)] - favourite - 1) % len(lane))
        if last in able:
            return able[able.index(last)]
        return able[0] if self.set[L.POLICY] == L.GTO else able[-1]

    def blocked(self, warp: Warp, sub: int, now: int) -> tuple[int, int]:
        """Until when, and why."""
        op, pipe, busy, _, *names, arg, _ = self.program[warp.pc]
        for name in names:
            if name >= 0 and warp.ready.get(name, (0, 0))[0] > now:
                return warp.ready[name]
        block, sm = warp.block, warp.block.sm
        if op == L.MATH:
            return self.pipes[sm][sub][pipe], L.MATH_BUSY
        if op == L.ASYNC_MATH:
            return self.pipes[sm][sub][L.TENSOR] - busy, L.MATH_BUSY
        if op == L.SHARED:
            return self.mio[sm] - self.set[L.QUEUE], L.MIO
        if op in (L.LOAD, L.STORE, L.COPY):
            return -(-self.port[sm] // L.MILLI) - self.set[L.QUEUE], L.LG
        if op in (L.WAIT_COPY, L.WAIT_MATH):
            kind = int(op == L.WAIT_MATH)
            groups = warp.groups[kind]
            over = len(groups) - arg
            return groups[over - 1] if over > 0 else 0, L.GMMA if kind else L.LONG
        stage, turns = warp.trip % self.set[L.STAGES], warp.trip // self.set[L.STAGES]
        if op == L.WAIT_FULL:
            trip, at = block.full.get(stage, (-1, 0))
            return (at if trip >= warp.trip else L.NEVER), L.LONG
        there = {
            L.WAIT_EMPTY: block.released[stage] >= self.set[L.CONSUMERS] * turns,
            L.AWAIT: block.summed > warp.trip,
            L.WAIT_STORED: block.stored
            >= self.set[L.STORERS] * (warp.trip // max(1, self.set[L.PERIOD]) - 1),
        }
        return (0 if there.get(op, True) else L.NEVER), L.SYNC

    def issue(self, warp: Warp, sm: int, sub: int, now: int) -> None:
        """One instruction."""
        op, pipe, busy, latency, name, *_, arg, access = self.program[warp.pc]
        block, pipes = warp.block, self.pipes[sm][sub]
        warp.pc += 1
        warp.look_at = now + 1
        if op in (L.LOAD, L.STORE, L.COPY, L.BULK):
            done = self.move(op, warp, access, now)
            if op == L.LOAD:
                warp.ready[name] = (done, L.LONG)
            if op in (L.COPY, L.BULK):
                self.mio[sm] = max(now, self.mio[sm]) + self.accesses[access][L.SHARED_CYCLES]
                kind = 0 if op == L.COPY else 2
                warp.opened[kind] = max(warp.opened[kind], done)
            if op == L.BULK and arg:
                block.full[warp.trip % self.set[L.STAGES]] = (warp.trip, warp.opened[2])
                warp.opened[2] = 0
                self.nudge(block, now)
        elif op == L.MATH:
            pipes[pipe] = now + busy
            warp.ready[name] = (now + latency, L.FIXED)
        elif op == L.SHARED:
            self.mio[sm] = max(now, self.mio[sm]) + busy
            self.tally[L.COUNT + L.SHARED_REQUESTS] += 1
            self.tally[L.COUNT + L.CONFLICTS] += busy - arg
            warp.ready[name] = (self.mio[sm] - 1 + latency, L.SHORT)
        elif op == L.ASYNC_MATH:
            pipes[L.TENSOR] = max(now, pipes[L.TENSOR]) + busy
            self.mio[sm] = max(now, self.mio[sm]) + arg
            warp.opened[1] = max(warp.opened[1], max(pipes[L.TENSOR], self.mio[sm]) + latency)
        elif op in (L.COMMIT, L.COMMIT_MATH):
            kind = int(op == L.COMMIT_MATH)
            warp.groups[kind].append(warp.opened[kind])
            warp.opened[kind] = 0
        elif op in (L.WAIT_COPY, L.WAIT_MATH):
            groups = warp.groups[int(op == L.WAIT_MATH)]
            del groups[: max(0, len(groups) - arg)]
        elif op == L.BARRIER:
            self.barrier(warp, arg or len(block.warps), now + max(1, latency))
        elif op == L.SIGNAL:
            block.summed += 1
            self.nudge(block, now)
        elif op == L.RELEASE:
            if warp.trip >= arg:
                block.released[(warp.trip - arg) % self.set[L.STAGES]] += 1
                self.nudge(block, now)
        else:
            self.turn(op, warp, arg, sub, now)

    def barrier(self, warp: Warp, needed: int, passed: int) -> None:
        """Sleep until all that meet here are there."""
        warp.block.at_barrier.append(warp)
        warp.look_at, warp.why = L.AT_BARRIER, L.SYNC
        if len(warp.block.at_barrier) >= needed:
            for other in warp.block.at_barrier:
                other.look_at = passed
            warp.block.at_barrier = []

    def turn(self, op: int, warp: Warp, target: int, sub: int, now: int) -> None:
        """Loops and ends; an instruction that only waits has nothing to do."""
        block, last = warp.block, self.trips[warp.block.number]
        if op == L.UNLESS_LAST:
            warp.pc = target if (warp.trip + 1) % self.set[L.PERIOD] else warp.pc
        elif op in (L.LOOP, L.LOOP_TILES):
            if op == L.LOOP_TILES:
                block.stored += 1
                self.nudge(block, now)
                last //= self.set[L.PERIOD]
            warp.trip += 1
            warp.pc = target if warp.trip < last else warp.pc
        elif op == L.EXIT:
            block.warps.remove(warp)
            self.lanes[block.sm][sub].remove(warp)
            self.tally[L.COUNT + L.WARP_CYCLES] += now + 1 - block.start
            if not block.warps:
                self.times[block.number, 1] = now + 1
                turn = next(i for i, held in enumerate(self.slots[block.sm]) if held is block)
                self.begin(block.sm, turn, now + 1 + self.set[L.LAUNCH])

    def nudge(self, block: Block, now: int) -> None:
        """Who waits for a sign of the block looks again in the next cycle."""
        for warp in block.warps:
            if warp.look_at == L.NEVER and self.program[warp.pc][L.OP] in WAITS:
                warp.look_at = now + 1

    def move(self, op: int, warp: Warp, access: int, now: int) -> int:
        """Move the sectors of a request; when the last one is there."""
        operand, width, lanes, first, stride, lead, cached, _ = self.accesses[access]
        trip = warp.trip + lead
        if stride and trip >= self.trips[warp.block.number]:
            return now
        base = self.bases[warp.block.number][operand] + self.shifts[warp.rank][access] + trip * stride
        sectors: list[int] = []
        for offset in self.offsets[first : first + lanes]:
            address = base + offset
            row = range(address // self.set[L.SECTOR], (address + width - 1) // self.set[L.SECTOR] + 1)
            sectors += [sector for sector in row if op == L.BULK or sector not in sectors]
        self.tally[L.COUNT + L.REQUESTS] += 1
        self.tally[L.COUNT + L.SECTORS] += len(sectors)
        through = bool(cached) and op != L.STORE
        return max(self.sector(operand, x, op == L.STORE, through, warp.block.sm, now) for x in sectors)

    def sector(self, operand: int, sector: int, stores: bool, through_l1: bool, sm: int, now: int) -> int:
        """Move one sector; when its data are there."""
        s, count = self.set, self.tally[L.COUNT :]
        if through_l1:
            count[L.L1_LOOKUPS] += 1
            if self.l1[sm].look(sector, False)[0]:
                count[L.L1_HITS] += 1
                return int(now + s[L.L1_LATENCY])
        self.port[sm] = max(self.port[sm], now * L.MILLI) + s[L.PORT_MILLI]
        self.l2_free = max(self.l2_free, now * L.MILLI) + s[L.L2_MILLI]
        served = max(self.port[sm], self.l2_free)
        count[L.L2_LOOKUPS] += 1
        if s[L.STEPPED_L2]:
            there, leaving = self.l2.look(sector, stores)
        else:
            due = self.due(operand, stores, s[L.WRITE_BACK] if stores else self.hits[operand])
            there, leaving = due, int(due and stores)
        if leaving:
            self.dram_free = max(self.dram_free, served) + leaving * s[L.DRAM_MILLI]
            self.tally[L.READ + 2 * operand + 1] += leaving * s[L.SECTOR]
        if there or stores:
            count[L.L2_HITS] += 1
            return int(-(-served // L.MILLI) + s[L.L2_LATENCY])
        self.dram_free = max(self.dram_free, served) + s[L.DRAM_MILLI]
        self.tally[L.READ + 2 * operand] += s[L.SECTOR]
        return int(-(-self.dram_free // L.MILLI) + s[L.L2_LATENCY] + s[L.DRAM_LATENCY])

    def due(self, operand: int, stores: bool, share: int) -> bool:
        """Whether the sum of shares passes a whole one."""
        self.owed[operand, stores] += share
        if self.owed[operand, stores] < L.MILLI:
            return False
        self.owed[operand, stores] -= L.MILLI
        return True
