"""The accesses of a real program, as valgrind's lackey prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

CHUNK_BYTES = 1 << 20


def read_lackey(stream: BinaryIO, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[Any, Any, Any]]:
    """Read what ``valgrind --tool=lackey --trace-mem=yes`` writes, a chunk at a time.

    Parameters
    ----------
    stream
        Its output, such as the pipe to its standard error.
    chunk_bytes
        Text that is in memory at once.

    Yields
    ------
    tuple
        (addresses int64, sizes int32, kinds uint8) as :meth:`systolic.blocks.cache.CacheHierarchy.access`
        takes them; they are overwritten by the next chunk.
    """
    from ..kernels.lackey import parse_lines

    most = chunk_bytes // 6 + 1  # the shortest line, " L 0,1" and its end, has 7 bytes
    addresses = np.empty(most, np.int64)
    sizes, kinds = np.empty(most, np.int32), np.empty(most, np.uint8)
    rest = b""
    while piece := stream.read(chunk_bytes - len(rest)):
        text, end, rest = (rest + piece).rpartition(b"\n")
        if end:
            found = parse_lines(np.frombuffer(text + end, np.uint8), addresses, sizes, kinds)
            yield addresses[:found], sizes[:found], kinds[:found]
    if rest:
        found = parse_lines(np.frombuffer(rest + b"\n", np.uint8), addresses, sizes, kinds)
        yield addresses[:found], sizes[:found], kinds[:found]
