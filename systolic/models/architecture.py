"""The shape of a transformer, whatever its family: what stands in a layer, and how often.

Readers of configuration files fill these; :mod:`.transformer` turns them into ops. All sizes are elements
or counts > 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Norm = Literal["layernorm", "rmsnorm"]


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Attention with keys and values of its own.

    Attributes
    ----------
    heads, kv_heads, head_dim
        Query heads, key-value heads (a divisor of them), width of one head.
    rotary
        Elements of each head of q and k that are rotated by the position; 0 for none.
    fused
        Whether q, k and v are one matmul.
    biases
        Which of ``q k v out`` add a bias.
    head_norm
        Norm of each head of q and k, or None.
    window
        Keys that a query sees at most, itself included; None for all before it.
    softcap
        Whether scores are bent by a tanh.
    score_bias
        Whether a term for the distance is added to each score (ALiBi, relative positions).
    reuses_cache
        Whether it reads the keys and values of an earlier layer and projects none.
    """

    heads: int
    kv_heads: int
    head_dim: int
    rotary: int = 0
    fused: bool = False
    biases: frozenset[str] = frozenset()
    head_norm: Norm | None = None
    window: int | None = None
    softcap: bool = False
    score_bias: bool = False
    reuses_cache: bool = False

    def __post_init__(self) -> None:
        assert self.heads % self.kv_heads == 0, "the reader has checked that kv_heads divides heads"
        assert not (self.fused and self.reuses_cache), "a fused projection yields keys and values"

    @property
    def group(self) -> int:
        """Query heads that share one key-value head."""
        return self.heads // self.kv_heads

    @property
    def label(self) -> str:
        """What tells its rows from those of full attention in the same model."""
        return ".".join(word for word in ("window" * bool(self.window), "shared" * self.reuses_cache) if word)

    def cache_elements(self, keys: int) -> int:
        """Elements of keys and values that one sequence of `keys` tokens holds in the cache."""
        if self.reuses_cache:
            return 0
        held = keys if self.window is None else min(keys, self.window)
        return 2 * self.kv_heads * self.head_dim * held


