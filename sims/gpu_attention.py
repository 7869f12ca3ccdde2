"""Attention on a GPU op by op, and as one kernel.

    python sims/gpu_attention.py

Op by op, the scores of all heads go out to memory after the first matmul, come back for the softmax, go out,
and come back for the second matmul: bytes grow with the square of the sequence. One kernel keeps a tile of
them on the SM and skips the tiles that the causal mask hides (Dao et al. 2022, arXiv 2205.14135). The table
has GPT-2's attention, all 12 layers, prefill of one sequence in bf16.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import systolic
from systolic.quantity import format_bytes, format_seconds

CHIPS = ("a100", "h100")
LENGTHS = (128, 512, 1024)
FUSIONS = ("none", "flash")


@dataclass(frozen=True)
class Attention:
    """What the attention of a model takes.

    Attributes
    ----------
    chip, seq, fusion
        The chip, tokens, and ``policy.fusion``.
    seconds
        Scores, softmax and values.
    dram_bytes
        Main-memory traffic of the three.
    kernels
        Launches of the three.
    """

    chip: str
    seq: int
    fusion: str
    seconds: float
    dram_bytes: int
    kernels: int


def attention(chip: str, seq: int, fusion: str) -> Attention:
    """Simulate GPT-2 and add up its attention."""
    work = systolic.load_model("gpt2", seq=seq, causal=True)
    (report,) = systolic.simulate(work, on=chip, overrides={"policy.fusion": fusion}).chips
    rows = [row for row in report.rows if row.name in ("attn.qk", "attn.softmax", "attn.pv")]
    launched = [row for row in rows if "launch" in row.cycles_by_cause]
    return Attention(
        chip=chip,
        seq=seq,
        fusion=fusion,
        seconds=sum(row.seconds for row in rows),
        dram_bytes=sum(row.level_bytes("dram") for row in rows),
        kernels=sum(row.op.count for row in launched),
    )


def table(lengths: tuple[int, ...]) -> Iterator[str]:
    """Lines of the table."""
    yield f"{'chip':<6}{'tokens':>7}  {'fusion':<7}{'kernels':>8}{'time':>10}{'dram':>11}{'times faster':>14}"
    for chip in CHIPS:
        for seq in lengths:
            plain: Attention | None = None
            for fusion in FUSIONS:
                row = attention(chip, seq, fusion)
                plain = plain or row
                yield (
                    f"{chip:<6}{seq:>7,}  {fusion:<7}{row.kernels:>8}{format_seconds(row.seconds):>10}"
                    f"{format_bytes(row.dram_bytes):>11}{plain.seconds / row.seconds:>14.2f}"
                )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", default=",".join(map(str, LENGTHS)), help="sequence lengths")
    lengths = tuple(int(text) for text in parser.parse_args().tokens.split(","))
    print("\n".join(table(lengths)))


if __name__ == "__main__":
    main()
