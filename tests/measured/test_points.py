"""Errors and rooflines on numbers that can be worked out by hand."""

from __future__ import annotations

import pytest

import systolic
from systolic import Gemm, Workload
from systolic.measured import points
from systolic.measured.points import Errors, Point, Work, work_of

SHAPES = ((1, 4096, 4096), (64, 8192, 4096), (2048, 4096, 4096), (8192, 8192, 8192), (1, 512, 512))


def made(measured: float, simulated: float, **other: object) -> Point:
    work = Work(compute=(1.0,), memory=(2.0,))
    return Point(name="", kind="", measured=measured, simulated=simulated, work=work, **other)  # type: ignore[arg-type]


def test_errors_of_known_predictions() -> None:
    errors = Errors.of([made(1.0, 1.1), made(1.0, 0.8), made(2.0, 2.0)], points.simulated)
    assert (errors.mape, errors.median, errors.worst) == pytest.approx((10, 10, 20))
    assert errors.mean == pytest.approx(-10 / 3)
    assert not made(1.0, 1.0).work.compute_bound


def test_a_roofline_is_the_slower_side_of_each_op() -> None:
    """max(1, 2) + max(4, 3) = 6; at half the rate and twice the bandwidth 2 + 8; two launches of 0.5."""
    work = Work(compute=(1.0, 4.0), memory=(2.0, 3.0), launches=2)
    assert work.roofline() == 6
    assert work.roofline(0.5, 2.0) == 10
    assert work.roofline(launch=0.5) == 7


def test_roofline_of_a_matmul_has_the_published_rates() -> None:
    """4096 cubed at TPU v6e's 918 TFLOP/s; one row times 4096 x 4096 weights at 84% of 1638 GB/s."""
    chip = systolic.load_chip("tpu-v6e")

    def seconds(m: int) -> float:
        gemm = Gemm(m=m, n=4096, k=4096, dtype="bf16")
        return work_of(Workload(name="w", ops=(gemm,)), chip).roofline()

    assert seconds(4096) == pytest.approx(2 * 4096**3 / 918e12, rel=0.001)
    assert seconds(1) == pytest.approx(2 * 4096 * 4098 / (0.84 * 1638e9), rel=0.001)


def test_a_fitted_roofline_finds_the_constants_of_a_roofline() -> None:
    chip = systolic.load_chip("tpu-v6e")
    for launch in (0.0, 4e-6):
        rows = []
        for m, n, k in SHAPES:
            work = work_of(Workload(name="w", ops=(Gemm(m=m, n=n, k=k, dtype="bf16"),)), chip)
            seconds = work.roofline(0.7, 0.9, launch)
            rows.append(Point(name="", kind="", measured=seconds, simulated=seconds, work=work))
        if launch:
            rate, bandwidth, found = points.fitted_roofline_with_launch(rows)
            assert found == pytest.approx(launch, rel=0.15)
        else:
            rate, bandwidth = points.fitted_roofline(rows)
        assert rate == pytest.approx(0.7, rel=0.05 if launch else 0.01)
        assert bandwidth == pytest.approx(0.9, rel=0.05 if launch else 0.01)


def test_a_rate_that_makes_no_difference_stays_the_chips_own() -> None:
    works = [Work(compute=(seconds,), memory=(1e-3 * seconds,)) for seconds in (1.0, 2.0, 5.0)]
    rows = [Point(name="", kind="", measured=2 * w.compute[0], simulated=1, work=w) for w in works]
    rate, bandwidth = points.fitted_roofline(rows)
    assert rate == pytest.approx(0.5, rel=0.01)
    assert bandwidth == pytest.approx(1.0, rel=0.001)


def test_the_best_peer_predicts_every_row() -> None:
    rows = [made(1.0, 1.0, peers={"a": 1.0, "b": 1.2}), made(1.0, 1.0, peers={"b": 1.3})]
    best = points.best_peer(rows)
    assert best is not None
    assert best[0] == "b"
    assert points.best_peer([made(1.0, 1.0)]) is None
