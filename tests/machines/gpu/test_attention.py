"""Attention as one kernel: laws, and what FlashAttention reaches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic import Gemm, VectorOp, load_chip
from systolic.chips.gpu import GpuChip
from systolic.machines.gpu.attention import Kernel, attention_of, kernel_of
from systolic.machines.gpu.fusing import attentions
from systolic.machines.gpu.steps import Attention


def gpu(name: str) -> GpuChip:
    chip = load_chip(name)
    assert isinstance(chip, GpuChip)
    return chip


def ops(queries: int, keys: int, depth: int, batch: int, masked: float = 0.0) -> tuple[Gemm, VectorOp, Gemm]:
    """The three ops of attention; `masked` is the share of the scores that a mask hides."""
    hidden = int(masked * batch * queries * keys) * depth
    scores = Gemm(
        m=queries, n=keys, k=depth, batch=batch, layout="nt", rhs_kind="kv_cache", masked_macs=hidden
    )
    elements = batch * queries * keys
    softmax = VectorOp(
        name="softmax",
        kind="softmax",
        elements=elements,
        vector_ops=7,
        read_elements=elements,
        write_elements=elements,
    )
    values = Gemm(m=queries, n=depth, k=keys, batch=batch, rhs_kind="kv_cache", masked_macs=hidden)
    return scores, softmax, values


def kernel(attention: Attention, chip: GpuChip) -> Kernel:
    return kernel_of(attention, "bf16", chip)


def cycles(k: Kernel) -> int:
    return k.tensor + k.softmax + k.wait + k.latency + k.tail


@pytest.mark.parametrize(
    ("name", "depth", "least", "most"),
    [
        # FlashAttention-2 (arXiv 2307.08691, abstract): 50 to 73% of an A100's peak, forward.
        ("a100", 64, 0.50, 0.73),
        ("a100", 128, 0.60, 0.85),
        # FlashAttention-3 (arXiv 2407.08608, abstract): up to 740 TFLOP/s, 75% of an H100's peak, in fp16.
        ("h100", 64, 0.40, 0.75),
        ("h100", 128, 0.60, 0.85),
    ],
)
def test_share_of_the_peak_is_what_flash_attention_reaches(
    name: str, depth: int, least: float, most: float
) -> None:
    """16,384 tokens, hidden size 2048, no mask, as in the papers."""
    chip = gpu(name)
    attention = attention_of(*ops(16384, 16384, depth, 2048 // depth), chip)
    macs = 2 * 16384**2 * 2048
    assert least < macs / (cycles(kernel(attention, chip)) * chip.sms * chip.sm.macs["bf16"]) < most


@given(
    st.integers(1, 300),
    st.integers(1, 3000),
    st.sampled_from((16, 64, 80, 128, 256)),
    st.integers(1, 64),
    st.sampled_from((0.0, 0.3, 0.49)),
    st.sampled_from(("a100", "h100", "rtx-4090", "t4", "mi210", "teaching-gpu")),
)
def test_ledger(queries: int, keys: int, depth: int, batch: int, masked: float, name: str) -> None:
    """No part is negative; never faster than the tensor cores on what is not masked, nor than main memory."""
    chip = gpu(name)
    dtype = "bf16" if "bf16" in chip.sm.macs else "fp16"
    scores, softmax, values = ops(queries, keys, depth, batch, masked)
    attention = attention_of(scores, softmax, values, chip)
    k = kernel_of(attention, dtype, chip)
    parts = (k.tensor, k.softmax, k.wait, k.latency, k.tail, k.dram)
    assert min(parts) >= 0
    assert k.dram in (0, k.wait)
    useful = scores.useful_macs + values.useful_macs
    assert sum(k.macs) >= useful
    assert sum(k.macs) <= scores.macs + values.macs
    assert cycles(k) * chip.sms * chip.sm.macs[dtype] >= useful * 0.97  # trips are whole tiles, rounded
    moved = scores.lhs_bytes + scores.rhs_bytes + values.rhs_bytes + values.out_bytes
    assert cycles(k) >= chip.memory["dram"].transfer_cycles(moved, chip.clock_hz)


@pytest.mark.parametrize("name", ["a100", "h100", "l4"])
def test_no_limit_of_memory_no_wait(name: str) -> None:
    chip = gpu(name)
    dram = replace(chip.memory["dram"], bytes_per_s=None, latency_ns=0)
    l2 = replace(chip.memory["l2"], bytes_per_cycle=None, latency_cycles=0)
    free = replace(chip, memory={**chip.memory, "dram": dram, "l2": l2})
    for queries in (1, 1000):
        k = kernel(attention_of(*ops(queries, 5000, 128, 8), free), free)
        assert (k.wait, k.latency) == (0, 0)


def test_decoding_splits_the_keys_until_each_sm_has_work() -> None:
    """Flash-Decoding: one query per head would leave most SMs without a block."""
    chip = gpu("a100")
    k = kernel(attention_of(*ops(1, 65536, 128, 8), chip), chip)
    assert k.slices > 1
    assert chip.sms <= k.blocks <= chip.sms * k.resident
    assert k.dram > 0  # bound by reading keys and values


def test_hidden_tiles_are_skipped() -> None:
    """A causal mask nearly halves a long sequence's time."""
    chip = gpu("a100")
    whole, causal = (kernel(attention_of(*ops(8192, 8192, 64, 32, m), chip), chip) for m in (0.0, 0.4999))
    assert 0.5 < cycles(causal) / cycles(whole) < 0.53


def test_which_ops_are_one_attention() -> None:
    scores, softmax, values = ops(8, 16, 4, 2)
    add = replace(softmax, kind="add")
    assert attentions([scores, softmax, values]) == {0: (scores, softmax, values)}
    assert attentions([values, scores, softmax, values]) == {1: (scores, softmax, values)}
    assert not attentions([scores, add, values])
    assert not attentions([scores, softmax, replace(values, count=2)])
    assert not attentions([scores, replace(softmax, elements=5), values])
