"""How the kernels multiply: by themselves, and in two roundings; seen in their source and machine code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import systolic.kernels
from systolic.kernels import output_stationary, stationary, streamed, values
from systolic.kernels.micro import COLS, ROWS, block, count_row, mac_row, shift_row
from tests.kernels import test_output_stationary, test_stationary
from tests.kernels.words import FLOAT, assert_same_bits, floats
from tests.strategies import seeds, sides

SOURCES = sorted(Path(systolic.kernels.__file__).parent.rglob("*.py"))

MATRIX_CALLS = re.compile(
    r"(mat|vec)(mul|vec|mat)|.*dot|inner|outer|einsum.*|linalg|blas|lapack|[sdcz]?gem[mv]|convolve|correlate"
)
"""Names under which NumPy, SciPy and BLAS multiply matrices or vectors."""


def matrix_products(source: str) -> Iterator[str]:
    """Whatever multiplies matrices in a source: operators, and names that libraries give to it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.MatMult):
            yield "@"
        elif isinstance(node, ast.Attribute) and MATRIX_CALLS.fullmatch(node.attr):
            yield node.attr
        elif isinstance(node, ast.Name) and MATRIX_CALLS.fullmatch(node.id):
            yield node.id
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (a.name for a in node.names if MATRIX_CALLS.fullmatch(a.name.rpartition(".")[2]))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_kernel_calls_a_matrix_product(path: Path) -> None:
    assert not list(matrix_products(path.read_text()))


@pytest.mark.parametrize(
    "source",
    ["a @ b", "a @= b", "np.dot(a, b)", "a.dot(b)", "np.einsum('ij,jk', a, b)", "np.linalg.multi_dot(x)",
     "from numpy import matmul", "import scipy.linalg.blas", "np.vecdot(a, b)", "sgemm(1, a, b)"],
)  # fmt: skip
def test_a_matrix_product_would_be_found(source: str) -> None:
    assert list(matrix_products(source))


FUSED = re.compile(r"\b(vfn?m(add|sub)\w*|fn?m(add|sub)|fml[as])\b")
"""Fused multiply-adds of x86 and ARM."""
MULTIPLY = re.compile(r"\b(v?mul[ps]s|fmul)\b")


def run_multiply() -> None:
    a = np.ones((3, 3), np.float32)
    values.chain_sums(a, a, 2, np.zeros_like(a))


def run_rounding() -> None:
    a = np.ones((3, 3), np.float32)
    values.chain_sums_rounding(a, a, 2, 10, np.zeros_like(a))


def run_stationary() -> None:
    stationary.step_stationary(
        **test_stationary.arguments(np.random.default_rng(0), 1, 2, 2, 1, 1, FLOAT, 1.0)
    )


def run_output_stationary() -> None:
    output_stationary.step_output_stationary(
        **test_output_stationary.arguments(np.random.default_rng(0), 1, 2, 2, 1, FLOAT, 1.0)
    )


def run_streamed() -> None:
    # No tile at all: only the types of the arguments count here.
    words, square, none = np.zeros((1, 2, 2), np.float32), np.zeros((2, 2), np.float32), np.zeros(0, np.int64)
    empty = np.zeros((0, 2, 2), np.float32)
    streamed.stream_stationary(words, 1, 1, none, empty, square, words.copy(), words[:, :1].copy())


def run_streamed_output_stationary() -> None:
    words, square, none = np.zeros((1, 2, 2), np.float32), np.zeros((2, 2), np.float32), np.zeros(0, np.int64)
    top = np.zeros((2, 1, 2), np.float32)
    streamed.stream_output_stationary(words, top, 1, 1, none, none, square, np.zeros((0, 2, 2), np.float32))


@pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT or numba.config.BOUNDSCHECK), reason="not the machine code that users run"
)
@pytest.mark.parametrize(
    ("kernel", "run"),
    [
        (values.chain_sums, run_multiply),
        (values.chain_sums_rounding, run_rounding),
        (stationary.step_stationary, run_stationary),
        (output_stationary.step_output_stationary, run_output_stationary),
        (streamed.stream_stationary, run_streamed),
        (streamed.stream_output_stationary, run_streamed_output_stationary),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_machine_code_has_no_fused_multiply_add(kernel: Any, run: Any) -> None:
    run()
    signature = next(s for s in kernel.signatures if "float32" in str(s))
    fresh = numba.njit(nogil=True)(kernel.py_func)  # Numba shows no code that comes from its cache
    fresh.compile(signature)
    code = fresh.inspect_asm(signature)
    assert MULTIPLY.search(code)
    assert not FUSED.search(code)


@pytest.mark.parametrize(
    "line",
    ["vfmadd231ps\t%zmm0, %zmm1, %zmm2", "vfnmadd213ss\t(%rax), %xmm0, %xmm1", "fmla\tv0.4s, v1.4s, v2.s[0]"],
)
def test_a_fused_multiply_add_would_be_found(line: str) -> None:
    assert FUSED.search(line)


# Numba calls an intrinsic in compiled code only.
@numba.njit
def call_mac_row(out: Any, to: int, psum: Any, at: int, a: Any, a_at: int, w: Any, w_at: int, n: int) -> None:
    mac_row(out, to, psum, at, a, a_at, w, w_at, n)


@numba.njit
def call_block(a: Any, i: int, k0: int, k1: int, panel: Any, tile: Any) -> None:
    block(a, i, k0, k1, panel, tile)


@numba.njit
def call_shift_row(words: Any, at: int, n: int, entering: Any) -> None:
    shift_row(words, at, n, entering)


@numba.njit
def call_count_row(words: Any, at: int, others: Any, others_at: int, n: int, flag: int) -> int:
    return count_row(words, at, others, others_at, n, flag)


@given(st.integers(0, 50), st.tuples(*[st.integers(0, 5)] * 4), seeds(), st.sampled_from("fil"))
def test_mac_row_touches_its_words_and_no_other(
    n: int, starts: tuple[int, int, int, int], seed: int, kind: str
) -> None:
    to, at, a_at, w_at = starts
    rng = np.random.default_rng(seed)
    out, psum, a, w = (
        floats(rng, (60,), edges=0.05)
        if kind == "f"
        else rng.integers(-99, 99, 60).astype(f"i{4 + 4 * (kind == 'l')}")
        for _ in range(4)
    )
    want = out.copy()
    with np.errstate(all="ignore"):
        want[to : to + n] = psum[at : at + n] + a[a_at : a_at + n] * w[w_at : w_at + n]
        call_mac_row(out, to, psum, at, a, a_at, w, w_at, n)
    assert_same_bits(out, want)


@given(sides(7), sides(12), st.integers(0, 6), seeds(), st.data())
def test_block_is_a_chain_for_each_of_its_rows(
    m: int, depth: int, i: int, seed: int, data: st.DataObject
) -> None:
    # Rows past the end of `a` repeat its last one.
    rng = np.random.default_rng(seed)
    k0 = data.draw(st.integers(0, depth - 1), "k0")
    k1 = data.draw(st.integers(k0 + 1, depth), "k1")
    a, panel = floats(rng, (m, depth)), floats(rng, (k1 - k0, COLS))
    tile = np.full((ROWS, COLS), 7, np.float32)
    call_block(a, i, k0, k1, panel, tile)
    want = np.zeros_like(tile)
    rows = np.minimum(np.arange(i, i + ROWS), m - 1)
    for k in range(k0, k1):
        want = want + a[rows, k][:, None] * panel[k - k0]
    assert_same_bits(tile, want)


@given(st.integers(1, 200), st.integers(0, 5), seeds(), st.sampled_from((np.float32, np.int64, np.uint8)))
def test_shift_row_moves_its_words_and_no_other(n: int, at: int, seed: int, dtype: Any) -> None:
    words = np.random.default_rng(seed).integers(0, 256, 210).astype(dtype)
    want = words.copy()
    want[at + 1 : at + n] = words[at : at + n - 1]
    want[at] = 7
    call_shift_row(words, at, n, dtype(7))
    assert_same_bits(words, want)


@given(
    st.integers(0, 200),
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    seeds(),
    st.sampled_from((0.5, 1.0)),
    st.sampled_from((1, 2, 8)),
)
def test_count_row_counts_where_both_carry_the_flag(
    n: int, starts: tuple[int, int], seed: int, density: float, flag: int
) -> None:
    rng = np.random.default_rng(seed)
    words, others = (np.where(rng.random(210) < density, 15, 15 - flag).astype(np.uint8) for _ in range(2))
    both = [
        bool(x & flag) and bool(y & flag)
        for x, y in zip(words[starts[0] :], others[starts[1] :], strict=False)
    ]
    assert call_count_row(words, starts[0], others, starts[1], n, flag) == sum(both[:n])
