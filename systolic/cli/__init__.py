"""The command line. ``systolic --help`` loads neither NumPy nor anything heavier."""

from .app import main

__all__ = ["main"]
