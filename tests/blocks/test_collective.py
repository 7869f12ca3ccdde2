"""Collectives: values, bytes on links, and time, against closed forms and against one another.

Times without contention are the textbook's (Thakur, Rabenseifner, Gropp, IJHPCA 19, 2005): alpha per step
is a link's latency, beta per byte its bandwidth.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.blocks.collective import (
    ALGORITHMS,
    KINDS,
    TREE_SEGMENTS,
    Kind,
    Schedule,
    carry_out,
    least_link_bytes,
    schedule,
    step_collective,
)
from systolic.blocks.network import Network
from systolic.errors import SystolicError

GIGA = 10**9


def network(kind: str, *sides: int, latency: int = 100, rate: int | None = GIGA) -> Network:
    """1 GB/s at 1 GHz: a byte takes a cycle."""
    return Network(
        kind=kind,  # type: ignore[arg-type]
        sides=sides,
        bytes_per_s=rate,
        latency_ns=latency,
        clock_hz=GIGA,
    )


NETWORKS = st.one_of(
    st.builds(network, st.sampled_from(("switch", "full")), st.integers(1, 7)),
    st.lists(st.integers(1, 4), min_size=1, max_size=3).flatmap(
        lambda sides: st.sampled_from(("torus", "mesh")).map(lambda kind: network(kind, *sides))
    ),
)
KIND = st.sampled_from(KINDS)
ALGORITHM = st.sampled_from(("", *ALGORITHMS))


def planned(kind: Kind, net: Network, elements: int, algorithm: str) -> Schedule | None:
    """The schedule, or None where the algorithm does not apply."""
    try:
        return schedule(kind, net, elements, 2, algorithm)
    except SystolicError:
        return None


@given(KIND, NETWORKS, st.integers(0, 60), ALGORITHM, st.integers(0, 2**32 - 1))
def test_values(kind: Kind, net: Network, elements: int, algorithm: str, seed: int) -> None:
    plan = planned(kind, net, elements, algorithm)
    if plan is None:
        return
    before = np.random.default_rng(seed).integers(-99, 99, (net.chips, elements))
    after = carry_out(plan, before, np.add)
    if kind == "all_reduce":
        np.testing.assert_array_equal(after, np.broadcast_to(before.sum(axis=0), before.shape))
    elif kind == "reduce_scatter":
        covered = np.zeros(elements, int)
        for chip, (start, stop) in plan.owned:
            np.testing.assert_array_equal(after[chip, start:stop], before.sum(axis=0)[start:stop])
            covered[start:stop] += 1
        assert (covered == 1).all()
    elif kind == "all_gather":
        whole = np.empty(elements, int)
        for chip, (start, stop) in plan.owned:
            whole[start:stop] = before[chip, start:stop]
        np.testing.assert_array_equal(after, np.broadcast_to(whole, before.shape))


@pytest.mark.parametrize("chips", [1, 2, 5])
def test_all_to_all_transposes_blocks(chips: int) -> None:
    before = np.arange(chips * chips * 3).reshape(chips, chips * 3)
    after = carry_out(schedule("all_to_all", network("full", chips), chips * 3, 4), before, np.add)
    blocks = before.reshape(chips, chips, 3).transpose(1, 0, 2)
    np.testing.assert_array_equal(after, blocks.reshape(chips, chips * 3))


@given(KIND, NETWORKS, st.integers(0, 500), ALGORITHM)
def test_bytes_on_links(kind: Kind, net: Network, elements: int, algorithm: str) -> None:
    plan = planned(kind, net, elements, algorithm)
    if plan is None:
        return
    timing = step_collective(plan, net)
    neighbours = all(len(net.route(m.source, m.target)) == 1 for m in plan.messages)
    if neighbours or kind == "all_to_all":
        assert timing.link_bytes == least_link_bytes(plan, net)
    else:
        assert timing.link_bytes >= least_link_bytes(plan, net)
    assert timing.cycles >= timing.busiest_cycles
    free = step_collective(plan, network(net.kind, *net.sides, latency=0, rate=None))
    assert free.cycles == free.busiest_cycles == 0


@pytest.mark.parametrize("chips", [2, 3, 8])
@pytest.mark.parametrize("kind", ["torus", "switch", "full"])
def test_a_ring_takes_a_step_per_other_chip(kind: str, chips: int) -> None:
    part = 1000
    step = 2 * part + 100
    net = network(kind, chips)
    for steps, what in ((2, "all_reduce"), (1, "reduce_scatter"), (1, "all_gather")):
        timing = step_collective(schedule(what, net, part * chips, 2, "ring"), net)  # type: ignore[arg-type]
        assert timing.cycles == steps * (chips - 1) * step


@pytest.mark.parametrize("side", [3, 4, 8])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_torus_uses_all_its_links_at_once(side: int, dims: int) -> None:
    """Each of 2 x dims parts meets a dimension of its own in each phase; what it carries thins out by
    `side`."""
    if side**dims > 64:
        return
    smallest = 30
    elements = smallest * side**dims * 2 * dims
    net = network("torus", *[side] * dims)
    phases = [(side - 1) * (2 * smallest * side**d + 100) for d in range(dims)]
    assert step_collective(schedule("all_reduce", net, elements, 2), net).cycles == 2 * sum(phases)


@pytest.mark.parametrize("chips", [2, 4, 6])
def test_direct_messages(chips: int) -> None:
    """Over a switch a chip's messages share its port; with a link for each pair they all go at once."""
    part = 500
    for kind, messages in (("switch", chips - 1), ("full", 1)):
        net = network(kind, chips)
        timing = step_collective(schedule("all_reduce", net, part * chips, 2), net)
        assert timing.cycles == 2 * (messages * 2 * part + 100)


