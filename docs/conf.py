"""Sphinx builds the documentation from this; ``make docs`` runs it with warnings as errors."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import systolic

project = "systolic"
author = "the systolic authors"
version = release = systolic.__version__
project_copyright = "the systolic authors, Apache-2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "registry"]
exclude_patterns = ["_build"]
nitpicky = False
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = False
napoleon_use_ivar = True
# Signatures name types as they are imported, without the modules that they live in.
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"systolic {release}"
html_show_sourcelink = False
# The pages open from disk, and from disk they show no fonts or scripts of other hosts.
html_theme_options = {"navigation_with_keys": True}
