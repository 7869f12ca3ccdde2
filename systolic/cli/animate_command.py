"""``systolic animate``: watch a matmul move through a systolic array, or the warps of a GPU at it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SystolicError, raise_if_any
from .bar import Bar
from .files import check_target, write_whole
from .matrices import read_matrix
from .options import Debug, Overrides, parse_set

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..chips import Chip
    from ..engine.recording import Recording
    from ..workload import Workload

SUFFIXES = (".html", ".gif", ".mp4", ".png", ".svg")
STILLS = (".png", ".svg")
MOST_FRAMES = 600
"""Frames beyond which a film is refused: a page plays any number."""


def animate(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="M,N,K such as 4,4,4; or a model as for systolic run, with --matmul."
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .html page, .gif, .mp4, or .png or .svg still."
        ),
    ],
    on: Annotated[
        str | None,
        typer.Option(metavar="CHIP", help="Default: teaching-4x4 for M,N,K, tpu-v4 for a model."),
    ] = None,
    matmul: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which matmul of the model, as attn.qk.")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="Which of its layers, counted from 0.")] = None,
    dataflow: Annotated[
        str | None,
        typer.Option(metavar="ws|os|is[,…]", help="One, or several side by side. Default: the chip's own."),
    ] = None,
    cycle: Annotated[
        int | None, typer.Option(help="Cycle of a still; of a page, where it opens. Default: the middle; 0.")
    ] = None,
    fps: Annotated[float, typer.Option(help="Cycles per second of a film.")] = 2.0,
    lhs: Annotated[
        str | None, typer.Option(metavar="FILE", help="A, m rows of k numbers: .csv or .npy.")
    ] = None,
    rhs: Annotated[
        str | None, typer.Option(metavar="FILE", help="B, k rows of n numbers: .csv or .npy.")
    ] = None,
    values: Annotated[
        str, typer.Option(metavar="digits|normal", help="Drawn operands: digits 1 to 9, or N(0, 1).")
    ] = "digits",
    seed: Annotated[int, typer.Option(help="Of the drawn operands.")] = 0,
    loop: Annotated[
        str | None,
        typer.Option(
            metavar="naive|reordered|blocked",
            help="On a core instead: the cache lines that these loops touch.",
        ),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(metavar="KERNEL", help="On a GPU: as for systolic run.")
    ] = None,
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
    """Draw a matmul on a systolic array, clock by clock, from the registers of the stepped engine; on a GPU,
    what the warps of an SM do, and how thread blocks fill the SMs; with --loop, the cache lines of a core.

    Examples: systolic animate 4,4,4 -o player.html; systolic animate 4,4,4 --dataflow ws,os,is -o three.html;
    systolic animate gpt2 --layer 3 --matmul attn.qk -o layer.html;
    systolic animate 4096,4096,4096 --on h100 -o warps.html;
    systolic animate 24,24,24 --loop naive -o lines.html
    """
    problems: list[str] = []
    target, changed = Path(output), parse_set(overrides or [], problems)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        problems.append(f"--output must end in one of {', '.join(SUFFIXES)}, got {output!r}")
    if cycle is not None and cycle < 0:
        problems.append(f"--cycle must be >= 0, got {cycle}")
    if seed < 0:
        problems.append(f"--seed must be >= 0, got {seed}")
    if not 0 < fps <= 50:
        problems.append(f"--fps must be > 0 and <= 50, got {fps:g}")
    if cycle is not None and suffix in (".gif", ".mp4"):
        problems.append(f"--cycle applies to a page or a still, not to {suffix}; drop it, or write a .png")
    raise_if_any(problems)
    check_target(target, "--output")
    if suffix == ".mp4":
        from ..viz.film import refuse_without_ffmpeg

        refuse_without_ffmpeg()
    operands: dict[str, Any] = {
        name: read_matrix(file, f"--{name}") for name, file in (("lhs", lhs), ("rhs", rhs)) if file
    }

    from ..chips import load_chip
    from ..engine.recording import record
    from ..models import load_model

    with Bar() as bar:
        work = load_model(model, phase=phase, batch=batch, seq=seq, kv_len=kv_len, dtype=dtype)
        if loop is not None:
            of_chips = {"--on": on, "--dataflow": dataflow, "--lhs": lhs, "--rhs": rhs, "--kernel": kernel}
            why = "with --loop, which draws the caches of a core on a page"
            _refuse(why, suffix, {**of_chips, "--matmul": matmul, "--layer": layer})
            write_whole(target, _lines(work, loop, dtype, cycle))
            print(f"systolic: wrote {output}", file=sys.stderr)
            return
        chip = load_chip(on or ("teaching-4x4" if len(work.ops) == 1 else "tpu-v4"), changed)
        if chip.kind == "gpu":
            why = f"for {chip.name}, whose warps are drawn on a page"
            _refuse(why, suffix, {"--dataflow": dataflow, "--lhs": lhs, "--rhs": rhs})
            write_whole(target, _warps(work, chip, matmul, layer, kernel, cycle))
            print(f"systolic: wrote {output}", file=sys.stderr)
            return
        if kernel is not None:
            raise SystolicError(f"--kernel is no choice of {chip.name}, which has no warps; got {kernel!r}")
        recording = record(
            work,
            on=chip,
            matmul=matmul,
            layer=layer,
            dataflows=() if dataflow is None else tuple(d.strip() for d in dataflow.split(",")),
            values=values,
            seed=seed,
            progress=bar,
            **operands,
        )
        write_whole(target, _drawn(recording, suffix, cycle, fps, bar))
    print(f"systolic: wrote {output}", file=sys.stderr)


def _refuse(why: str, suffix: str, options: Mapping[str, object]) -> None:
    """What a page without an array does not have."""
    problems = [
        f"{name} must be left out {why}; got {value!r}"
        for name, value in options.items()
        if value is not None
    ]
    if suffix != ".html":
        problems.append(f"--output must end in .html {why}; got {suffix!r}")
    raise_if_any(problems)


def _lines(work: Workload, loop: str, dtype: str | None, access: int | None) -> str:
    """The page of a core's caches."""
    from dataclasses import replace

    from ..engine.line_recording import record_lines
    from ..viz.lines_page import lines_html
    from ..workload import Gemm

    gemm = work.ops[0]
    if len(work.ops) > 1 or not isinstance(gemm, Gemm):
        raise SystolicError(f"--loop takes one matmul such as 24,24,24, got the model {work.name}")
    recording = record_lines(gemm if dtype else replace(gemm, dtype="fp32", rhs_dtype="fp32"), loop)
    accesses = len(recording.level)
    if access is not None and access > accesses:
        raise SystolicError(f"--cycle must be 0 to {accesses:,}, the accesses recorded, got {access:,}")
    return lines_html(recording, access or 0)


