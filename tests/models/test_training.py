"""Training: two gradients per matmul, and what is kept and left out. Shapes: see test_against_jax."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.models import load_model
from systolic.models.architecture import Model
from systolic.models.passes import Pass
from systolic.models.transformer import forward
from systolic.workload import Gemm, VectorOp

from .. import strategies
from .configs import TINY_GQA, write


@pytest.mark.parametrize("name", ["gpt2", "llama-3-8b", "mixtral-8x7b", "deepseek-v3", "bert-base"])
def test_gradients_take_twice_the_forward_pass(name: str) -> None:
    """2 N D forward, 4 N D backward: Kaplan et al. 2020 (arXiv 2001.08361), section 2.1."""
    forward_macs = load_model(name, seq=64).macs
    train = load_model(name, phase="train", seq=64)
    assert train.macs == 3 * forward_macs
    assert (train.phase, train.kv_len, train.kv_cache_bytes) == ("train", 0, 0)


@given(strategies.transformers(), st.integers(1, 2), st.integers(1, 9))
def test_each_matmul_has_its_gradients(model: Model, batch: int, seq: int) -> None:
    """Sizes of C = A B turned round; masks stay; a weight is the rhs of dx, an activation that of dw."""
    run = Pass(batch=batch, queries=seq, keys=seq, causal=True, cached=False)
    table = {gemm.name: gemm for gemm in forward(model, run, phase="train").gemms}
    for gemm in forward(model, run, phase="prefill").gemms:
        weight = gemm.rhs_kind == "weight"
        lhs, rhs = ("dx", "dw") if weight else ("dq", "dk") if "qk" in gemm.name else ("dp", "dv")
        of_lhs, of_rhs = table[f"{gemm.name}.{lhs}"], table[f"{gemm.name}.{rhs}"]
        assert (of_lhs.m, of_lhs.n, of_lhs.k) == (gemm.m, gemm.k, gemm.n)
        assert (of_rhs.m, of_rhs.n, of_rhs.k) == (gemm.k, gemm.n, gemm.m)
        assert of_lhs.rhs_kind == ("weight" if weight else "activation")
        assert of_rhs.rhs_kind == "activation"
        assert of_lhs.parameters == of_rhs.parameters == 0
        assert of_lhs.useful_macs == of_rhs.useful_macs == gemm.useful_macs
        assert of_lhs.rhs_bytes == gemm.rhs_bytes
        assert of_rhs.lhs_bytes == gemm.lhs_bytes
        assert of_lhs.out_bytes == gemm.lhs_bytes
        assert of_rhs.out_bytes == gemm.rhs_bytes


def test_backward_runs_from_the_last_op_to_the_first(tmp_path: Path) -> None:
    names = [op.name for op in load_model(write(tmp_path, TINY_GQA), phase="train", seq=4).ops]
    start = names.index("loss")
    assert names[start - 1] == "lm_head"
    assert names[start + 1 : start + 4] == ["lm_head.dx", "lm_head.dw", "final.norm.grad"]
    assert names[-1] == "embed.grad"
    assert names.index("attn.pv.dp") < names.index("attn.softmax.grad") < names.index("attn.qk.dq")


def test_the_input_has_no_gradient() -> None:
    """An image is no parameter: ``jax.grad`` of the parameters computes none either."""
    names = {gemm.name for gemm in load_model("vit-base", phase="train").gemms}
    assert "embed.patches.dw" in names
    assert "embed.patches.dx" not in names


def test_gradients_of_vector_ops_run_on_their_own(tmp_path: Path) -> None:
    ops = load_model(write(tmp_path, TINY_GQA), phase="train", seq=4, batch=3).ops
    product = next(op for op in ops if op.name == "mlp.product.grad")
    assert isinstance(product, VectorOp)
    elements = 3 * 4 * 96
    assert (product.fused_into, product.vector_ops) == ("", 2)
    assert (product.read_elements, product.write_elements) == (3 * elements, 2 * elements)
    norm = next(op for op in ops if op.name == "mlp.norm.grad")
    assert isinstance(norm, VectorOp)
    assert norm.write_elements == 3 * 4 * 64 + 64


def test_memory_of_training_holds_results_and_gradients(tmp_path: Path) -> None:
    """By hand, 4 tokens: what each op of a layer yields, the last norm, the logits; and the gradients."""
    workload = load_model(write(tmp_path, TINY_GQA), phase="train", seq=4, dtype="bf16")
    layer = 4 * (64 + 128 + 32 + 32 + (128 + 32) + 8 * 4 + 8 * 4 + 128 + 64)  # norm, q, k, v, rope, scores …
    layer += 4 * (64 + 96 + 96 + 96 + 96 + 64)  # norm, gate, act, up, product, down
    assert workload.saved_elements == 2 * layer + 4 * (64 + 100) + 84_544
    assert workload.activation_bytes >= 2 * workload.saved_elements


def test_the_optimizer_is_named_as_left_out() -> None:
    workload = load_model("gpt2", phase="train", seq=16)
    assert [missing.op for missing in workload.not_covered] == ["the optimizer's step"]
    assert not load_model("gpt2", seq=16).not_covered


def test_training_takes_no_part_of_the_cache() -> None:
    gemms: list[Gemm] = list(load_model("llama-3-8b", phase="train", seq=16).gemms)
    assert not [gemm.name for gemm in gemms if gemm.rhs_kind == "kv_cache"]
