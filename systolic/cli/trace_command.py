"""``systolic trace``: what each unit does, cycle by cycle, for trace viewers and waveform viewers."""

from __future__ import annotations

import gzip
import io
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from ..errors import SystolicError, raise_if_any
from .bar import Bar
from .files import check_target, whole_file
from .options import Debug, Overrides, parse_set

SUFFIXES = (".json", ".json.gz", ".vcd")
COMPRESSION = 12
"""About how many times smaller gzip makes a trace."""


def trace(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="As for systolic run: a name, or M,N,K.")],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A .json or .json.gz trace of all units for Perfetto, or a .vcd waveform of the array.",
        ),
    ],
    on: Annotated[
        str | None,
        typer.Option(metavar="CHIP", help="Default: tpu-v4; for a waveform of M,N,K teaching-4x4."),
    ] = None,
    detail: Annotated[
        str, typer.Option(metavar="slice|op", help="Of a .json: all that units do, or one slice for each op.")
    ] = "slice",
    matmul: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of a .vcd: which matmul of the model.")
    ] = None,
    dataflow: Annotated[
        str | None, typer.Option(metavar="ws|os|is", help="What stays in the PEs. Default: the chip's own.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of a .vcd: of the drawn operands, digits 1 to 9.")] = 0,
    phase: Annotated[
        str, typer.Option(metavar="prefill|decode|train", help="As for systolic run.")
    ] = "prefill",
    batch: Annotated[int, typer.Option(help="Sequences at once.")] = 1,
    seq: Annotated[int | None, typer.Option(help="Tokens per sequence in prefill.")] = None,
    kv_len: Annotated[int | None, typer.Option("--kv-len", help="Keys attended in decode.")] = None,
    dtype: Annotated[str | None, typer.Option(metavar="FORMAT", help="Number format, as int8.")] = None,
    overrides: Overrides = None,
    debug: Debug = False,
) -> None:
    """Write what memory ports, arrays and vector unit do, cycle by cycle, for viewers of traces and waves.

    Open a .json.gz on ui.perfetto.dev, a .vcd in GTKWave. Slices add up to the cycles of systolic run;
    registers are those of the stepped engine.
    """
    problems: list[str] = []
    target, changed = Path(output), parse_set(overrides or [], problems)
    is_wave = target.suffix.lower() == ".vcd"
    if not target.name.lower().endswith(SUFFIXES):
        problems.append(f"--output must end in one of {', '.join(SUFFIXES)}, got {output!r}")
    if detail not in ("slice", "op"):
        problems.append(f"--detail must be one of slice, op, got {detail!r}")
    if not is_wave and matmul is not None:
        problems.append("--matmul applies to a .vcd, and a .json holds all ops; drop it")
    if seed < 0:
        problems.append(f"--seed must be >= 0, got {seed}")
    raise_if_any(problems)
    check_target(target, "--output")

    from ..models import load_model

    with Bar() as bar:
        work = load_model(model, phase=phase, batch=batch, seq=seq, kv_len=kv_len, dtype=dtype)
        if is_wave:
            options = {"matmul": matmul, "seed": seed, "dataflows": () if dataflow is None else (dataflow,)}
            chip = on or ("teaching-4x4" if len(work.ops) == 1 else "tpu-v4")
            _write_wave(target, work, {"on": chip, "overrides": changed, **options}, bar)
        else:
            _write_slices(
                target, work, {"on": on or "tpu-v4", "overrides": changed, "dataflow": dataflow}, detail, bar
            )
    print(f"systolic: wrote {output}", file=sys.stderr)


def _write_slices(target: Path, work: Any, options: dict[str, Any], detail: str, bar: Bar) -> None:
    from ..engine.unrolled import unroll
    from ..viz.chrome_trace import EVENT_BYTES, write_chrome_trace

    run = unroll(work, **options)
    ops = sum(row.op.count for row in run.rows)
    slices = ops if detail == "op" else 2 * run.most_slices + ops
    packed = COMPRESSION if target.suffix == ".gz" else 1
    cheaper = "" if detail == "op" else "; --detail op writes one slice for each op"
    _say_size(target, f"at most {slices:,} events", slices * EVENT_BYTES // packed, cheaper, bar)
    with whole_file(target) as temporary, _text(temporary, target.suffix == ".gz") as file:
        write_chrome_trace(run, file, detail)


def _write_wave(target: Path, work: Any, options: dict[str, Any], bar: Bar) -> None:
    from ..engine.recording import record
    from ..viz.waveform import CHANGE_BYTES, most_changes, write_vcd

    recording = record(work, **options, progress=bar)
    (run,) = recording.runs
    array = run.array
    if array.grid is not None or not array.is_whole:
        raise SystolicError(
            f"a .vcd must hold every register of every cycle, got {array.rows} x {array.cols} PEs for "
            f"{array.total_cycles:,} cycles; take a smaller M,N,K or --set array.rows=… --set array.cols=…"
        )
    changes = most_changes(array)
    _say_size(target, f"at most {changes:,} changes", changes * CHANGE_BYTES, "", bar)
    with whole_file(target) as temporary, _text(temporary, packed=False) as file:
        write_vcd(recording, run, file)


def _say_size(target: Path, what: str, num_bytes: int, cheaper: str, bar: Bar) -> None:
    """Say what will be written, and refuse what the disk cannot take."""
    from ..quantity import format_bytes

    bar.announce(f"{target}: {what}, about {format_bytes(num_bytes)}{cheaper}")
    free = shutil.disk_usage(target.resolve().parent).free
    if num_bytes > free:
        raise SystolicError(f"{target}: takes about {format_bytes(num_bytes)}, {format_bytes(free)} are free")


@contextmanager
def _text(path: Path, packed: bool) -> Iterator[TextIO]:
    """The file for text, gzipped without name and time: the same run gives the same bytes."""
    if not packed:
        with path.open("w", encoding="utf-8") as file:
            yield file
        return
    with (
        path.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as unpacked,
        io.TextIOWrapper(unpacked, encoding="utf-8") as file,
    ):
        yield file
