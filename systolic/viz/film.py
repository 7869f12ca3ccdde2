"""Scenes as pixels: PNG stills, GIFs, and MP4 where ffmpeg is there. Frames are drawn by Pillow directly."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SystolicError
from .palette import CAUSE_FILLS, GREEN, ORANGE
from .scene import CARD, COLOURS, EDGE, GLOW, INK, LINE, PAPER, SOFT, Box, Label, Scene

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

LAST_FRAME_SECONDS = 2.0
"""How long a film rests on its last frame."""


def to_image(scene: Scene, scale: float = 1.0) -> Image:
    """The scene in RGB, `scale` pixels to a point."""
    from PIL import Image

    image = Image.new("RGB", (round(scene.width * scale), round(scene.height * scale)))
    for shape in scene.shapes:
        if isinstance(shape, Box):
            size = round(shape.width * scale), round(shape.height * scale)
            picture, mask = _box(size, shape.radius * scale, shape.fill, shape.line, max(1, round(scale)))
            image.paste(picture, (round(shape.x * scale), round(shape.y * scale)), mask)
        elif shape.text:
            _write(image, shape, scale)
    return image


@cache
def _box(
    size: tuple[int, int], radius: float, fill: str, line: str, width: int
) -> tuple[Image, Image | None]:
    """A rectangle and the mask of its rounded corners, drawn once, four times as large, for smooth edges."""
    from PIL import Image, ImageDraw

    if not radius:
        return Image.new("RGB", size, fill), None
    large = 4 * size[0], 4 * size[1]
    picture, mask = Image.new("RGB", large, fill), Image.new("L", large)
    around = (0, 0, large[0] - 1, large[1] - 1)
    ImageDraw.Draw(picture).rounded_rectangle(around, 4 * radius, fill, line or None, 4 * width)
    ImageDraw.Draw(mask).rounded_rectangle(around, 4 * radius, 255)
    return picture.resize(size, Image.Resampling.BOX), mask.resize(size, Image.Resampling.BOX)


def _write(image: Image, label: Label, scale: float) -> None:
    """Put a text into the image; each text and size is drawn once and kept as a mask."""
    mask, top = _mask(label.text, max(6, round(label.size * scale)))
    shift = {"start": 0.0, "middle": mask.width / 2, "end": float(mask.width)}[label.anchor]
    image.paste(label.fill, (round(label.x * scale - shift), round(label.y * scale) - top), mask)


@cache
def _font(size: int) -> FreeTypeFont:
    """DejaVu Sans, which has the arrows and the multiplication sign; it comes with matplotlib."""
    from PIL import ImageFont

    spec = find_spec("matplotlib")
    assert spec is not None and spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "mpl-data/fonts/ttf"
    return ImageFont.truetype(str(folder / "DejaVuSans.ttf"), size)


@cache
def _mask(text: str, size: int) -> tuple[Image, int]:
    """The text in white on black, and how far its middle lies below its top."""
    from PIL import Image, ImageDraw

    font = _font(size)
    left, top, right, bottom = font.getbbox(text)
    _, high, _, low = font.getbbox("0")
    mask = Image.new("L", (max(1, round(right - left)), max(1, round(bottom - top))))
    ImageDraw.Draw(mask).text((-left, -top), text, 255, font)
    return mask, round((high + low) / 2 - top)


def to_png(scene: Scene) -> bytes:
    """A still with two pixels to a point."""
    target = io.BytesIO()
    to_image(scene, 2.0).save(target, "PNG", optimize=True)
    return target.getvalue()


def to_gif(scenes: Iterable[Scene], fps: float) -> bytes:
    """A film that repeats; all frames share one palette of the colours that scenes use."""
    from PIL import Image

    palette = _palette()
    frames = [to_image(scene).quantize(palette=palette, dither=Image.Dither.NONE) for scene in scenes]
    each = max(20, round(1000 / fps))
    times = [each] * (len(frames) - 1) + [each + round(1000 * LAST_FRAME_SECONDS)]
    target = io.BytesIO()
    frames[0].save(
        target, "GIF", save_all=True, append_images=frames[1:], duration=times, loop=0, optimize=False
    )
    return target.getvalue()


def _palette() -> Image:
    """An image whose palette holds each colour, and its mixtures with what may lie behind it or on it."""
    from PIL import Image

    pairs = [*COLOURS.values(), *((fill, PAPER) for fill, _ in COLOURS.values())]
    pairs += [(INK, PAPER), (INK, CARD), (INK, GLOW), (SOFT, PAPER), (SOFT, CARD), (LINE, CARD), (EDGE, GLOW)]
    pairs += [(colour, INK) for colour in dict.fromkeys(fill.colour for fill in CAUSE_FILLS.values())]
    pairs += [(GREEN, CARD), (ORANGE, CARD)]
    colours: list[int] = []
    steps = 255 // len(pairs)
    for first, second in pairs:
        ends = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in (first, second)]
        for step in range(steps):
            part = step / (steps - 1)
            colours += [round(a + (b - a) * part) for a, b in zip(*ends, strict=True)]
    image = Image.new("P", (1, 1))
    image.putpalette(colours)
    return image


def to_mp4(scenes: Iterable[Scene], fps: float) -> bytes:
    """A film as H.264 in MP4, by ffmpeg.

    Raises
    ------
    SystolicError
        If ffmpeg is not there, or fails.
    """
    refuse_without_ffmpeg()
    frames = _even(to_image(scene, 2.0) for scene in scenes)
    first = next(frames)
    size = f"{first.width}x{first.height}"
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "film.mp4"
        command = ["ffmpeg", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size]
        command += [
            "-r",
            f"{fps:g}",
            "-i",
            "-",
            "-vf",
            f"tpad=stop_mode=clone:stop_duration={LAST_FRAME_SECONDS}",
        ]
        command += ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart", str(target)]
        pixels = first.tobytes() + b"".join(frame.tobytes() for frame in frames)
        done = subprocess.run(command, input=pixels, capture_output=True, check=False)
        if done.returncode:
            raise SystolicError(f"ffmpeg failed: {done.stderr.decode(errors='replace').strip()}")
        return target.read_bytes()


def refuse_without_ffmpeg() -> None:
    """Say what an MP4 needs where it is not there.

    Raises
    ------
    SystolicError
        If ffmpeg is not installed.
    """
    if shutil.which("ffmpeg") is None:
        raise SystolicError(
            "an .mp4 needs ffmpeg, which is not installed; install it (Debian: apt-get install ffmpeg), or "
            "write a .gif or .html, which need nothing"
        )


def _even(images: Iterable[Image]) -> Iterator[Image]:
    """Cut to even sides, which the codec demands."""
    for image in images:
        yield image.crop((0, 0, image.width // 2 * 2, image.height // 2 * 2))
