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
# # A first run
#
# A systolic array is a grid of small cells (PEs). Each cell holds a weight, multiplies it with the
# activation that comes from the left, adds the product to the sum that comes from above, and hands both on:
# the activation to the right, the sum down. Nothing else happens, and it happens once per clock in every
# cell.
#
# First we watch one 4×4 matmul in the registers of a 4×4 array, then we let the same machine, with larger
# arrays and a memory, run GPT-2.

# %%
import numpy as np
import pandas as pd

import systolic
from systolic.blocks.edges import Tile
from systolic.blocks.stepping import SteppedArray

# %% [markdown]
# ## One matmul, counted
#
# `C[m, n] = A[m, k] B[k, n]` with m = n = k = 4, so 64 multiply-adds (MACs). `mode="stepped"` keeps every
# register of every cell in every clock.

# %%
matmul = systolic.Gemm(m=4, n=4, k=4, dtype="fp32")
report = systolic.simulate(matmul, on="teaching-4x4", mode="stepped")
row = report.chips[0].matmuls[0]
print(f"{row.macs} MACs in {row.cycles} cycles")
for cause, cycles in row.cycles_by_cause.items():
    print(f"{cause:<8}{cycles:3}")

# %% [markdown]
# The array has 16 cells, so 4 cycles could do the 64 MACs. It takes 14: 4 to shift the weights in
# (`preload`), 3 until the bottom row has work (`fill`), 4 in which rows of A enter (`compute`), 3 until the
# last column is done (`drain`).
#
# ## The same matmul, watched
#
# We feed an array by hand: the weights enter on top from clock 1 on, the rows of A on the left from clock 5
# on. Row r of the array gets its word r clocks later than row 0, and column c its weights c clocks later
# than column 0: that skew is what makes the right words meet.

# %%
A = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
B = np.array([[1, 0, 0, 2], [0, 1, 0, 2], [0, 0, 1, 2], [1, 1, 1, 2]], np.float32)

chip = systolic.load_chip("teaching-4x4")
tile = Tile(load_at=1, start=5, left=A, top=B)
array = SteppedArray(chip.array, lanes=1, output_stationary=False, tiles=[tile])


def show(clock):
    """Print the registers after a clock edge; a dot where a cell holds no activation."""
    state = array.state_at(clock)
    act, valid, psum = state["act"][0], state["valid"][0], state["psum"][0]
    print(f"clock {clock:<10}{'activation':<20}{'weight':<20}sum")
    for r in range(4):
        acts = "".join(f"{x:4.0f}" if v else "   ." for x, v in zip(act[r], valid[r], strict=True))
        weights = "".join(f"{x:4.0f}" for x in state["weight"][r])
        sums = "".join(f"{x:4.0f}" if v else "   ." for x, v in zip(psum[r], valid[r], strict=True))
        print(f"row {r:<8}{acts}    {weights}    {sums}")
    print()


for clock in (4, 5, 6):
    show(clock)

# %% [markdown]
# Clock 4: all weights of column 0 have arrived, but in a second register behind the one that multiplies, so
# the grid still shows 0. Clock 5: the first word of A enters the corner cell, and with it that cell takes
# its weight over. Clock 6: the word has moved one cell to the right, and row 1 has its first word.

# %%
for clock in (8, 11, 14):
    show(clock)

# %% [markdown]
# Clock 8: the bottom row has its first word. The sum in its first column has passed all four rows, so it is
# a finished element, C[0, 0]. Clock 11: the last word of row 3 of the array has entered. Clock 14: the last
# element, C[3, 3], stands in the far corner. That is the count of 14, and the sums that fell out at the
# bottom are the matmul:

# %%
result = array.run("stored")
print("cycles", result.cycles, " MACs", result.macs)
print(result.results[0])
assert np.array_equal(result.results[0], A @ B)
assert array.state_at(8)["psum"][0, 3, 0] == (A @ B)[0, 0]

# %% [markdown]
# ## GPT-2 on a TPU v4
#
# Eight such arrays of 128×128 cells, a memory of 1200 GB/s, and all matmuls of GPT-2 small for 1024 tokens.
# Equal layers are one row, so `count` is 12. What a column means: `systolic explain utilization`.

# %%
gpt2 = systolic.simulate(systolic.load_model("gpt2", seq=1024), on="tpu-v4")
table = gpt2.to_dataframe()
matmuls = table[table["kind"] == "matmul"]
matmuls[["name", "count", "m", "n", "k", "cycles", "utilization", "bound_by"]].round(3)

# %% [markdown]
# Where does the time go? Every cycle has exactly one cause, so the causes of all rows, matmuls and the work
# between them, add up to the total.

# %%
causes = table.filter(like="cycles_by_cause.").sum()
causes.index = causes.index.str.removeprefix("cycles_by_cause.")
causes = causes.sort_values(ascending=False)
assert causes.sum() == gpt2.chips[0].totals.cycles
pd.DataFrame({"cycles": causes, "share, %": (100 * causes / causes.sum()).astype(float).round(1)})

# %% [markdown]
# Try next: `on=["tpu-v4", "tpu-v6e"]`, `overrides={"array.rows": 256}`, `systolic.load_model("llama-3-8b",
# phase="decode", kv_len=8192)`, and read in `report.chips[0].notes` what your change did.
