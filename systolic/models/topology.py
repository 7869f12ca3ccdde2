"""SCALE-Sim topology files: a layer per line, as a convolution or as M, N, K.

The formats are those that ``scalesim/topology_utils.py`` reads (scalesim-project/SCALE-Sim, v2 and v3), and
columns of our own for padding and groups::

    Layer, M, N, K [, Sparsity] [, Batch],
    Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides
        [, stride of the width] [, Sparsity],
    Layer name, …, Num Filter, Stride Height, Stride Width, Padding Height, Padding Width, Groups,

The comma at the end of a line may be there or not, and so may the header; blank lines, spaces, CRLF, a byte
order mark, and a ``#`` with what follows are passed over. SCALE-Sim rounds the number of windows up where a
stride does not divide; here a window that leaves the input does not exist, as in every framework.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ..errors import SystolicError, raise_if_any
from ..workload import Gemm, Workload
from .convolution import Convolution
from .topology_rows import Row, rows_of

_HEADERS = {
    "height": "IFMAP Height",
    "width": "IFMAP Width",
    "filter_height": "Filter Height",
    "filter_width": "Filter Width",
    "channels": "Channels",
    "filters": "Num Filter",
    "stride": "Strides",
    "stride_height": "Stride Height",
    "stride_width": "Stride Width",
    "padding_height": "Padding Height",
    "padding_width": "Padding Width",
    "groups": "Groups",
    "m": "M",
    "n": "N",
    "k": "K",
    "batch": "Batch",
}


@dataclass(frozen=True, kw_only=True)
class Product:
    """A layer that is a matmul: `batch` products of (m, k) and (k, n)."""

    name: str
    m: int
    n: int
    k: int
    batch: int = 1


Layer = Product | Convolution


@dataclass(frozen=True, kw_only=True)
class Topology:
    """The layers of a topology file, in order, all of one kind.

    Attributes
    ----------
    name
        Name of the file without its ending.
    layers
        Its layers.
    lines, source
        Line of each layer, and the file; for reports.
    notes
        What the reader of results has to know.
    """

    name: str
    layers: tuple[Layer, ...]
    lines: tuple[int, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()

    def workload(self, images: int = 1) -> Workload:
        """The layers as matmuls on `images` images, or on as many times the rows; each layer is one."""
        lines = self.lines or (0,) * len(self.layers)
        gemms = tuple(
            _gemm(layer, images, f"{self.source}:{line}" if line else self.source)
            for layer, line in zip(self.layers, lines, strict=True)
        )
        return Workload(name=self.name, ops=gemms, batch=images, notes=(*self.notes, *_hints(self.layers)))


def read_topology(path: str | os.PathLike[str]) -> Topology:
    """Read a topology file.

    Raises
    ------
    SystolicError
        If the file cannot be read or holds no layer, or for each field that is missing, too many or wrong:
        one line with the file, the line and the column.
    """
    file = Path(path)
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SystolicError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SystolicError(f"{file}: must be text in UTF-8, got other bytes") from None
    problems: list[str] = []
    rows = rows_of(text, str(file), problems)
    layers = [layer for row in rows if (layer := _layer(row, str(file), problems)) is not None]
    if not rows and not problems:
        problems.append(f"{file}: must hold a layer per line, got none")
    raise_if_any(problems)
    return Topology(
        name=file.stem,
        layers=tuple(layers),
        lines=tuple(row.line for row in rows),
        source=str(file),
        notes=tuple(_depthwise_notes(rows)),
    )


def write_topology(topology: Topology, path: str | os.PathLike[str]) -> None:
    """Write a topology file, with a header, such that reading it yields equal layers.

    It has the columns that SCALE-Sim knows and no others, unless a layer needs them. The file appears whole
    or not at all.

    Raises
    ------
    SystolicError
        If a name cannot stand in the file, the layers are of two kinds, or the file cannot be written.
    """
    columns = _columns(topology)
    header = ",".join(("Layer" if columns[0] == "m" else "Layer name", *(_HEADERS[c] for c in columns)))
    lines = [header] + [
        ",".join((layer.name, *(str(_cell(layer, column)) for column in columns)))
        for layer in topology.layers
    ]
    file = Path(path)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text("".join(f"{line},\n" for line in lines), encoding="utf-8")
        temporary.replace(file)
    except OSError as error:
        raise SystolicError(f"{file}: cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _layer(row: Row, file: str, problems: list[str]) -> Layer | None:
    """The layer of a row; what is wrong with it as a whole goes to `problems`."""
    values = dict(row.values)
    if "m" in values:
        return Product(name=row.name, **values)
    stride = values.pop("stride", None)
    if stride is not None:
        values.setdefault("stride_height", stride)
        values.setdefault("stride_width", stride)
    if row.depthwise:  # the file gives the filters of one channel
        values |= {"groups": values["channels"], "filters": values["channels"] * values["filters"]}
    try:
        return Convolution(name=row.name, **values)
    except SystolicError as error:
        problems += [f"{file}: line {row.line}{_at(row, problem)}: {problem}" for problem in error.problems]
        return None


def _at(row: Row, problem: str) -> str:
    """The column that a problem of a whole layer starts from."""
    column = row.columns.get(problem.split()[0])
    return "" if column is None else f" column {column}"


def _gemm(layer: Layer, images: int, origin: str) -> Gemm:
    if isinstance(layer, Convolution):
        return layer.gemm(images, origin)
    return Gemm(name=layer.name, batch=layer.batch, m=images * layer.m, n=layer.n, k=layer.k, origin=origin)


def _depthwise_notes(rows: Sequence[Row]) -> Iterator[str]:
    names = [row.name for row in rows if row.depthwise]
    if names:
        some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield f"{some}: DP in the name says depthwise, as in SCALE-Sim; Num Filter is that of one channel"


def _hints(layers: Sequence[Layer]) -> Iterator[str]:
    """Inputs that no pooling and no padding can make of the result of the layer before."""
    convolutions = [layer for layer in layers if isinstance(layer, Convolution)]
    if any(layer.filter_height * layer.filter_width > 1 for layer in convolutions):
        yield "convolutions run as matmuls on unfolded windows: an input element is read once per window"
    odd = [(a, b) for a, b in pairwise(convolutions) if not _follows(a, b)]
    for before, layer in odd[:3]:
        yield (
            f"{layer.name}: is its input right? {layer.height}x{layer.width}x{layer.channels} does not match "
            f"the {before.output_height}x{before.output_width}x{before.filters} that {before.name} before it "
            "yields"
        )
    if len(odd) > 3:
        yield f"{len(odd) - 3} more layers have an input that does not match the result of the layer before"


def _follows(before: Convolution, layer: Convolution) -> bool:
    """Whether `layer` can read the result of `before`, pooled to a smaller size or padded for its filter."""
    return (
        layer.channels == before.filters
        and layer.height <= before.output_height + layer.filter_height - 1
        and layer.width <= before.output_width + layer.filter_width - 1
    )


def _columns(topology: Topology) -> list[str]:
    layers = topology.layers
    kinds = {type(layer) for layer in layers}
    bad = [layer.name for layer in layers if not _can_stand(layer.name)]
    problems = [f"topology: a name must be one line without comma and #, got {name!r:.60}" for name in bad]
    if len(kinds) != 1:
        problems.append(
            "topology must hold convolutions or matmuls, and at least one, got "
            + ("both" if kinds else "none")
        )
    raise_if_any(problems)
    if kinds == {Product}:
        batched = any(_cell(layer, "batch") != 1 for layer in layers)
        return ["m", "n", "k", "batch"] if batched else ["m", "n", "k"]
    sizes = ["height", "width", "filter_height", "filter_width", "channels", "filters"]
    plain = {"padding_height": 0, "padding_width": 0, "groups": 1}
    square = all(_cell(layer, "stride_height") == _cell(layer, "stride_width") for layer in layers)
    if (
        square
        and all(_cell(layer, field) == value for layer in layers for field, value in plain.items())
        and not any("DP" in layer.name for layer in layers)
    ):
        return [*sizes, "stride"]
    return [*sizes, "stride_height", "stride_width", *plain]


def _can_stand(name: str) -> bool:
    return bool(name) and name == name.strip() and not any(mark in name for mark in ",#\r\n\ufeff")


def _cell(layer: Layer, column: str) -> int:
    value: int = getattr(layer, "stride_height" if column == "stride" else column)
    return value
