"""Lines of a topology file as named whole numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import did_you_mean

_GEMM = ("m", "n", "k")
_CONVOLUTION = ("height", "width", "filter_height", "filter_width", "channels", "filters")
_SPARSITY = "sparsity"
_TITLES = {
    "layer": "name",
    "layername": "name",
    "m": "m",
    "n": "n",
    "k": "k",
    "batch": "batch",
    "sparsity": _SPARSITY,
    "sparsityratio": _SPARSITY,
    "ifmapheight": "height",
    "ifmapwidth": "width",
    "filterheight": "filter_height",
    "filterwidth": "filter_width",
    "channels": "channels",
    "numchannels": "channels",
    "numfilter": "filters",
    "numfilters": "filters",
    "stride": "stride",
    "strides": "stride",
    "strideheight": "stride_height",
    "stridewidth": "stride_width",
    "paddingheight": "padding_height",
    "paddingwidth": "padding_width",
    "groups": "groups",
}
"""Title of a column, letters alone -> field."""

_MAY_BE_ZERO = ("padding_height", "padding_width")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One layer as it stands in a file.

    Attributes
    ----------
    line, name
        Line of the file, from 1; name of the layer.
    values, columns
        Field -> its number; field -> its column, from 1.
    depthwise
        Whether its name says so (SCALE-Sim's ``DP``) and no column for groups does.
    """

    line: int
    name: str
    values: Mapping[str, int]
    columns: Mapping[str, int] = field(default_factory=dict)
    depthwise: bool = False


def rows_of(text: str, file: str, problems: list[str]) -> list[Row]:
    """The layers of a file; whatever is wrong with a line or a field goes to `problems`."""
    lines = [(number, cells) for number, line in enumerate(text.splitlines(), 1) if (cells := _cells(line))]
    if not lines:
        return []
    fields: Sequence[str] | None = None
    if _is_header(lines[0][1]):
        fields = _header(*lines.pop(0), file, problems)
        if fields is None:
            return []
    rows = [_row(number, cells, fields, file, problems) for number, cells in lines]
    return [row for row in rows if row is not None]


def _cells(line: str) -> list[str]:
    """The fields of a line, without its comment and the comma at its end; none of a line that holds none."""
    cells = [cell.strip() for cell in line.partition("#")[0].split(",")]
    if not cells[-1]:
        cells.pop()
    return cells if any(cells) else []


def _is_header(cells: Sequence[str]) -> bool:
    """Whether no field but the first starts like a number, or the first is the title of a column."""
    return _letters(cells[0]) in ("layer", "layername") or not any(
        re.match(r"[-+.]?\d", cell) for cell in cells[1:]
    )


def _letters(title: str) -> str:
    return "".join(character for character in title.lower() if character.isalnum())


def _header(line: int, cells: Sequence[str], file: str, problems: list[str]) -> list[str] | None:
    """The field of each column, or None if one is unknown, twice there, or missing."""
    found: list[str] = []
    before = len(problems)
    for column, title in enumerate(cells, 1):
        name = _TITLES.get(_letters(title), "")
        place = f"{file}: line {line} column {column}"
        if not name:
            problems.append(f"{place}: unknown title {title!r:.40}{did_you_mean(_letters(title), _TITLES)}")
        elif name in found:
            problems.append(f"{place}: the title {title!r:.40} is there twice")
        found.append(name)
    if len(problems) == before:
        needed = _GEMM if "m" in found else _CONVOLUTION
        missing = [name for name in ("name", *needed) if name not in found]
        problems += [f"{file}: line {line}: the column {name} is missing from the header" for name in missing]
        if found[0] != "name" and not missing:
            problems.append(f"{file}: line {line} column 1: must be the layer's name, got {cells[0]!r:.40}")
    return found if len(problems) == before else None


def _row(
    line: int, cells: Sequence[str], fields: Sequence[str] | None, file: str, problems: list[str]
) -> Row | None:
    before, place = len(problems), f"{file}: line {line}"
    named = _named(cells, fields)
    if named is None:
        wanted = "Layer,M,N,K or the 8 of a convolution" if fields is None else ",".join(fields)
        problems.append(f"{place}: must have the fields {wanted}, got {len(cells)}: {','.join(cells)!r:.80}")
        return None
    if not cells[0]:
        problems.append(f"{place} column 1: must be the layer's name, got ''")
    values, columns = {}, {}
    for column, (name, cell) in enumerate(zip(named, cells, strict=True), 1):
        if name == "name" or (not cell and name in (_SPARSITY, "batch")):
            continue
        columns[name] = column
        if name == _SPARSITY:
            problems += _sparsity_problem(cell, f"{place} column {column}")
        elif re.fullmatch(r"[0-9]{1,18}", cell) and (int(cell) or name in _MAY_BE_ZERO):
            values[name] = int(cell)
        else:
            least = ">= 0" if name in _MAY_BE_ZERO else "> 0"
            problems.append(
                f"{place} column {column}: {name} must be a whole number {least}, got {cell!r:.40}"
            )
    if len(problems) > before:
        return None
    depthwise = "DP" in cells[0] and "m" not in values and "groups" not in values
    return Row(line=line, name=cells[0], values=values, columns=columns, depthwise=depthwise)


def _named(cells: Sequence[str], fields: Sequence[str] | None) -> list[str] | None:
    """The field of each cell: as the header says, then what SCALE-Sim allows behind it; None if none fits."""
    if fields is not None:
        named = [*fields, *_behind(fields, cells[len(fields) :])]
        # Sparsity and batch may be left out at the end of a line.
        while len(named) > len(cells) and named[-1] in (_SPARSITY, "batch"):
            named.pop()
    elif len(cells) < 8:
        named = ["name", *_GEMM]
        named += _behind(named, cells[4:])
    else:
        named = ["name", *_CONVOLUTION, "stride"]
        named += _behind(named, cells[8:])
    return named if len(named) == len(cells) else None


def _behind(fields: Sequence[str], cells: Sequence[str]) -> Iterator[str]:
    """Fields of the cells behind the last known column."""
    taken = list(fields)
    for cell in cells:
        if ":" in cell and _SPARSITY not in taken:
            name = _SPARSITY
        elif "m" in taken and "batch" not in taken:
            name = "batch"
        elif "stride" in taken and "stride_width" not in taken:
            name = "stride_width"
        else:
            return
        taken.append(name)
        yield name


def _sparsity_problem(cell: str, place: str) -> list[str]:
    kept, colon, of = (part.strip() for part in cell.partition(":"))
    if colon and kept.isdecimal() and kept == of:
        return []
    return [f"{place}: sparsity must be dense (1:1), got {cell!r:.40}; sparse operands are not modelled"]