def _warps(
    work: Workload, chip: Chip, matmul: str | None, layer: int | None, kernel: str | None, cycle: int | None
) -> str:
    """The page of a GPU."""
    from ..engine.warp_recording import record_gpu
    from ..viz.warps_page import warps_html

    recording = record_gpu(work, on=chip, matmul=matmul, layer=layer, kernel=kernel)
    cycles = int(recording.warps.stop.max())
    if cycle is not None and cycle > cycles:
        raise SystolicError(f"--cycle must be 0 to {cycles:,}, the cycles recorded, got {cycle:,}")
    return warps_html(recording, cycle or 0)


def _drawn(recording: Recording, suffix: str, cycle: int | None, fps: float, bar: Bar) -> str | bytes:
    """The file's content."""
    cycles = max(run.array.cycles for run in recording.runs)
    if cycle is not None and cycle > cycles:
        raise SystolicError(f"--cycle must be 0 to {cycles:,}, the cycles recorded, got {cycle:,}")
    if suffix == ".html":
        from ..viz.player_page import player_html

        return player_html(recording, cycle or 0)
    from ..viz.scene import scene_of

    if suffix in STILLS:
        from ..viz import film, svg

        still = scene_of(recording, cycles // 2 if cycle is None else cycle)
        return svg.to_svg(still) if suffix == ".svg" else film.to_png(still)
    if cycles + 1 > MOST_FRAMES:
        raise SystolicError(
            f"a {suffix} must have at most {MOST_FRAMES} frames, got {cycles + 1:,} cycles to show; write a "
            ".html, which plays any number, or take a smaller M,N,K"
        )
    return _film(recording, suffix, cycles, fps, bar)


def _film(recording: Recording, suffix: str, cycles: int, fps: float, bar: Bar) -> bytes:
    from ..viz import film
    from ..viz.scene import scene_of

    bar.start("frames", cycles + 1)

    def scenes() -> Any:
        for at in range(cycles + 1):
            yield scene_of(recording, at)
            bar.advance(1)

    return film.to_gif(scenes(), fps) if suffix == ".gif" else film.to_mp4(scenes(), fps)
