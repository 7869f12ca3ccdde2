# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Matmul all along
#
# A transformer is a stack of matmuls. On the road from a line of Python to a chip that does nothing else,
# the arithmetic never changes: `C[i, j] += A[i, k] * B[k, j]`, m·n·k times. What changes is how far each
# number has to travel before it is multiplied. We walk that road: the naive loop, a better loop, SIMD, a
# GPU, a TPU. What can be timed on this very machine is timed; what cannot is simulated.

# %%
import time

import matplotlib.pyplot as plt
import numba
import numpy as np
import pandas as pd

import systolic
from systolic.blocks.cache import CacheHierarchy
from systolic.blocks.nest import Matrices, blocked, naive, reordered
from systolic.chips.caches import Cache
from systolic.viz.palette import BLUE

rng = np.random.default_rng(0)

# %% [markdown]
# ## The loop from the textbook
#
# Three loops, one multiply-add in the middle. In Python each of them costs the interpreter about a hundred
# instructions; compiled, the same three lines are a few.


# %%
def triple_loop(A, B):
    """C = A B, one multiply-add after another."""
    (m, k), n = A.shape, B.shape[1]
    C = np.zeros((m, n), A.dtype)
    for i in range(m):
        for j in range(n):
            total = A.dtype.type(0)
            for p in range(k):
                total += A[i, p] * B[p, j]
            C[i, j] = total
    return C


@numba.njit
def naive_loop(A, B, C):
    """The same, compiled."""
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            total = A.dtype.type(0)
            for p in range(A.shape[1]):
                total += A[i, p] * B[p, j]
            C[i, j] = total


@numba.njit
def reordered_loop(A, B, C):
    """The two inner loops change places: B and C are walked row by row."""
    C[:] = 0
    for i in range(A.shape[0]):
        for p in range(A.shape[1]):
            for j in range(B.shape[1]):
                C[i, j] += A[i, p] * B[p, j]


A, B = rng.standard_normal((2, 64, 64)).astype(np.float32)
C = np.empty_like(A)
for loop in (naive_loop, reordered_loop):
    loop(A, B, C)
    assert np.allclose(C, A @ B, atol=1e-4)
assert np.allclose(triple_loop(A, B), A @ B, atol=1e-4)
print("three ways to the same C")

# %% [markdown]
# How fast are they here? The picture shows multiply-adds per second of this machine, on a logarithmic
# scale: each step of the road is a factor.


# %%
def rate(function, n):
    """Best multiply-adds per second of three runs on n x n matrices."""
    A, B = rng.standard_normal((2, n, n)).astype(np.float32)
    C, best = np.empty_like(A), float("inf")
    for _ in range(3):
        start = time.perf_counter()
        function(A, B, C)
        best = min(best, time.perf_counter() - start)
    return n**3 / best


measured = {
    "Python": rate(lambda A, B, C: triple_loop(A, B), 48),
    "compiled": rate(naive_loop, 384),
    "reordered": rate(reordered_loop, 384),
    "A @ B": rate(lambda A, B, C: np.matmul(A, B, out=C), 1024),
}
figure, axis = plt.subplots(figsize=(7, 2.6))
axis.barh(list(measured)[::-1], list(measured.values())[::-1], color=BLUE)
axis.set_xscale("log")
axis.set_xlabel("multiply-adds per second, measured on this machine")
figure.tight_layout()

# %% [markdown]
# ## Why the order of loops matters
#
# The naive loop walks down a *column* of B. A cache does not fetch numbers, it fetches lines of 64 bytes:
# of each line that the column touches, one number of sixteen is used before the line is gone. Here are the
# caches of a core, 32 KiB and 1 MiB, with every single access of the loops sent through them.


# %%
def misses(nest):
    """Accesses, and those that missed in L1 and in L2."""

    def level(kib, ways):
        return Cache(bytes=kib << 10, ways=ways, line_bytes=64, bytes_per_cycle=None, latency_cycles=0)

    caches = CacheHierarchy([level(32, 8), level(1024, 16)])
    for chunk in nest.chunks():
        caches.access(*chunk)
    counts = caches.counts
    both = (reads + writes for reads, writes in zip(counts.read_misses, counts.write_misses, strict=True))
    return counts.reads + counts.writes, *both


where = Matrices.row_major(256, 256, 256, size=4)
nests = {"naive": naive(where), "reordered": reordered(where), "blocks of 32": blocked(where, 32, 32, 32)}
pd.DataFrame(
    {name: misses(nest) for name, nest in nests.items()}, index=["accesses", "L1 misses", "L2 misses"]
).T

