"""The workload of a pass: published counts, laws, and the same model traced by JAX."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.models import load_model
from systolic.models.architecture import Attention, Mlp, Model, Stack
from systolic.models.attention import self_attention
from systolic.models.passes import Pass
from systolic.models.transformer import forward
from systolic.workload import Gemm, VectorOp, Workload

from .. import strategies
from .configs import LLAMA_3_2_1B, TINY_GQA, write


def gemms(workload: Workload) -> dict[str, Gemm]:
    return {gemm.name: gemm for gemm in workload.gemms}


def vectors(workload: Workload) -> dict[str, VectorOp]:
    return {op.name: op for op in workload.ops if isinstance(op, VectorOp)}


def macs(workload: Workload, *names: str) -> int:
    return sum(gemms(workload)[name].macs for name in names)


def scores(workload: Workload) -> tuple[Gemm, Gemm]:
    table = gemms(workload)
    return table["attn.qk"], table["attn.pv"]


def stack_of(model: Model) -> Stack:
    assert model.decoder is not None
    return model.decoder


def attention_of(model: Model) -> Attention:
    """That of the first kind of layers; the other kinds differ in the window alone."""
    attention = stack_of(model).layers[0].attention
    assert isinstance(attention, Attention)
    return attention


# ---------------------------------------------------------------- counts from public bug reports


@pytest.mark.parametrize(("tied", "parameters"), [(True, 84_544), (False, 90_944)])
def test_tiny_gqa(tmp_path: Path, tied: bool, parameters: int) -> None:
    """LMCache 688 and entrenar 262 (head_dim is stated), trl 6708 (tying changes no MACs); by hand."""
    workload = load_model(write(tmp_path, TINY_GQA, tie_word_embeddings=tied), batch=3, seq=10)
    assert macs(workload, "attn.q", "attn.k", "attn.v", "attn.out") == 1_228_800
    assert macs(workload, "mlp.gate", "mlp.up", "mlp.down") == 1_105_920
    assert macs(workload, "attn.qk", "attn.pv") == 153_600
    assert sum(gemm.useful_macs for gemm in scores(workload)) == 84_480
    assert macs(workload, "lm_head") == 192_000
    assert workload.macs == 2_680_320
    assert workload.parameters == parameters
    assert workload.kv_cache_bytes == 7_680


def test_kv_cache_is_read_once_per_key_value_head() -> None:
    """hahnyuan/LLM-Viewer 12: counted per query head, 536,870,912 B."""
    workload = load_model("llama-3-8b", phase="decode", kv_len=1024, dtype="bf16")
    assert sum(gemm.rhs_bytes for gemm in scores(workload)) == 4_194_304
    assert sum(gemm.rhs_bytes * gemm.count for gemm in scores(workload)) == 134_217_728
    assert workload.kv_cache_bytes == 134_217_728


def test_stated_head_dim_of_qwen3() -> None:
    """LMCache 688: 92,160 B of KV cache per token is hidden / heads taken for head_dim."""
    workload = load_model("qwen3-4b", phase="decode", kv_len=1, dtype="bf16")
    assert workload.kv_cache_bytes == 147_456
    assert (gemms(workload)["attn.q"].k, gemms(workload)["attn.q"].n) == (2560, 4096)


def test_tied_output_matmul_is_still_there(tmp_path: Path) -> None:
    """pytorch/torchtitan PR 3225: tied weights were taken off twice, and the output matmul with them."""
    workload = load_model(write(tmp_path, LLAMA_3_2_1B), seq=1)
    assert workload.parameters == 1_235_814_400
    assert macs(workload, "lm_head") == 262_668_288


def test_attention_matmuls_are_counted() -> None:
    """calculate-flops.pytorch 26: only linear layers were. q (2,16,8,32), k and v (2,16,2,32)."""
    attention = Attention(heads=8, kv_heads=2, head_dim=32)
    run = Pass(batch=2, queries=16, keys=16)
    batched = [op for op in self_attention(attention, 256, run) if isinstance(op, Gemm) and op.batch > 1]
    assert [(op.batch, op.m, op.n, op.k) for op in batched] == [(4, 64, 16, 32), (4, 64, 32, 16)]
    assert sum(op.macs for op in batched) == 262_144


@pytest.mark.parametrize("name", ["gpt2", "llama-2-7b", "qwen3-4b"])
def test_embedding_look_up_is_traffic(name: str) -> None:
    """VeOmni 703, verl PR 4173: it was counted as a matmul."""
    workload = load_model(name, batch=2, seq=100, dtype="bf16")
    look_up = vectors(workload)["embed"]
    hidden = gemms(workload)["mlp.down"].n
    assert (look_up.kind, look_up.vector_ops) == ("gather", 0)
    assert look_up.read_bytes == 2 * 100 * hidden * 2
    assert [gemm.count for gemm in workload.gemms if gemm.name == "lm_head"] == [1]
    assert not [gemm for gemm in workload.gemms if "embed" in gemm.name]


def test_gated_mlp_is_three_matrices() -> None:
    """levanter PR 660, vllm-fit 8: counted as two."""
    workload = load_model("llama-2-7b")
    mlp = [gemm for gemm in workload.gemms if gemm.name.startswith("mlp.")]
    assert [gemm.name for gemm in mlp] == ["mlp.gate", "mlp.up", "mlp.down"]
    assert sum(gemm.parameters // gemm.layers for gemm in mlp) == 135_266_304


def test_gpt2_prefill_of_64_tokens() -> None:
    """lablup/mlxcel 927: GPT-2's key names gave nothing."""
    assert load_model("gpt2", seq=64).macs == 7_981_547_520


