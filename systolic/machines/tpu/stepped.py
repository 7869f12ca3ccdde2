"""The TPU stepped: each core clocked, each array register by register, on seeded operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...blocks.array import AXES, Timing, folds, pieces
from ...blocks.edges import Tile
from ...blocks.stepping import SteppedArray
from ...chips.tpu import TpuChip
from ...mapping.plan import Problem, Share
from ...numerics.inputs import seeded_inputs
from ...numerics.parts import PRODUCTS, interleave
from ...numerics.rounding import integer_range, round_to
from ...result import Bytes, Result, Traffic, add_bytes
from ...workload import Gemm
from .arithmetic import entering_parts
from .clocked import Core, Piece
from .costing import gemm_result
from .lowering import GemmStep

Parts = tuple[Sequence[np.ndarray], Sequence[np.ndarray]]
"""Both operands of a batch element, a (m, k) and b (k, n), in parts."""

STORED_PE_CLOCKS = 2 * 10**8
"""Up to this many PE clocks of an array every register is stored; beyond, words in passing are views."""


def stepped_cost(step: GemmStep, chip: TpuChip, ahead: int = 0, record: list[Any] | None = None) -> Result:
    """As the tiled cost of one occurrence, observed clock by clock.

    Each distinct share of the cores is clocked; the arrays run on seeded operands, and count their MACs.
    `record` receives every :class:`SteppedArray`.
    """
    cycles, causes = 0, dict[str, int]()
    traffic: Bytes = {}
    macs = 0
    for number, share in enumerate(step.mapped.split.shares):
        core = Core(share.problem, step.mapped.plan, ahead=ahead)
        clocks = core.run()
        arrays = _arrays(step, chip, core)
        seen = _observe(arrays)
        macs += share.cores * sum(seen)
        traffic = add_bytes(traffic, _moved(core, share), _onchip(core, share))
        if record is not None:
            record.extend(arrays.values())
        if number == 0:
            cycles, causes = clocks, _causes(core, clocks)
        assert clocks <= cycles, "the busiest share must come first"
    return gemm_result(
        step,
        chip,
        cycles=cycles,
        causes=causes,
        traffic=traffic,
        array_macs=macs,
        behind_memory=step.mapped.cost.behind_memory,
        port_idle=step.mapped.cost.port_idle,
        source="stepped",
    )


def step_matmul(
    step: GemmStep, chip: TpuChip, a: Sequence[np.ndarray], b: Sequence[np.ndarray]
) -> tuple[np.ndarray, int]:
    """Values of a (m, k) @ b (k, n) out of one stepped array, and sums that wrapped; memory aside.

    Both operands in parts, as :func:`systolic.machines.tpu.arithmetic.entering_parts` gives them.
    """
    timing = Timing.of(chip.array, step.dataflow)
    lanes = chip.array.lanes[step.multiplied]
    words = _Words(step, a, b)
    work = _all_pieces(step, chip, a[0].shape[0], b[0].shape[1], a[0].shape[1])
    tiles: list[Tile] = []
    start = -1
    end = 0
    for piece in work:
        streamed = timing.interval * folds(piece.stream[1] - piece.stream[0], lanes)
        load = end if timing.serial else max(start, 0)
        alone = timing.serial or start < 0
        start = load + timing.load if alone else end + timing.gap(end - start, streamed)
        end = load + timing.tile(streamed) if timing.serial else start + streamed
        tiles.append(words.tile(piece, load + 1, start + 1))
    array = SteppedArray(chip.array, lanes, step.dataflow == "os", tiles, step.formats.acc)
    seen = array.run(_engine(array))
    out = np.zeros((a[0].shape[0], b[0].shape[1]), np.float32 if array.is_float else np.int64)
    wraps = _accumulate(out, step, work, seen.results)
    return out, wraps + (seen.wraps or 0)


def _all_pieces(step: GemmStep, chip: TpuChip, m: int, n: int, k: int) -> list[Piece]:
    axes, size = AXES[step.dataflow], {"m": m, "n": n, "k": k}
    passes = step.formats.passes
    runs, repeated = (1, passes) if step.dataflow == "os" else (passes, 1)
    stream = (0, repeated * size[axes.stream])
    return [
        Piece(rows=rows, cols=cols, stream=stream, first=True, last=True, number=number)
        for cols in pieces(size[axes.cols], chip.array.cols)
        for rows in pieces(size[axes.rows], chip.array.rows)
        for number in range(runs)
    ]


class _Words:
    """The words of a matmul's pieces, out of operands a (m, k) and b (k, n) in parts, largest first."""

    def __init__(self, step: GemmStep, a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> None:
        self.dataflow = step.dataflow
        self.pairs = PRODUCTS[step.formats.passes]
        self.a, self.b = list(a), list(b)
        if step.dataflow == "os":
            self.a = [interleave(self.a, [i for i, _ in self.pairs], 1, 1)]
            self.b = [interleave(self.b, [j for _, j in self.pairs], 0, 1)]
            self.pairs = ((0, 0),)

    def tile(self, piece: Piece, load_at: int, start: int) -> Tile:
        """The words of a piece, and when they enter."""
        rows, cols, stream = (slice(*part) for part in (piece.rows, piece.cols, piece.stream))
        i, j = self.pairs[piece.number]
        a, b = self.a[i], self.b[j]
        if self.dataflow == "ws":
            left, top = a[stream, rows], b[rows, cols]
        elif self.dataflow == "is":
            left, top = b[rows, stream].T, a[cols, rows].T
        else:
            left, top = a[rows, stream].T, b[stream, cols]
        return Tile(
            start=start,
            load_at=load_at,
            left=np.ascontiguousarray(left),
            top=np.ascontiguousarray(top),
            first=piece.first or self.dataflow != "os",
            last=piece.last or self.dataflow != "os",
        )


def _accumulate(out: np.ndarray, step: GemmStep, work: Sequence[Piece], results: Sequence[np.ndarray]) -> int:
    """Add the arrays' sums, in the order in which they left, into `out` (m, n); return wraps."""
    wraps = 0
    dataflow = step.dataflow
    ended = [p for p in work if dataflow != "os" or p.last]
    for piece, block in zip(ended, results, strict=True):
        cols, stream = slice(*piece.cols), slice(*piece.stream)
        if dataflow == "os":
            out[slice(*piece.rows), cols] = block
            continue
        place = out[stream, cols] if dataflow == "ws" else out[cols, stream]
        wraps += add_sums(place, block if dataflow == "ws" else block.T, step)
    return wraps


def add_sums(place: np.ndarray, sums: np.ndarray, step: GemmStep) -> int:
    """Add sums that left an array to what the accumulators hold at `place`, as they do; return wraps.

    Output stationary the accumulators hold 0: a sum leaves finished.
    """
    place += sums
    if place.dtype != np.int64:
        place[:] = round_to(place, step.formats.acc)
        return 0
    low, high = integer_range(step.formats.acc)
    over = (place < low) | (place > high)
    place[over] = (place[over] - low) % (high - low + 1) + low
    return int(over.sum())


def _engine(array: SteppedArray) -> str:
    pe_clocks = array.clocks * array.array.rows * array.array.cols
    integers_may_wrap = not array.is_float
    only_stored = integers_may_wrap or array.is_stored_only
    return "stored" if only_stored or pe_clocks <= STORED_PE_CLOCKS else "streamed"


def _arrays(step: GemmStep, chip: TpuChip, core: Core) -> dict[int, SteppedArray]:
    """The core's arrays with the words that its feeders gave them: number of the array -> array."""
    a, b = _operands(step, core.problem)

    def operands(i: int) -> Parts:
        return [part[i] for part in a], [part[i] for part in b]

    with_work = [number for number, feeder in enumerate(core.feeders) if feeder.pieces]
    return {number: array_of(step, chip, core, number, operands) for number in with_work}


def array_of(
    step: GemmStep, chip: TpuChip, core: Core, number: int, operands: Callable[[int], Parts]
) -> SteppedArray:
    """An array of a core, with the words that its feeder has given it so far.

    `operands` gives those of a batch element, in parts: see :func:`step_matmul`.
    """
    feeder, words = core.feeders[number], dict[int, _Words]()
    tiles = []
    for (block, piece), (load, start) in zip(feeder.pieces, feeder.placed, strict=False):
        batch = core.batch_of[block]
        if batch not in words:
            words[batch] = _Words(step, *operands(batch))
        tiles.append(words[batch].tile(piece, load, start))
    return SteppedArray(
        chip.array, core.problem.lanes, step.dataflow == "os", tiles, step.formats.acc, core.step
    )


def _operands(step: GemmStep, problem: Problem) -> tuple[list[np.ndarray], ...]:
    """Seeded operands of one share, in parts as they enter the multipliers: (batch, m, k), (batch, k, n)."""
    shape: dict[str, Any] = {d: problem.size(d) for d in ("m", "n", "k", "batch")}
    return entering_parts(
        step, *seeded_inputs(Gemm(**shape, dtype=step.op.dtype, rhs_dtype=step.op.rhs_dtype))
    )


def _observe(arrays: dict[int, SteppedArray]) -> list[int]:
    """Run the arrays; return the MACs of each. What they show must agree with what the feeders did."""
    macs = []
    for array in arrays.values():
        seen = array.run(_engine(array))
        assert seen.cycles == array.clocks, "words were in the array longer, or shorter, than they were fed"
        macs.append(seen.macs)
    return macs


def _causes(core: Core, clocks: int) -> dict[str, int]:
    """Cycles of the busiest array by cause; what latency costs is what a prompt memory saves."""
    timing, feeder = core.problem.timing, core.feeders[0]
    waits = dict(core.waits)
    saved = clocks - Core(core.problem, core.plan, ahead=core.ahead, prompt=True).run()
    drained = core.drained(feeder)
    waits["stall_dram"] += clocks - drained
    if not timing.serial:
        waits["stall_onchip"] += drained - feeder.end - timing.drain
    waits["stall_latency"] = min(waits["stall_dram"], saved)
    waits["stall_dram"] -= waits["stall_latency"]
    if timing.serial:
        del waits["wait"]
    else:
        waits["drain" if timing.shift_out else "weight_load"] = waits.pop("wait")
    rounds = len(feeder.pieces) if timing.serial else 1
    for cause, cycles in timing.split_drain().items():
        waits[cause] = waits.get(cause, 0) + rounds * cycles
    return {cause: cycles for cause, cycles in waits.items() if cycles}


def _moved(core: Core, share: Share) -> Bytes:
    """Bytes that the ports of all cores with this share moved."""
    table: dict[str, dict[str, Traffic]] = {}
    for transfer in core.moved:
        place = core.problem.operands[transfer.name].place
        assert place is not None
        amount = Traffic(write=transfer.bytes) if transfer.is_store else Traffic(read=transfer.bytes)
        table = add_bytes(table, {place.level: {transfer.name: amount * share.cores}})
    return table


def _onchip(core: Core, share: Share) -> Bytes:
    """Bytes between on-chip memory, arrays and accumulators, summed tile by tile."""
    problem = core.problem
    elements = dict.fromkeys(("lhs", "rhs", "sums"), 0)
    for feeder in core.feeders:
        for _, piece in feeder.pieces:
            rows, cols, streamed = (stop - start for start, stop in (piece.rows, piece.cols, piece.stream))
            left, top, sums = rows * streamed, rows * cols, cols * streamed
            if problem.dataflow == "os":
                top, sums = cols * streamed, rows * cols if piece.last else 0
            elements[problem.streaming] += left
            elements[problem.stationary] += top
            elements["sums"] += sums
    each = {name: count // problem.batch for name, count in elements.items()}
    results = problem.m * problem.n
    bits = {name: operand.bits for name, operand in problem.operands.items()}

    def size(count: int, name: str) -> int:
        return share.cores * problem.batch * ((count * bits[name] + 7) // 8)

    return {
        "vmem": {
            "lhs": Traffic(read=size(each["lhs"], "lhs")),
            "rhs": Traffic(read=size(each["rhs"], "rhs")),
            "out": Traffic(write=size(results, "out")),
        },
        "acc": {"psum": Traffic(size(each["sums"], "psum"), size(each["sums"], "psum"))},
    }
