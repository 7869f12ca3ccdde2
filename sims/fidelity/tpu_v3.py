"""TPU v3, one core: matmuls, attention, transformer blocks, softmax and layer norms (artifact of PyTorchSim).

The source does not say how it ran them. What it does say settles the setting, one for all rows:

- float32 tensors, multiplied in one bf16 pass, which is what PyTorch and JAX do on a TPU unless told
  otherwise: its softmax moves 16.0 bytes per element, four passes of four bytes;
- one core is a device with half of the chip's HBM and bandwidth, at the 83% measured on TPU v4;
- double-buffered blocks, and XLA's fusions (``policy.fusion = "xla"`` of the chip).

The BERT models are one block on 512 tokens each, as in the source's own scripts (experiments/BERT.py):
heads of 64, an MLP four times as wide with ReLU, a layer norm behind each half. Convolutions and ResNet are
left out: how XLA lowers a convolution is not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import systolic
from systolic import Gemm, VectorOp, Workload
from systolic.models import vector_ops as vec

from .points import Point, rows_of, work_of

ONE_CORE = {"cores": 1, "memory.dram.bytes": "16 GiB", "memory.dram.bytes_per_s": "450 GB/s"}
"""A core is a device of its own (Google Cloud TPU docs, TPU v3)."""

PEERS = ("scalesim3", "mnpusim", "timeloop", "maestro")

HIDDEN = {"bert_base": 768, "bert_large": 1024, "bert_xlarge": 2048}
"""Width of the source's BERT models; PyTorchSim, experiments/BERT.py."""

TOKENS, HEAD = 512, 64


def points(folder: Path, overrides: Mapping[str, object] | None = None) -> list[Point]:
    """The rows that are modelled, simulated; `overrides` change the chip."""
    chip = systolic.load_chip("tpu-v3", {**ONE_CORE, **(overrides or {})})
    found = []
    for row in rows_of("pytorchsim_tpuv3.csv", folder):
        modelled = workload(row)
        if modelled is None:
            continue
        kind, work = modelled
        seconds = 1 / (1e6 * float(row["clock_mhz"]))
        found.append(
            Point(
                name=row["workload"],
                kind=kind,
                measured=float(row["measured_cycles"]) * seconds,
                simulated=systolic.simulate(work, on=chip).chips[0].seconds,
                work=work_of(work, chip),
                peers={p: float(row[f"{p}_cycles"]) * seconds for p in PEERS if row[f"{p}_cycles"]},
            )
        )
    return found


def workload(row: Mapping[str, str]) -> tuple[str, Workload] | None:
    """(kind of row, its work), or None where it is not modelled."""
    op, name = row["op"], row["workload"]
    if op == "matmul":
        m, n, k = (int(row[d]) for d in "MNK")
        return "matmul", _work(name, [Gemm(name=name, m=m, n=n, k=k)])
    if op == "attention":
        heads, tokens, head = int(row["batch"]), int(row["M"]), int(row["K"])
        return "attention", _work(name, _attention(heads, tokens, head))
    if op == "softmax":
        return "row op", _work(name, [vec.softmax(name, int(row["M"]), int(row["N"]))])
    if op == "layernorm":
        return "row op", _work(name, [vec.norm(name, "layernorm", int(row["M"]), int(row["N"]))])
    if name in HIDDEN:
        return "BERT block", _work(name, _block(HIDDEN[name]))
    return None


def _work(name: str, ops: list[Gemm | VectorOp]) -> Workload:
    return Workload(name=name, ops=tuple(ops)).with_dtype("fp32")


def _attention(heads: int, tokens: int, head: int) -> list[Gemm | VectorOp]:
    return [
        Gemm(name="qk", batch=heads, m=tokens, n=tokens, k=head, rhs_kind="activation", layout="nt"),
        vec.softmax("softmax", heads * tokens, tokens),
        Gemm(name="pv", batch=heads, m=tokens, n=head, k=tokens, rhs_kind="activation"),
    ]


def _block(hidden: int) -> list[Gemm | VectorOp]:
    """Attention and MLP, each followed by the residual and a norm."""

    def linear(name: str, outputs: int, inputs: int) -> Gemm:
        return Gemm(name=name, m=TOKENS, n=outputs, k=inputs)

    def closed(gemm: Gemm) -> list[Gemm | VectorOp]:
        norm = vec.norm(f"{gemm.name}.norm", "layernorm", TOKENS, hidden)
        return [gemm, vec.bias(gemm), vec.residual(f"{gemm.name}.add", gemm), norm]

    projections = [linear(name, hidden, hidden) for name in ("q", "k", "v")]
    up = linear("up", 4 * hidden, hidden)
    return [
        *(op for gemm in projections for op in (gemm, vec.bias(gemm))),
        *_attention(hidden // HEAD, TOKENS, HEAD),
        *closed(linear("out", hidden, hidden)),
        *(up, vec.bias(up), vec.activation("relu", "relu", up)),
        *closed(linear("down", hidden, 4 * hidden)),
    ]