def test_causal_mask_of_llama_3_8b() -> None:
    """maxtext 1972: the mask was ignored. One report has both counts, unless the mask is declined."""
    for choice in ({}, {"causal": True}):
        workload = load_model("llama-3-8b", seq=128, **choice)
        assert macs(workload, "attn.qk", "attn.pv") == 4_294_967_296
        assert sum(gemm.useful_macs for gemm in scores(workload)) == 2_164_260_864
        assert any("useful_macs leaves those out" in note for note in workload.notes)
    dense = load_model("llama-3-8b", seq=128, causal=False)
    assert sum(gemm.useful_macs for gemm in scores(dense)) == 4_294_967_296
    assert any(note.startswith("attention runs dense") for note in dense.notes)


def test_llama_2_7b_prefill_of_128_tokens() -> None:
    """calculate-flops.pytorch 56 and 64: MACs or FLOP, and for how many tokens?"""
    workload = load_model("llama-2-7b", seq=128)
    assert workload.macs == 850_000_871_424
    assert (workload.batch, workload.seq) == (1, 128)


@pytest.mark.parametrize(("m", "flop_per_byte"), [(2048, 1024.0), (1, 0.9995)])
def test_intensity_of_prefill_and_decode(m: int, flop_per_byte: float) -> None:
    """llm-algo-leetcode 83: one intensity (0.91) was given for both."""
    (gemm,) = load_model(f"{m},4096,4096", dtype="bf16").gemms
    moved = gemm.lhs_bytes + gemm.rhs_bytes + gemm.out_bytes
    assert 2 * gemm.macs / moved == pytest.approx(flop_per_byte, abs=5e-5)


# ---------------------------------------------------------------- structure


def test_order_of_ops_is_that_of_execution() -> None:
    names = [op.name for op in load_model("qwen3-4b").ops]
    assert names == [
        *("embed", "attn.norm", "attn.q", "attn.k", "attn.v", "attn.q_norm", "attn.k_norm", "attn.rope"),
        *("attn.cache", "attn.qk", "attn.softmax", "attn.pv", "attn.out", "attn.add"),
        *("mlp.norm", "mlp.gate", "mlp.act", "mlp.up", "mlp.product", "mlp.down", "mlp.add"),
        *("final.norm", "lm_head"),
    ]
    assert [op.name for op in load_model("gpt2").ops] == [
        *("embed", "embed.positions", "embed.add", "attn.norm", "attn.qkv", "attn.qkv.bias", "attn.cache"),
        *("attn.qk", "attn.softmax", "attn.pv", "attn.out", "attn.out.bias", "attn.add"),
        *("mlp.norm", "mlp.up", "mlp.up.bias", "mlp.act", "mlp.down", "mlp.down.bias", "mlp.add"),
        *("final.norm", "lm_head"),
    ]