@pytest.mark.parametrize(("chips", "depth"), [(3, 1), (7, 2), (15, 3)])
def test_a_tree_goes_up_and_down_segment_by_segment(chips: int, depth: int) -> None:
    segment = 200
    net = network("full", chips)
    timing = step_collective(schedule("all_reduce", net, segment * TREE_SEGMENTS, 2, "tree"), net)
    assert timing.cycles == (TREE_SEGMENTS - 1) * 2 * segment + 2 * depth * (2 * segment + 100)


def test_a_line_is_slower_than_a_ring_and_moves_as_much() -> None:
    ring, line = (network(kind, 8) for kind in ("torus", "mesh"))
    plans = [schedule("all_reduce", net, 8000, 2) for net in (ring, line)]
    fast, slow = (step_collective(plan, net) for plan, net in zip(plans, (ring, line), strict=True))
    assert slow.link_bytes == fast.link_bytes
    assert slow.cycles > fast.cycles


def test_sums_round_in_the_order_of_the_algorithm() -> None:
    """Part 0 of a ring of 3 starts at chip 0 and ends at chip 2: (x0 + x1) + x2; 2^24 swallows a lone 1."""
    net = network("torus", 3)
    big = np.float32(2**24)
    before = np.array([[big, 1, 1], [1, big, 1], [1, 1, big]], np.float32)
    after = carry_out(schedule("all_reduce", net, 3, 4, "ring"), before, np.add)
    # parts 0, 1, 2 are summed from chips 0, 1, 2 on: big + 1 + 1, big + 1 + 1, big + 1 + 1.
    np.testing.assert_array_equal(after, np.full((3, 3), big))
    tree = carry_out(schedule("all_reduce", net, 3, 4, "tree"), before, np.add)
    # The root adds chip 2's, then chip 1's: (x0 + x2) + x1.
    np.testing.assert_array_equal(tree[0], [big, big + 2, big])


def test_refusals() -> None:
    with pytest.raises(SystolicError, match="algorithm torus needs a torus or a mesh, got a switch"):
        schedule("all_reduce", network("switch", 4), 8, 2, "torus")
    with pytest.raises(
        SystolicError, match="algorithm of all_gather must be one of ring, torus, direct, got 'tree'"
    ):
        schedule("all_gather", network("full", 4), 8, 2, "tree")
    with pytest.raises(SystolicError, match="sides must be one number of chips for a switch"):
        network("switch", 2, 2)
