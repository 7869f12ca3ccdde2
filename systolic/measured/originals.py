"""The columns of public files of measurements, as their collection publishes them -> :class:`Row`.

``sims/convert_measured.py`` makes the files that ship from them, and the studies judge other rows in files
of the same names and columns by them: each file is read in one way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..dtypes import canonical
from ..errors import SystolicError
from .rows import Read, Row, read_table

Texts = Mapping[str, str]

_MATMULS = ("matmul", "linear", "bmm", "addmm")
_TPU_V3_DTYPE = "fp32"
"""The source states none; its own softmax rows move 16.0 bytes per element, four passes of four bytes."""


def _base(texts: Texts, clock: str, **other: Any) -> Row:
    """What all files with one op per row share."""
    return Row(
        **{
            "device": texts["device"],
            "dtype": texts["dtype"],
            "op": texts["op"],
            "batch": int(texts["batch"] or 1),
            **{side: int(texts[side.upper()] or 0) for side in "mnk"},
            "precision": _precision(texts),
            "clock": clock,
            "measured_us": float(texts["measured_us"]),
            "lo_us": _number(texts, "lo_us", "min_us"),
            "hi_us": _number(texts, "hi_us", "max_us"),
            **other,
        }
    )


def _precision(texts: Texts) -> str:
    """What a GPU multiplies as float32 there, its float32 units do: tf32 rows are named so."""
    return "highest" if texts["dtype"] == "fp32" and texts["op"] in _MATMULS else ""


def _number(texts: Texts, *names: str) -> float | None:
    """The first of these columns that holds a number > 0."""
    return next((float(texts[name]) for name in names if texts.get(name) and float(texts[name]) > 0), None)


def _digits(time: float) -> float:
    """A converted time without the last bits of the conversion: ten digits, as files hold them."""
    return float(f"{time:.10g}")


def _peers(texts: Texts, scale: float = 1.0, **columns: str) -> dict[str, float]:
    """Tool -> its prediction, microseconds, of the columns that hold one."""
    return {tool: _digits(scale * float(texts[name])) for tool, name in columns.items() if texts.get(name)}


def _linear(texts: Texts, *ops: str) -> dict[str, str]:
    """Layers that multiply by weights kept as (outputs, inputs), as frameworks keep them: y = x W^T."""
    return {"layout": "nt"} if texts["op"] in ("linear", *ops) else {}


def _llmcompass(texts: Texts) -> Row:
    stage = "" if texts["stage"] == "op" else texts["stage"]
    peers = _peers(texts, llmcompass="sim_us")
    return _base(texts, "host", stage=stage, peers=peers)


def _neusight_layer(texts: Texts) -> Row:
    name = f"{texts['model']} {texts['node']}"
    stage = f"{texts['mode']} {texts['model_batch']}x{texts['seq']}"
    return _base(texts, "event", name=name, stage=stage, **_linear(texts))


def _neusight_model(texts: Texts) -> Row:
    tools = ("neusight", "habitat", "micro")
    return Row(
        device=texts["device"],
        dtype="fp32",
        precision="highest",
        op={"inf": "prefill", "train": "train"}[texts["mode"]],
        name=texts["model"],
        stage=texts["option"],
        batch=int(texts["batch"]),
        m=int(texts["seq"]),
        clock="event",
        measured_us=_digits(1e3 * float(texts["e2e_ms"])),
        peers=_peers(texts, 1e3, **{tool: f"{tool}_ms" for tool in tools}),
    )


def _layer(texts: Texts) -> Row:
    name = f"{texts['model']} {texts['layer']}"
    return _base(texts, "kernel", name=name, stage=f"tp{texts['tp']}", **_linear(texts, "matmul"))


def _deepbench(texts: Texts) -> Row:
    # What lies column by column as written lies row by row transposed.
    layout = "".join({"N": "t", "T": "n"}[texts[name]] for name in ("ta", "tb"))
    stage = "padded" if texts["padded"] == "1" else ""
    return _base(texts, "loop", op="matmul_add", name=texts["kind"], stage=stage, layout=layout)


def _mgpusim(texts: Texts) -> Row:
    return Row(
        device=texts["device"],
        dtype=texts["dtype"],
        op=texts["op"],
        stage=texts["problem_size"],
        clock="unstated",
        measured_us=float(texts["measured_us"]),
        lo_us=_number(texts, "min_us"),
        hi_us=_number(texts, "max_us"),
        peers=_peers(texts, mgpusim="mgpusim_m91_us"),
    )


def _faer(texts: Texts) -> Row:
    threads = texts["threads_available"]
    return _base(texts, "unstated", name=texts["library"], stage=f"{threads} threads")


def _tpu_v3(texts: Texts) -> Row:
    cycle = 1 / float(texts["clock_mhz"])
    tools = ("scalesim3", "mnpusim", "timeloop", "maestro")
    return Row(
        device=texts["device"],
        dtype=_TPU_V3_DTYPE,
        op=texts["op"],
        name=texts["workload"],
        batch=int(texts["batch"] or 1),
        m=int(texts["M"] or 0),
        n=int(texts["N"] or 0),
        k=int(texts["K"] or 0),
        clock="counter",
        measured_us=_digits(cycle * float(texts["measured_cycles"])),
        peers=_peers(texts, cycle, **{tool: f"{tool}_cycles" for tool in tools}),
    )


def _tpu_v6e(texts: Texts) -> Row:
    return _base(texts, "chained", peers=_peers(texts, cocossim="cocossim_us"))


def _tpu_v6e_model(texts: Texts) -> Row:
    return Row(
        device=texts.get("device", "TPUv6e"),
        dtype="bf16",
        op=texts["phase"],
        name="qwen3-8b",
        batch=int(texts["batch"]),
        m=int(texts["seq_or_kv"]),
        clock="kernel",
        measured_us=_digits(1e3 * float(texts["device_busy_ms"])),
        peers=_peers(texts, 1e3, cocossim="cocossim_ms"),
    )


def _tpu_v7(texts: Texts) -> Row:
    clock = {"wall": "host", "trace": "kernel"}[texts["timing"]]
    return _base(texts, clock, dtype=canonical(texts["dtype"]))


READERS: Mapping[str, Callable[[Texts], Row]] = {
    "llmcompass.csv": _llmcompass,
    "neusight_gemm.csv": lambda texts: _base(texts, "event", **_linear(texts)),
    "neusight_vector.csv": lambda texts: _base(texts, "event"),
    "neusight_layer_ops.csv": _neusight_layer,
    "neusight_models.csv": _neusight_model,
    "aiconfigurator_gemm.csv": lambda texts: _base(texts, "graph", layout="nt"),
    "aiconfigurator_int8.csv": lambda texts: _base(texts, "kernel", layout="nt"),
    "xla_gemm.csv": lambda texts: _base(texts, "kernel"),
    "vidur_layer_ops.csv": _layer,
    "llmservingsim_dense.csv": _layer,
    "deepbench_gemm.csv": _deepbench,
    "deepgemm_h800_fp8.csv": lambda texts: _base(texts, "unstated", layout="nt"),
    "mgpusim_mi300a.csv": _mgpusim,
    "cpu_faer_i5_11400.csv": _faer,
    "pytorchsim_tpuv3.csv": _tpu_v3,
    "tpu_v6e_gemm_device.csv": _tpu_v6e,
    "tpu_v6e_qwen3_8b.csv": _tpu_v6e_model,
    "tpu_v6e_v7_gemm.csv": _tpu_v7,
}
"""Name of a file -> how one of its rows is read."""


def read_original(path: Path) -> Read:
    """The rows of a file that has one of the names, and the columns, of :data:`READERS`.

    Raises
    ------
    SystolicError
        If the file has another name, cannot be read, lacks a column, or holds no number where one must be.
    """
    if path.name not in READERS:
        raise SystolicError(f"{path}: is no file of measurements that is known; known: {', '.join(READERS)}")
    table, notes = read_table(path)
    rows = []
    for at, texts in enumerate(table, 1):
        try:
            rows.append(READERS[path.name](texts))
        except KeyError as error:
            raise SystolicError(f"{path}: row {at}: column or word {error} is missing or unknown") from None
        except ValueError as error:
            raise SystolicError(f"{path}: row {at}: {error}") from None
    return Read(tuple(rows), notes)