def test_attention_shapes_of_grouped_heads() -> None:
    qk, pv = scores(load_model("llama-3-8b", batch=2, seq=10))
    assert (qk.batch, qk.m, qk.n, qk.k, qk.rhs_kind) == (2 * 8, 4 * 10, 10, 128, "kv_cache")
    assert (pv.batch, pv.m, pv.n, pv.k, pv.rhs_kind) == (2 * 8, 4 * 10, 128, 10, "kv_cache")


def test_kinds_of_layers_have_rows_of_their_own() -> None:
    """Gemma 3 1B (arXiv 2503.19786): five layers with a window of 512 to each that attends all keys."""
    workload = load_model("gemma-3-1b", phase="decode", kv_len=2000)
    table = gemms(workload)
    assert (table["attn.qk"].layers, table["attn.qk"].n) == (4, 2000)
    assert (table["attn.qk.window"].layers, table["attn.qk.window"].n) == (22, 512)
    assert (table["attn.pv.window"].layers, table["attn.pv.window"].k) == (22, 512)
    assert {table[name].layers for name in ("attn.q", "attn.out", "mlp.down")} == {26}
    assert workload.kv_cache_elements == 2 * 256 * (4 * 2000 + 22 * 512)
    assert len({op.name for op in workload.ops}) == len(workload.ops)


def test_mistral_window() -> None:
    """Query p (from 1) of a prompt of 5000 sees min(p, 4096) keys (Jiang et al. 2023, section 2)."""
    inside = sum(min(p, 4096) for p in range(1, 5001))
    workload = load_model("mistral-7b", seq=5000)
    assert [gemm.useful_macs for gemm in scores(workload)] == [32 * 32 * 128 * inside] * 2
    assert [gemm.macs for gemm in scores(workload)] == [32 * 32 * 128 * 5000**2] * 2
    assert any("sliding window of 4096" in note and "useful_macs" in note for note in workload.notes)
    assert not any("window" in note for note in load_model("mistral-7b", seq=4096).notes)


def test_decode_reads_no_key_outside_the_window() -> None:
    """The rolling cache of Jiang et al. 2023, section 2, holds 4096 keys."""
    workload = load_model("mistral-7b", phase="decode", kv_len=5000)
    assert [gemm.useful_macs for gemm in scores(workload)] == [32 * 32 * 128 * 4096] * 2
    assert [gemm.macs for gemm in scores(workload)] == [32 * 32 * 128 * 4096] * 2
    assert workload.kv_cache_elements == 2 * 32 * 8 * 128 * 4096


# ---------------------------------------------------------------- laws

RUNS = st.builds(
    lambda batch, length, decode, logits: Pass(
        batch=batch, queries=1 if decode else length, keys=length, logits=logits, causal=True
    ),
    st.integers(1, 3),
    st.integers(1, 16),
    st.booleans(),
    st.sampled_from(("all", "last")),
)


def expected_macs(model: Model, run: Pass) -> int:
    a, hidden, total = attention_of(model), model.hidden, 0
    projections = 2 * hidden * a.heads * a.head_dim + 2 * hidden * a.kv_heads * a.head_dim
    for kind in stack_of(model).layers:
        mlp, window = kind.feed_forward, kind.attention.window  # type: ignore[union-attr]
        assert isinstance(mlp, Mlp)
        keys = min(run.keys, window) if window and run.queries == 1 else run.keys
        matrices = projections + (3 if mlp.gated else 2) * hidden * mlp.width
        scores = 2 * a.heads * a.head_dim * run.queries * keys
        total += kind.count * (run.tokens * matrices + run.batch * scores)
    rows = run.tokens if run.logits == "all" else run.batch
    return total + rows * hidden * model.heads[0].outputs


