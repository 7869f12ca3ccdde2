"""The waveform read back: at every cycle each signal is the register of the stepped engine."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import numpy as np
import pytest
from vcd.reader import TokenKind, tokenize

from systolic.engine.recording import Recording, record
from systolic.viz.waveform import most_changes, signals, write_vcd
from systolic.workload import Gemm

CASES = [
    ("ws", Gemm(m=4, n=4, k=4, dtype="fp32"), {}),
    ("os", Gemm(m=5, n=3, k=6, dtype="int8"), {}),
    ("is", Gemm(m=4, n=6, k=5, dtype="bf16"), {"array.convention": "overlapped", "array.lanes.bf16": 2}),
]


def wave_of(recording: Recording) -> tuple[str, int]:
    text = io.StringIO()
    changes = write_vcd(recording, recording.runs[0], text)
    return text.getvalue(), changes


def read_back(text: str, times: list[int]) -> dict[tuple[str, ...], list[object]]:
    """Scope and name -> the value at each of `times`, by a reader of VCD files."""
    names: dict[str, list[tuple[str, ...]]] = {}
    kinds: dict[str, tuple[str, int]] = {}
    now: dict[str, object] = {}
    seen: dict[tuple[str, ...], list[object]] = {}
    scopes: list[str] = []
    left = list(times)

    def take() -> None:
        for code, places in names.items():
            for place in places:
                seen.setdefault(place, []).append(valued(now.get(code), *kinds[code]))
        left.pop(0)

    for token in tokenize(io.BytesIO(text.encode())):
        if token.kind is TokenKind.SCOPE:
            scopes.append(token.scope.ident)
        elif token.kind is TokenKind.UPSCOPE:
            scopes.pop()
        elif token.kind is TokenKind.VAR:
            names.setdefault(token.var.id_code, []).append((*scopes, token.var.reference))
            kinds[token.var.id_code] = (token.var.type_.value, token.var.size)
        elif token.kind is TokenKind.CHANGE_TIME:
            while left and token.time_change > left[0]:
                take()
        elif token.kind in (TokenKind.CHANGE_SCALAR, TokenKind.CHANGE_VECTOR, TokenKind.CHANGE_REAL):
            change = {
                TokenKind.CHANGE_SCALAR: lambda t: t.scalar_change,
                TokenKind.CHANGE_VECTOR: lambda t: t.vector_change,
                TokenKind.CHANGE_REAL: lambda t: t.real_change,
            }[token.kind](token)
            now[change.id_code] = change.value
    while left:
        take()
    return seen


def valued(value: object, kind: str, size: int) -> object:
    """Vectors are 32-bit two's complement."""
    if kind == "real" or value is None:
        return value
    number = int(value) if isinstance(value, int) else int(str(value), 2)
    return number - 2**32 if size == 32 and number >= 2**31 else number


@pytest.mark.parametrize(("dataflow", "gemm", "changed"), CASES, ids=[case[0] for case in CASES])
def test_every_register_at_every_cycle(dataflow: str, gemm: Gemm, changed: dict[str, object]) -> None:
    rng = np.random.default_rng(5)
    lhs, rhs = rng.integers(-9, 10, (gemm.m, gemm.k)), rng.integers(-9, 10, (gemm.k, gemm.n))
    recording = record(gemm, dataflows=(dataflow,), overrides=changed, lhs=lhs, rhs=rhs)
    array = recording.runs[0].array
    text, changes = wave_of(recording)
    # teaching-4x4 has a clock of 1 GHz: 1000 ps.
    seen = read_back(text, [1000 * clock for clock in range(array.cycles + 1)])
    expected = {("array", scope, name): values.tolist() for scope, name, values in signals(array)}
    assert seen == expected
    assert 0 < changes <= most_changes(array)
    held = {name for scope, name, _ in signals(array) if scope == "pe_0_0"}
    assert {"weight", "shadow"} <= held
    for name, register in array.registers.items():  # every register is there, PE by PE and lane by lane
        ways = 1 if register.ndim == 3 else register.shape[1]
        for way in range(ways):
            signal = name if ways == 1 else f"{name}_{way}"
            values = register[:, 2, 1] if register.ndim == 3 else register[:, way, 2, 1]
            assert seen["array", "pe_2_1", signal] == values.tolist()


@pytest.mark.tool("vcd2fst")
def test_gtkwave_takes_it(tmp_path: Path) -> None:
    wave, packed = tmp_path / "wave.vcd", tmp_path / "wave.fst"
    wave.write_text(wave_of(record(Gemm(m=4, n=4, k=4, dtype="fp32")))[0])
    done = subprocess.run(["vcd2fst", str(wave), str(packed)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert packed.stat().st_size > 1000
