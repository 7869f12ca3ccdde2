"""The memory trace that ``valgrind --tool=lackey --trace-mem=yes`` prints, from bytes to arrays."""

from __future__ import annotations

from typing import Any

from .compile import kernel


@kernel
def parse_lines(text: Any, addresses: Any, sizes: Any, kinds: Any) -> int:
    """Read whole lines such as ``I  0401000,3`` or `` S 1ffefffe08,8``; return how many accesses they hold.

    Other lines, such as valgrind's own that begin with ``==``, are passed over.

    Parameters
    ----------
    text
        uint8, ASCII; ends with a newline.
    addresses, sizes, kinds
        Where the accesses go: int64, int32 and uint8, no shorter than ``text`` has lines. Kinds are those of
        :mod:`systolic.kernels.cache`: I, L, S, M are 0, 1, 2, 3.
    """
    found = 0
    at = 0
    while at < text.size:
        kind = -1
        if at + 4 < text.size and text[at + 2] == 32:
            if text[at] == 73 and text[at + 1] == 32:  # "I "
                kind = 0
            elif text[at] == 32:
                mark = text[at + 1]
                kind = 1 if mark == 76 else 2 if mark == 83 else 3 if mark == 77 else -1  # L, S, M
        if kind < 0:
            while text[at] != 10:
                at += 1
            at += 1
            continue
        at += 3
        address = 0
        while text[at] != 44:  # up to the comma
            digit = int(text[at])
            address = (address << 4) + (digit - 48 if digit < 58 else digit - 87)
            at += 1
        at += 1
        size = 0
        while text[at] != 10:
            size = size * 10 + (int(text[at]) - 48)
            at += 1
        at += 1
        addresses[found], sizes[found], kinds[found] = address, size, kind
        found += 1
    return found
