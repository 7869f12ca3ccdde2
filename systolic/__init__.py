"""Transformer matmuls on systolic arrays: what they cost, cycle by cycle, and whether the result is right.

    import systolic
    report = systolic.simulate(systolic.load_model("gpt2", seq=1024), on="tpu-v4")
    print(report)

Names load when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .chips.loader import register_chip

if TYPE_CHECKING:
    from .chips import Chip, load_chip
    from .engine.execute import run
    from .engine.fusion import fusion_report
    from .engine.hook import matmul_hook
    from .engine.report import Report
    from .engine.simulation import simulate
    from .errors import SystolicError
    from .explore.running import sweep
    from .explore.table import Sweep
    from .measured.calibration import Calibration, calibrate
    from .measured.compare_rows import compare
    from .measured.comparison import Comparison
    from .models import load_model
    from .models.programs import load_program
    from .viz.figures import plot
    from .workload import Gemm, VectorOp, Workload

__version__ = "0.1.0"

__all__ = [
    "Calibration",
    "Chip",
    "Comparison",
    "Gemm",
    "Report",
    "Sweep",
    "SystolicError",
    "VectorOp",
    "Workload",
    "__version__",
    "calibrate",
    "compare",
    "fusion_report",
    "load_chip",
    "load_model",
    "load_program",
    "matmul_hook",
    "plot",
    "run",
    "simulate",
    "sweep",
]

_HOMES = {
    "Calibration": "measured.calibration",
    "Chip": "chips",
    "Comparison": "measured.comparison",
    "Gemm": "workload",
    "Report": "engine.report",
    "Sweep": "explore.table",
    "SystolicError": "errors",
    "VectorOp": "workload",
    "Workload": "workload",
    "calibrate": "measured.calibration",
    "compare": "measured.compare_rows",
    "fusion_report": "engine.fusion",
    "load_chip": "chips",
    "load_model": "models",
    "load_program": "models.programs",
    "matmul_hook": "engine.hook",
    "plot": "viz.figures",
    "run": "engine.execute",
    "simulate": "engine.simulation",
    "sweep": "explore.running",
}


def _host() -> Chip:
    """This machine as a chip, measured where it is first asked for."""
    from .measured.host_as_chip import host_chip

    return host_chip()


register_chip("host", _host)  # here, since chips may not know of measuring, and all that simulates comes by


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