# %% [markdown]
# The naive loop misses L1 with every second access: that is its time. Reordered, lines are used up before
# they go, and as neighbours lie side by side, the compiler multiplies 8 or 16 of them at once (SIMD). In
# blocks, numbers are used 32 times while they are near. A library does all of it on every core: `A @ B`.
#
# ## A GPU: thousands of such loops at once
#
# A GPU does not make one loop fast. It runs tens of thousands of threads, and while some wait for memory,
# others multiply. The same story once more, simulated on an A100: one thread per element, tiles through
# shared memory, and tensor cores that multiply whole tiles.

# %%
matmul = systolic.Gemm(m=2048, n=2048, k=2048, dtype="bf16")
rows = []
for kernel, dtype in (("naive", "fp32"), ("shared", "fp32"), ("register", "fp32"), ("tensor", "bf16")):
    report = systolic.simulate(
        systolic.Gemm(m=2048, n=2048, k=2048, dtype=dtype), on="a100", kernel=kernel
    ).chips[0]
    row = report.matmuls[0]
    rows.append(
        (kernel, dtype, row.seconds * 1e3, row.macs / row.seconds / 1e12, row.bytes["l2"]["rhs"].read >> 20)
    )
pd.DataFrame(rows, columns=["kernel", "numbers", "ms", "10^12 MACs/s", "MiB of B through L2"]).round(2)

# %% [markdown]
# Each step fetches less for the same arithmetic. Shared memory alone does not make the loop faster (the L1
# of such a GPU caught the repeated loads of the naive one as well, and every product still costs two loads);
# a block of sums in each thread's registers does, and tensor cores do it by the tile.
# `systolic animate 2048,2048,2048 --on a100 -o warps.html` shows the warps at it, cycle by cycle.
#
# ## A TPU: no loop at all
#
# A systolic array has no instructions in its inner loop, no threads, no caches. Numbers walk from cell to
# cell, and each one that was fetched once is used in every cell on its way. The next notebook watches that
# happen; here are the cycles of a TPU v4 on the same matmul, and what each of them went to.

# %%
tpu = systolic.simulate(matmul, on="tpu-v4").chips[0]
row = tpu.matmuls[0]
print(f"{row.cycles:,} cycles, {row.seconds * 1e6:.0f} us, {100 * row.utilization:.0f}% of all cells busy")
for cause, cycles in row.cycles_by_cause.items():
    print(f"{cause:<14}{cycles:7,}")

# %% [markdown]
# ## An embedding is a matmul, on paper
#
# The first layer of a language model turns each token into a vector: row t of a table E. As mathematics that
# is a matmul, of a one-hot matrix (a single 1 per row) with E:

# %%
tokens, vocabulary, width = np.array([3, 1, 3, 0]), 5, 4
E = rng.integers(0, 10, (vocabulary, width))
one_hot = np.eye(vocabulary, dtype=int)[tokens]
assert np.array_equal(one_hot @ E, E[tokens])
print(one_hot, "\n@\n", E, "\n=\n", E[tokens])

# %% [markdown]
# On a chip the two are worlds apart. GPT-2 has 50,257 tokens: as a matmul, all of the table goes through the
# array to multiply it with zeros; as a look-up, the rows that are wanted are read. That is why a report has
# the embedding as a `gather` that takes bytes and no MACs.

# %%
paper = systolic.Gemm(m=1024, n=768, k=50257, dtype="bf16", name="one-hot matmul")
gpt2 = systolic.simulate(systolic.load_model("gpt2", seq=1024), on="tpu-v4").chips[0]
gather = next(row for row in gpt2.rows if row.kind == "gather")
as_matmul = systolic.simulate(paper, on="tpu-v4").chips[0].matmuls[0]
columns = {"MACs": "macs", "cycles": "cycles"}
both = {"one-hot matmul": as_matmul, "look-up": gather}
table = pd.DataFrame(
    {name: [getattr(row, field) for field in columns.values()] for name, row in both.items()}, index=columns
)
table.T.assign(**{"MiB read": [row.level_bytes("dram") >> 20 for row in both.values()]})

# %% [markdown]
# ## And all of them together
#
# GPT-2 on 1024 tokens: the matmuls of one layer twelve times over, the last one onto the vocabulary, and
# little else.

# %%
share = sum(row.cycles for row in gpt2.matmuls) / gpt2.totals.cycles
print(f"{len(gpt2.matmuls)} different matmuls, {sum(row.op.count for row in gpt2.matmuls)} in all,")
macs = sum(row.macs for row in gpt2.matmuls)
print(f"{macs / 1e9:.0f} thousand million multiply-adds, {100 * share:.0f}% of the time.")

# %% [markdown]
# Go on with [watch a systolic array](02_watch_a_systolic_array.ipynb).
