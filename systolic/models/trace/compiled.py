"""The text of a compiled HLO module, read as a list of kernels: XLA's own fusions.

The grammar is that of ``HloModule::ToString`` (openxla/xla, ``docs/operation_semantics.md`` names the
instructions). Only what is executed by itself counts: what is inside a fusion stays inside.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from ...errors import SystolicError
from .kernels import Kernel

_HEADER = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\) -> .* \{$")
_NAME = re.compile(r"%([\w.-]+)")
_ARRAY = re.compile(r"([a-z]+(\d*)\w*)\[([\d,]*)\]")
_CALLED = re.compile(r"(?:calls|body|condition|to_apply|true_computation|false_computation)=%?([\w.-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_CONTRACTING = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")
_LABELS = re.compile(r"dim_labels=\w+_(\w+)->")
_NO_KERNEL = frozenset(
    ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier", "domain")
)


@dataclass(frozen=True)
class Instruction:
    """One line of a computation: its result's type, what it does, on what, and the rest of the line."""

    name: str
    kind: str
    opcode: str
    operands: tuple[str, ...]
    rest: str


Computation = dict[str, Instruction]


def compiled_kernels(text: str) -> list[Kernel]:
    """The kernels that a compiled module launches, loops multiplied out.

    Raises
    ------
    SystolicError
        If XLA does not know how often a loop runs.
    """
    computations: dict[str, Computation] = {}
    entry, current = "", ""
    for line in text.splitlines():
        if header := _HEADER.match(line):
            current = header[2]
            computations[current] = {}
            entry = current if header[1] else entry
        elif current and " = " in line:
            instruction = _instruction(line)
            computations[current][instruction.name] = instruction
    return _kernels(computations, entry)


def _instruction(line: str) -> Instruction:
    head, _, body = line.partition(" = ")
    kind, rest = _until_closed(body) if body.startswith("(") else body.split(" ", 1)
    opcode, _, rest = rest.strip().partition("(")
    operands, rest = _until_closed("(" + rest)
    return Instruction(head.split()[-1].lstrip("%"), kind, opcode, tuple(_NAME.findall(operands)), rest)


def _until_closed(text: str) -> tuple[str, str]:
    """Split behind the bracket that closes the first one."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[: at + 1], text[at + 1 :]
    return text, ""


def _kernels(computations: dict[str, Computation], name: str) -> list[Kernel]:
    kernels: list[Kernel] = []
    computation = computations[name]
    for instruction in computation.values():
        called = _CALLED.findall(instruction.rest)
        if instruction.opcode in _NO_KERNEL:
            continue
        if instruction.opcode == "while":
            kernels += _loop(computations, instruction)
        elif instruction.opcode == "conditional":
            branches = [
                *called,
                *(b for found in _BRANCHES.findall(instruction.rest) for b in _NAME.findall(found)),
            ]
            taken = [_kernels(computations, branch) for branch in branches]
            kernels += max(taken, key=lambda each: sum(k.count * k.bytes for k in each))
        elif instruction.opcode == "call":
            kernels += [k for inner in called for k in _kernels(computations, inner)]
        else:
            inside = called if instruction.opcode == "fusion" else ()
            kernels.append(_kernel(computations, computation, instruction, inside))
    return kernels


def _loop(computations: dict[str, Computation], loop: Instruction) -> list[Kernel]:
    trips = _TRIPS.search(loop.rest)
    if trips is None:
        raise SystolicError(
            f"XLA does not know how often its loop {loop.name} runs, so that its kernels cannot be counted; "
            "give the function a loop of fixed length"
        )
    condition, body = (re.search(rf"{part}=%?([\w.-]+)", loop.rest) for part in ("condition", "body"))
    assert condition is not None and body is not None
    times = int(trips[1])
    return [
        *(k.times(times + 1) for k in _kernels(computations, condition[1])),
        *(k.times(times) for k in _kernels(computations, body[1])),
    ]


def _kernel(
    computations: dict[str, Computation],
    computation: Computation,
    instruction: Instruction,
    inside: tuple[str, ...] | list[str] | tuple[()],
) -> Kernel:
    moved = sum(_bytes(computation[operand].kind) for operand in instruction.operands)
    products = [macs for name in inside for macs in _products(computations, name)]
    products += _macs(computation, instruction)
    return Kernel(instruction.name, moved + _bytes(instruction.kind), sum(products), len(products))


def _products(computations: dict[str, Computation], name: str) -> list[int]:
    """MACs of each matmul in a computation and in those that it calls."""
    found = []
    for instruction in computations[name].values():
        found += _macs(computations[name], instruction)
        for inner in _CALLED.findall(instruction.rest):
            found += _products(computations, inner)
    return found


def _macs(computation: Computation, instruction: Instruction) -> list[int]:
    if instruction.opcode not in ("dot", "convolution"):
        return []
    (out,) = _shapes(instruction.kind)
    lhs, rhs = (_shapes(computation[name].kind)[0] for name in instruction.operands)
    if instruction.opcode == "dot":
        dims = _CONTRACTING.search(instruction.rest)
        summed = [int(d) for d in dims[1].split(",") if d] if dims else []
        return [prod(out) * prod(lhs[d] for d in summed)]
    labels = _LABELS.search(instruction.rest)
    assert labels is not None
    return [prod(out) * prod(rhs) // rhs[labels[1].index("o")]]


def _shapes(kind: str) -> list[tuple[int, ...]]:
    return [tuple(int(d) for d in dims.split(",") if d) for _, _, dims in _ARRAY.findall(kind)]


def _bytes(kind: str) -> int:
    """Bytes of all arrays in a type."""
    return sum(
        -(-prod(int(d) for d in dims.split(",") if d) * int(bits or 8) // 8)
        for _, bits, dims in _ARRAY.findall(kind)
    )
