"""Matrices that the user gives as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SystolicError

if TYPE_CHECKING:
    import numpy as np


def read_matrix(file: str, option: str) -> np.ndarray:
    """A matrix from a ``.csv`` (rows of numbers and commas) or a ``.npy``; nothing in it is executed.

    Raises
    ------
    SystolicError
        For a file that cannot be read, is neither, or does not hold one matrix of finite numbers.
    """
    import numpy as np

    path = Path(file)
    if path.suffix.lower() not in (".csv", ".npy"):
        raise SystolicError(f"{option} must be a .csv or .npy file, got {file!r}")
    try:
        if path.suffix.lower() == ".npy":
            matrix = np.asarray(np.load(path, allow_pickle=False))
        else:
            rows = path.read_text(encoding="utf-8").split("\n")
            matrix = np.array([[float(x) for x in row.split(",")] for row in rows if row.strip()])
    except OSError as error:
        raise SystolicError(f"{option}: {file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SystolicError(f"{option}: {file} must hold rows of equally many numbers: {error}") from error
    if matrix.ndim != 2 or not matrix.size or matrix.dtype.kind not in "iuf":
        shape = " x ".join(map(str, matrix.shape))
        raise SystolicError(f"{option}: {file} must hold a matrix of numbers, got {shape} of {matrix.dtype}")
    if not np.isfinite(matrix).all():
        raise SystolicError(
            f"{option}: {file} must hold finite numbers, got {matrix[~np.isfinite(matrix)][0]}"
        )
    return matrix
