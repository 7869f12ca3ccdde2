"""The columns of the arrays that the stepped SMs work on; all of them hold int64."""

from __future__ import annotations

from typing import Any

(MATH, SHARED, LOAD, STORE, COPY, COMMIT, WAIT_COPY, BARRIER, ASYNC_MATH, COMMIT_MATH, WAIT_MATH) = range(11)
(BULK, WAIT_FULL, RELEASE, WAIT_EMPTY, LOOP, EXIT, UNLESS_LAST, SIGNAL, AWAIT, LOOP_TILES, WAIT_STORED) = (
    range(11, 22)
)
"""Instructions, in the column `OP` of a program. `SIGNAL` says that a tile's sums are complete, `AWAIT`
waits for that, `LOOP_TILES` goes on to the next tile, `WAIT_STORED` waits until the tile before the last is
stored."""

(OP, PIPE, BUSY, LATENCY, DST, SRC0, SRC1, SRC2, ARG, ACCESS) = range(10)
COLUMNS = 10
"""Columns of a program. `BUSY` and `LATENCY` in cycles; `DST` and `SRC` registers, -1 for none. `ARG` is the
target of a loop, and of a jump over what only the last trip of each `PERIOD` does; the cycles of a shared
access without conflicts; the groups that a wait leaves; the cycles for which asynchronous math reads shared
memory; whether a bulk copy completes its stage; how many warps meet at a barrier, 0 for all that live; the
trips by which a release lags."""

VECTOR, SPECIAL, TENSOR, ADDRESS, PIPES = range(5)
"""Pipes of a sub-core, and how many."""

(OPERAND, WIDTH, LANES, FIRST, STRIDE, LEAD, CACHED, SHARED_CYCLES) = range(8)
ACCESS_COLUMNS = 8
"""Columns of an access: operand; bytes of a lane (bulk copies: of a row); lanes (rows); index of the first
lane's offset; bytes from trip to trip; trips that it runs ahead of the loop, beyond whose end it moves
nothing; whether L1 keeps it; cycles of shared memory."""

(SELECTED, NOT_SELECTED, FIXED, LONG, SHORT, MATH_BUSY, MIO, LG, GMMA, SYNC, NOTHING, DRAINING) = range(12)
REASONS = 12
"""What a warp does in a cycle, in the order of ``metrics.STALLS``."""

(ISSUED, REQUESTS, SECTORS, SHARED_REQUESTS, CONFLICTS, L1_LOOKUPS, L1_HITS, L2_LOOKUPS, L2_HITS) = range(9)
ELIGIBLE, WARP_CYCLES, EVENTS = 9, 10, 11
"""Counters, and how many."""

STALL, COUNT, READ = 0, REASONS, REASONS + EVENTS
"""Where stalls, counters, and the DRAM bytes of each operand (read, written) begin in a tally."""

(SUB_CORES, POLICY, SECTOR, LINE, L1_SETS, L1_WAYS, L1_LATENCY, L2_SETS, L2_WAYS, L2_LATENCY) = range(10)
(DRAM_LATENCY, PORT_MILLI, L2_MILLI, DRAM_MILLI, QUEUE, STAGES, STEPPED_L2, LAUNCH, WRITE_BACK) = range(
    10, 19
)
CONSUMERS, HELD, PERIOD, STORERS, SETTINGS = range(19, 24)
"""Settings: sectors of `SECTOR` bytes, `LINE` of them in a line; cycles of latency; thousandths of a cycle
per sector at the port of an SM, in L2, in DRAM; cycles of work that may wait in a queue; stages of a
pipeline; whether L2 is stepped; cycles until a block starts; thousandths of the stores that reach DRAM;
warps that release a stage; blocks that an SM holds; trips of one tile, where a block works on several;
warps that store a tile."""

LRR, GTO, GTY = range(3)
"""Policies of a scheduler: in turn; the last one again, else the oldest; the last one again, else the
youngest."""

MILLI = 1000
NEVER, AT_BARRIER = 1 << 60, 1 << 61
"""Times that do not come by themselves: until another warp signals, until all have come to a barrier."""

REGISTERS = 64
GROUPS = 8
MOST_STAGES = 12
"""Names that a warp's scoreboard knows; groups of asynchronous work that it may have on the way; stages."""

PC, TRIP, WAKE, REASON, SINCE, SLOT, PENDING, OPENED, GROUP = 0, 1, 2, 3, 4, 5, 6, 8, 11
READY = GROUP + 2 * GROUPS
WHY = READY + REGISTERS
WARP_COLUMNS = WHY + REGISTERS
"""Columns of a warp: instruction; trip; when to look at it again; what it does until then, and since when;
its slot; `PENDING` groups of copies and of matmuls; `OPENED` ends of what is in no group yet (copies,
matmuls, bulk copies); `GROUP` ends of groups; when a register is there, and what for it waits until
then."""

BLOCK, ALIVE, ARRIVED, SUMMED, STORED, FULL_TRIP = range(6)
FULL_AT = FULL_TRIP + MOST_STAGES
RELEASED = FULL_AT + MOST_STAGES
SLOT_COLUMNS = RELEASED + MOST_STAGES
"""Columns of a slot: its block; warps that live; warps at the barrier; tiles whose sums are complete; how
often a warp has stored its part of one; and of each stage the trip that fills it, when it is full, how
often it was released."""

LAST, LENGTH, NEXT, SM, AGE = PIPES, PIPES + 1, PIPES + 2, PIPES + 3, PIPES + 4
"""Columns of a scheduler, behind those that say when its pipes are free: the warp that issued last; how many
warps it has; when one of them can wake; its SM; its warps by age."""

MIO_FREE, PORT_FREE, SM_COLUMNS = range(3)
"""When the shared memory and the port of an SM are free, the latter in thousandths of a cycle."""

EVENT_WARP, EVENT_BLOCK, EVENT_PC, EVENT_REASON, EVENT_FROM, EVENT_UNTIL, EVENT_COLUMNS = range(7)
"""Columns of an event: a warp's place on the SMs, its block, the instruction that it issues or waits to
issue, what it does, and in which cycles."""

L2_FREE, DRAM_FREE, TICK, OWED = range(4)
"""Of the chip: its queues, in thousandths of a cycle; accesses to its caches; what is owed to each operand's
share of hits and of stores."""

TAG, VALID, DIRTY, USED, PLANES = range(5)
"""Planes of the caches: line; sectors that are there; that are newer than DRAM; when last used."""

BARE: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
"""How these kernels are compiled: without reference counts. A count is an atomic addition, a call made two
for each of its arrays, and together they took half of the time. So all arrays are made by whoever calls."""
