"""Out-of-order cores: by hand, against their own bounds, and against LLVM's machine code analyser."""

from __future__ import annotations

import re
import subprocess
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic.blocks.assembly import read_loop
from systolic.blocks.core import run_loop
from systolic.chips.core import cores, load_core
from systolic.errors import SystolicError

MCA = {"haswell": "haswell", "skylake-sp": "skylake-avx512", "ice-lake": "icelake-server", "zen-3": "znver3"}
"""Core of the catalogue -> what llvm-mca calls it."""
ROUNDS = 256
LOOP = "decq %rcx\njne .L1"


def cycles(text: str, core: str) -> Fraction:
    return run_loop(read_loop(text), load_core(core)).cycles


def analysed(text: str, core: str) -> float:
    """Cycles per iteration by llvm-mca."""
    done = subprocess.run(
        ["llvm-mca", f"-mcpu={MCA[core]}", f"-iterations={ROUNDS}", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    assert found is not None
    return int(found[1]) / ROUNDS


def lines(*parts: str) -> str:
    return "\n".join(parts)


CHAIN = lines("vmovss (%rsi), %xmm1", "vmulss (%rdi), %xmm1, %xmm1", "vaddss %xmm1, %xmm0, %xmm0", LOOP)
FMA_CHAIN = lines("vfmadd231ss (%rsi), %xmm1, %xmm0", "addq $4, %rsi", "cmpq %rsi, %rdx", "jne .L1")
MULTIPLIES = lines(*(f"vmulps %ymm12, %ymm13, %ymm{i}" for i in range(8)), LOOP)
ADDS = lines(*(f"vaddps %ymm12, %ymm{i}, %ymm{i}" for i in range(8)), LOOP)
LOADS = lines(*(f"vmovups {32 * i}(%rsi), %ymm{i}" for i in range(6)), "addq $192, %rsi")
MIXED = lines(
    *(f"addq $1, %r{i}" for i in (8, 9, 10)),
    *("vmovups (%rsi), %ymm5", "vmovups 32(%rsi), %ymm6", "vmovups %ymm5, (%rdi)"),
    *("vaddps %ymm1, %ymm2, %ymm3", "vmulps %ymm1, %ymm2, %ymm4"),
)

MIXED_LOADS = lines(*(part for part in MIXED.split("\n") if "(%rdi)" not in part), "addq $1, %r11")
"""Of more µops than ports or latencies would need time for; on Zen 3 LLVM counts a store among the loads."""


@pytest.mark.parametrize(
    ("text", "core", "expected"),
    [
        (FMA_CHAIN, "haswell", 5),  # one sum: each multiply-add waits for the last, 5 cycles
        (FMA_CHAIN, "skylake-sp", 4),
        (MULTIPLIES, "ice-lake", 4),  # eight on two ports
        (ADDS, "haswell", 8),  # eight on its one adder
        (ADDS, "zen-3", 4),
        (lines(*(f"vfmadd231ps %ymm1, %ymm2, %ymm{i}" for i in range(3, 15)), LOOP), "skylake-sp", 6),
        (lines(*(f"vfmadd231ps %zmm1, %zmm2, %zmm{i}" for i in range(3, 15)), LOOP), "skylake-sp", 6),
        (lines("vmovups %ymm1, (%rdi)", "vmovups %ymm2, 32(%rdi)"), "haswell", 2),  # one store a cycle
        (lines("vmovups %ymm1, (%rdi)", "vmovups %ymm2, 32(%rdi)"), "ice-lake", 1),  # two
    ],
)  # fmt: skip
def test_counted_by_hand(text: str, core: str, expected: int) -> None:
    assert cycles(text, core) == expected


def test_what_bounds_a_loop() -> None:
    core = load_core("haswell")
    found = {
        name: run_loop(read_loop(text), core) for name, text in (("c", CHAIN), ("a", ADDS), ("m", MIXED))
    }
    assert [timing.bound_by for timing in found.values()] == ["latency", "ports", "front_end"]
    assert found["c"].bounds["latency"] == 3
    assert found["a"].bounds["ports"] == found["a"].ports["p1"] == 8
    assert found["m"].bounds["front_end"] == Fraction(9, 4)
    assert found["m"].cycles >= Fraction(9, 4)


def test_a_window_hides_latency_only_as_far_as_it_reaches() -> None:
    """A chain of 5 beside independent work: what a small window serialises, a large one overlaps."""
    from dataclasses import replace

    text = lines(*["vmulps %ymm1, %ymm1, %ymm1"] * 3, *(f"vmulps %ymm2, %ymm3, %ymm{i}" for i in range(4, 9)))
    core = load_core("haswell")
    wide, narrow = (run_loop(read_loop(text), c) for c in (core, replace(core, window=4)))
    assert wide.cycles == 15
    assert narrow.cycles > wide.cycles
    assert narrow.stalls["window"] > 0


REGISTERS = [f"%ymm{i}" for i in range(10)]
GENERAL = [f"%r{i}" for i in range(8, 13)]
vector, general = st.sampled_from(REGISTERS), st.sampled_from(GENERAL)
memory = st.integers(0, 7).map(lambda at: f"{32 * at}(%rsi)")


def written(mnemonic: str, *operands: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*operands).map(lambda names: f"{mnemonic} {', '.join(names)}")


arithmetic = [written(name, vector, vector, vector) for name in ("vaddps", "vmulps")]
integers = [written("addq", general, general), written("movq", memory, general)]
loads = [written("vmovups", memory, vector), written("vbroadcastss", memory, vector)]
multiply_adds, stores = written("vfmadd231ps", vector, vector, vector), written("vmovups", vector, memory)


def bodies(*more: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    each = st.one_of(*arithmetic, *integers, *loads, *more)
    return st.lists(each, min_size=1, max_size=16).map(lambda body: lines(*body, LOOP))


@given(bodies(multiply_adds, stores), st.sampled_from(cores()))
@settings(deadline=None, max_examples=60)
def test_no_loop_beats_its_bounds_and_all_is_counted(text: str, name: str) -> None:
    core = load_core(name)
    found = run_loop(read_loop(text), core, iterations=64)
    # Half of an odd remainder may lie in the other half of the run.
    assert found.cycles >= max(found.bounds.values()) - Fraction(1, 8)
    assert sum(found.ports.values()) == found.uops
    assert set(found.ports) <= set(core.ports)


@pytest.mark.tool("llvm-mca")
@pytest.mark.parametrize("core", MCA)
def test_as_llvm_mca(core: str) -> None:
    """At least one loop each that latency, ports and the front end bound."""
    wide = MIXED_LOADS if core == "zen-3" else MIXED
    bound = {run_loop(read_loop(text), load_core(core)).bound_by for text in (CHAIN, ADDS, wide)}
    assert bound == {"latency", "ports", "front_end"}
    for text in (CHAIN, FMA_CHAIN, MULTIPLIES, ADDS, LOADS, wide):
        assert float(cycles(text, core)) == pytest.approx(analysed(text, core), rel=0.10), text


@pytest.mark.tool("llvm-mca")
@given(st.data())
@settings(deadline=None, max_examples=25)
def test_random_loops_as_llvm_mca(data: st.DataObject) -> None:
    """Left out: multiply-adds and stores on Zen 3, where LLVM's model says less than AMD's guide.

    Few loops of loads and stores, which LLVM lays on ports in another order, are off by up to a quarter.
    """
    core = data.draw(st.sampled_from(sorted(MCA)))
    text = data.draw(bodies() if core == "zen-3" else bodies(multiply_adds, stores))
    assert float(cycles(text, core)) == pytest.approx(analysed(text, core), rel=0.25)


@pytest.mark.tool("llvm-mca")
@given(
    st.permutations([*MIXED_LOADS.split("\n"), "vaddps %ymm3, %ymm4, %ymm1", "vmulps %ymm1, %ymm5, %ymm2"])
)
@settings(deadline=None, max_examples=15)
def test_order_and_dependencies_change_both_alike(body: list[str]) -> None:
    text = lines(*body, LOOP)
    for core in ("haswell", "skylake-sp", "zen-3"):
        assert float(cycles(text, core)) == pytest.approx(analysed(text, core), rel=0.10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "addq $1, %rax\nvdivps %ymm0, %ymm1, %ymm2",
            "line 2: 'vdivps %ymm0, %ymm1, %ymm2' is no instruction",
        ),
        ("addq $1, (%rax)", "line 1: 'addq .*' computes in memory; load, compute and store instead"),
        ("# nothing\n.L1:", "a loop must hold at least one instruction, got none"),
    ],
)
def test_what_is_not_known_is_refused(text: str, message: str) -> None:
    with pytest.raises(SystolicError, match=re.escape(message).replace(r"\.\*", ".*")):
        read_loop(text)


def test_cores_that_there_are_not_are_refused() -> None:
    with pytest.raises(SystolicError, match="core 'haswel' is not in the catalogue; did you mean 'haswell'"):
        load_core("haswel")
    with pytest.raises(SystolicError, match="haswell has no registers of 512 bits; take at most 256"):
        cycles("vaddps %zmm1, %zmm2, %zmm3", "haswell")