def expected_parameters(model: Model) -> int:
    a, hidden, stack = attention_of(model), model.hidden, stack_of(model)
    mlp = stack.layers[0].feed_forward
    assert isinstance(mlp, Mlp)
    q, kv = a.heads * a.head_dim, a.kv_heads * a.head_dim
    norm = hidden * (2 if stack.norm == "layernorm" else 1)
    layer = 2 * hidden * (q + kv) + (3 if mlp.gated else 2) * hidden * mlp.width
    layer += ("q" in a.biases) * (q + 2 * kv) + ("out" in a.biases) * hidden
    layer += mlp.bias * ((2 if mlp.gated else 1) * mlp.width + hidden)
    layer += 2 * a.head_dim * bool(a.head_norm)
    layer += norm * {"pre": 2, "post": 2, "sandwich": 4, "parallel": 1}[stack.arrangement]
    vocab = model.heads[0].outputs
    tables = vocab * hidden * (1 if model.heads[0].tied else 2)
    positions = getattr(stack.embedding, "positions", 0) * hidden
    return sum(kind.count for kind in stack.layers) * layer + tables + positions + norm


@given(strategies.transformers(), RUNS)
def test_macs_and_parameters_equal_the_closed_form(model: Model, run: Pass) -> None:
    workload = forward(model, run, phase="prefill")
    assert workload.macs == expected_macs(model, run)
    assert workload.parameters == workload.active_parameters == expected_parameters(model)


@given(strategies.transformers(), RUNS)
def test_names_are_unique(model: Model, run: Pass) -> None:
    names = [op.name for op in forward(model, run, phase="prefill").ops]
    assert len(set(names)) == len(names)


@given(strategies.transformers(), st.integers(1, 3))
def test_prefill_of_one_token_is_decode_of_the_first(model: Model, batch: int) -> None:
    run = Pass(batch=batch, queries=1, keys=1)
    prefill = forward(model, run, phase="prefill")
    decode = forward(model, replace(run, logits="last"), phase="decode")
    assert prefill.ops == decode.ops
    assert prefill.kv_cache_elements == decode.kv_cache_elements


@given(strategies.transformers(), st.integers(1, 3), st.integers(1, 12))
def test_decoding_token_by_token_is_the_useful_part_of_prefill(model: Model, batch: int, n: int) -> None:
    """Masked pairs are those that no step of decode computes, and each step adds what it caches."""
    prompt = forward(model, Pass(batch=batch, queries=n, keys=n, causal=True), phase="prefill")
    steps = [
        forward(model, Pass(batch=batch, queries=1, keys=p, causal=True), phase="decode")
        for p in range(1, n + 1)
    ]
    useful = sum(g.useful_macs for s in steps for g in s.gemms)
    assert sum(g.useful_macs for g in prompt.gemms) == useful == sum(s.macs for s in steps)
    assert prompt.kv_cache_elements == steps[-1].kv_cache_elements
    layers = sum(kind.count for kind in stack_of(model).layers)
    written = [vectors(w)["attn.cache"].write_elements * layers for w in (prompt, *steps)]
    assert written[0] == sum(written[1:]) >= prompt.kv_cache_elements


@given(strategies.transformers(), RUNS)
def test_a_batch_folds_into_m_and_reads_weights_once(model: Model, run: Pass) -> None:
    one = gemms(forward(model, replace(run, batch=1), phase="prefill"))
    many = gemms(forward(model, run, phase="prefill"))
    for name, gemm in many.items():
        assert gemm.macs == run.batch * one[name].macs
        if gemm.rhs_kind == "weight":
            assert (gemm.batch, gemm.m, gemm.rhs_bytes) == (1, run.batch * one[name].m, one[name].rhs_bytes)
        else:
            assert (gemm.batch, gemm.m) == (run.batch * one[name].batch, one[name].m)


@given(strategies.transformers(), RUNS)
def test_fused_ops_work_on_the_matmul_before_them(model: Model, run: Pass) -> None:
    """Each fused op follows its matmul, with only its fellows between, and covers its results exactly."""
    last: Gemm | None = None
    for op in forward(model, run, phase="prefill").ops:
        if isinstance(op, Gemm):
            last = op
        elif op.fused_into:
            assert last is not None
            assert op.fused_into == last.name
            assert op.elements == last.batch * last.m * last.n
            assert op.side_elements == op.read_elements - op.elements
            assert op.count == last.count
        else:
            assert op.side_elements == 0
            last = None
