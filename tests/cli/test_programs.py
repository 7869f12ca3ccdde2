"""``systolic run`` and ``systolic fusion`` on JAX functions in files, and on files of StableHLO."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from systolic.cli import main

SOURCE = """
import jax, jax.numpy as jnp
import neighbour

def mlp(params, x):
    for i, (up, down) in enumerate(params):
        with jax.named_scope(f"layer_{i}"):
            x = jax.nn.relu(x @ up) @ down
    return x

def mlp_args():
    shape = jax.ShapeDtypeStruct
    layer = (shape((16, neighbour.WIDE), jnp.bfloat16), shape((neighbour.WIDE, 16), jnp.bfloat16))
    return [layer] * 3, shape((8, 16), jnp.bfloat16)

def loop(n, x, w):
    return jax.lax.fori_loop(0, n, lambda i, c: c @ w, x)

def either(p, x):
    return jax.lax.cond(p, lambda x: x @ x @ x, lambda x: x @ x, x)

def closed():
    return jnp.ones((4, 8)) @ jnp.ones((8, 2))

def wrong(x):
    return x @ jnp.ones(3)

number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "neighbour.py").write_text("WIDE = 64\n")
    path = tmp_path / "program.py"
    path.write_text(SOURCE.lstrip())
    return str(path)


def status(*arguments: str) -> int:
    with pytest.raises(SystemExit) as done:
        main(arguments)
    return int(done.value.code or 0)


def matmuls(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[int]]:
    assert status("run", *arguments, "--check", "off", "--json", "-") == 0
    (chip,) = json.loads(capsys.readouterr().out)["chips"]
    return [[row[key] for key in ("m", "n", "k", "count")] for row in chip["matmuls"]]


def test_arguments_of_the_file(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert matmuls(capsys, f"{file}:mlp") == [[8, 64, 16, 3], [8, 16, 64, 3]]
    assert matmuls(capsys, f"{file}:closed") == [[4, 2, 8, 1]]


def test_arguments_trips_and_branches_of_the_command_line(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--arg", ":int32", "--arg", "8x4:bf16", "--arg", "4x4:bf16")
    assert matmuls(capsys, f"{file}:loop", *arguments, "--trip", "program.py:16=5") == [[8, 4, 4, 5]]
    either = (f"{file}:either", "--arg", ":bool", "--arg", "4x4")
    assert matmuls(capsys, *either) == [[4, 4, 4, 2]]
    assert matmuls(capsys, *either, "--branch", "program.py:19=0") == [[4, 4, 4, 1]]


def test_a_file_of_stablehlo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import jax
    import jax.numpy as jnp
    from jax import export

    shapes = jax.ShapeDtypeStruct((8, 4), jnp.float32), jax.ShapeDtypeStruct((4, 2), jnp.float32)
    path = tmp_path / "program.mlirbc"
    path.write_bytes(export.export(jax.jit(jnp.matmul))(*shapes).mlir_module_serialized)
    assert matmuls(capsys, str(path)) == [[8, 2, 4, 1]]
    assert status("run", str(path), "--arg", "3") == 2
    assert "states its own shapes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("{}:mpl",), "there is no function 'mpl'; did you mean 'mlp'?"),
        (("{}:number",), "there is no function 'number'"),
        (("none.py:mlp",), "none.py: there is no such file"),
        (
            ("{}:loop",),
            "missing a required argument: 'n'; give each argument as --arg 8x128:bf16, or define loop_args",
        ),
        (
            ("{}:loop", "--arg", "8 x 4"),
            "--arg must be sides and a number format such as 8x128:bf16, got '8 x 4'",
        ),
        (("{}:loop", "--arg", "8x4:bf17"), "--arg 8x4:bf17: 'bf17' is no number format of JAX"),
        (("{}:wrong", "--arg", "4x4"), "program.py:wrong raised TypeError: "),
        (("{}:mlp", "--trip", "3"), "--trip must be NAME=NUMBER such as model.py:42=10, got '3'"),
        (("{}:mlp", "--trip", "a=3"), "trips must name one of the program's, got 'a'; it has none"),
        (("{}:mlp", "--seq", "3"), "--seq applies to a model, and"),
        (
            ("gpt2", "--arg", "3"),
            "--arg applies to a program such as file.py:function, not to the model 'gpt2'",
        ),
    ],
)
def test_wrong_input_is_one_line(
    file: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], line: str
) -> None:
    assert status("run", *(argument.format(file) for argument in arguments)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("systolic: ")
    assert line in lines[0]


def test_an_error_in_the_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.py").write_text("import nowhere\n")
    assert status("run", f"{tmp_path / 'broken.py'}:f") == 2
    assert "broken.py raised ModuleNotFoundError: No module named 'nowhere'" in capsys.readouterr().err


def test_fusion(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("fusion", f"{file}:mlp", "--on", "tpu-v4", "--launch", "5 us") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[2:5]] == ["op by op", "eager", "compiled"]
    assert all(" 6 " in line and "49.15 k" in line for line in lines[2:5])
    assert status("fusion", "gpt2") == 2
    assert "fusion needs a JAX function as file.py:function, got 'gpt2'" in capsys.readouterr().err
    assert status("fusion", f"{file}:mlp", "--launch", "5 us") == 2
    assert "--launch needs the chip that --on names" in capsys.readouterr().err
