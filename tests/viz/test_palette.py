"""The colours: readable in both themes, and told apart by readers who are colour-blind."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from systolic.metrics import CAUSES
from systolic.result import OPERANDS
from systolic.viz.palette import CAUSE_FILLS, DARK, LIGHT, OPERAND_FILLS, Fill, css_variables

# G. M. Machado, M. M. Oliveira, L. A. F. Fernandes, "A Physiologically-based Model for Simulation of Color
# Vision Deficiency", IEEE TVCG 15(6), 2009: severity 1.0, on linear RGB.
SEEN_BY = {
    "everyone": np.eye(3),
    "protanopes": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopes": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopes": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}


def linear(colour: str) -> np.ndarray:
    """Linear RGB of an sRGB colour (IEC 61966-2-1)."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of WCAG 2.2."""
    light, dark = sorted((float(linear(c) @ (0.2126, 0.7152, 0.0722)) for c in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear RGB, D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x = to_xyz @ np.clip(rgb, 0, 1) / (0.9505, 1.0, 1.089)
    f = np.where(x > (6 / 29) ** 3, np.cbrt(x), x / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # the example that just fails AA


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("role", ["ink", "soft", "link", "good", "bad"])
@pytest.mark.parametrize("ground", ["paper", "card"])
def test_text_reaches_the_contrast_of_wcag_aa(theme: dict[str, str], role: str, ground: str) -> None:
    assert contrast(theme[role], theme[ground]) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_numbers_can_be_read_on_their_bars(theme: dict[str, str]) -> None:
    assert contrast(theme["ink"], theme["bar"]) >= 4.5


@pytest.mark.parametrize("viewer", SEEN_BY)
@pytest.mark.parametrize("fills", [CAUSE_FILLS, OPERAND_FILLS], ids=["causes", "operands"])
def test_fills_are_told_apart(viewer: str, fills: dict[str, Fill]) -> None:
    for (one, a), (other, b) in combinations(fills.items(), 2):
        if a.hatch != b.hatch:
            continue
        seen = [lab(SEEN_BY[viewer] @ linear(fill.colour)) for fill in (a, b)]
        # 2.3 is a just noticeable difference (Mahy et al., 1994); several times that is plain to see.
        assert np.linalg.norm(seen[0] - seen[1]) > 9, f"{one} and {other} look alike to {viewer}"


def test_every_cause_and_operand_has_a_fill_of_its_own() -> None:
    assert set(CAUSE_FILLS) == set(CAUSES) and len(set(CAUSE_FILLS.values())) == len(CAUSES)
    assert set(OPERAND_FILLS) == set(OPERANDS) and len(set(OPERAND_FILLS.values())) == len(OPERANDS)


def test_both_themes_give_every_role() -> None:
    assert LIGHT.keys() == DARK.keys()
    css = css_variables()
    assert all(css.count(f"--{role}:") == 4 for role in LIGHT)  # light, dark by system, dark by choice, print
