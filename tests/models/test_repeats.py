"""Layers that a program writes out one by one become one set of rows."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from systolic import Gemm
from systolic.models.trace.repeats import fold_repeats, named_apart


def op(name: str, n: int = 4) -> Gemm:
    return Gemm(m=2, n=n, k=3, name=name)


def test_numbers_in_names_tell_layers_apart() -> None:
    ops = [
        op("embed", 9),
        *[op(f"h_{i}.{part}") for i in range(12) for part in ("up", "down")],
        op("head", 7),
    ]
    assert [(g.name, g.count) for g in fold_repeats(ops)] == [
        ("embed", 1),
        ("h_*.up", 12),
        ("h_*.down", 12),
        ("head", 1),
    ]


def test_a_last_layer_without_its_end() -> None:
    ops = [op(f"h_{i}.{part}") for i in range(3) for part in ("up", "down", "next")][:-1]
    assert [(g.name, g.count) for g in fold_repeats(ops)] == [("h_*.up", 3), ("h_*.down", 3), ("h_*.next", 2)]


def test_numbers_that_all_layers_share_stay() -> None:
    assert fold_repeats([op("h_0.w1"), op("h_1.w1")])[0].name == "h_*.w1"
    assert fold_repeats([op("w1"), op("w1")])[0].name == "w1"


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_folding_keeps_every_op(names: list[str]) -> None:
    folded: Counter[str] = Counter()
    for gemm in fold_repeats([op(name) for name in names]):
        folded[gemm.name] += gemm.count
    assert folded == Counter(names)


def test_rows_of_one_name_are_numbered() -> None:
    assert [g.name for g in named_apart([op("a"), op("b"), op("a")])] == ["a #1", "b", "a #2"]
