"""One cycle of a recorded run as shapes on a plane, for every kind of file that is not a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine.recording import Recording, Run
from ..kernels.stationary import REAL, TOKEN
from .palette import BLUE, CAUSE_FILLS, GREEN, LIGHT, ORANGE
from .words import FLOW_NAMES, LEFT_NAMES, OUT_NAMES, TOP_NAMES, facts_of, subtitle_of, title_of

INK, SOFT, PAPER, CARD = (LIGHT[role] for role in ("ink", "soft", "paper", "card"))
LINE, GLOW, EDGE = "#c3c8d0", "#fff3cf", "#d9a400"
SUMS = "#00795a"
"""The palette's green, darkened so that white text on it can be read."""
COLOURS = {"A": (BLUE, "#ffffff"), "B": (ORANGE, "#1a1200"), "C": (SUMS, "#ffffff")}
HEADER, FOOTER = 92, 62
AHEAD, AHEAD_ALONE = 7, 11
"""Words of a staircase that are shown; of a small array by itself."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, its corners rounded by `radius`."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    line: str = ""
    radius: float = 0


@dataclass(frozen=True, slots=True)
class Label:
    """A text of height `size` whose middle lies at y; `anchor` is ``start``, ``middle`` or ``end``."""

    x: float
    y: float
    text: str
    size: int
    fill: str = INK
    anchor: str = "middle"


@dataclass(frozen=True)
class Scene:
    """Shapes in the order in which they are drawn, on `width` x `height` points."""

    width: int
    height: int
    shapes: tuple[Box | Label, ...]
    title: str


@dataclass(frozen=True)
class _Plan:
    """Where things lie for one run: PEs of side `pitch`, words at the edges `gap` apart."""

    run: Run
    left: float
    top: float
    pitch: int
    ahead: int

    @classmethod
    def of(cls, run: Run, left: float, top: float, ahead: int) -> _Plan:
        array = run.array
        side = max(array.rows, array.cols)
        pitch = 64 if side <= 6 else 48 if side <= 10 else 34 if side <= 16 else 26
        return cls(run, left, top, pitch, min(ahead, longest_wait(array.left_flags)))

    @property
    def gap(self) -> float:
        return self.pitch * 0.52

    @property
    def x(self) -> float:
        return self.left + self.ahead * self.gap + 12

    @property
    def y(self) -> float:
        return self.top + 22 + self.above * self.gap * 0.72 + 10

    @property
    def above(self) -> int:
        """Words that the staircase above shows at most."""
        return min(AHEAD, longest_wait(self.run.array.top_flags))

    @property
    def width(self) -> float:
        return self.x - self.left + self.run.array.cols * self.pitch + 16

    @property
    def height(self) -> float:
        return self.y - self.top + self.run.array.rows * self.pitch + 2 * self.gap + 26


def longest_wait(flags: np.ndarray) -> int:
    """How far from its edge the last word waits at the start."""
    waiting = np.flatnonzero(flags.any(axis=(1, 2)))
    return int(waiting[-1]) + 1 if len(waiting) else 0


def scene_of(recording: Recording, cycle: int) -> Scene:
    """All runs of a recording after clock `cycle`, each at its last cycle once it is over."""
    shapes: list[Box | Label] = []
    left, bottom = 16.0, 0.0
    drawn: list[Box | Label] = []
    small = len(recording.runs) == 1 and max(recording.runs[0].array.rows, recording.runs[0].array.cols) <= 6
    for run in recording.runs:
        if run.array.grid is None:
            plan = _Plan.of(run, left, HEADER, AHEAD_ALONE if small else AHEAD)
            drawn += _array(plan, min(cycle, run.array.cycles))
            width, height = plan.width, plan.height
        else:
            width, height, cells = _cells(run, left, HEADER, min(cycle, run.array.cycles))
            drawn += cells
        left += width
        bottom = max(bottom, HEADER + height)
    size = int(max(left + 16, 470)), int(bottom + FOOTER)
    shapes.append(Box(0, 0, *size, PAPER))
    shapes += _header(recording, cycle, size[0])
    shapes += drawn
    shapes += _footer(recording, cycle, *size)
    return Scene(*size, tuple(shapes), title_of(recording))


def _header(recording: Recording, cycle: int, width: int) -> list[Box | Label]:
    last = max(run.array.cycles for run in recording.runs)
    run = recording.runs[0]
    title, below = title_of(recording), subtitle_of(recording)
    room = width - 32
    shapes: list[Box | Label] = [
        Label(16, 22, title, min(19, int(room / (0.54 * len(title)))), INK, "start"),
        Label(16, 44, below, min(13, int(room / (0.5 * len(below)))), SOFT, "start"),
        Label(16, 70, f"cycle {cycle} of {last}", 19, INK, "start"),
    ]
    if len(recording.runs) == 1 and 0 < cycle <= run.array.cycles:
        cause = run.array.causes[cycle - 1]
        text = cause.replace("_", " ")
        shapes.append(Box(156, 60, 12 + 8 * len(text), 21, CAUSE_FILLS[cause].colour, radius=10))
        shapes.append(Label(162 + 4 * len(text), 70, text, 13, CARD if cause.startswith("stall") else INK))
    return shapes


def _footer(recording: Recording, cycle: int, width: int, height: int) -> list[Box | Label]:
    """Figures of this cycle, and every parameter of the run."""
    figures = []
    for run in recording.runs:
        array, at = run.array, min(cycle, run.array.cycles)
        name = f"{array.dataflow}: " if len(recording.runs) > 1 else ""
        into = int(array.entered["lhs"][at] + array.entered["rhs"][at])
        busy = f"{int(array.busy[at]):,} of {array.rows * array.cols:,} PEs busy"
        moved = f"{into:,} B in · {int(array.entered['psum'][at]):,} B out"
        figures.append(f"{name}{int(array.macs[at]):,} MACs · {busy} · {moved}")
    facts = " · ".join(
        value for name, value in facts_of(recording) if name in ("chip", "array", "numbers", "operands")
    )
    lines = [("   ".join(figures), INK, 13), (facts, SOFT, 11)]
    return [
        Label(16, height - 42 + 22 * i, text, min(size, int((width - 32) / (0.5 * len(text)))), fill, "start")
        for i, (text, fill, size) in enumerate(lines)
    ]


def _array(plan: _Plan, t: int) -> list[Box | Label]:
    array, pitch = plan.run.array, plan.pitch
    shapes: list[Box | Label] = []
    small = max(9, int(pitch * 0.2))
    flow = array.dataflow
    shapes.append(Label(plan.left, plan.y - 12, f"{LEFT_NAMES[flow]} →", small, SOFT, "start"))
    shapes.append(Label(plan.x, plan.top + 8, f"{TOP_NAMES[flow]} ↓", small, SOFT, "start"))
    base = plan.y + array.rows * pitch
    shapes.append(Label(plan.x, base + 2 * plan.gap + 14, f"{OUT_NAMES[flow]} ↓", small, SOFT, "start"))
    shapes.append(Label(plan.left, plan.top + 8, FLOW_NAMES[flow], small + 1, INK, "start"))
    now = {name: register[t].tolist() for name, register in array.registers.items()}
    for r in range(array.rows):
        for c in range(array.cols):
            shapes += _pe(plan, now, r, c)
    shapes += _waiting(plan, t)
    return shapes + _fallen(plan, t, base)


def _pe(plan: _Plan, now: Mapping[str, Any], r: int, c: int) -> list[Box | Label]:
    """One PE; `now` holds the registers of this clock, as lists by row and column, those of lanes by lane."""
    array, pitch = plan.run.array, plan.pitch
    is_os, lanes = array.dataflow == "os", range(array.lanes)
    x, y = plan.x + c * pitch, plan.y + r * pitch
    moving, other = ("B", "A") if array.dataflow == "is" else ("A", "B")
    here = [lane for lane in lanes if now["flags"][lane][r][c] & TOKEN]
    valid = [lane for lane in lanes if now["valid"][lane][r][c]]
    held = [
        lane for lane in lanes if (now["weight_flags"][lane] if is_os else now["weight_real"])[r][c] & REAL
    ]
    busy = not set(valid).isdisjoint(held)
    side, big, tiny = pitch - 5, int(pitch * 0.3), max(8, int(pitch * 0.21))
    shapes: list[Box | Label] = [
        Box(x, y, side, side, GLOW if busy else CARD, EDGE if busy else LINE, pitch * 0.13)
    ]
    if here:
        acts = " ".join(_short(now["act"][lane][r][c]) for lane in here)
        high = side * (0.2 if is_os else 0.28)
        shapes += _pill(x + side * 0.27, y + high, acts, moving, side * 0.44, tiny, bool(valid))
    if is_os:
        words = [lane for lane in lanes if now["weight_flags"][lane][r][c] & TOKEN]
        if words:
            text = " ".join(_short(now["weight"][lane][r][c]) for lane in words)
            shapes += _pill(x + side * 0.73, y + side * 0.2, text, other, side * 0.44, tiny, bool(held))
        shapes.append(Label(x + side / 2, y + side * 0.53, _short(now["psum"][r][c]), big))
        if now["shadow_state"][r][c]:
            shapes += _pill(
                x + side / 2, y + side * 0.84, _short(now["shadow"][r][c]), "C", side * 0.78, tiny
            )
        return shapes
    if held:
        shapes.append(Label(x + side * 0.72, y + side * 0.45, _short(now["weight"][r][c]), big))
    if now["shadow_real"][r][c]:
        text = f"({_short(now['shadow'][r][c])})"
        shapes.append(Label(x + side * 0.8, y + side * 0.15, text, max(7, tiny - 2), SOFT))
    falling = [w for w in range(len(now["moving"])) if now["moving_flags"][w][r][c] & TOKEN]
    if falling:
        text = " ".join(_short(now["moving"][w][r][c]) for w in falling)
        shapes += _pill(x + side * 0.6, y + side * 0.16, text, other, side * 0.44, tiny)
    if here:
        sums = " ".join(_short(now["psum"][lane][r][c]) for lane in here)
        shapes += _pill(x + side / 2, y + side * 0.82, sums, "C", side * 0.78, tiny)
    return shapes


def _waiting(plan: _Plan, t: int) -> list[Box | Label]:
    """The staircases: words that will enter in the next clocks, the nearest first."""
    array = plan.run.array
    moving, other = ("B", "A") if array.dataflow == "is" else ("A", "B")
    pitch, gap, tiny = plan.pitch, plan.gap, max(8, int(plan.pitch * 0.21))
    level = 0.2 if array.dataflow == "os" else 0.28
    shapes: list[Box | Label] = []
    for ahead in range(min(plan.ahead, array.cycles - t)):
        words, flags = array.left[t + ahead], array.left_flags[t + ahead]
        for r in np.flatnonzero((flags & TOKEN).any(axis=0)):
            text = _joined(words[:, r][flags[:, r] & TOKEN != 0])
            x, y = plan.x - 12 - (ahead + 0.5) * gap, plan.y + int(r) * pitch + (pitch - 5) * level
            shapes += _pill(x, y, text, moving, gap * 0.9, tiny, bool((flags[:, r] & REAL).any()))
    for ahead in range(min(plan.above, array.cycles - t)):
        words, flags = array.top[t + ahead], array.top_flags[t + ahead]
        for c in np.flatnonzero((flags & TOKEN).any(axis=0)):
            text = _joined(words[:, c][flags[:, c] & TOKEN != 0])
            x, y = plan.x + int(c) * pitch + (pitch - 5) * 0.6, plan.y - 10 - (ahead + 0.5) * gap * 0.72
            shapes += _pill(x, y, text, other, gap * 0.9, tiny, bool((flags[:, c] & REAL).any()))
    return shapes


def _fallen(plan: _Plan, t: int, base: float) -> list[Box | Label]:
    """Sums that have left, the latest first."""
    array, pitch = plan.run.array, plan.pitch
    is_os = array.dataflow == "os"
    shapes: list[Box | Label] = []
    for ago in range(2):
        index = t - 1 - ago - (0 if is_os else 1)
        if index < 0:
            break
        left = array.bottom_flags[index] & (1 if is_os else TOKEN) != 0
        for c in np.flatnonzero(left.any(axis=0)):
            text = _joined(array.bottom[index, :, c][left[:, c]])
            x, y = plan.x + int(c) * pitch + (pitch - 5) / 2, base + (ago + 0.4) * plan.gap
            shapes += _pill(x, y, text, "C", pitch * 0.72, max(8, int(pitch * 0.21)))
    return shapes


def _pill(
    x: float, y: float, text: str, kind: str, width: float, size: int, valid: bool = True
) -> list[Box | Label]:
    """A word on its way; one that is padding is pale."""
    fill, ink = COLOURS[kind] if valid else ("#e4e6ea", SOFT)
    height = size * 1.5
    fitting = min(size, int(1.75 * width / max(1, len(text))))
    return [
        Box(x - width / 2, y - height / 2, width, height, fill, radius=height / 2),
        Label(x, y, text, fitting, ink),
    ]


def _joined(values: np.ndarray) -> str:
    return " ".join(_short(value) for value in values.tolist())


def _short(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3g}"


def _cells(run: Run, left: float, top: float, t: int) -> tuple[float, float, list[Box | Label]]:
    """An array counted by cells: how many PEs of each multiply, or wait with a weight."""
    grid = run.array.grid
    assert grid is not None
    size, all_pes = 24, grid.side**2
    busy, held = grid.busy[t], grid.held[t]
    shapes: list[Box | Label] = []
    for (r, c), count in np.ndenumerate(busy):
        share = count / all_pes if count else 0.45 * held[r, c] / all_pes
        fill = _mixed(GREEN if count else ORANGE, share)
        shapes.append(Box(left + c * size, top + 20 + r * size, size - 1, size - 1, fill, radius=3))
    cells = f"{run.array.rows}×{run.array.cols} PEs, {grid.side}×{grid.side} in a cell"
    note = f"{cells}: green multiply, orange wait"
    shapes.append(Label(left, top + 8, note, 12, SOFT, "start"))
    return max(busy.shape[1] * size + 16.0, 430.0), busy.shape[0] * size + 30.0, shapes


def _mixed(colour: str, share: float) -> str:
    """A colour on the card, as strong as `share`."""
    if share == 0:
        return CARD
    part = 0.25 + 0.75 * share
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (channel - 255) * part):02x}" for channel in channels)
