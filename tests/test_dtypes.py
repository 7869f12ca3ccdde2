"""Number formats: names, widths, defaults."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic import dtypes
from systolic.errors import SystolicError

from . import strategies

# ml_dtypes and NumPy know these formats; tf32 and fp22 have no such type.
PEERS = {
    "fp32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
    "int32": np.int32,
    "int16": np.int16,
    "int8": np.int8,
    "int4": ml_dtypes.int4,
}


@pytest.mark.parametrize("name", PEERS)
def test_width_and_precision(name: str) -> None:
    ours, peer = dtypes.DTYPES[name], np.dtype(PEERS[name])
    info = ml_dtypes.finfo(peer) if ours.kind == "float" else ml_dtypes.iinfo(peer)
    assert ours.bits == info.bits
    if ours.kind == "float":
        assert ours.precision == info.nmant + 1
        assert ours.unit_roundoff == float(info.eps) / 2
    else:
        assert ours.unit_roundoff == 0


def test_tf32() -> None:
    """NVIDIA A100 whitepaper: the range of fp32, the 10 explicit mantissa bits of fp16; stored in 32 bits."""
    assert (dtypes.DTYPES["tf32"].bits, dtypes.DTYPES["tf32"].precision) == (32, 11)


def test_fp22() -> None:
    """DeepSeek-V3 technical report, 3.3.2: fp8 tensor cores keep around 14 bits; a sum is a 32-bit word."""
    assert (dtypes.DTYPES["fp22"].bits, dtypes.DTYPES["fp22"].precision) == (32, 14)
    assert set(dtypes.DTYPES) - set(dtypes.MULTIPLIED) == {"fp22", "int16", "int32"}


def numbers(name: str) -> np.ndarray:
    """All numbers of a format of at most 16 bits, as float64."""
    peer = np.dtype(PEERS[name])
    if name == "int4":
        return np.arange(-8, 8).astype(np.float64)
    words = np.arange(2 ** (8 * peer.itemsize)).astype(f"u{peer.itemsize}").view(peer)
    with np.errstate(invalid="ignore"):  # signalling NaN
        values = words.astype(np.float64)
    return values[np.isfinite(values)]


@pytest.mark.parametrize("narrow", [n for n in PEERS if dtypes.DTYPES[n].bits <= 16])
def test_a_format_holds_another_when_it_has_all_its_numbers(narrow: str) -> None:
    every = numbers(narrow)
    for wide, peer in PEERS.items():
        if dtypes.DTYPES[wide].kind == "int":
            integers = dtypes.DTYPES[narrow].kind == "int"
            assert dtypes.holds(wide, narrow) == (
                integers and dtypes.DTYPES[wide].bits >= dtypes.DTYPES[narrow].bits
            )
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            there = every.astype(np.float32).astype(peer).astype(np.float64)
        assert dtypes.holds(wide, narrow) == bool((there == every).all()), wide


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("BF16", "bf16"),
        ("bfloat16", "bf16"),
        ("torch.bfloat16", "bf16"),
        ("float32", "fp32"),
        ("f8e4m3fn", "fp8_e4m3"),
        ("s8", "int8"),
        (jnp.bfloat16, "bf16"),
        (jnp.dtype(jnp.bfloat16), "bf16"),
        (jnp.float8_e4m3fn, "fp8_e4m3"),
        (np.float32, "fp32"),
        (np.dtype("int8"), "int8"),
        (jnp.int4, "int4"),
        *((peer, name) for name, peer in PEERS.items()),
    ],
)
def test_names_of_others(given: object, name: str) -> None:
    assert dtypes.canonical(given) == name


def test_canonical_names_stay() -> None:
    assert [dtypes.canonical(name) for name in dtypes.DTYPES] == list(dtypes.DTYPES)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("bf17", "x must be a number format, got 'bf17'; did you mean 'bf16'?"),
        ("float64", "x must be a number format, got 'float64'"),
        # Formats of their own, with other ranges than float8_e4m3fn.
        ("float8_e4m3", "x must be a number format, got 'float8_e4m3'; did you mean 'fp8_e4m3'?"),
        ("float8_e4m3b11fnuz", "x must be a number format, got 'float8_e4m3b11fnuz'"),
        (None, "x must be a number format, got None"),
        (3, "x must be a number format, got 3"),
    ],
)
def test_unknown_names(given: object, line: str) -> None:
    with pytest.raises(SystolicError) as caught:
        dtypes.canonical(given, "x")
    assert str(caught.value).startswith(line)


@given(strategies.scalars())
def test_anything_is_a_format_or_a_plain_error(value: object) -> None:
    try:
        assert dtypes.canonical(value) in dtypes.DTYPES
    except SystolicError as error:
        assert error.problems[0].isprintable()


@given(st.integers(0, 10**18), st.sampled_from(sorted(dtypes.DTYPES)))
def test_bytes_of_packed_elements(elements: int, name: str) -> None:
    bits = elements * dtypes.DTYPES[name].bits
    assert 0 <= 8 * dtypes.bytes_of(elements, name) - bits < 8


def test_default_accumulator_and_result() -> None:
    assert dtypes.accumulator_of("bf16") == dtypes.accumulator_of("int8", "bf16") == "fp32"
    assert dtypes.accumulator_of("int8", "int4") == "int32"
    assert dtypes.output_of("bf16", "int8") == dtypes.output_of("int8", "bf16") == "bf16"
    assert dtypes.output_of("int8", "int8") == "int32"
