"""Quantities as people write and read them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.errors import SystolicError
from systolic.quantity import (
    Dimension,
    count_problem,
    format_bytes,
    format_count,
    format_hz,
    format_rate,
    format_seconds,
    latency_cycles,
    parse_quantity,
    transfer_cycles,
    whole_number,
)

from . import strategies

DIMENSIONS = st.sampled_from(("frequency", "size", "rate", "time"))


# Prefixes: SI brochure (decimal), IEC 80000-13 (binary).
@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("1050 MHz", "frequency", 1_050_000_000),
        ("1.05GHz", "frequency", 1_050_000_000),
        ("1.05e9", "frequency", 1_050_000_000),
        ("  32 kHz ", "frequency", 32_000),
        ("24 MiB", "size", 25_165_824),
        ("24 MB", "size", 24_000_000),
        ("1.5 KiB", "size", 1536),
        ("1_000 B", "size", 1000),
        ("95 GiB", "size", 102_005_473_280),
        ("1200 GB/s", "rate", 1_200_000_000_000),
        ("30 GiB/s", "rate", 32_212_254_720),
        ("0.1 B/s", "rate", None),
        ("484 ns", "time", 484),
        ("0.4 us", "time", 400),
        ("1 s", "time", 1_000_000_000),
        ("0 ns", "time", 0),
        (17, "size", 17),
        (np.int64(17), "size", 17),
        (-17, "size", -17),
    ],
)
def test_parse(text: object, dimension: Dimension, value: int | None) -> None:
    if value is None:
        with pytest.raises(SystolicError, match=r"x must be a whole number of bytes/s, got '0\.1 B/s'"):
            parse_quantity(text, dimension, "x")
        return
    parsed = parse_quantity(text, dimension, "x")
    assert (parsed, type(parsed)) == (value, int)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "MHz", "1 2 MHz", "1,050 MHz", "1 mhz", "1 MHz/s", "1 GB", "1__0 MHz", "1_ MHz", "_1 MHz"),
        *(".5 MHz", "5. MHz", "0x10 MHz", "inf MHz", "nan", "１ MHz", "1e999999999 Hz", "1" * 99, "1\n2"),
    ],
)
def test_text_that_is_no_frequency(text: str) -> None:
    with pytest.raises(SystolicError, match="x must be a frequency in Hz, kHz, MHz, GHz, got '"):
        parse_quantity(text, "frequency", "x")


@pytest.mark.parametrize("value", [1.05e9, float("nan"), True, None, [], {"Hz": 1}, b"1 MHz"])
def test_value_that_is_neither_number_nor_text(value: object) -> None:
    with pytest.raises(SystolicError, match="x must be a frequency, got "):
        parse_quantity(value, "frequency", "x")


def test_bits_are_not_bytes() -> None:
    with pytest.raises(SystolicError, match="must be a rate in B/s, kB/s"):
        parse_quantity("100 Gb/s", "rate", "x")


def test_negative_text() -> None:
    with pytest.raises(SystolicError, match="x must not be negative, got '-4 MiB'"):
        parse_quantity("-4 MiB", "size", "x")


@given(st.integers(0, 10**15), st.sampled_from(("B", "kB", "MB", "GB", "KiB", "MiB", "GiB")))
def test_parse_is_exact(number: int, unit: str) -> None:
    base = 1024 if "i" in unit else 1000
    power = {"B": 0, "k": 1, "K": 1, "M": 2, "G": 3}[unit[0]]
    assert parse_quantity(f"{number} {unit}", "size", "x") == number * base**power


@given(st.text() | strategies.scalars(), DIMENSIONS)
def test_anything_is_a_whole_number_or_a_plain_error(value: object, dimension: Dimension) -> None:
    try:
        assert type(parse_quantity(value, dimension, "x")) is int
    except SystolicError as error:
        assert len(error.problems) == 1


@pytest.mark.parametrize(("value", "number"), [(4, 4), (np.int8(4), 4), (np.uint64(2**63), 2**63), (-1, -1)])
def test_whole_numbers(value: object, number: int) -> None:
    assert whole_number(value) == number
    assert type(whole_number(value)) is int


@pytest.mark.parametrize("value", [True, np.True_, 4.0, np.float64(4), "4", None, Fraction(4), [4]])
def test_what_is_no_whole_number(value: object) -> None:
    assert whole_number(value) is None


def test_count_problem() -> None:
    assert count_problem("x", 1) == count_problem("x", 0, least=0) == count_problem("x", 2**63 - 1) == []
    assert count_problem("x", 0) == ["x must be > 0, got 0"]
    assert count_problem("x", -1, least=0) == ["x must be >= 0, got -1"]
    assert count_problem("x", 4.0) == ["x must be a whole number > 0, got 4.0"]
    assert count_problem("x", 2**63) == ["x must be < 2**63, got a number of 64 bits"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (65_536 / 838e12, "78.21 ps"),  # kekzl/imp issue 1668: printed there as 0.08 us
        (4 * 2**20 / 1.8e12, "2.33 us"),  # the same issue
        (940_000 / 940_000_000, "1 ms"),  # astra-sim issues 148, 208: cycles, clock and seconds together
        (0.0, "0 s"),
        (1.0, "1 s"),
        (12_345.6, "12346 s"),
        (4e-14, "0.04 ps"),
        (-2.5e-6, "-2.5 us"),
    ],
)
def test_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@given(st.floats(-1e30, 1e30))
def test_seconds_show_four_digits_and_never_zero_for_what_is_not(seconds: float) -> None:
    number, unit = format_seconds(seconds).split()
    scale = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12}[unit]
    assert (float(number) == 0) == (seconds == 0)
    assert float(number) == pytest.approx(seconds / scale, rel=5e-4)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (format_bytes(0), "0 B"),
        (format_bytes(1023), "1023 B"),
        (format_bytes(25_165_824), "24 MiB"),
        (format_bytes(95 * 2**30), "95 GiB"),
        (format_bytes(3 * 2**50), "3072 TiB"),
        (format_rate(1_200_000_000_000), "1.2 TB/s"),
        (format_rate(34_000_000_000), "34 GB/s"),
        (format_hz(1_050_000_000), "1.05 GHz"),
        (format_hz(940_000_000), "940 MHz"),
        (format_count(0), "0"),
        (format_count(999), "999"),
        (format_count(124_439_808), "124.4 M"),
    ],
)
def test_other_formats(text: str, shown: str) -> None:
    assert text == shown


@given(st.integers(0, 10**12), st.integers(1, 10**13), st.integers(1, 10**10))
def test_transfer_takes_the_least_whole_cycles_that_suffice(size: int, bandwidth: int, clock: int) -> None:
    """cycles/clock is long enough to move the bytes, one cycle less is not: in exact fractions."""
    cycles = transfer_cycles(size, bandwidth, clock)
    assert Fraction(cycles * bandwidth, clock) >= size
    assert cycles == 0 or Fraction((cycles - 1) * bandwidth, clock) < size


def test_transfer_beyond_the_precision_of_floats() -> None:
    """2**53 + 1 bytes at one byte per cycle: a float would lose the last one."""
    assert transfer_cycles(2**53 + 1, 10**9, 10**9) == 2**53 + 1


def test_unlimited_bandwidth_takes_no_time() -> None:
    assert transfer_cycles(10**30, None, 10**9) == 0


@given(st.integers(0, 10**9), st.integers(1, 10**10))
def test_latency_rounds_up(nanoseconds: int, clock: int) -> None:
    cycles = latency_cycles(nanoseconds, clock)
    assert Fraction(cycles, clock) >= Fraction(nanoseconds, 10**9)
    assert cycles == 0 or Fraction(cycles - 1, clock) < Fraction(nanoseconds, 10**9)
