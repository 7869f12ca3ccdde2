"""The channel of DRAM that jumps from command to command, against a twin that looks at every cycle."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.chips.dram import dram_parts, load_dram_part
from systolic.kernels.dram import COUNTERS, ChannelRules, ChannelTiming, Requests, step_channel

from .plain_dram import PlainChannel, Request


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_stepping_equals_looking_at_every_cycle(data: st.DataObject) -> None:
    part = load_dram_part(data.draw(st.sampled_from(dram_parts())))
    if data.draw(st.booleans()):  # refreshes that come often
        rfc, refi = data.draw(st.integers(20, 90)), data.draw(st.integers(320, 600))
        part = replace(part, timing=replace(part.timing, rfc=rfc, refi=refi))
    one = st.builds(
        Request,
        st.integers(0, data.draw(st.integers(0, part.groups * part.banks - 1))),
        st.integers(0, 2),
        data.draw(st.sampled_from([st.just(False), st.just(True), st.booleans()])),
    )
    requests = data.draw(st.lists(one, min_size=1, max_size=40))
    queue = data.draw(st.sampled_from([1, 2, 5, 32]))
    in_order, closed, refresh = (data.draw(st.booleans()) for _ in range(3))
    want, counted = PlainChannel(part, queue, in_order, closed, refresh).serve(requests)
    rules = ChannelRules(part.groups, part.banks, part.command_buses, queue, in_order, closed, refresh)
    begun, got = np.zeros((2, len(requests)), np.int64)
    counts = np.zeros(COUNTERS, np.int64)
    arrays = Requests(*(np.array(column) for column in zip(*requests, strict=True)))
    step_channel(ChannelTiming(**asdict(part.timing)), rules, arrays, begun, got, counts)
    assert got.tolist() == want
    hits, misses, conflicts, activates, _, refreshes = counts.tolist()
    assert counted == {
        "hits": hits,
        "misses": misses,
        "conflicts": conflicts,
        "activates": activates,
        "refreshes": refreshes,
    }
