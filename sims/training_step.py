"""A training step on a simulated TPU: what the backward pass costs, and whether training still works in bf16.

    python sims/training_step.py             # 200 steps
    python sims/training_step.py --steps 20

A small decoder learns to continue a text letter by letter. Its whole step, the update included,
``jit(value_and_grad(vmap(loss)))``, is traced, and its forward and backward matmuls and the work between them
are simulated. Then it is trained twice from the same weights and batches: with every matmul of every step
computed by the simulated TPU v4, which multiplies bf16 and adds up in float32, and by plain JAX in float32.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import systolic

WIDTH, HEADS, LAYERS, LENGTH, BATCH = 64, 4, 2, 32, 8
RATE, MOMENTUM = 0.05, 0.9
TEXT = (
    "We hold these truths to be self-evident, that all men are created equal, that they are endowed by "
    "their Creator with certain unalienable Rights, that among these are Life, Liberty and the pursuit of "
    "Happiness. "
)
LETTERS = sorted(set(TEXT))
Params = dict[str, Any]


@dataclass(frozen=True)
class Curve:
    """Losses of each step: on the simulated chip, and by JAX in float32; cycles of a step on the chip."""

    chip: list[float]
    jax: list[float]
    cycles: int


def initial(seed: int = 0) -> Params:
    """Weights: normal, scaled by the square root of the inputs."""
    rng = np.random.default_rng(seed)

    def weight(rows: int, columns: int) -> Any:
        return jnp.asarray(rng.standard_normal((rows, columns)) / np.sqrt(rows), jnp.float32)

    return {
        "embed": weight(len(LETTERS), WIDTH),
        "positions": weight(LENGTH, WIDTH),
        "layers": [
            {
                "qkv": weight(WIDTH, 3 * WIDTH),
                "out": weight(WIDTH, WIDTH),
                "up": weight(WIDTH, 4 * WIDTH),
                "down": weight(4 * WIDTH, WIDTH),
            }
            for _ in range(LAYERS)
        ],
        "head": weight(WIDTH, len(LETTERS)),
    }


def normed(x: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def logits(params: Params, tokens: Any) -> Any:
    """Scores of the next letter behind each of `tokens` (length,)."""
    length = len(tokens)
    x = params["embed"][tokens] + params["positions"][:length]
    for i, layer in enumerate(params["layers"]):
        with jax.named_scope(f"layer_{i}"):
            q, k, v = (t.reshape(length, HEADS, -1) for t in jnp.split(normed(x) @ layer["qkv"], 3, axis=-1))
            scores = jnp.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
            scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
            mixed = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores), v).reshape(length, WIDTH)
            x = x + mixed @ layer["out"]
            x = x + jax.nn.gelu(normed(x) @ layer["up"]) @ layer["down"]
    with jax.named_scope("head"):
        return normed(x) @ params["head"]


def loss(params: Params, text: Any) -> Any:
    """Mean cross entropy of one sequence (length + 1,), nats per letter."""
    scores = jax.nn.log_softmax(logits(params, text[:-1]))
    return -(jax.nn.one_hot(text[1:], len(LETTERS)) * scores).sum(-1).mean()


def mean_loss(params: Params, batch: Any) -> Any:
    """Mean over a batch (sequences, length + 1)."""
    return jax.vmap(loss, in_axes=(None, 0))(params, batch).mean()


@jax.jit
def step(params: Params, velocity: Params, batch: Any) -> tuple[Any, Params, Params]:
    """One step of gradient descent with momentum: the loss before it, new weights and velocity."""
    value, gradient = jax.value_and_grad(mean_loss)(params, batch)
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v - RATE * g, velocity, gradient)
    return value, jax.tree.map(jnp.add, params, velocity), velocity


def batches(steps: int) -> Iterator[Any]:
    """Random stretches of the text, the same in every run."""
    rng = np.random.default_rng(1)
    numbers = np.array([LETTERS.index(letter) for letter in TEXT * 2])
    for _ in range(steps):
        starts = rng.integers(0, len(TEXT), BATCH)
        yield jnp.asarray(np.stack([numbers[s : s + LENGTH + 1] for s in starts]))


def train(steps: int, on: str = "tpu-v4") -> Curve:
    """Train twice from the same start."""
    params = initial()
    still = jax.tree.map(jnp.zeros_like, params)
    ours, theirs = (params, still), (params, still)
    chip_losses, jax_losses, cycles = [], [], 0
    for batch in batches(steps):
        (value, *ours), report = systolic.run(step, *ours, batch, on=on)
        chip_losses.append(float(value))
        cycles = report.chips[0].totals.cycles
        value, *theirs = step(*theirs, batch)
        jax_losses.append(float(value))
    return Curve(chip_losses, jax_losses, cycles)


def cost(on: str = "tpu-v4") -> dict[str, tuple[int, int]]:
    """(MACs, cycles) of one step: forward and backward matmuls, and the vector work between them."""
    params = initial()
    report = systolic.simulate(step, params, params, next(batches(1)), on=on)
    parts = dict.fromkeys(("forward", "backward", "vector"), (0, 0))
    for row in report.chips[0].rows:
        part = row.op.origin.rpartition(", ")[2] if row.macs else "vector"
        macs, cycles = parts[part]
        parts[part] = macs + row.macs, cycles + row.cycles
    return parts


def main() -> None:
    """Print the cost of a step, and the two curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps

    parts = cost()
    print("one step on tpu-v4        MACs    cycles")
    for part, (macs, cycles) in parts.items():
        print(f"{part:14} {macs:15,} {cycles:9,}")
    forward, backward = parts["forward"][0], parts["backward"][0]
    print(
        f"backward / forward: {backward / forward:.3f}. Each product C = A B has two gradients of its own\n"
        "size, dA = dC B^T and dB = A^T dC, and both operands need theirs here: an activation to pass it\n"
        "on, a weight to be updated."
    )
    curve = train(steps)
    print(f"\n{'step':>5} {'tpu-v4 bf16':>12} {'jax float32':>12}   nats per letter")
    shown = sorted({*range(0, steps, max(1, steps // 10)), steps - 1})
    for i in shown:
        print(f"{i:5} {curve.chip[i]:12.4f} {curve.jax[i]:12.4f}")
    last = slice(-max(1, steps // 10), None)
    print(
        f"mean of the last {len(curve.chip[last])} steps: {np.mean(curve.chip[last]):.4f} and "
        f"{np.mean(curve.jax[last]):.4f}; a step takes {curve.cycles:,} cycles"
    )


if __name__ == "__main__":
    main()
