"""What the reader of a pass has to know beside its figures."""

from __future__ import annotations

from collections.abc import Iterator

from .architecture import Attention, Frames, LatentAttention, Model, Moe, Stack
from .passes import Pass


def pass_notes(model: Model, run: Pass) -> list[str]:
    """Lines on how attention, experts, caches and a second stack are run."""
    last = model.decoder or model.encoder
    assert last is not None
    notes = [
        *_mask(last, run),
        *_windows(last, run),
        *_latents(last, run),
        *_shared(last),
        *_experts(last, run),
    ]
    if model.encoder and isinstance(model.encoder.embedding, Frames) and not run.source_cached:
        notes.append(
            "convolutions run as matmuls on unfolded windows: an input element is read once per window"
        )
    if model.encoder is not None and model.decoder is not None:
        notes.append(_two_stacks(run))
    return notes


def _mask(stack: Stack, run: Pass) -> Iterator[str]:
    if stack.causal and run.queries > 1:
        inside = "useful_macs leaves those out" if run.causal else "causal counts those apart"
        yield f"attention runs dense: macs include those outside the causal mask ({inside})"


def _windows(stack: Stack, run: Pass) -> Iterator[str]:
    layers = sum(kind.count for kind in stack.layers)
    for kind in stack.layers:
        window = getattr(kind.attention, "window", None)
        if window is None or run.keys <= window:
            continue
        some = f"{kind.count} of {layers} layers have a sliding window of {window}"
        holds = f"; their KV cache holds {window}" if run.cached else ""
        if run.reach(window) < run.keys:
            yield f"{some} and attend no more of the {run.keys} keys{holds}"
        else:
            apart = " (useful_macs leaves the rest out)" if run.causal else ""
            yield f"{some}, yet their attention runs dense over {run.keys} keys{apart}{holds}"


def _latents(stack: Stack, run: Pass) -> Iterator[str]:
    part = stack.layers[0].attention
    if not isinstance(part, LatentAttention):
        return
    cached = f"the KV cache holds {part.cache_elements(1)} elements per token and layer, "
    if run.fresh:
        yield f"latent attention: {cached if run.cached else ''}keys and values are expanded for this pass"
    else:
        yield f"latent attention: {cached}and is attended as it is, the expanding matrices absorbed"


def _shared(stack: Stack) -> Iterator[str]:
    layers = sum(kind.count for kind in stack.layers)
    shared = sum(
        kind.count
        for kind in stack.layers
        if isinstance(kind.attention, Attention) and kind.attention.reuses_cache
    )
    if shared:
        yield (
            f"{shared} of {layers} layers read the keys and values of earlier layers: they project and "
            "cache none of their own"
        )


def _experts(stack: Stack, run: Pass) -> Iterator[str]:
    for part in dict.fromkeys(kind.feed_forward for kind in stack.layers):
        if not isinstance(part, Moe):
            continue
        rows, more = divmod(run.tokens * part.active, part.experts)
        seen = f"{more} see {rows + 1} rows and {part.experts - more} see {rows}"
        if not more:
            seen = f"each sees {rows} rows"
        yield (
            f"experts: {run.tokens} tokens x {part.active} of {part.experts}, spread evenly: {seen}"
            + ("; experts that see none are not read" if not rows else "")
        )


def _two_stacks(run: Pass) -> str:
    if not run.source_cached:
        return f"the encoder processes {run.source} tokens and the decoder {run.queries}"
    return f"the encoder has run: the new token attends {run.source} encoder tokens through cached keys"
