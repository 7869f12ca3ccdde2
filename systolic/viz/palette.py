"""The colours of all pictures and pages: one house, light and dark, safe for colour-blind readers.

The hues are those of M. Okabe and K. Ito, *Color Universal Design* (2008), chosen to stay apart under the
common forms of colour blindness, and a grey that is dark enough to stay apart from their purple. Where more
is told apart than they can say, a hatch helps.
"""

from __future__ import annotations

from typing import NamedTuple

ORANGE, SKY, GREEN, YELLOW = "#e69f00", "#56b4e9", "#009e73", "#f0e442"
BLUE, VERMILION, PURPLE, GREY = "#0072b2", "#d55e00", "#cc79a7", "#6a717c"

LIGHT = {
    "paper": "#fbfaf7",
    "card": "#ffffff",
    "ink": "#1b2027",
    "soft": "#5c6673",
    "line": "#d9dce1",
    "link": "#005a8f",
    "good": "#00694f",
    "bad": "#b3261e",
    "bar": "#cfe6f5",
}
DARK = {
    "paper": "#0f1318",
    "card": "#171d24",
    "ink": "#e8ebef",
    "soft": "#9ba6b3",
    "line": "#38424e",
    "link": "#7cc4f0",
    "good": "#3ecf9f",
    "bad": "#ff8a75",
    "bar": "#1d3f57",
}
"""Roles of a page's colours, in its two themes."""


class Fill(NamedTuple):
    """How an area is filled: colour, and a hatch in matplotlib's letters."""

    colour: str
    hatch: str = ""


CAUSE_FILLS = {
    "preload": Fill(ORANGE),
    "fill": Fill(SKY),
    "compute": Fill(GREEN),
    "drain": Fill(PURPLE),
    "weight_load": Fill(VERMILION),
    "stall_dram": Fill(GREY),
    "stall_latency": Fill(GREY, "////"),
    "stall_onchip": Fill(BLUE),
    "stall_bank": Fill(BLUE, "////"),
    "stall_dependency": Fill(GREY, "xxxx"),
    "stall_sync": Fill(GREY, "...."),
    "stall_link": Fill(GREY, "\\\\\\\\"),
    "vector": Fill(YELLOW),
    "launch": Fill(ORANGE, "////"),
    "tail": Fill(PURPLE, "////"),
}
"""Cause of cycles -> how it is drawn."""

STALL_FILLS = {
    "selected": Fill(GREEN),
    "not_selected": Fill(SKY),
    "wait": Fill(YELLOW),
    "long_scoreboard": Fill(GREY),
    "short_scoreboard": Fill(BLUE),
    "math_pipe_throttle": Fill(ORANGE),
    "mio_throttle": Fill(BLUE, "////"),
    "lg_throttle": Fill(GREY, "////"),
    "gmma": Fill(ORANGE, "////"),
    "barrier": Fill(PURPLE),
    "no_instruction": Fill(PURPLE, "////"),
    "drain": Fill(VERMILION),
}
"""What a warp does in a cycle -> how it is drawn."""

OPERAND_FILLS = {
    "lhs": Fill(BLUE),
    "rhs": Fill(ORANGE),
    "out": Fill(GREEN),
    "psum": Fill(PURPLE),
    "other": Fill(GREY),
}
"""Operand -> how its traffic is drawn; in the player as well A is blue, B orange, and sums green."""


def css_variables() -> str:
    """The roles as CSS custom properties: light, dark where the system says so, and either by choice."""
    light, dark = (
        "".join(f"--{role}:{colour};" for role, colour in theme.items()) for theme in (LIGHT, DARK)
    )
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f'@media (prefers-color-scheme:dark){{:root:not([data-theme="light"]){{{dark}}}}}\n'
        f':root[data-theme="dark"]{{color-scheme:dark;{dark}}}\n'
        ':root[data-theme="light"]{color-scheme:light}\n'
        f"@media print{{:root:root:root{{color-scheme:light;{light}}}}}\n"
    )
