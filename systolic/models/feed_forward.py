"""The second half of a layer as ops: an MLP, or a mixture of experts."""

from __future__ import annotations

from dataclasses import replace

from ..workload import Gemm, Op
from . import vector_ops as vec
from .architecture import Mlp, Moe
from .matmuls import last_gemm, linear, renamed
from .passes import Pass


def feed_forward_ops(part: Mlp | Moe, hidden: int, run: Pass) -> list[Op]:
    """From the normed residual stream to what is added to it."""
    if isinstance(part, Moe):
        return _experts(part, hidden, run.tokens)
    return _mlp("mlp", part, hidden, run.tokens)


def idle_experts(part: Mlp | Moe, hidden: int, run: Pass) -> list[Op]:
    """Matrices of the experts that see no token: held in memory, not read."""
    if isinstance(part, Mlp):
        return []
    idle = part.experts - sum(experts for experts, _ in _shares(part, run.tokens))
    ops = _mlp("moe", part.expert, hidden, 1, idle) if idle else []
    return [replace(op, name=f"{op.name}.idle") for op in ops if isinstance(op, Gemm)]


def _mlp(prefix: str, mlp: Mlp, hidden: int, rows: int, batch: int = 1) -> list[Op]:
    """`batch` equal MLPs with matrices of their own, each on `rows` rows."""

    def matrix(part: str, outputs: int, inputs: int) -> list[Op]:
        return linear(f"{prefix}.{part}", rows, outputs, inputs, mlp.bias, batch)

    if mlp.gated and mlp.fused:
        ops = matrix("gate_up", 2 * mlp.width, hidden)
        ops.append(vec.gated_activation(f"{prefix}.act", mlp.activation, batch * rows * mlp.width))
    elif mlp.gated:
        gate, up = matrix("gate", mlp.width, hidden), matrix("up", mlp.width, hidden)
        ops = [*gate, vec.activation(f"{prefix}.act", mlp.activation, last_gemm(gate))]
        ops += [*up, vec.gate_product(f"{prefix}.product", last_gemm(up))]
    else:
        up = matrix("up", mlp.width, hidden)
        ops = [*up, vec.activation(f"{prefix}.act", mlp.activation, last_gemm(up))]
    return [*ops, *matrix("down", hidden, mlp.width)]


def _shares(moe: Moe, tokens: int) -> list[tuple[int, int]]:
    """(experts, rows that each of them sees), the larger share first; experts that see none left out.

    Tokens are spread as evenly as they can be: with q, r = divmod(tokens * active, experts), r experts
    see q + 1 rows and the others q. That is what a trained router aims at.
    """
    rows, more = divmod(tokens * moe.active, moe.experts)
    shares = ((more, rows + 1), (moe.experts - more, rows))
    return [(experts, seen) for experts, seen in shares if experts and seen]


def _experts(moe: Moe, hidden: int, tokens: int) -> list[Op]:
    """Router, the selected experts and the shared one; their results are weighted and added up."""
    spread = tokens * moe.active
    ops = linear("moe.router", tokens, moe.experts, hidden)
    biases = moe.experts if moe.router_bias else 0
    ops.append(vec.route("moe.route", tokens, moe.experts, moe.active, biases))
    ops.append(vec.permute("moe.dispatch", tokens * hidden, spread * hidden))
    for index, (experts, rows) in enumerate(_shares(moe, tokens)):
        share = _mlp("moe", moe.expert, hidden, rows, experts)
        ops += share if index == 0 else [renamed(op, "{}.rest".format) for op in share]
    ops.append(vec.combine("moe.combine", tokens, moe.active, hidden))
    return ops if moe.shared is None else ops + _shared(moe, moe.shared, hidden, tokens)


def _shared(moe: Moe, shared: Mlp, hidden: int, tokens: int) -> list[Op]:
    ops: list[Op] = linear("moe.shared.router", tokens, 1, hidden) if moe.shared_router else []
    ops += _mlp("moe.shared", shared, hidden, tokens)
    down = last_gemm(ops)
    if moe.shared_router:
        ops.append(vec.row_scale("moe.shared.scale", down))
    return [*ops, vec.residual("moe.shared.add", down)]
