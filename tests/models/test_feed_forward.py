"""Mixtures of experts: who sees which rows, what is read, and what lies idle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.models import load_model
from systolic.models.architecture import Mlp, Moe
from systolic.models.feed_forward import feed_forward_ops, idle_experts
from systolic.models.passes import Pass
from systolic.workload import Gemm, Op, Workload

from .configs import TINY_MOE, write


def expert_weights(workload: Workload) -> int:
    """Bytes of the routed experts' matrices that one layer reads."""
    names = ("moe.gate", "moe.up", "moe.down")
    return sum(gemm.rhs_bytes for gemm in workload.gemms if gemm.name.removesuffix(".rest") in names)


@pytest.mark.parametrize(("batch", "most"), [(1, 704_643_072), (64, 2_818_572_288)])
def test_mixtral_reads_the_experts_that_are_seen(batch: int, most: int) -> None:
    """tinygrad PR 14626: 2 experts for one token, and for 64 tokens all 8 of them, not 128."""
    workload = load_model("mixtral-8x7b", phase="decode", batch=batch, kv_len=1, dtype="bf16")
    assert expert_weights(workload) == most


def test_active_experts_of_mixtral() -> None:
    """maxtext PR 678: 46,605,008,896 MACs count all experts. Totals as published: 46.7B and 12.9B."""
    workload = load_model("mixtral-8x7b", phase="decode", kv_len=128)
    assert workload.macs == 12_782_141_440
    assert workload.parameters == 46_702_792_704
    assert workload.active_parameters == 12_879_925_248


def test_active_parameters_of_qwen3() -> None:
    """Qwen3 technical report (arXiv 2505.09388), table 2: 30.5B, of which 3.3B are activated."""
    assert load_model("qwen3-30b-a3b", phase="decode", kv_len=1).active_parameters == 3_353_032_704


def test_experts_have_a_width_of_their_own(tmp_path: Path) -> None:
    """Pai-Megatron-Patch 485: 98,304 is the dense width. Hidden 64, 8 experts of 32, 2 active."""
    workload = load_model(write(tmp_path, TINY_MOE), phase="decode", kv_len=1)
    moe = {gemm.name: gemm.macs // gemm.layers for gemm in workload.gemms if gemm.name.startswith("moe.")}
    assert moe.pop("moe.router") == 512
    assert sum(moe.values()) == 12_288


def test_layers_with_and_without_experts(tmp_path: Path) -> None:
    """DeepSeek-V3 (arXiv 2412.19437), section 4.2: all but the first three layers have experts."""
    workload = load_model("deepseek-v3", phase="decode", kv_len=4096)
    layers = {op.name: op.layers for op in workload.ops}
    assert (layers["attn.qk"], layers["mlp.norm"], layers["mlp.up"], layers["moe.up"]) == (61, 61, 3, 58)
    assert [missing.op for missing in workload.not_covered] == ["the multi-token prediction module"]
    sparse = write(tmp_path, TINY_MOE, num_hidden_layers=6, decoder_sparse_step=2, mlp_only_layers=[3])
    layers = {op.name: op.layers for op in load_model(sparse).ops}
    assert (layers["mlp.up"], layers["moe.router"]) == (4, 2)


MOES = st.builds(
    lambda experts, active, width, gated, shared, weighed: Moe(
        experts=experts,
        active=min(active, experts),
        expert=Mlp(width=width, gated=gated, activation="silu"),
        shared=Mlp(width=shared, gated=gated, activation="silu") if shared else None,
        shared_router=bool(shared) and weighed,
    ),
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(1, 9),
    st.booleans(),
    st.integers(0, 9),
    st.booleans(),
)


def routed(ops: list[Op], name: str) -> list[Gemm]:
    return [op for op in ops if isinstance(op, Gemm) and op.name.removesuffix(".rest") == name]


@given(MOES, st.integers(1, 3), st.integers(1, 10), st.integers(1, 9))
def test_every_row_meets_one_expert(moe: Moe, batch: int, queries: int, hidden: int) -> None:
    """T tokens x k rows in all, no expert more than one row ahead of another, none read without a row."""
    run = Pass(batch=batch, queries=queries, keys=queries)
    ops, idle = feed_forward_ops(moe, hidden, run), idle_experts(moe, hidden, run)
    down = routed(ops, "moe.down")
    assert sum(gemm.batch * gemm.m for gemm in down) == run.tokens * moe.active
    assert sum(gemm.batch for gemm in down) == min(moe.experts, run.tokens * moe.active)
    assert max(gemm.m for gemm in down) - min(gemm.m for gemm in down) <= 1
    matrices = (3 if moe.expert.gated else 2) * hidden
    expected = moe.experts * matrices * moe.expert.width + hidden * moe.experts
    expected += (matrices * moe.shared.width if moe.shared else 0) + moe.shared_router * hidden
    assert sum(op.parameters for op in (*ops, *idle)) == expected
    names = [op.name for op in (*ops, *idle)]
    assert len(set(names)) == len(names)


@given(MOES, st.integers(1, 9))
def test_work_grows_with_the_tokens_and_not_with_the_experts(moe: Moe, hidden: int) -> None:
    run = Pass(batch=1, queries=7, keys=7)
    more = replace(moe, experts=2 * moe.experts)
    macs = [
        sum(op.macs for op in feed_forward_ops(m, hidden, run)[1:] if isinstance(op, Gemm))  # but the router
        for m in (moe, more)
    ]
    assert macs[0] == macs[1]
