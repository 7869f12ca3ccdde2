"""Latent attention, windows and cross attention: shapes, masks and what the cache holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from systolic.models import load_model
from systolic.models.architecture import Attention
from systolic.models.attention import self_attention
from systolic.models.passes import Pass
from systolic.workload import Gemm, VectorOp, Workload

from .configs import TINY_LATENT, write


def gemms(workload: Workload) -> dict[str, Gemm]:
    return {gemm.name: gemm for gemm in workload.gemms}


def test_latent_cache_of_deepseek_v3() -> None:
    """arXiv 2412.19437, section 2.1: a latent of 512 and a rotated key of 64 per token and layer."""
    workload = load_model("deepseek-v3", phase="decode", kv_len=1000, dtype="bf16")
    assert workload.kv_cache_elements == 61 * (512 + 64) * 1000
    assert load_model("deepseek-v3", phase="decode", kv_len=1, dtype="bf16").kv_cache_bytes == 70_272
    table = gemms(workload)
    qk, pv = table["attn.qk"], table["attn.pv"]
    assert (qk.batch, qk.m, qk.n, qk.k, qk.rhs_kind) == (1, 128, 1000, 576, "kv_cache")
    assert (pv.batch, pv.m, pv.n, pv.k, pv.rhs_kind) == (1, 128, 512, 1000, "kv_cache")


def test_matmuls_of_latent_attention() -> None:
    """q: D -> q_rank -> heads x (nope + rope); k, v: D -> kv_rank + rope, kv_rank -> heads x (nope + v)."""
    table = gemms(load_model("deepseek-v3", seq=10))
    shapes = {name: (table[f"attn.{name}"].k, table[f"attn.{name}"].n) for name in ("q_down", "q_up", "out")}
    assert shapes == {"q_down": (7168, 1536), "q_up": (1536, 128 * 192), "out": (128 * 128, 7168)}
    assert (table["attn.kv_down"].k, table["attn.kv_down"].n) == (7168, 512 + 64)
    assert (table["attn.kv_up"].k, table["attn.kv_up"].n) == (512, 128 * (128 + 128))
    assert (table["attn.qk"].k, table["attn.pv"].n) == (192, 128)
    lite = gemms(load_model("deepseek-v2-lite", seq=10))
    assert "attn.q_down" not in lite
    assert (lite["attn.q"].k, lite["attn.q"].n) == (2048, 16 * 192)


def test_both_forms_of_latent_attention_hold_the_same_parameters(tmp_path: Path) -> None:
    path = write(tmp_path, TINY_LATENT)
    expanded, absorbed = load_model(path, seq=5), load_model(path, phase="decode", kv_len=5)
    assert expanded.parameters == absorbed.parameters
    assert {"attn.k_up", "attn.v_up"} <= set(gemms(absorbed))
    assert "attn.kv_up" in gemms(expanded)
    assert any("absorbed" in note for note in absorbed.notes)
    assert any("expanded" in note for note in expanded.notes)


@given(st.integers(1, 12), st.integers(1, 12), st.none() | st.integers(1, 14))
def test_masked_pairs_are_those_outside_mask_and_window(queries: int, past: int, window: int | None) -> None:
    """Counted pair by pair: a query at position p sees the keys p - window + 1 to p."""
    keys = queries + past - 1
    run = Pass(batch=1, queries=queries, keys=keys, causal=True)
    first = keys - run.reach(window)
    pairs = [(q, k) for q in range(keys - queries, keys) for k in range(first, keys)]
    outside = [(q, k) for q, k in pairs if k > q or (window is not None and k <= q - window)]
    assert run.masked_pairs(window) == len(outside)
    assert all(k >= first for q in range(keys - queries, keys) for k in range(keys) if _seen(q, k, window))


def _seen(q: int, k: int, window: int | None) -> bool:
    return k <= q and (window is None or k > q - window)


def test_a_window_bounds_the_cache_and_what_decode_reads() -> None:
    attention = Attention(heads=4, kv_heads=2, head_dim=8, window=5)
    assert [attention.cache_elements(keys) for keys in (1, 5, 6, 100)] == [32, 160, 160, 160]
    qk, pv = (
        op
        for op in self_attention(attention, 32, Pass(batch=3, queries=1, keys=100, causal=True))
        if isinstance(op, Gemm) and op.rhs_kind == "kv_cache"
    )
    assert (qk.batch, qk.m, qk.n, pv.k) == (6, 2, 5, 5)
    assert qk.macs == qk.useful_macs


def test_gemma_2_bends_scores_and_logits() -> None:
    """arXiv 2408.00118, section 2: soft caps on both, norms around each half, embeddings scaled."""
    layers = {op.name: op.layers for op in load_model("gemma-2-2b", phase="decode", kv_len=5000).ops}
    assert {"attn.softcap", "attn.softcap.window", "lm_head.softcap", "embed.scale"} <= set(layers)
    assert {"attn.norm", "attn.post_norm", "mlp.norm", "mlp.post_norm"} <= set(layers)
    assert (layers["attn.qk"], layers["attn.qk.window"], layers["attn.q"]) == (13, 13, 26)
    within = {op.name: op.layers for op in load_model("gemma-2-2b", phase="decode", kv_len=4096).ops}
    assert within["attn.qk"] == 26


def test_phi_2_rotates_a_part_of_each_head() -> None:
    """microsoft/phi-2: 0.4 of heads of 80; halves in parallel behind one norm."""
    ops = {op.name: op for op in load_model("phi-2", seq=10).ops}
    rope = ops["attn.rope"]
    assert isinstance(rope, VectorOp)
    assert rope.elements == 10 * (32 + 32) * 32
    assert "mlp.norm" not in ops
    assert "lm_head.bias" in ops


def test_phi_3_fuses_projections() -> None:
    table = gemms(load_model("phi-3-mini", seq=10))
    assert (table["attn.qkv"].n, table["mlp.gate_up"].n) == (3 * 3072, 2 * 8192)


@pytest.mark.parametrize(("phase", "kind"), [("prefill", "kv_cache"), ("train", "activation")])
def test_keys_are_cached_where_a_cache_is(phase: str, kind: str) -> None:
    workload = load_model("gpt2", seq=16, phase=phase)
    assert {gemms(workload)[name].rhs_kind for name in ("attn.qk", "attn.pv")} == {kind}
    assert ("attn.cache" in {op.name for op in workload.ops}) == (kind == "kv_cache")
    assert bool(workload.kv_cache_elements) == (kind == "kv_cache")


def test_cross_attention_of_whisper() -> None:
    """arXiv 2212.04356: keys and values of the 1500 encoder positions, projected once per request."""
    prefill = load_model("whisper-tiny", batch=2, seq=4)
    table = gemms(prefill)
    assert (table["decoder.cross.k"].m, table["decoder.cross.k"].layers) == (2 * 1500, 4)
    qk = table["decoder.cross.qk"]
    assert (qk.batch, qk.m, qk.n, qk.k, qk.useful_macs) == (2 * 6, 4, 1500, 64, qk.macs)
    for kv_len in (1, 4):
        decode = load_model("whisper-tiny", phase="decode", batch=2, kv_len=kv_len)
        names = {gemm.name for gemm in decode.gemms}
        assert "decoder.cross.q" in names
        assert not [name for name in names if name.startswith("encoder.") or name.endswith("cross.k")]
    per_layer = 2 * 384 * (4 + 1500)
    assert decode.kv_cache_elements == prefill.kv_cache_elements == 2 * 4 * per_layer


def test_convolutions_of_whisper_are_matmuls() -> None:
    """1-D convolutions of width 3 over 3000 frames of 80 bins, the second of stride 2."""
    table = gemms(load_model("whisper-tiny", batch=2, seq=4))
    first, second = table["encoder.embed.conv1"], table["encoder.embed.conv2"]
    assert (first.m, first.n, first.k) == (2 * 3000, 384, 3 * 80)
    assert (second.m, second.n, second.k) == (2 * 1500, 384, 3 * 384)


def test_encoders_attend_both_ways() -> None:
    for name in ("bert-base", "vit-base"):
        workload = load_model(name, batch=2)
        assert all(gemm.useful_macs == gemm.macs for gemm in workload.gemms)
        assert workload.kv_cache_elements == 0
        assert not any("causal" in note for note in workload.notes)


def test_vit_embeds_patches() -> None:
    """arXiv 2010.11929: 196 patches of 16 x 16 x 3, one class token, one result per image."""
    table = gemms(load_model("vit-base", batch=2))
    patches, classifier = table["embed.patches"], table["classifier"]
    assert (patches.m, patches.n, patches.k) == (2 * 196, 768, 768)
    assert (classifier.m, classifier.n) == (2, 1000)
    assert table["attn.qk"].n == 197


def test_t5_adds_terms_for_the_distance() -> None:
    """arXiv 1910.10683, section 2.1: one table for all layers of a stack, none in cross attention."""
    ops = {op.name: op for op in load_model("t5-small", seq=9).ops}
    assert ops["encoder.attn.positions"].parameters == 32 * 8
    assert ops["encoder.attn.distances"].layers == 6
    assert "decoder.cross.distances" not in ops
    assert ops["encoder.embed"].parameters == 0 < ops["decoder.embed"].parameters
