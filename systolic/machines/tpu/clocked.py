"""One core clocked cycle by cycle: its memory port and the feeders of its arrays.

Independent of the block pipeline's recurrence and of the closed forms: here a transfer is bytes that move
in each clock, and a tile starts at the first clock at which what it needs is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...blocks.array import AXES, folds, pieces
from ...mapping.plan import Plan, Problem, array_work
from ...mapping.schedule import Block, block_at, indices
from .addresses import slowest_step


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One array tile of a block: which parts of the matmul it takes.

    `number` is its pass, where a tile runs several times. Output stationary, the passes of an element of k
    stream one after the other instead: `stream` then counts them all.
    """

    rows: tuple[int, int]
    cols: tuple[int, int]
    stream: tuple[int, int]
    first: bool
    last: bool
    number: int = 0


@dataclass
class Feeder:
    """What one array has done and does; times in elapsed clocks."""

    pieces: list[tuple[int, Piece]]
    done: int = 0
    start: int = -1
    end: int = 0
    clear: int = 0
    placed: list[tuple[int, int]] = field(default_factory=list)
    """(clock at which its weights begin to load, clock at which it begins to stream) of each tile."""


@dataclass
class Transfer:
    """A load or store on its way through the port."""

    block: int
    name: str
    bytes: int
    cycles: int
    is_store: bool
    left: int = 0
    """Bytes still to move, in units of 1 / cycles_num bytes, so that a clock takes bytes_den."""
    arrived: int | None = None


def block_pieces(problem: Problem, plan: Plan, block: Block, origin: dict[str, int]) -> list[list[Piece]]:
    """The tiles of a block for each array of the core, in the order in which they run."""
    axes, timing = AXES[problem.dataflow], problem.timing
    across, along = plan.split
    low = {d: origin[d] for d in "mnk"}
    cols = [(low[axes.cols] + a, low[axes.cols] + b) for a, b in pieces(block.size[axes.cols], timing.cols)]
    rows = [(low[axes.rows] + a, low[axes.rows] + b) for a, b in pieces(block.size[axes.rows], timing.rows)]
    streams = [(low[axes.stream], low[axes.stream] + block.size[axes.stream])]
    runs = problem.passes
    if problem.dataflow == "os":
        runs = 1
        streams = [(problem.passes * begin, problem.passes * end) for begin, end in streams]
        row_groups = _dealt(rows, along)
    else:
        share = folds(block.size[axes.stream], along)
        streams = [
            (low[axes.stream] + a, low[axes.stream] + b) for a, b in pieces(block.size[axes.stream], share)
        ]
        row_groups = [rows]
    ends_k = low["k"] + block.size["k"] == problem.k
    arrays: list[list[Piece]] = []
    for col_group in _dealt(cols, across):
        for b in range(along):
            group = row_groups[b] if problem.dataflow == "os" else rows
            stream = streams[0] if problem.dataflow == "os" else streams[b] if b < len(streams) else None
            arrays.append(
                [
                    Piece(rows=r, cols=c, stream=stream, first=low["k"] == 0, last=ends_k, number=number)
                    for c in col_group
                    for r in group
                    for number in range(runs)
                    if stream is not None
                ]
            )
    return arrays


def _dealt(items: list[tuple[int, int]], ways: int) -> list[list[tuple[int, int]]]:
    """Equal consecutive shares, the first ones largest."""
    share = folds(len(items), ways)
    return [items[i * share : (i + 1) * share] for i in range(ways)]


