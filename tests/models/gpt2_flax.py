"""GPT-2 as one writes it in Flax linen; sizes of the small model (Radford et al. 2019)."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax.numpy as jnp


class Block(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        batch, seq, width = x.shape
        qkv = nn.Dense(3 * width, name="c_attn")(nn.LayerNorm(name="ln_1")(x))
        q, k, v = (t.reshape(batch, seq, self.heads, -1) for t in jnp.split(qkv, 3, -1))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(width / self.heads)
        scores = jnp.where(jnp.tril(jnp.ones((seq, seq), bool)), scores, -1e10)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v).reshape(batch, seq, width)
        x = x + nn.Dense(width, name="c_proj")(mixed)
        y = nn.Dense(4 * width, name="c_fc")(nn.LayerNorm(name="ln_2")(x))
        return x + nn.Dense(width, name="mlp_proj")(nn.gelu(y))


class Gpt2(nn.Module):
    layers: int = 12
    heads: int = 12
    width: int = 768
    vocab: int = 50257
    positions: int = 1024

    @nn.compact
    def __call__(self, tokens: Any) -> Any:
        embed = nn.Embed(self.vocab, self.width, name="wte")
        x = embed(tokens) + nn.Embed(self.positions, self.width, name="wpe")(jnp.arange(tokens.shape[1]))
        for i in range(self.layers):
            x = Block(self.heads, name=f"h_{i}")(x)
        return embed.attend(nn.LayerNorm(name="ln_f")(x))