@dataclass(frozen=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): the cache holds a latent.

    Attributes
    ----------
    heads
        Query heads; each has keys and values of its own once they are expanded.
    q_rank, kv_rank
        Widths of the latents of queries (None: q is projected directly) and of keys and values.
    nope_dim, rope_dim, value_dim
        Widths of one head: the part of q and k without position, the rotated part (its key is shared by
        all heads), and v.
    biases
        Which of ``q_down kv_down out`` add a bias.
    """

    heads: int
    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    biases: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """As for :class:`Attention`."""
        return ""

    def cache_elements(self, keys: int) -> int:
        """Elements that one sequence of `keys` tokens holds in the cache: latents and rotated keys."""
        return (self.kv_rank + self.rope_dim) * keys


@dataclass(frozen=True, kw_only=True)
class Mlp:
    """Two matrices with an activation between them, or three where a gate multiplies it.

    Attributes
    ----------
    width
        Elements between the matrices.
    gated, fused
        Whether there is a gate; whether gate and up are one matmul.
    activation
        Name of the function as configuration files spell it.
    bias
        Whether each matrix adds a bias.
    """

    width: int
    gated: bool
    activation: str
    fused: bool = False
    bias: bool = False


@dataclass(frozen=True, kw_only=True)
class Moe:
    """A mixture of experts: each token goes through `active` of `experts`, and through the shared one.

    Attributes
    ----------
    experts, active
        Experts; how many of them a token sees.
    expert
        One expert.
    shared
        The expert that all tokens see, or None.
    shared_router
        Whether a sigmoid of a 1-column matmul weighs the shared expert.
    router_bias
        Whether each expert has a stored bias in the selection.
    """

    experts: int
    active: int
    expert: Mlp
    shared: Mlp | None = None
    shared_router: bool = False
    router_bias: bool = False


@dataclass(frozen=True, kw_only=True)
class Layers:
    """`count` equal layers. `cross` attends the encoder's result between the two halves."""

    count: int
    attention: Attention | LatentAttention
    feed_forward: Mlp | Moe
    cross: Attention | None = None


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Looked-up embeddings.

    Attributes
    ----------
    vocab, positions, types
        Rows of the tables of tokens, learned positions and token types; 0 for no table.
    norm, scaled
        Whether the sum is normed; whether the embedding is multiplied by a constant.
    shared
        Whether the table of tokens is that of the decoder, so that it adds no parameters here.
    """

    vocab: int
    positions: int = 0
    types: int = 0
    norm: bool = False
    scaled: bool = False
    shared: bool = False


@dataclass(frozen=True, kw_only=True)
class Patches:
    """An image cut into `count` patches of `elements` each, one matmul; a class token goes before them."""

    count: int
    elements: int
    bias: bool = True

    @property
    def tokens(self) -> int:
        """Length of the sequence."""
        return self.count + 1


@dataclass(frozen=True, kw_only=True)
class Frames:
    """A spectrogram of ``2 * tokens`` frames of `bins` through two convolutions, the second of stride 2."""

    tokens: int
    bins: int


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Layers of several kinds behind one embedding.

    Attributes
    ----------
    embedding
        What makes the first residual stream.
    layers
        The kinds of layers; those that attend all keys first.
    norm
        Formula of its norms.
    arrangement
        Where they stand: ``pre`` before each half layer, ``post`` after its residual, ``sandwich``
        before it and before its residual; ``parallel`` halves share the norm of the first.
    final_norm
        Whether the result is normed.
    causal
        Whether a query sees only the keys up to itself.
    distance_buckets
        Rows of the table that terms for the distance come from (T5), one column per head; 0 for none.
    scaled
        Whether the result is multiplied by a constant.
    """

    embedding: Tokens | Patches | Frames
    layers: tuple[Layers, ...]
    norm: Norm
    arrangement: Literal["pre", "post", "sandwich", "parallel"] = "pre"
    final_norm: bool = True
    causal: bool = True
    distance_buckets: int = 0
    scaled: bool = False


@dataclass(frozen=True, kw_only=True)
class Head:
    """A linear layer on the result of the last stack; heads follow one another.

    Attributes
    ----------
    name, inputs, outputs, bias
        Of the matmul.
    rows
        ``logits``: the positions that the user asks for; ``tokens``: all; ``sequences``: one of each.
    activation, norm
        Function on its result, as configuration files spell it, and the norm after that; "" and None
        for neither.
    tied
        Whether its matrix is the table of tokens.
    softcap
        Whether its result is bent by a tanh.
    """

    name: str
    inputs: int
    outputs: int
    bias: bool = False
    rows: Literal["logits", "tokens", "sequences"] = "logits"
    activation: str = ""
    norm: Norm | None = None
    tied: bool = False
    softcap: bool = False


@dataclass(frozen=True, kw_only=True)
class Model:
    """A transformer: a decoder, an encoder, or one behind the other.

    Attributes
    ----------
    name, source
        What reports call it; the file it was read from.
    hidden
        Width of the residual stream.
    positions
        Longest sequence; None where nobody says.
    encoder, decoder
        Its stacks; at least one.
    heads
        What comes after the last stack.
    notes, not_covered
        What the reader of results has to know; parts that are left out.
    """

    name: str
    hidden: int
    positions: int | None
    encoder: Stack | None = None
    decoder: Stack | None = None
    heads: tuple[Head, ...] = ()
    notes: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        assert self.encoder or self.decoder, "a model has a stack"

    @property
    def fixed_tokens(self) -> int | None:
        """Tokens of the encoder where its input decides them (an image, a spectrogram)."""
        embedding = self.encoder.embedding if self.encoder else None
        return embedding.tokens if isinstance(embedding, (Patches, Frames)) else None
