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
# # Simulated against measured
#
# A simulator that is never held against a clock is a story. This notebook shows how `systolic` is held
# against real ones, and how to read the result without being fooled.
#
# Measured times from public sources ship with the package, each with its provenance. The ones below are
# of 41 bf16 matmuls on a TPU v6e, taken by the authors of another simulator: dependent calls in one
# program, so that starting a program does not count.

# %%
import matplotlib.pyplot as plt

import systolic

comparison = systolic.compare(shipped=["tpu_v6e_gemm_device"])
(group,) = comparison.groups
rows = comparison.to_dataframe()
rows.columns.tolist()

# %% [markdown]
# ## One number, and why it is not enough
#
# The error of a row is |simulated − measured| / measured. Their mean is the MAPE. Beside it stand things
# that a number needs to mean anything:
#
# - a **roofline** with the same chip numbers: each matmul at the slower of its arithmetic and its bytes. A
#   simulator that does not beat it has added nothing;
# - the same roofline **fitted** to these very rows;
# - the **best peer**: another tool's prediction of the same rows;
# - the **noise**: how far two measurements of the same thing lie apart. Below it, no error means anything.

# %%
print(comparison.to_overview())

# %% [markdown]
# ## Where is it wrong?
#
# A mean hides. The worst rows are where a mechanism is missing.

# %%
print(comparison.to_text(worst=5))

# %% [markdown]
# The largest cube is simulated too fast: something slows long runs down that the model does not have. It
# is named in the README, and not fitted away.
#
# ## See it

# %%
figure, (times, errors) = plt.subplots(1, 2, figsize=(10, 4))
measured = [1e6 * point.measured for point in group.points]
simulated = [1e6 * point.simulated for point in group.points]
roofline = [1e6 * point.work.roofline() for point in group.points]
times.loglog(measured, roofline, "x", color="0.6", label="roofline")
times.loglog(measured, simulated, "o", label="systolic")
times.loglog([20, 2000], [20, 2000], color="black", linewidth=1)
times.set(xlabel="measured, us", ylabel="predicted, us")
times.legend()
off = [100 * (s / m - 1) for s, m in zip(simulated, measured, strict=True)]
errors.semilogx(measured, off, "o")
errors.axhline(0, color="black", linewidth=1)
errors.axhspan(-5, 5, color="0.9", label="noise of the measurement")
errors.set(xlabel="measured, us", ylabel="error, %")
errors.legend()
figure.tight_layout()

# %% [markdown]
# Points on the line are right. The grey band is what the measurement itself is good to.
#
# ## Your own machine
#
# `systolic measure gpt2 --seq 128 --out mine.json` times the matmuls of a model with JAX on the devices
# that you have, and gives a number only where two medians agree. `systolic compare mine.json` does the
# above with it. `systolic calibrate mine.json --chip tpu-v6e --out mine.toml` fits the few constants that
# a chip's data sheet leaves open (the clock that it holds, the share of its bandwidth that long streams
# reach) to one half of the rows and tells the error on the other: a fit that is judged on its own rows
# proves nothing.
