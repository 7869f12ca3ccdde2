"""Errors that a user can cause."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.errors import SystolicError, did_you_mean, raise_if_any, shown


def test_one_line_per_mistake() -> None:
    error = SystolicError("a must be > 0, got 0", "b must be given")
    assert error.problems == ("a must be > 0, got 0", "b must be given")
    assert str(error) == "a must be > 0, got 0\nb must be given"
    assert isinstance(error, ValueError)


def test_it_can_be_copied_and_sent_to_another_process() -> None:
    error = SystolicError("one", "two")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert again.problems == error.problems


def test_no_error_without_a_line() -> None:
    with pytest.raises(AssertionError):
        SystolicError()


def test_raise_if_any() -> None:
    raise_if_any([])
    with pytest.raises(SystolicError) as caught:
        raise_if_any(["one", "two"])
    assert caught.value.problems == ("one", "two")


def test_suggestion() -> None:
    assert did_you_mean("bf17", ("fp32", "bf16", "int8")) == "; did you mean 'bf16'?"
    assert did_you_mean("quux", ("fp32", "bf16")) == "; known: bf16, fp32"


@given(st.text())
def test_quoted_value_fits_one_line(text: str) -> None:
    assert len(shown(text)) <= 80
    assert shown(text).isprintable()
    assert len(text) > 10 or shown(text) == repr(text)


def test_quoted_value_that_has_no_text() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "a huge list"
    assert shown(10**5000) == "a huge int"
    while deep:  # so that freeing it does not recurse
        deep = deep.pop()  # type: ignore[assignment]
