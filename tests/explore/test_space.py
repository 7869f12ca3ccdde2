"""Axes, grids, samples and the arithmetic of constraints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.errors import SystolicError
from systolic.explore.expressions import Expression
from systolic.explore.space import Axis, Space


def values(given: object) -> list[object]:
    """The values of an axis with one name."""
    return [value for (value,) in Axis.read("batch", given).values]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([1, 5, 3], [1, 5, 3]),
        ({"from": 8, "to": 64, "factor": 2}, [8, 16, 32, 64]),
        ({"from": 8, "to": 63, "factor": 2}, [8, 16, 32]),
        ({"from": 10, "to": 30, "step": 10}, [10, 20, 30]),
        ({"from": 1, "to": 1000, "count": 4}, [1, 10, 100, 1000]),
        ({"from": 0, "to": 10, "count": 3, "scale": "linear"}, [0, 5, 10]),
        ({"from": 1, "to": 3, "count": 9}, [1, 2, 3]),
        ({"from": 0.5, "to": 2.0, "factor": 2}, [0.5, 1.0, 2.0]),
    ],
)
def test_ranges(given: object, expected: list[object]) -> None:
    assert values(given) == expected


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (7, "axes.batch must be a list, or a range such as {from = 1, to = 64, factor = 2}"),
        ([], "axes.batch must hold at least one value, got none"),
        ([1, 2, 1], "axes.batch must hold each value once, got 1 twice"),
        ({"from": 1, "to": 8}, "axes.batch must give one of step, factor and count, got none"),
        ({"from": 9, "to": 8, "step": 1}, "axes.batch.from must be at most its to, 8, got 9"),
        ({"from": 0, "to": 8, "factor": 2}, "axes.batch.from must be > 0 on a log scale, got 0"),
        ({"from": 1, "to": 8, "factor": 1}, "axes.batch.factor must be a number > 1, got 1"),
        ({"from": "x", "to": 8, "step": 1}, "axes.batch.from must be a number, got 'x'"),
    ],
)
def test_wrong_axes_say_what_is_wrong(given: object, text: str) -> None:
    with pytest.raises(SystolicError) as error:
        values(given)
    assert text in str(error.value)


def test_names_of_one_axis_move_together() -> None:
    axis = Axis.read("array.rows, array.cols", [[64, 256], [128, 128]])
    space = Space((axis, Axis.read("batch", [1, 2])))
    points = [point for _, point in space]
    assert points[0] == {"array.rows": 64, "array.cols": 256, "batch": 1}
    assert [p["array.rows"] * p["array.cols"] for p in points] == [16384] * 4


def test_constraints_leave_the_points_for_which_they_hold() -> None:
    axes = (Axis.read("array.rows", [64, 128, 256]), Axis.read("array.cols", [64, 128, 256]))
    space = Space(axes, (Expression.parse("array.rows * array.cols == 16384", "constraint"),))
    assert [tuple(p.values()) for _, p in space] == [(64, 256), (128, 128), (256, 64)]
    assert (space.size, space.count()) == (9, 3)


@given(st.integers(1, 40), st.integers(0, 5))
def test_a_sample_holds_different_points_and_repeats_itself(count: int, seed: int) -> None:
    space = Space((Axis.read("batch", list(range(1, 30))), Axis.read("seq", list(range(1, 30)))))
    drawn = [index for index, _ in space.sample(count, seed)]
    assert len(set(drawn)) == len(drawn) == count
    assert drawn == [index for index, _ in space.sample(count, seed)]


def test_a_million_points_take_no_room() -> None:
    space = Space(tuple(Axis.read(name, list(range(100))) for name in ("m", "n", "k")))
    assert space.size == 10**6
    assert space.at(123_456) == {"m": 12, "n": 34, "k": 56}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b * 2 + 1", 7),
        ("1 < a.b <= 3", True),
        ("a.b == 3 and not a.b > 3 or False", True),
        ("max(a.b, 5) - min(a.b, 5)", 2),
        ("name == 'ws'", True),
        ("-a.b // 2", -2),
        ("log2(8) + sqrt(a.b * 3)", 6.0),
    ],
)
def test_arithmetic(text: str, expected: object) -> None:
    assert Expression.parse(text, "x").value({"a.b": 3, "name": "ws"}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "a.__class__()",
        "[a for a in b]",
        "(lambda: 1)()",
        "a[0]",
        "f'{a}'",
        "a := 3",
        "min(*a)",
        "open('x')",
        "",
        "1 +",
    ],
)
def test_all_else_is_refused(text: str) -> None:
    with pytest.raises(SystolicError, match="constraint must be"):
        Expression.parse(text, "constraint")


def test_a_huge_power_is_refused_not_computed() -> None:
    with pytest.raises(SystolicError, match="cannot be computed"):
        Expression.parse("9 ** 9 ** 9", "x").value({})
