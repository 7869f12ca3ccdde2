"""Primitives by what they do, under JAX's names. One that stands in no table is named in `not_covered`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

Shape = tuple[int, ...]

_ALIASES = """
    broadcast_in_dim reshape transpose squeeze expand_dims convert_element_type copy copy_p rev stop_gradient
    slice dynamic_slice device_put sharding_constraint reduce_precision get pvary pcast mesh_cast
    bitcast_convert_type layout_constraint name split real imag unstack
"""
_MAPS = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz
    complex conj copysign cos cosh digamma div eq eq_to erf erf_inv erfc exp exp2 expm1 floor ge gt igamma
    igammac is_finite le le_to lgamma log log1p logistic lt lt_to max min mul mulhi ne neg nextafter not or
    polygamma population_count pow integer_pow random_gamma_grad regularized_incomplete_beta rem round
    round_nearest_even rsqrt select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh
    sqrt square sub tan tanh xor zeta addupdate
"""
_REDUCTIONS = """
    reduce reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor argmax argmin cumsum
    cumprod cummax cummin cumlogsumexp reduce_window reduce_window_sum reduce_window_max reduce_window_min
    select_and_scatter select_and_scatter_add select_and_gather_add
"""
_WRITES = """
    scatter scatter_add scatter-add scatter_mul scatter-mul scatter_min scatter-min scatter_max scatter-max
    scatter_sub scatter-sub dynamic_update_slice
"""
_FREE = """
    iota eye axis_index program_id num_programs swap empty create_token concatenate pad random_seed
    random_wrap random_unwrap random_clone debug_callback debug_print axis_size mesh_axis_size
    optimization_barrier broadcast tile multiple_of ref freeze new_ref empty_ref after_all dce_sink empty2
    stack
"""
_CALLS = """
    jit call closed_call core_call remat2 checkpoint custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr
    custom_vmap_call run_state run_scoped composite linear_call
"""
_SCALAR_PROGRAMS = """
    reduce reduce_window scatter scatter_add scatter-add scatter_mul scatter-mul scatter_min scatter-min
    scatter_max scatter-max scatter_sub scatter-sub select_and_gather_add select_and_scatter sort
"""

ALIASES = frozenset(_ALIASES.split())
"""Yield their first operand in another shape or format, or parts of it; no arithmetic."""

UPDATES = frozenset(("dynamic_update_slice", "scatter", "concatenate"))
"""Put new elements beside or into old ones."""

MAPS = frozenset(_MAPS.split())
"""Elementwise: one vector operation per element of the result, but for `OPERATIONS`."""

OPERATIONS = {"logistic": 4, "clamp": 2}
"""Vector operations per element: negate, exp, add, reciprocal; two comparisons."""

REDUCTIONS = frozenset(_REDUCTIONS.split())
"""Combine elements: one vector operation per element of the first operand (and of its window)."""

LOOK_UPS = frozenset(("gather",))
"""Read scattered elements: traffic."""

WRITES = frozenset(_WRITES.split())
"""Write into a part of their first operand, in place."""

FREE = frozenset(_FREE.split())
"""Moves and constants: no arithmetic; their results count as bytes of the region that uses them."""

CALLS = frozenset(_CALLS.split())
"""Run their one inner program once."""

SCALAR_PROGRAMS = frozenset(_SCALAR_PROGRAMS.split())
"""Their inner program only says how to combine two numbers."""


_SOLVERS: dict[str, Callable[[Sequence[Shape]], int]] = {
    "triangular_solve": lambda s: prod(s[1]) * s[0][-1] // 2,
    "cholesky": lambda s: prod(s[0]) * s[0][-1] // 6,
    "lu": lambda s: prod(s[0]) * min(s[0][-2:]) // 3,
    "symmetric_product": lambda s: prod(s[0]) * s[0][-2],
    "ormqr": lambda s: 2 * prod(s[2]) * s[0][-1],
}


def solver_macs(primitive: str, shapes: Sequence[Shape]) -> int | None:
    """MACs of a factorisation or solver from the shapes of its operands, highest order; None if unknown.

    Golub, Van Loan, Matrix Computations, 4th edition (2013): 3.1.2 (triangular systems, n^2/2 per right
    side), 4.2.5 (Cholesky, n^3/6), 3.2.6 (LU, n^3/3), 5.1.6 (Householder reflections applied, 2 m n k).
    """
    return _SOLVERS[primitive](shapes) if primitive in _SOLVERS else None


def is_known(primitive: str) -> bool:
    """Whether what a primitive costs is known."""
    return primitive in MAPS | REDUCTIONS | LOOK_UPS | WRITES | FREE | ALIASES
