"""The player of a core's caches: one self-contained HTML page that walks a loop nest over its cache lines."""

from __future__ import annotations

from typing import Any

from ..engine.line_recording import OPERANDS, LineRecording
from ..quantity import format_bytes
from .palette import BLUE, LIGHT, SKY
from .player_page import packed
from .shell import shell_html

ABOUT = (
    "A core runs the loops one load or store at a time. A cache holds lines of neighbouring bytes, and a set "
    "of it as many lines as it has ways; the one used longest ago leaves. Each access, and what the caches "
    "do about it, comes from the simulated caches that the tests hold against cachegrind."
)
CODE = {
    "naive": """
for i in range(M):
  for j in range(N):
    for k in range(K):
      sum += A[i, k] * B[k, j]
    C[i, j] = sum""",
    "reordered": """
for i in range(M):
  for k in range(K):
    a = A[i, k]
    for j in range(N):
      C[i, j] += a * B[k, j]""",
    "blocked": """
for blocks of i, k and j:
  for i in its block:
    for k in its block:
      a = A[i, k]
      for j in its block:
        C[i, j] += a * B[k, j]""",
}
COLOURS = (BLUE, SKY)
"""Of L1 and what follows; main memory is as pale as a line."""


def lines_html(recording: LineRecording, access: int = 0) -> str:
    """The page as HTML, opened at `access`."""
    return shell_html("lines", _data(recording, access))


def _data(recording: LineRecording, access: int) -> dict[str, Any]:
    gemm, caches = recording.gemm, recording.caches
    shapes = {"lhs": (gemm.m, gemm.k), "rhs": (gemm.k, gemm.n), "out": (gemm.m, gemm.n)}
    named = dict(zip(OPERANDS, "ABC", strict=True))
    sizes = ", ".join(
        f"L{at} {format_bytes(cache.bytes)} in {cache.ways} ways" for at, cache in enumerate(caches, 1)
    )
    misses = recording.counts.read_misses[0] + recording.counts.write_misses[0]
    return {
        "title": f"{recording.loop} loops over {gemm.m} × {gemm.n} × {gemm.k}, line by line",
        "subtitle": f"{gemm.dtype}; {sizes}, lines of {caches[0].line_bytes} B; "
        f"{len(recording.level):,} accesses, {misses:,} miss L1",
        "about": ABOUT,
        "before": "Before the first access: the caches are empty. Press play.",
        "at": access,
        "code": CODE[recording.loop].strip().splitlines(),
        "operands": [
            {"id": name, "name": named[name], "rows": rows, "cols": cols}
            for name, (rows, cols) in shapes.items()
        ],
        "levels": [
            {"name": f"L{at + 1}", "colour": COLOURS[at], "lines": cache.bytes // cache.line_bytes}
            for at, cache in enumerate(caches)
        ]
        + [{"name": "memory", "colour": LIGHT["line"], "lines": 0}],
        "facts": [
            ["replacement", "true LRU"],
            ["stores", "write-back, write-allocate"],
            ["prefetcher", "none"],
        ],
        **packed(
            {
                "operand": recording.operand,
                "element": recording.element,
                "writes": recording.is_write,
                "level": recording.level,
                "left": recording.left + 1,
                **{f"lines_{name}": lines for name, lines in recording.lines.items()},
            }
        ),
    }
