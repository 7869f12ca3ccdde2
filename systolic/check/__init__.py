"""A machine's values against ``jnp.matmul`` on whatever device JAX has. jax is imported at call only."""

from .matmul import check_matmul
from .plan import CHECK_MODES, CheckMode, choose_mode, estimate_seconds

__all__ = ["CHECK_MODES", "CheckMode", "check_matmul", "choose_mode", "estimate_seconds"]
