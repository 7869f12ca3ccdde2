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
# # Watch a systolic array
#
# A matmul of two 4×4 matrices is 64 multiply-adds. A processor that does one per cycle needs 64 cycles, and
# it fetches two numbers for each of them. A systolic array has another idea: lay out a grid of 16 cells
# (PEs, processing elements), each of which can multiply and add, and let the numbers *walk* from cell to
# cell, so that every number that was fetched once is used four times. The name comes from the heart: data is
# pumped through in beats.
#
# Everything that you see here is the state of the simulated registers, cycle by cycle. `systolic animate
# 4,4,4 -o player.html` plays the same in a browser.

# %%
import IPython.display
import numpy as np
import pandas as pd

import systolic
from systolic.engine.recording import record
from systolic.viz.array_figures import busy_share
from systolic.viz.scene import scene_of
from systolic.viz.svg import to_svg

# %% [markdown]
# Two matrices of digits, so that we can follow them by eye, and the product that we want:

# %%
matmul = systolic.Gemm(m=4, n=4, k=4, dtype="fp32")
recording = record(matmul, on="teaching-4x4")
array = recording.runs[0].array
A, B = array.lhs[0], array.rhs[0]
print("A =\n", A.astype(int), "\nB =\n", B.astype(int), "\nC = A B =\n", (A @ B).astype(int))


# %% [markdown]
# ## Before the first cycle


# %%
def watch(*cycles, of=recording):
    """Draw the array after some clock edges."""
    for cycle in cycles:
        IPython.display.display(IPython.display.SVG(to_svg(scene_of(of, cycle))))


watch(0)

# %% [markdown]
# The array is empty. Above it waits B, on the left waits A. Look at how A stands there: as a *staircase*.
# Its second row of words starts one cycle later than its first, the third two cycles later. That delay is
# the whole trick, and in a moment you see why.
#
# ## The weights fall into place
#
# B enters from above, one row per cycle, and stays: this array is **weight stationary**.

# %%
watch(2, 4)

# %% [markdown]
# ## The first word arrives
#
# In cycle 5 the first word of A enters the corner. It meets the weight that waits there, and the cell
# multiplies. In cycle 6 the word has moved one cell to the right, and the *product* has moved one cell down.
# Below, it meets a word of A's next column, which, thanks to the staircase, arrives in this very cycle. So
# the sum grows on its way down.

# %%
watch(5, 6)

# %% [markdown]
# ## One element of C, followed
#
# The sum that becomes C[0, 0] starts in the top left cell in cycle 5 and falls through the first column.
# Read it from the registers:

# %%
steps = []
for row, cycle in enumerate(range(5, 9)):
    act, weight, total = (array.registers[name][cycle] for name in ("act", "weight", "psum"))
    steps.append(
        {
            "cycle": cycle,
            "PE": f"({row}, 0)",
            "word of A": int(act[0, row, 0]),
            "weight": int(weight[row, 0]),
            "sum": int(total[0, row, 0]),
        }
    )
assert steps[-1]["sum"] == (A @ B)[0, 0]
pd.DataFrame(steps)

# %% [markdown]
# After the fourth cell the sum is complete, and it drops out at the bottom. One cycle later the next row of
# A has done the same, and its sum follows. From then on, results leave in every cycle.
#
# ## The busiest moment, and the end

# %%
watch(9, 14)

# %% [markdown]
# In cycle 9 the diagonal wave covers most of the grid: 12 of 16 cells work. In cycle 14 the last sum stands
# in the far corner.
#
# ## What it costs
#
# 64 multiply-adds on 16 cells could take 4 cycles. They took 14. A picture of who was busy:

# %%
for cycle, (busy, cause) in enumerate(zip(array.busy[1:], array.causes, strict=True), start=1):
    print(f"cycle {cycle:2}  {cause:<8} {'■' * busy}{'·' * (16 - busy)} {busy:2} of 16")
print(f"\nutilization {array.macs[-1] / (16 * array.cycles):.1%}")

# %% [markdown]
# The array fills and empties like a pipe: `preload` while the weights fall, `fill` until the lowest row has
# work, `drain` while the last sums leave. For one small matrix that is most of the time. The remedy is a
# **longer stream**: the more rows of A pass, the less the pipe's length matters.

# %%
lengths = []
for m in (4, 16, 64, 256, 1024):
    row = systolic.simulate(systolic.Gemm(m=m, n=4, k=4, dtype="fp32"), on="teaching-4x4").chips[0].matmuls[0]
    lengths.append({"rows of A": m, "cycles": row.cycles, "utilization, %": round(100 * row.utilization, 1)})
pd.DataFrame(lengths)

# %% [markdown]
# That is why a TPU likes large batches and long prompts, and why generating text one token at a time (one
# row of A!) leaves it almost idle.
#
# ## What stays, and what moves
#
# Keeping B in the cells was a choice. One may instead keep the sums (**output stationary**) or A (**input
# stationary**). The product is the same, the time is not: here on matrices that do not fit the array evenly,
# 10×6 times 6×6.

# %%
three = record(systolic.Gemm(m=10, n=6, k=6, dtype="fp32"), on="teaching-4x4", dataflows=("ws", "os", "is"))
for run in three.runs:
    causes = ", ".join(f"{cause} {cycles}" for cause, cycles in run.row.cycles_by_cause.items())
    print(f"{run.array.dataflow}: {run.row.cycles:3} cycles ({causes})")
watch(12, of=three)

# %% [markdown]
# How much of the time does each cell multiply? 6 is one and a half times 4, so a part of the array idles in
# every second tile; which part depends on what lies along the rows.

# %%
systolic.plot(three, "array")

# %% [markdown]
# ## The real thing: 128×128
#
# One array of a TPU v4 has 16,384 cells. In attention, each head multiplies queries and keys of 64 numbers
# (k = 64), and k lies along the rows. You can guess what half of the array does:

# %%
qk = record(systolic.load_model("gpt2", seq=128), on="tpu-v4", matmul="attn.qk")
share = busy_share(qk.runs[0].array)
half = len(share) // 2
print(f"upper half busy {share[:half].mean():.1%} of the time, lower half {share[half:].mean():.1%}")
systolic.plot(qk, "array")

# %% [markdown]
# And even the upper half waits most of the time. For what? The timeline says it: for main memory. The
# operands have to come before the first word can enter, and the scores have to leave.

# %%
systolic.plot(qk, "timeline")

# %% [markdown]
# ## It is a matmul
#
# At the end, what fell out of the array *is* the product. Not approximately: the digits are whole numbers.

# %%
C = np.zeros((4, 4))
for leaving in array.leaving:
    C[leaving.row, leaving.col] = leaving.sum
assert np.array_equal(C, A @ B)
print(C.astype(int))

# %% [markdown]
# Try next: `systolic animate 8,8,8 --dataflow ws,os,is -o three.html`, point at a PE, and step backwards. Or
# give it your own matrices with `--lhs a.csv --rhs b.csv`.
