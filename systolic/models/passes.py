"""One pass over a model: how many tokens, and how many keys they see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Pass:
    """The run of a stack that is simulated.

    Attributes
    ----------
    batch, queries, keys
        Sequences; tokens that each processes; keys that its last token attends, itself included.
    logits
        Positions that lm_head sees: ``"all"``, or the ``"last"`` of each sequence.
    causal
        Whether MACs outside the causal mask and the window are counted as masked.
    cached
        Whether keys and values go to a KV cache, and are read from it.
    source, source_cached
        Tokens of each encoder result that cross attention attends, 0 without one; whether its keys and
        values lie in the cache already, so that no encoder runs.
    """

    batch: int
    queries: int
    keys: int
    logits: Literal["all", "last"] = "all"
    causal: bool = False
    cached: bool = True
    source: int = 0
    source_cached: bool = False

    @property
    def tokens(self) -> int:
        """Rows of the residual stream."""
        return self.batch * self.queries

    @property
    def fresh(self) -> bool:
        """Whether all keys are of this pass: nothing was cached before it."""
        return self.queries == self.keys

    def reach(self, window: int | None) -> int:
        """Keys that the scores span: all, or those that the window of some query of the pass holds."""
        return self.keys if window is None else min(self.keys, window + self.queries - 1)

    def masked_pairs(self, window: int | None) -> int:
        """(query, key) pairs of one head within reach that lie outside the causal mask or the window."""
        if not self.causal:
            return 0
        width = self.keys if window is None else window

        def seen_up_to(position: int) -> int:
            """Pairs inside, over the queries at positions 1 to `position`: sum of min(p, width)."""
            ramp = min(position, width)
            return ramp * (ramp + 1) // 2 + (position - ramp) * width

        inside = seen_up_to(self.keys) - seen_up_to(self.keys - self.queries)
        return self.queries * self.reach(window) - inside
