"""What the parameters of JAX's matmul primitives mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .contraction import Contraction, Convolution, RaggedContraction


def _contraction(params: Mapping[str, Any], numbers: Any) -> Contraction:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    return Contraction(
        tuple(lhs_batch), tuple(rhs_batch), tuple(lhs_contract), tuple(rhs_contract), _precision(params)
    )


def _convolution(params: Mapping[str, Any]) -> Convolution:
    numbers = params["dimension_numbers"]
    return Convolution(
        lhs_dims=tuple(numbers.lhs_spec),
        rhs_dims=tuple(numbers.rhs_spec),
        out_dims=tuple(numbers.out_spec),
        strides=tuple(params["window_strides"]),
        padding=tuple(tuple(p) for p in params["padding"]),
        lhs_dilation=tuple(params["lhs_dilation"]),
        rhs_dilation=tuple(params["rhs_dilation"]),
        feature_groups=params["feature_group_count"],
        batch_groups=params["batch_group_count"],
        precision=_precision(params),
    )


def _ragged(params: Mapping[str, Any]) -> RaggedContraction:
    numbers = params["ragged_dot_dimension_numbers"]
    (ragged,) = numbers.lhs_ragged_dimensions
    dot = _contraction(params, numbers.dot_dimension_numbers)
    return RaggedContraction(dot, ragged, tuple(numbers.rhs_group_dimensions))


MATMULS: dict[str, Callable[[Mapping[str, Any]], Contraction | Convolution | RaggedContraction]] = {
    "dot_general": lambda params: _contraction(params, params["dimension_numbers"]),
    "conv_general_dilated": _convolution,
    "ragged_dot_general": _ragged,
    "scaled_dot": lambda params: _contraction(params, params["dimension_numbers"]),
}
"""Primitives that multiply matrices."""


def _precision(params: Mapping[str, Any]) -> str:
    """JAX's precision as default, high or highest: the least of both operands, or what an algorithm names."""
    precision = params.get("precision")
    if precision is None:
        return "default"
    if isinstance(precision, (tuple, list)):
        return min((_word(p) for p in precision), key=("default", "high", "highest").index)
    return _word(precision)


def _word(precision: Any) -> str:
    name = "default" if precision is None else precision.name.lower()
    if name in ("default", "high", "highest"):
        return str(name)
    return {"f32_f32_f32": "highest", "bf16_bf16_f32_x6": "highest", "bf16_bf16_f32_x9": "highest"}.get(
        name, "high" if name == "bf16_bf16_f32_x3" else "default"
    )
