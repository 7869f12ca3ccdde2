"""A plain chip for the tests of the check: one multiply and one add at a time, each rounded, k rising."""

from __future__ import annotations

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from systolic.machines.base import Precision, Values
from systolic.workload import Gemm

ENCODED = {
    "fp32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
}


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    """float32 array rounded to a format by ml_dtypes; integers as they are."""
    with np.errstate(over="ignore"):
        return x.astype(ENCODED[dtype]).astype(np.float32) if dtype in ENCODED else x


@dataclass
class Chip:
    """Computes `gemm` honestly unless `spoil` changes its result; remembers what it was asked."""

    gemm: Gemm
    asked: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    gave: list[np.ndarray] = field(default_factory=list)

    @property
    def precision(self) -> Precision:
        """Operands as the gemm says; a product meets its own rounding and k - 1 of sums."""
        g = self.gemm
        return Precision(
            lhs_dtype=g.dtype,
            rhs_dtype=str(g.rhs_dtype),
            acc_dtype=str(g.acc_dtype),
            out_dtype=str(g.out_dtype),
            roundings=g.k,
        )

    def values(self, lhs: np.ndarray, rhs: np.ndarray) -> Values:
        """The product of some rows and columns."""
        self.asked.append((lhs, rhs))
        a, b = rounded(lhs, self.gemm.dtype), rounded(rhs, str(self.gemm.rhs_dtype))
        wide = np.int32 if self.gemm.acc_dtype == "int32" else np.float32
        out = np.zeros((*a.shape[:2], b.shape[2]), wide)
        for i in range(a.shape[2]):
            out += a[:, :, i, None].astype(wide) * b[:, i, None, :].astype(wide)
        out = self.spoil(rounded(out, str(self.gemm.out_dtype)), a, b)
        self.gave.append(out)
        return Values(out)

    def spoil(self, out: np.ndarray, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """What a faulty chip makes of its result; this one is honest."""
        return out