class Core:
    """One core that runs one batch of its share, clock by clock.

    Parameters
    ----------
    problem, plan
        The share, and how it is cut.
    ahead
        Port cycles of the very first weights that were spent before the run.
    prompt
        Whether memory answers at once, to see what latency costs.
    """

    def __init__(self, problem: Problem, plan: Plan, *, ahead: int = 0, prompt: bool = False) -> None:
        self.problem, self.plan, self.ahead, self.prompt = problem, plan, ahead, prompt
        self.blocks: list[Block] = []
        self.batch_of: list[int] = []
        """Batch element of each block."""
        self.feeders = [Feeder([]) for _ in range(problem.mxus)]
        self.arrivals: dict[tuple[int, str], int] = {}
        self.queue: list[Transfer] = []
        self.moved: list[Transfer] = []
        for index in indices(problem, plan):
            self._add(index)
        self._order_transfers()
        self.left = [
            sum(1 for f in self.feeders for b, _ in f.pieces if b == i) for i in range(len(self.blocks))
        ]
        self.fed = [0] * len(self.blocks)
        self.out = [0] * len(self.blocks)
        first = (piece for feeder in self.feeders for block, piece in feeder.pieces if block == 0)
        self.step = slowest_step(problem, plan, first)
        """Clocks of a step of the streams."""
        self.waits = dict.fromkeys(
            ("preload", "compute", "wait", "stall_onchip", "stall_bank", "stall_dram"), 0
        )

    def _add(self, index: tuple[int, ...]) -> None:
        problem, plan = self.problem, self.plan
        block = block_at(problem, plan, index)
        origin = {d: i * plan.tile[d] for d, i in zip(plan.order, index[1:], strict=True)}
        for feeder, work in zip(self.feeders, block_pieces(problem, plan, block, origin), strict=True):
            feeder.pieces += [(len(self.blocks), piece) for piece in work]
        self.blocks.append(block)
        self.batch_of.append(index[0])

    def _order_transfers(self) -> None:
        """With two buffers the loads of block i + 1 go out before the store of block i, with one after it."""
        for i in range(len(self.blocks) + 1):
            loads = self.blocks[i].loads if i < len(self.blocks) else ()
            moves = [Transfer(i, m.operand, m.bytes, m.cycles, False) for m in loads]
            if i > 0 and (store := self.blocks[i - 1].store) is not None:
                out = Transfer(i - 1, store.operand, store.bytes, store.cycles, True)
                moves = [*moves, out] if self.problem.buffers > 1 else [out, *moves]
            self.queue += moves
        for transfer in [t for t in self.queue if t.block == 0 and t.name == "rhs"]:
            if self.ahead and transfer.cycles <= self.ahead:
                self.queue.remove(transfer)
                self.moved.append(transfer)
                self.arrivals[0, "rhs"] = 0

    def run(self, until: int | None = None) -> int:
        """Clock until all has been computed and stored, or `until` clocks are over; return the clocks."""
        elapsed = 0
        at_hand: Transfer | None = None
        while True:
            at_hand = self._port(elapsed, at_hand)
            for feeder in self.feeders:
                self._feed(feeder, elapsed)
            if at_hand is None and not self.queue and all(f.done == len(f.pieces) for f in self.feeders):
                return max(elapsed, *(self.drained(f) for f in self.feeders))
            if elapsed == until:
                return elapsed
            elapsed += 1
            if at_hand is not None:
                place = self.problem.operands[at_hand.name].place
                assert place is not None
                at_hand.left -= place.bytes_den

    def _port(self, elapsed: int, at_hand: Transfer | None) -> Transfer | None:
        """Finish and begin transfers at this moment; return the one in progress."""
        while True:
            if at_hand is not None:
                if at_hand.left > 0:
                    return at_hand
                self._arrive(at_hand, elapsed)
                at_hand = None
            if not self.queue or not self._may_begin(self.queue[0], elapsed):
                return None
            at_hand = self.queue.pop(0)
            place = self.problem.operands[at_hand.name].place
            assert place is not None
            if place.dram is None:
                at_hand.left = at_hand.bytes * place.cycles_num
            else:
                at_hand.left = at_hand.cycles * place.bytes_den
            if at_hand.block == 0 and at_hand.name == "rhs":
                at_hand.left -= self.ahead * place.bytes_den

    def _may_begin(self, transfer: Transfer, elapsed: int) -> bool:
        i = transfer.block
        if transfer.is_store:
            return self._takes_no_time(transfer) or (self.left[i] == 0 and elapsed >= self.out[i])
        before = i - self.problem.buffers
        return before < 0 or (self.left[before] == 0 and elapsed >= self.fed[before])

    def _takes_no_time(self, transfer: Transfer) -> bool:
        """Whether the port is unlimited: a store then never stands before the loads behind it."""
        place = self.problem.operands[transfer.name].place
        return place is not None and place.cycles_num == 0 and place.dram is None

    def _arrive(self, transfer: Transfer, elapsed: int) -> None:
        place = self.problem.operands[transfer.name].place
        assert place is not None
        latency = 0 if self.prompt else place.latency
        self.moved.append(transfer)
        if not transfer.is_store:
            self.arrivals[transfer.block, transfer.name] = elapsed + latency

    def _here(self, block: int, names: tuple[str, ...], elapsed: int) -> bool:
        """Whether what the block loads of these operands has arrived."""
        return all(
            self.arrivals.get((block, m.operand), elapsed + 1) <= elapsed
            for m in self.blocks[block].loads
            if m.operand in names
        )

    def _feed(self, feeder: Feeder, elapsed: int) -> None:
        """Begin the array's next tile at this moment, if it may."""
        if feeder.done == len(feeder.pieces):
            return
        number, piece = feeder.pieces[feeder.done]
        timing, problem = self.problem.timing, self.problem
        streamed = self.step * folds(piece.stream[1] - piece.stream[0], problem.lanes)
        rest = (problem.streaming, "psum")
        if timing.serial:
            ready = elapsed >= feeder.clear and self._here(number, (problem.stationary, *rest), elapsed)
            if ready:
                self._place(feeder, elapsed, elapsed + timing.load, streamed)
            return
        if elapsed < max(feeder.end, feeder.clear):
            return
        if problem.dataflow == "os":
            finishes_late_enough = (
                feeder.start < 0 or not piece.first or elapsed + streamed >= feeder.end + timing.shift_out
            )
            if finishes_late_enough and self._here(number, (problem.stationary, *rest), elapsed):
                self._place(feeder, elapsed, elapsed, streamed)
            return
        loading = self._loading_since(feeder, number, elapsed)
        if loading is not None and elapsed >= loading + timing.load and self._here(number, rest, elapsed):
            self._place(feeder, loading, elapsed, streamed)

    def _loading_since(self, feeder: Feeder, number: int, elapsed: int) -> int | None:
        """When the next tile's weights began to shift in: once they are here and the shadows are free."""
        if not self._here(number, (self.problem.stationary,), elapsed):
            return None
        return max(feeder.start, self.arrivals.get((number, self.problem.stationary), 0), 0)

    def _place(self, feeder: Feeder, load: int, start: int, streamed: int) -> None:
        """Put a tile on the array: its weights load from `load`, its words stream from `start` on."""
        timing, problem = self.problem.timing, self.problem
        number, _ = feeder.pieces[feeder.done]
        _, _, port = array_work(problem, self.plan.split, self.blocks[number].size)
        if feeder is self.feeders[0]:
            self._account(feeder, load, start, streamed, port)
        first_read = self.step - timing.interval
        feeder.placed.append((load + 1 + first_read, start + 1 + first_read))
        feeder.done += 1
        feeder.start = start
        feeder.end = start + streamed
        feeder.clear = max(load + timing.tile(streamed), load + port) if timing.serial else start + port
        self.left[number] -= 1
        end = feeder.clear if timing.serial else feeder.end
        self.fed[number] = max(self.fed[number], end)
        self.out[number] = max(self.out[number], end if timing.serial else end + timing.drain)

    def _account(self, feeder: Feeder, load: int, start: int, streamed: int, port: int) -> None:
        """Give each clock since the array's last word, and those of this tile, to its cause."""
        timing, waits = self.problem.timing, self.waits
        hops = streamed // self.step * timing.interval
        waits["compute"] += hops
        waits["stall_bank"] += streamed - hops
        if timing.serial:
            waits["stall_dram"] += load - feeder.clear
            waits["preload"] += timing.load
            waits["wait"] += timing.drain
            waits["stall_onchip"] += max(0, port - timing.tile(streamed))
            return
        gap = start - feeder.end
        if feeder.start < 0:
            waits["preload"] += timing.load
            waits["stall_dram"] += gap - timing.load
            return
        _, piece = feeder.pieces[feeder.done]
        fresh = self.problem.dataflow != "os" or piece.first
        own = min(gap, timing.gap(feeder.end - feeder.start, streamed)) if fresh else 0
        shifting = min(start, load + timing.load) - max(feeder.end, load)
        own = max(own, shifting)
        onchip = max(0, min(start, feeder.clear) - feeder.end - own)
        waits["wait"] += own
        waits["stall_onchip"] += onchip
        waits["stall_dram"] += gap - own - onchip

    def drained(self, feeder: Feeder) -> int:
        """When the last result has left its array, and the on-chip port has handed over all that it got."""
        if not feeder.placed:
            return 0
        timing = self.problem.timing
        return feeder.clear if timing.serial else max(feeder.end + timing.drain, feeder.clear)
