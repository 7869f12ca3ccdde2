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
# # Your own JAX function
#
# Nobody has to write a model's shapes down by hand. `systolic` reads a JAX function as JAX itself does:
# it traces it, finds every matmul that matters, and keeps what lies between them. Here is a function that
# you might have written, attention with a feed-forward block, on plain arrays.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import systolic


def block(x, weights):
    """One transformer block: x (tokens, width)."""
    heads, width = 8, x.shape[-1]

    def split(y):
        return y.reshape(len(y), heads, width // heads).swapaxes(0, 1)

    query = split(x @ weights["query"])
    key = split(x @ weights["key"])
    value = split(x @ weights["value"])
    scores = jax.nn.softmax(query @ key.swapaxes(1, 2) / jnp.sqrt(width / heads))
    x = x + (scores @ value).swapaxes(0, 1).reshape(x.shape) @ weights["out"]
    return x + jax.nn.gelu(x @ weights["up"]) @ weights["down"]


def make_weights(width, dtype):
    random = np.random.default_rng(0)
    shapes = dict.fromkeys(("query", "key", "value", "out"), (width, width))
    shapes |= {"up": (width, 4 * width), "down": (4 * width, width)}
    return {name: jnp.asarray(random.normal(0, 0.02, shape), dtype) for name, shape in shapes.items()}


weights = make_weights(512, jnp.bfloat16)
x = jnp.asarray(np.random.default_rng(1).normal(size=(256, 512)), jnp.bfloat16)

# %% [markdown]
# ## What would it cost?
#
# One call. The arguments may be real arrays, or only their shapes.

# %%
report = systolic.simulate(block, x, weights, on="tpu-v5e")
rows = report.to_dataframe()
rows[["name", "kind", "m", "n", "k", "count", "cycles", "bound_by"]]

# %% [markdown]
# Every row is a matmul of the function, or the work between two of them, and its name says where in the
# code it comes from; equal ones share a row. Nothing was assumed about "attention": these are the matmuls
# that JAX sees.
#
# What keeps each matmul from being faster?

# %%
systolic.plot(report, "causes")

# %% [markdown]
# ## And backwards?
#
# A gradient is a JAX function too. Each matmul of a weight becomes two on the way back: one for the
# gradient of its input, one for its own.


# %%
def loss(weights, x):
    return jnp.sum(block(x, weights).astype(jnp.float32) ** 2)


training = systolic.simulate(jax.grad(loss), weights, x, on="tpu-v5e")
macs = {
    "forward": sum(row.macs for row in report.chips[0].matmuls),
    "forward and backward": sum(row.macs for row in training.chips[0].matmuls),
}
macs

# %%
macs["forward and backward"] / macs["forward"]

# %% [markdown]
# The textbook says three: one forward and two backward. It is a little less, since nobody asked for the
# gradient of `x`: the three projections need no matmul for it, and what JAX drops as dead is not counted.
#
# ## Run *on* the chip
#
# Counting is half of the story. `systolic.run` walks the same function and hands each matmul to the
# simulated chip, which multiplies and adds in its own formats and its own order. What comes back are the
# values that this chip would compute.

# %%
out, ran = systolic.run(block, x, weights, on="tpu-v5e")
exact = block(x.astype(jnp.float32), {name: w.astype(jnp.float32) for name, w in weights.items()})
ordinary = block(x, weights)


def off(values):
    """Distance from the result in float32, over its size."""
    difference = jnp.linalg.norm(values.astype(jnp.float32) - exact) / jnp.linalg.norm(exact)
    return f"{float(difference):.1e}"


{"on the simulated TPU": off(out), "by JAX on this machine": off(ordinary)}

# %% [markdown]
# Both are off by about as much, since both round to bf16 between operations: the chip is no less precise
# than the format that you chose.
#
# ## What could be fused?
#
# Between the matmuls lie dozens of small operations. How many kernels they are, and how many bytes go to
# memory and back between them, depends on who runs the function: operation by operation, eagerly, or
# compiled.

# %%
print(systolic.fusion_report(block, x, weights, on="tpu-v5e"))

# %% [markdown]
# Try your own: a Flax or Equinox model, `vmap`, `scan`, `remat`, a Pallas kernel. What cannot be seen,
# such as how often a `while_loop` turns, is asked for and never guessed.
