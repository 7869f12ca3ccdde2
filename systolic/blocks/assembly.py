"""Loops as a core meets them: instructions read from assembler text, in AT&T's order of operands."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import SystolicError, raise_if_any

_ARITHMETIC = (
    (re.compile(r"vf(n?m)(add|sub)(132|213|231)[sp][sd]$"), "fma"),
    (re.compile(r"v(add|sub)[sp][sd]$"), "fp_add"),
    (re.compile(r"vmul[sp][sd]$"), "fp_mul"),
    (re.compile(r"(add|sub|and|or|xor|inc|dec|cmp|test)[lq]$"), "alu"),
    (re.compile(r"lea[lq]$"), "lea"),
)
_MOVES = re.compile(r"(vmov([ua]p[sd]|s[sd])|vbroadcasts[sd]|mov[lq])$")
_BRANCHES = re.compile(r"j(n?[elbgasz]|[lbga]e|n[lbga]e?|mp)$")
_SETS_NO_REGISTER = ("cmp", "test")
_REGISTER = re.compile(r"%(\w+)")
_VECTORS = {"x": 128, "y": 256, "z": 512}


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction of a loop.

    Attributes
    ----------
    text
        As it was written.
    kind
        Class of the µop that computes, see :class:`systolic.chips.core.CoreSpec`; "" where it only loads or
        stores.
    bits
        Width of the registers that it computes on.
    reads, writes
        Registers; the flags are one.
    addressed
        Registers of the address of what it loads or stores.
    loads, stores
        Whether it does.
    """

    text: str
    kind: str
    bits: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    addressed: tuple[str, ...] = ()
    loads: bool = False
    stores: bool = False


def read_loop(text: str) -> tuple[Instruction, ...]:
    """The instructions of a loop's body, one a line; labels, comments (#) and directives (.) are left out.

    Raises
    ------
    SystolicError
        One line for each instruction that is not known, by its line.
    """
    found, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.split("#")[0].strip()
        if not bare or bare.startswith(".") or bare.endswith(":"):
            continue
        try:
            found.append(_instruction(bare))
        except SystolicError as error:
            problems.append(f"line {number}: {error}")
    raise_if_any(problems)
    if not found:
        raise SystolicError("a loop must hold at least one instruction, got none")
    return tuple(found)


def _instruction(text: str) -> Instruction:
    mnemonic, _, rest = text.partition(" ")
    operands = [part.strip() for part in re.split(r",(?![^(]*\))", rest) if part.strip()]
    memory = next((at for at, operand in enumerate(operands) if "(" in operand), None)
    registers = [
        _full(found) for operand in operands if "(" not in operand for found in _REGISTER.findall(operand)
    ]
    addressed = () if memory is None else tuple(_full(r) for r in _REGISTER.findall(operands[memory]))
    bits = max(
        [_bits(found) for operand in operands for found in _REGISTER.findall(operand) if "(" not in operand]
        or [64]
    )
    kind = next((name for pattern, name in _ARITHMETIC if pattern.match(mnemonic)), None)
    if _BRANCHES.match(mnemonic):
        return Instruction(
            text=text, kind="branch", bits=64, reads=("flags",) * (mnemonic != "jmp"), writes=()
        )
    if _MOVES.match(mnemonic) and memory is not None:
        loads = memory == 0
        return Instruction(
            text=text,
            kind="",
            bits=bits,
            reads=() if loads else tuple(registers),
            writes=tuple(registers) if loads else (),
            addressed=addressed,
            loads=loads,
            stores=not loads,
        )
    if kind is None or not operands or (kind == "lea") != (memory == 0 and kind == "lea"):
        raise SystolicError(f"{text!r} is no instruction that loops here are made of")
    if kind == "lea":
        return Instruction(text=text, kind=kind, bits=bits, reads=addressed, writes=(registers[-1],))
    if memory == len(operands) - 1 and memory is not None:
        raise SystolicError(f"{text!r} computes in memory; load, compute and store instead")
    compares = mnemonic.startswith(_SETS_NO_REGISTER)
    target = registers[-1]
    # The target is read too, but for three-operand vector forms that only write it.
    only_writes = mnemonic.startswith("v") and kind != "fma"
    reads = registers[:-1] if only_writes else registers
    flags = () if mnemonic.startswith("v") else ("flags",)
    return Instruction(
        text=text,
        kind=kind,
        bits=bits,
        reads=tuple(reads),
        writes=((target,) if not compares else ()) + flags,
        addressed=addressed,
        loads=memory is not None,
    )


def _bits(register: str) -> int:
    return _VECTORS[register[0]] if register[1:3] == "mm" else 64


def _full(register: str) -> str:
    """The register that a name is a part of."""
    if register[1:3] == "mm":
        return f"zmm{register[3:]}"
    return "r" + register[1:] if register[0] == "e" else register
