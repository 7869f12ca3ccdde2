"""Does ``systolic measure`` time what it says? Its times beside ``timeit`` around a jitted, awaited call.

    python sims/harness_agreement.py                # 24 shapes, cold and warm
    python sims/harness_agreement.py --rounds 7     # more rounds, where the machine is busy

The other side shares no code with the harness: it jits ``jnp.matmul`` itself, makes its own inputs, as many
sets as the harness, and takes the median of ``timeit.repeat``. Both take turns, round by round, so that a
machine that slows down slows both; a shape's difference is the median over the rounds of (ours /
theirs - 1). The shapes are drawn from a seed, between 32 and 1024 a side.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import timeit
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from systolic import Gemm
from systolic.measured.device import devices, prepare
from systolic.measured.surroundings import host, versions
from systolic.measured.timing import time_calls

SIDES = (32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
COLD_SETS = 24
CALLS = 60


def shapes(count: int) -> Iterator[Gemm]:
    """Shapes from a seed; one in three takes its second operand transposed."""
    random = np.random.default_rng(65)
    for number in range(count):
        m, n, k = (int(side) for side in random.choice(SIDES, 3))
        yield Gemm(m=m, n=n, k=k, dtype="fp32", layout="nt" if number % 3 == 2 else "nn")


def theirs(gemm: Gemm, sets: int) -> Callable[[], float]:
    """Median microseconds by timeit; each call takes the next set of inputs."""
    random = np.random.default_rng(1)
    turned = gemm.layout[1] == "t"
    product = jax.jit(lambda a, b: jnp.matmul(a, b.T if turned else b))
    inputs = [
        (
            jnp.asarray(random.standard_normal((gemm.m, gemm.k), np.float32)),
            jnp.asarray(random.standard_normal((gemm.n, gemm.k) if turned else (gemm.k, gemm.n), np.float32)),
        )
        for _ in range(sets)
    ]
    turn = itertools.cycle(inputs)
    product(*inputs[0]).block_until_ready()

    def median() -> float:
        times = timeit.repeat(lambda: product(*next(turn)).block_until_ready(), number=1, repeat=CALLS)
        return 1e6 * statistics.median(times)

    return median


def ours(gemm: Gemm, sets: int) -> Callable[[], float]:
    """Median microseconds by the harness, whatever the scatter, so that both sides always have a number."""
    prepared = prepare(gemm, devices("cpu")[0], copies=sets, seed=1)

    def median() -> float:
        timing = time_calls(prepared.call, spread=1e9, budget_s=10, first=CALLS // 3)
        assert timing.median is not None
        return timing.median

    return median


def main() -> None:
    """Print a line per shape, and the mean of the differences."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shapes", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    seen = host()
    print(f"{seen['cpu']}, {seen['cpus']} cores, load {seen['load']}; {versions()}")
    for mode, sets in (("cold", COLD_SETS), ("warm", 1)):
        differences = []
        print(f"{mode}: {'m×n×k':>16} {'layout':>7} {'ours us':>10} {'timeit us':>10} {'differs':>8}")
        for gemm in shapes(given.shapes):
            pair = ours(gemm, sets), theirs(gemm, sets)
            rounds = [[side() for side in pair] for _ in range(given.rounds)]
            differs = 100 * (statistics.median(a / b for a, b in rounds) - 1)
            a, b = (statistics.median(times) for times in zip(*rounds, strict=True))
            differences.append(abs(differs))
            shape = f"{gemm.m}×{gemm.n}×{gemm.k}"
            print(f"      {shape:>16} {gemm.layout:>7} {a:>10.1f} {b:>10.1f} {differs:>+7.1f}%")
        print(f"      mean {statistics.mean(differences):.1f}%, largest {max(differences):.1f}%")


if __name__ == "__main__":
    main()
