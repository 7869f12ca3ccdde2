"""The plain twin of the DRAM channel: it looks at every cycle, and judges each command by all before it.

The rules are a table of least distances, as a data sheet has them; nothing is kept but the list of commands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from systolic.chips.dram import DramPart


class Request(NamedTuple):
    """An access: bank of the channel (all groups), row, whether it writes."""

    bank: int
    row: int
    write: bool


class Command(NamedTuple):
    """What was issued: when, what, to which bank. A precharge behind an access takes no place on the bus."""

    time: int
    what: str
    bank: int
    on_bus: bool = True


Rule = tuple[str, str, str, int]
"""Command before, command after, where both must be for the rule to hold, least distance."""


def rules_of(part: DramPart) -> list[Rule]:
    """The distances of a part."""
    t = part.timing
    written = t.cwl + t.burst
    return [
        ("ACT", "RD", "bank", t.rcd_read),
        ("ACT", "WR", "bank", t.rcd_write),
        ("ACT", "PRE", "bank", t.ras),
        ("ACT", "ACT", "bank", t.rc),
        ("ACT", "ACT", "group", t.rrd_l),
        ("ACT", "ACT", "channel", t.rrd_s),
        ("PRE", "ACT", "bank", t.rp),
        ("RD", "RD", "group", t.ccd_l),
        ("RD", "RD", "channel", max(t.ccd_s, t.burst)),
        ("WR", "WR", "group", t.ccd_l),
        ("WR", "WR", "channel", max(t.ccd_s, t.burst)),
        ("RD", "WR", "channel", t.cl + t.burst + t.write_turnaround - t.cwl),
        ("WR", "RD", "group", written + t.wtr_l),
        ("WR", "RD", "channel", written + t.wtr_s),
        ("RD", "PRE", "bank", t.rtp),
        ("WR", "PRE", "bank", written + t.wr),
        ("ACT", "REF", "channel", t.rc),
        ("PRE", "REF", "channel", t.rp),
        ("REF", "ACT", "channel", t.rfc),
        ("REF", "REF", "channel", t.rfc),
    ]


@dataclass
class PlainChannel:
    """One channel; `serve` is the whole of it."""

    part: DramPart
    queue: int
    in_order: bool = False
    closed: bool = False
    refresh: bool = True
    log: list[Command] = field(default_factory=list)
    open_rows: dict[int, int] = field(default_factory=dict)

    def serve(self, requests: list[Request]) -> tuple[list[int], dict[str, int]]:
        """When the data of each request have passed, and how many were hits, misses and conflicts."""
        part, timing = self.part, self.part.timing
        waiting = list(range(min(self.queue, len(requests))))
        done, help_of = [0] * len(requests), dict.fromkeys(range(len(requests)), "hits")
        time, due = 0, timing.refi
        while waiting:
            if self.refresh and time >= due:
                due += timing.refi * self._refresh(time)
                time += 1
                continue
            while (issued := self._first_ready(requests, waiting, time)) is not None:
                at, what = issued
                request = requests[at]
                self.log.append(Command(time, what, request.bank))
                if what == "ACT":
                    self.open_rows[request.bank] = request.row
                    if help_of[at] == "hits":
                        help_of[at] = "misses"
                elif what == "PRE":
                    del self.open_rows[request.bank]
                    help_of[at] = "conflicts"
                else:
                    latency = timing.cwl if request.write else timing.cl
                    done[at] = time + latency + timing.burst
                    waiting.remove(at)
                    following = len(requests) - len([r for r in range(len(requests)) if not done[r]])
                    newest = following + len(waiting)
                    if newest < len(requests):
                        waiting.append(newest)
                    if self.closed:
                        self._close_behind(request.bank, time)
            time += 1
        counts = {name: list(help_of.values()).count(name) for name in ("hits", "misses", "conflicts")}
        counts["activates"] = sum(c.what == "ACT" for c in self.log)
        counts["refreshes"] = sum(c.what == "REF" for c in self.log)
        assert part.groups * part.banks > max(r.bank for r in requests)
        return done, counts

    def _first_ready(self, requests: list[Request], waiting: list[int], time: int) -> tuple[int, str] | None:
        """What a scheduler that prefers ready accesses, then age, issues now."""
        row_command = None
        for place, at in enumerate(waiting):
            request = requests[at]
            older = [requests[other] for other in waiting[:place]]
            open_row = self.open_rows.get(request.bank)
            if open_row == request.row:
                may_pass = place == 0 or not self.in_order
                what = "WR" if request.write else "RD"
                if may_pass and self._legal(what, request.bank, time):
                    return at, what
                continue
            if row_command or any(other.bank == request.bank for other in older):
                continue
            what = "ACT" if open_row is None else "PRE"
            wanted = any(requests[o].bank == request.bank and requests[o].row == open_row for o in waiting)
            if what == "PRE" and wanted and not self.in_order:
                continue
            if self._legal(what, request.bank, time):
                row_command = at, what
        return row_command

    def _legal(self, what: str, bank: int, time: int) -> bool:
        return self._bus_free(what, time) and self._apart(what, bank, time)

    def _apart(self, what: str, bank: int, time: int) -> bool:
        group = bank // self.part.banks
        for before, after, scope, distance in rules_of(self.part):
            if after != what:
                continue
            for command in self.log:
                if command.what != before or command.time + distance <= time:
                    continue
                near = {"bank": command.bank == bank, "group": command.bank // self.part.banks == group}
                if before == "REF" or after == "REF" or near.get(scope, True):
                    return False
        recent = [c for c in self.log if c.what == "ACT" and c.time > time - self.part.timing.faw]
        return what != "ACT" or len(recent) < 4

    def _bus_free(self, what: str, time: int) -> bool:
        column = {"RD", "WR"}
        for command in self.log:
            slots = self.part.timing.activate_slots if command.what == "ACT" else 1
            same_bus = self.part.command_buses == 1 or (what in column) == (command.what in column)
            if command.on_bus and same_bus and command.time <= time < command.time + slots:
                return False
        return True

    def _close_behind(self, bank: int, time: int) -> None:
        del self.open_rows[bank]
        while not self._apart("PRE", bank, time):
            time += 1
        self.log.append(Command(time, "PRE", bank, on_bus=False))

    def _refresh(self, time: int) -> bool:
        """Close all rows, then refresh; True when the refresh goes out."""
        if self.open_rows:
            if self._bus_free("PRE", time) and all(self._apart("PRE", b, time) for b in self.open_rows):
                self.log += [Command(time, "PRE", b) for b in self.open_rows]
                self.open_rows.clear()
            return False
        if self._bus_free("REF", time) and self._apart("REF", -1, time):
            self.log.append(Command(time, "REF", -1))
            return True
        return False
