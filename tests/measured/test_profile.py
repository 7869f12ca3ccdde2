"""The device's own account of a call."""

from __future__ import annotations

from systolic import Gemm
from systolic.measured.device import devices, prepare
from systolic.measured.profile import kernel_us, per_call
from systolic.measured.timing import time_calls


def test_kernels_are_part_of_the_call() -> None:
    """A matmul of 512 cubed takes far longer than starting it: the two clocks see nearly the same."""
    prepared = prepare(Gemm(m=512, n=512, k=512, dtype="fp32"), devices("cpu")[0], copies=2, seed=0)

    def ratio() -> float:
        kernels = kernel_us(prepared.call, "cpu")
        whole = time_calls(prepared.call, spread=1.0, budget_s=5).median
        assert kernels is not None
        assert whole is not None
        return kernels / whole

    # Two moments of a machine that may be busy in one of them; not in every one of five.
    assert any(0.2 < ratio() < 5 for _ in range(5))


def test_no_device_no_kernels() -> None:
    prepared = prepare(Gemm(m=8, n=8, k=8, dtype="fp32"), devices("cpu")[0], copies=1, seed=0)
    assert kernel_us(prepared.call, "gpu") is None


def test_kernels_are_added_up_call_by_call() -> None:
    # Three calls of two kernels: 1000 + 500, 2000 + 500, 9000 + 500 ns, out of order.
    found = [(50.0, 9000.0), (10.0, 1000.0), (20.0, 500.0), (30.0, 2000.0), (40.0, 500.0), (60.0, 500.0)]
    assert per_call(found, 3) == 2.5
    assert per_call(found[:5], 2) == (9000 + 1000 + 500 + 2000 + 500) / 2 / 1000
    assert per_call([], 3) is None
