"""DRAM, stepped command by command: channels, bank groups, banks, rows, refresh.

Channels do not know one another: each serves its requests as its own scheduler likes, with all of them there
from the start. So a run shows what a stream of transfers costs the memory, not what waits for data. Not
modelled: several ranks or layers on one bus, the command bus that two pseudo channels of HBM share, refresh
of single banks, power-down.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

import numpy as np

from ..chips.dram import DramPart
from ..errors import raise_if_any, shown
from ..quantity import count_problem

FIELDS = ("row", "bank", "column", "group", "channel")
"""Parts of an address above the line, from the digit that changes last to the one that changes first:
neighbours in memory spread over channels, then over bank groups, since one group alone cannot fill the bus of
a channel, and stay in rows that are open."""

_GOLDEN = 0x9E3779B1  # 2**32 over the golden ratio


class Located(NamedTuple):
    """Where accesses go: channel, bank of the channel (all groups), row and column, int64 arrays."""

    channel: np.ndarray
    bank: np.ndarray
    row: np.ndarray
    column: np.ndarray


@dataclass(frozen=True, eq=False)
class DramRun:
    """What a run of the DRAM did.

    Attributes
    ----------
    begun, done
        Cycle of the part's clock at which the data of each request begins, and has passed the bus.
    read_bytes, write_bytes
        Data moved, whole accesses.
    hits, misses, conflicts
        Requests that found their row open, their bank closed, another row open; their sum is all requests.
    activates, precharges, refreshes
        Commands of all channels.
    """

    begun: np.ndarray
    done: np.ndarray
    read_bytes: int
    write_bytes: int
    hits: int
    misses: int
    conflicts: int
    activates: int
    precharges: int
    refreshes: int

    @property
    def cycles(self) -> int:
        """Cycles until all data have passed, of the part's clock."""
        return int(self.done.max(initial=0))

    @property
    def data_cycles(self) -> int:
        """Cycles from the first data to the last: what a transfer costs where another runs before it."""
        return self.cycles - int(self.begun.min(initial=self.cycles))


@dataclass(frozen=True, kw_only=True)
class Dram:
    """The DRAM of a chip: `channels` channels of one part, and how they are used.

    Attributes
    ----------
    part, channels
        Which part; how many of its channels.
    line_accesses
        Accesses that follow one another in a row before another part of the address changes. Four, since
        opening rows for fewer would take longer than their data.
    order
        Permutation of :data:`FIELDS`: the address of a line as a number with these digits.
    skewed
        Turn each channel, bank and bank group on by the digits above it, so that steps by a power of two do
        not meet the same ones: what address hashing does in real controllers, whose functions are not
        published.
    page
        ``open``: a row stays open until another is needed. ``closed``: it closes behind each access.
    scheduler
        ``fr-fcfs``: what can go first goes first, hits before others, then the older (Rixner et al., ISCA
        2000). ``in-order``: data keep the order of requests; rows are opened ahead.
    queue
        Requests of a channel that its scheduler sees.
    refresh
        Whether rows are refreshed, all banks of a channel at once.
    """

    part: DramPart
    channels: int
    line_accesses: int = 4
    order: tuple[str, ...] = FIELDS
    skewed: bool = True
    page: Literal["open", "closed"] = "open"
    scheduler: Literal["fr-fcfs", "in-order"] = "fr-fcfs"
    queue: int = 32
    refresh: bool = True

    def __post_init__(self) -> None:
        lines = count_problem("channels", self.channels) + count_problem("queue", self.queue)
        if sorted(self.order) != sorted(FIELDS):
            lines.append(f"order must hold each of {', '.join(FIELDS)} once, got {shown(self.order)}")
        if self.page not in ("open", "closed"):
            lines.append(f"page must be open or closed, got {shown(self.page)}")
        if self.scheduler not in ("fr-fcfs", "in-order"):
            lines.append(f"scheduler must be fr-fcfs or in-order, got {shown(self.scheduler)}")
        raise_if_any(lines)

    @property
    def bytes(self) -> int:
        """Capacity."""
        return self.channels * self.part.channel_bytes

    @property
    def peak_bytes_per_s(self) -> int:
        """All channels at the rate of one access after the other, no refresh."""
        return self.channels * self.part.channel_bytes_per_s

    def locate(self, addresses: np.ndarray) -> Located:
        """Where the accesses that hold these byte addresses go; beyond the capacity rows repeat.

        The mapping of accesses to (channel, bank, row, column) is one to one.
        """
        line = min(self.line_accesses, self.part.columns)
        sizes = {
            "row": self.part.rows,
            "bank": self.part.banks,
            "column": -(-self.part.columns // line),
            "channel": self.channels,
            "group": self.part.groups,
        }
        rest, within = np.divmod(addresses.astype(np.int64) // self.part.access_bytes, line)
        digits: dict[str, np.ndarray] = {}
        for name in reversed(self.order):
            rest, digits[name] = np.divmod(rest, sizes[name])
            if self.skewed and name in ("channel", "bank", "group"):
                digits[name] = (digits[name] + _turn(rest, sizes[name])) % sizes[name]
        bank = digits["group"] * self.part.banks + digits["bank"]
        return Located(digits["channel"], bank, digits["row"], digits["column"] * line + within)

    def run(self, addresses: np.ndarray, writes: np.ndarray | bool = False) -> DramRun:
        """Serve one access for each byte address, all there at cycle 0, the first being the oldest.

        Parameters
        ----------
        addresses
            Byte addresses, integers >= 0.
        writes
            Whether each writes.
        """
        # The compiled loop is loaded when DRAM is first stepped, since nothing else on this path needs it.
        from ..kernels.dram import COUNTERS, ChannelRules, ChannelTiming, Requests, step_channel

        timing = ChannelTiming(**asdict(self.part.timing))
        rules = ChannelRules(
            self.part.groups,
            self.part.banks,
            self.part.command_buses,
            self.queue,
            self.scheduler == "in-order",
            self.page == "closed",
            self.refresh,
        )
        where = self.locate(addresses)
        write = np.broadcast_to(np.asarray(writes, bool), where.row.shape)
        begun, done = np.zeros((2, len(where.row)), np.int64)
        counts = np.zeros(COUNTERS, np.int64)
        by_channel = np.argsort(where.channel, kind="stable")
        ends = np.cumsum(np.bincount(where.channel, minlength=self.channels))
        for mine in np.split(by_channel, ends[:-1]):
            first, last = np.zeros((2, len(mine)), np.int64)
            requests = Requests(where.bank[mine], where.row[mine], write[mine])
            step_channel(timing, rules, requests, first, last, counts)
            begun[mine], done[mine] = first, last
        written = int(write.sum()) * self.part.access_bytes
        read = len(write) * self.part.access_bytes - written
        return DramRun(begun, done, read, written, *(int(count) for count in counts))


def _turn(digits_above: np.ndarray, size: int) -> np.ndarray:
    """How far to turn a digit of `size` values: multiples of the golden ratio, in 32 bits behind the point.

    The multiples of any step are spread evenly over the circle (Knuth, The Art of Computer Programming 3,
    section 6.4, multiplicative hashing).
    """
    fraction = (digits_above * _GOLDEN) & 0xFFFFFFFF
    return fraction * size >> 32
