"""Models written in JAX, traced: their parameters and dot products are those of the workload."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from systolic.models import load_model
from systolic.models.architecture import LatentAttention
from systolic.models.config import read_config
from systolic.workload import Workload

from .configs import (
    TINY_BERT,
    TINY_GPT2,
    TINY_GQA,
    TINY_LATENT,
    TINY_MOE,
    TINY_T5,
    TINY_VIT,
    TINY_WHISPER,
    write,
)
from .jax_model import (
    Dots,
    Params,
    apply,
    attend_cached_latents,
    attend_latents,
    dot_products,
    inputs_of,
    latent_params,
    linear,
    model_params,
    normed,
    shaped,
)

GEMMA = {"sliding_window": 4, "hidden_act": "gelu_pytorch_tanh"}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gpt2": (TINY_GPT2, {}),
    "gqa": (TINY_GQA, {}),
    "untied": (TINY_GQA, {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True}),
    "qwen2": (TINY_GQA, {"model_type": "qwen2"}),
    "qwen3": (TINY_GQA, {"model_type": "qwen3"}),
    "gemma2": (TINY_GQA, {"model_type": "gemma2", **GEMMA}),
    "gemma3": (TINY_GQA, {"model_type": "gemma3_text", "sliding_window_pattern": 2, **GEMMA}),
    "phi": (TINY_GQA, {"model_type": "phi", "head_dim": ..., "hidden_act": "gelu_new"}),
    "phi3": (TINY_GQA, {"model_type": "phi3"}),
    "mixtral": (TINY_GQA, {"model_type": "mixtral", "num_local_experts": 5, "num_experts_per_tok": 2}),
    "qwen2-moe": (TINY_MOE, {"model_type": "qwen2_moe", "shared_expert_intermediate_size": 24}),
    "qwen3-moe": (TINY_MOE, {"mlp_only_layers": [0]}),
    "deepseek": (TINY_LATENT, {}),
    "deepseek-direct": (TINY_LATENT, {"q_lora_rank": None}),
    "falcon": (TINY_GQA, {"model_type": "falcon", "head_dim": ...}),
    "bert": (TINY_BERT, {}),
    "bert-pretraining": (TINY_BERT, {"architectures": ["BertForPreTraining"]}),
    "vit": (TINY_VIT, {}),
    "t5": (TINY_T5, {}),
    "t5-plain": (TINY_T5, {"feed_forward_proj": "relu", "tie_word_embeddings": False}),
    "whisper": (TINY_WHISPER, {}),
}


def counted(workload: Workload) -> Dots:
    found: Dots = Counter()
    for gemm in workload.gemms:
        found[gemm.batch, frozenset((gemm.m, gemm.n)), gemm.k] += gemm.count
    return found


@pytest.mark.parametrize("case", CASES)
def test_parameters_and_dot_products_are_those_that_jax_sees(tmp_path: Path, case: str) -> None:
    config, changes = CASES[case]
    path = write(tmp_path, config, **changes)
    model = read_config(path, name=case, source="")
    params = model_params(model)
    data = inputs_of(model, 3, 10)
    traced = dot_products(jax.make_jaxpr(lambda p, *d: apply(model, p, *d))(params, *data).jaxpr)
    workload = load_model(path, batch=3, seq=None if model.decoder is None and model.fixed_tokens else 10)
    assert counted(workload) == traced
    assert workload.parameters == sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize("case", [name for name in CASES if name != "bert-pretraining"])
def test_training_has_the_dot_products_of_a_gradient(tmp_path: Path, case: str) -> None:
    """``jax.grad`` of a loss on the last head; batch 3 of 10 tokens."""
    config, changes = CASES[case]
    path = write(tmp_path, config, **changes)
    model = read_config(path, name=case, source="")

    def loss(params: Any, *data: Any) -> Any:
        return jax.nn.logsumexp(apply(model, params, *data)[-1], -1).sum()

    traced = jax.make_jaxpr(jax.grad(loss))(model_params(model), *inputs_of(model, 3, 10))
    seq = None if model.decoder is None and model.fixed_tokens else 10
    assert counted(load_model(path, phase="train", batch=3, seq=seq)) == dot_products(traced.jaxpr)


@pytest.mark.parametrize("q_rank", [12, None])
def test_absorbed_latents_have_the_dot_products_that_jax_sees(tmp_path: Path, q_rank: int | None) -> None:
    """DeepSeek-V2 (arXiv 2405.04434), section 2.1.2: one attention of the decode step, written out."""
    path = write(tmp_path, TINY_LATENT, q_lora_rank=q_rank)
    attention = read_config(path, name="", source="").decoder.layers[0].attention  # type: ignore[union-attr]
    assert isinstance(attention, LatentAttention)
    params = latent_params(attention, 32)
    traced = jax.make_jaxpr(lambda p, x, c: attend_cached_latents(attention, p, x, c))(
        params, shaped(2, 1, 32), shaped(2, 9, attention.kv_rank + attention.rope_dim)
    )
    workload = load_model(path, phase="decode", batch=2, kv_len=9)
    ours: Dots = Counter()
    for gemm in workload.gemms:
        if gemm.name.startswith("attn."):
            ours[gemm.batch, frozenset((gemm.m, gemm.n)), gemm.k] += 1
    assert ours == dot_products(traced.jaxpr)


def test_absorbing_changes_no_value() -> None:
    """Both forms of latent attention are one function: same seed, same result."""
    a = LatentAttention(heads=4, q_rank=None, kv_rank=10, nope_dim=6, rope_dim=4, value_dim=8)
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape, np.float32) / 4, latent_params(a, 32))

    @jax.jit
    def both(params: Params, x: Any) -> tuple[Any, Any]:
        latent, rope = jnp.split(linear(params["kv_down"], x), (a.kv_rank,), -1)
        cache = jnp.concatenate([normed(params["kv_norm"], latent), rope], -1)
        return attend_latents(a, params, x)[:, -1:], attend_cached_latents(a, params, x[:, -1:], cache)

    whole, step = both(params, rng.standard_normal((2, 5, 32), np.float32))
    np.testing.assert_allclose(whole, step, atol=1e-4)


def test_every_gemm_of_a_gradient_names_its_forward(tmp_path: Path) -> None:
    workload = load_model(write(tmp_path, TINY_GQA), phase="train", seq=4)
    names = {gemm.name for gemm in workload.gemms}
    forward = {name for name in names if name.rpartition(".")[2] not in ("dx", "dw", "dq", "dk", "dp", "dv")}
    assert names - forward == {
        *(f"{name}.{d}" for name in forward if name not in ("attn.qk", "attn.pv") for d in ("dx", "dw")),
        *("attn.qk.dq", "attn.qk.dk", "attn.pv.dp", "attn.pv.dv"),
    }
