"""A scene as an SVG file."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from .scene import Box, Label, Scene


def to_svg(scene: Scene) -> str:
    """The scene as SVG text; texts stay texts, whatever is in them."""
    size = f'width="{scene.width}" height="{scene.height}" viewBox="0 0 {scene.width} {scene.height}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="system-ui, sans-serif">\n'
        f"<title>{escape(scene.title)}</title>\n"
    )
    return head + "\n".join(_shape(shape) for shape in scene.shapes) + "\n</svg>\n"


def _shape(shape: Box | Label) -> str:
    if isinstance(shape, Label):
        return (
            f'<text x="{shape.x:g}" y="{shape.y:g}" font-size="{shape.size}" fill={quoteattr(shape.fill)} '
            f'text-anchor="{shape.anchor}" dominant-baseline="central">{escape(shape.text)}</text>'
        )
    line = f' stroke="{shape.line}"' if shape.line else ""
    return (
        f'<rect x="{shape.x:g}" y="{shape.y:g}" width="{shape.width:g}" height="{shape.height:g}" '
        f'rx="{shape.radius:g}" fill="{shape.fill}"{line}/>'
    )
