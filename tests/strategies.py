"""All Hypothesis strategies, kept small, so that a failure reads easily."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from systolic.chips.tpu import CONVENTIONS, DATAFLOWS, Array, Memory, Policy, TpuChip, Vector
from systolic.models.architecture import Attention, Head, Layers, Mlp, Model, Stack, Tokens
from systolic.workload import RHS_KINDS, Gemm

MATRIX_DTYPES = ("bf16", "fp32", "int8")


def sides(largest: int = 9) -> st.SearchStrategy[int]:
    """One side of a matrix or an array, elements."""
    return st.integers(1, largest)


def shapes(largest: int = 9) -> st.SearchStrategy[tuple[int, int, int]]:
    """(m, n, k) of one matmul."""
    return st.tuples(sides(largest), sides(largest), sides(largest))


def seeds() -> st.SearchStrategy[int]:
    """Seed of ``numpy.random.default_rng``: a matrix drawn by NumPy has nothing but its shape to shrink."""
    return st.integers(0, 2**32 - 1)


@st.composite
def operands(draw: st.DrawFn, dtype: str | None = None, largest: int = 9) -> tuple[np.ndarray, np.ndarray]:
    """(lhs, rhs) of shapes (m, k) and (k, n): int8 over its whole range, or N(0, 1) as float32."""
    m, n, k = draw(shapes(largest))
    rng = np.random.default_rng(draw(seeds()))
    chosen = draw(st.sampled_from(MATRIX_DTYPES)) if dtype is None else dtype
    if chosen == "int8":
        return rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (k, n), np.int8)
    return rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)


@st.composite
def exact_operands(draw: st.DrawFn, largest: int = 9) -> tuple[np.ndarray, np.ndarray]:
    """(lhs, rhs) as float32 holding integers in -8..8: exact in bf16, and any order of sums is exact in fp32.

    The partial sums stay below 2**24 up to k = 2**18.
    """
    m, n, k = draw(shapes(largest))
    rng = np.random.default_rng(draw(seeds()))
    lhs, rhs = rng.integers(-8, 9, (m, k)), rng.integers(-8, 9, (k, n))
    return lhs.astype(np.float32), rhs.astype(np.float32)


@st.composite
def gemms(draw: st.DrawFn, largest: int = 64, dtype: str | None = None) -> Gemm:
    """A matmul with any kind of rhs, at times batched, repeated or partly masked."""
    m, n, k = draw(shapes(largest))
    batch = draw(st.integers(1, 3))
    return Gemm(
        m=m,
        n=n,
        k=k,
        batch=batch,
        count=draw(st.integers(1, 4)),
        dtype=draw(st.sampled_from(MATRIX_DTYPES)) if dtype is None else dtype,
        rhs_kind=draw(st.sampled_from(RHS_KINDS)),
        masked_macs=draw(st.integers(0, batch * m * n * k - 1)),
        name="drawn",
    )


@st.composite
def arrays(draw: st.DrawFn, largest: int = 6, plain: bool = False) -> Array:
    """A small grid of PEs, oblong or a single row or column among them.

    `plain` keeps one lane and one row of weights per cycle.
    """
    rows = draw(sides(largest))
    lanes = st.just(1) if plain else st.integers(1, 3)
    return Array(
        rows=rows,
        cols=draw(sides(largest)),
        dataflow=draw(st.sampled_from(DATAFLOWS)),
        convention=draw(st.sampled_from(CONVENTIONS)),
        lanes={dtype: draw(lanes) for dtype in MATRIX_DTYPES},
        weight_rows=1 if plain else draw(st.integers(1, rows)),
    )


FORMAT_SETS = (
    ("bf16",),
    ("int8",),
    ("bf16", "int8"),
    ("fp32", "bf16"),
    ("bf16", "fp8_e4m3", "fp8_e5m2", "int8", "int4"),
)
"""Formats that a chip may multiply: fp32 takes passes on most, int8 an upcast on some."""

SUMS = {"float": ("fp32", "fp22", "tf32", "bf16"), "int": ("int32", "int16")}


@st.composite
def variants(draw: st.DrawFn, array: Array) -> Array:
    """`array` with formats, accumulators and a MAC of its own."""
    formats = draw(st.sampled_from(FORMAT_SETS))
    interval = draw(st.sampled_from((1, 1, 2, 3)))
    return replace(
        array,
        lanes={dtype: draw(st.integers(1, 3)) for dtype in formats},
        acc={
            dtype: draw(st.sampled_from(SUMS["int" if dtype.startswith("int") else "float"]))
            for dtype in formats
            if draw(st.booleans())
        },
        mac_interval=interval,
        mac_latency=interval + draw(st.sampled_from((0, 0, 1, 3))),
    )


@st.composite
def banked(draw: st.DrawFn, memory: Memory) -> Memory:
    """`memory` cut into a few banks."""
    return replace(
        memory,
        banks=draw(st.integers(1, 6)),
        bank_bytes=draw(st.sampled_from((1, 2, 3, 4, 8))),
        layout=draw(st.sampled_from(("row", "column"))),
    )


@st.composite
def memories(draw: st.DrawFn, smallest: int = 4096) -> Memory:
    """A memory level of at least `smallest` bytes, at times without a limit."""
    return Memory(
        bytes=draw(st.none() | st.integers(smallest, 16 * smallest)),
        bytes_per_s=draw(st.none() | st.integers(10**8, 10**12)),
        latency_ns=draw(st.integers(0, 500)),
        burst_bytes=draw(st.sampled_from((1, 32, 64))),
    )


@st.composite
def chips(draw: st.DrawFn, largest: int = 6) -> TpuChip:
    """A TPU-style chip with a small array and memories of random size and speed."""
    levels = ("dram", "cmem", "vmem") if draw(st.booleans()) else ("dram", "vmem")
    memory = {level: draw(memories()) for level in levels}
    return TpuChip(
        name="drawn",
        clock_hz=draw(st.sampled_from((1, 3, 7, 10))) * 10**8,
        cores=draw(st.integers(1, 2)),
        mxus_per_core=draw(st.integers(1, 3)),
        array=draw(arrays(largest)),
        memory={**memory, "vmem": replace(memory["vmem"], latency_ns=0, burst_bytes=1)},
        vector=Vector(lanes=draw(st.sampled_from((8, 128))), alus=draw(st.integers(1, 2))),
        policy=Policy(
            activations=draw(st.sampled_from(levels)), prefetch=draw(st.sampled_from(("none", "weights")))
        ),
    )


@st.composite
def attentions(draw: st.DrawFn, window: int | None = None) -> Attention:
    """Grouped heads of any even width, with any mix of biases."""
    kv_heads, head_dim = draw(sides(3)), 2 * draw(sides(4))
    return Attention(
        heads=kv_heads * draw(sides(3)),
        kv_heads=kv_heads,
        head_dim=head_dim,
        rotary=draw(st.sampled_from((0, head_dim))),
        fused=draw(st.booleans()),
        biases=frozenset(draw(st.sampled_from(((), ("q", "k", "v"), ("q", "k", "v", "out"))))),
        head_norm=draw(st.sampled_from((None, "rmsnorm"))),
        window=window,
    )


@st.composite
def transformers(draw: st.DrawFn) -> Model:
    """A small dense decoder: gated or not, tied or not, with windows in none, some or all of its layers."""
    hidden, vocab, window = draw(sides(12)), draw(sides(20)), draw(st.none() | sides(12))
    mlp = Mlp(
        width=draw(sides(12)),
        gated=draw(st.booleans()),
        fused=draw(st.booleans()),
        activation=draw(st.sampled_from(("gelu", "gelu_new", "relu", "silu"))),
        bias=draw(st.booleans()),
    )
    attention = draw(attentions())
    kinds = [attention, replace(attention, window=window)] if window else [attention]
    kinds = kinds[-1:] if draw(st.booleans()) else kinds
    return Model(
        name="drawn",
        hidden=hidden,
        positions=16,
        decoder=Stack(
            embedding=Tokens(vocab=vocab, positions=draw(st.sampled_from((0, 16)))),
            layers=tuple(Layers(count=draw(sides(4)), attention=a, feed_forward=mlp) for a in kinds),
            norm=draw(st.sampled_from(("layernorm", "rmsnorm"))),
            arrangement=draw(st.sampled_from(("pre", "post", "sandwich", "parallel"))),
        ),
        heads=(Head(name="lm_head", inputs=hidden, outputs=vocab, tied=draw(st.booleans())),),
    )


def scalars() -> st.SearchStrategy[object]:
    """A value that TOML can hold without a table: numbers of any size, texts with units, dates."""
    texts = st.sampled_from(
        ("unlimited", "24 MiB", "1200 GB/s", "484 ns", "1 GHz", "-3 B", "ws", "vmem", "tpu-v4")
    )
    numbers = st.integers() | st.floats() | st.sampled_from((0, 62, 63, 20_000)).map(lambda bits: 2**bits)
    return st.booleans() | numbers | st.text(max_size=8) | texts | st.dates()


def toml_tables() -> st.SearchStrategy[dict[str, object]]:
    """What a chip file may hold once parsed: mostly the right names, with anything below them."""
    words = """schema kind name base notes source clock_hz cores array memory vector policy energy
        rows cols dataflow lanes bf16 bfloat16 weight_rows dram vmem acc bytes bytes_per_s latency_ns
        activations array.rows"""
    names = st.sampled_from(words.split())
    keys = names | st.text(max_size=4)
    values = st.recursive(
        scalars(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
        max_leaves=20,
    )
    return st.dictionaries(keys, values, max_size=9)
