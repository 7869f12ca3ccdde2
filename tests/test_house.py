"""The rules of the house: who may import what, and what the files around the code promise."""

from __future__ import annotations

import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import systolic

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "systolic"
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

# One import against each contract: file, line, and the name of the contract that it breaks.
PLANTED = (
    ("blocks/planted.py", "from ..engine import planted", "Imports point down"),
    ("numerics/planted.py", "from ..kernels import compile", "Imports point down"),
    ("planted.py", "", "Imports point down"),
    ("machines/planted.py", "from .tpu import planted", "The machines do not know one another"),
    ("kernels/planted.py", "from ..errors import SystolicError", "The kernels see plain arrays"),
    ("mapping/planted.py", "import numba", "Only the kernels are compiled"),
    ("models/planted.py", "import jax.numpy", "jax stands behind five doors"),
    ("engine/planted.py", "def draw():\n    import matplotlib.pyplot", "Only viz draws"),
    ("chips/planted.py", "import typer", "Only the command line reads the command line"),
)


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package and the contracts in `folder`."""
    command = [str(LINT_IMPORTS), "--no-cache", "--config", "setup.cfg"]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def imports_of(path: Path) -> Iterator[str]:
    """Top-level names of what a file imports anywhere; "." for its own package, ".." for above."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * min(node.level, 2) or str(node.module).partition(".")[0]


@pytest.mark.parametrize("path", sorted((PACKAGE / "kernels").rglob("*.py")), ids=lambda p: p.stem)
def test_kernels_import_arrays_and_compilers_only(path: Path) -> None:
    allowed = {".", "numpy", "numba", "llvmlite"} | sys.stdlib_module_names
    if path.parent.parent == PACKAGE / "kernels":
        allowed |= {".."}  # the kernels themselves
    assert set(imports_of(path)) <= allowed


def public_functions(path: Path) -> set[str]:
    """Names of the functions that a module defines for others."""
    body = ast.parse(path.read_text()).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"}


@pytest.mark.parametrize("init", sorted(PACKAGE.rglob("__init__.py")), ids=lambda p: p.parent.name)
def test_no_module_bears_the_name_of_a_function_beside_it(init: Path) -> None:
    # `from .cost import cost` in a package hides the module, and a later import of the module the function.
    modules = list(init.parent.glob("*.py"))
    functions = set().union(*map(public_functions, modules))
    assert not functions & {path.stem for path in modules}


def test_import_contracts_are_kept() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout


def test_import_contracts_notice_what_they_forbid(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "systolic", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    for file, line, _ in PLANTED:
        (tmp_path / "systolic" / file).write_text(line + "\n")
    for layer in ("engine", "machines/tpu"):
        (tmp_path / "systolic" / layer / "planted.py").touch()
    done = lint_imports(tmp_path)
    assert done.returncode == 1
    broken = re.findall(r"^(.*?) BROKEN", done.stdout, re.MULTILINE)
    assert {name for name in broken if any(name.startswith(rule) for *_, rule in PLANTED)} == set(broken)
    for file, _, rule in PLANTED:
        assert any(name.startswith(rule) for name in broken), f"{rule!r} is not broken:\n{done.stdout}"
        module = "systolic." + file.removesuffix(".py").replace("/", ".")
        assert re.search(rf"- +{module}\b", done.stdout), f"{module} is not blamed:\n{done.stdout}"


def modules_after(*arguments: str) -> set[str]:
    """Top-level modules loaded after the command line has run `arguments` in a process of its own."""
    code = (
        "import sys, systolic.cli\n"
        "try:\n    systolic.cli.main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "print('\\nLOADED', *{name.partition('.')[0] for name in sys.modules})"
    )
    # argv[0] is what a user types, the rest what the command line reads.
    script = f"import sys; sys.argv = {['systolic', *arguments]!r}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("\nLOADED")[2].split())


@pytest.mark.parametrize("more", [(), ("--json", "out.json")], ids=["table", "json"])
def test_a_run_without_check_loads_neither_jax_nor_matplotlib(more: tuple[str, ...], tmp_path: Path) -> None:
    target = tuple(str(tmp_path / word) if word.endswith(".json") else word for word in more)
    loaded = modules_after("run", "gpt2", "--on", "tpu-v4", "--check", "off", *target)
    assert "numpy" in loaded
    assert not loaded & {"jax", "jaxlib", "matplotlib", "pandas"}


def test_a_tiled_run_without_check_compiles_nothing() -> None:
    # DESIGN: Numba loads only for stepping, values, the GPU and the CPU engines.
    loaded = modules_after("run", "512,768,768", "--on", "tpu-v4", "--check", "off")
    assert not loaded & {"numba", "llvmlite"}


def test_help_loads_nothing_heavy() -> None:
    loaded = modules_after("--help")
    assert not loaded & {"jax", "numba", "numpy", "matplotlib", "pandas", "pydantic"}


# Written so that this file does not hold what it looks for.
FORBIDDEN = {
    "an absolute path of a machine": r"(?<![\w.~-])/(?:home|root|Users|work|opt|mnt|tmp|var)/\w",
    "a package index": r"index-[u]rl|python[h]osted|[p]ypi\.|registry\.np[m]|artifac[t]ory",
    "work left undone": r"\b(?:TO[D]O|FIX[M]E|XX[X]|TB[D])\b",
}


def tracked_texts() -> Iterator[tuple[str, str]]:
    """Name and text of each tracked file that is text."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        path = ROOT / name
        if path.is_file():
            yield name, path.read_bytes().decode(errors="ignore")


@pytest.mark.tool("git")
@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_tracked_file_holds(what: str) -> None:
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in tracked_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(FORBIDDEN[what], line)
    ]
    assert not found, "\n".join(found)


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "benchmarks/README.md"])
def test_documented_make_targets_exist(document: str) -> None:
    named = set(re.findall(r"(?:^ +|`|\$ )make ([a-z]+)", (ROOT / document).read_text(), re.MULTILINE))
    assert named, f"{document} names no make target"
    assert named <= make_targets()


def documented_commands(document: str) -> list[list[str]]:
    """The `systolic ...` lines of the code blocks of a document, each as words."""
    lines = re.findall(r"^(?: {4}|\$ |> )*(systolic [a-z].*)$", (ROOT / document).read_text(), re.MULTILINE)
    return [line.partition("#")[0].split() for line in lines]


def test_documented_commands_exist() -> None:
    commands = {words[1] for words in documented_commands("README.md")}
    assert commands, "README.md shows no command"
    shown = subprocess.run(
        [sys.executable, "-m", "systolic", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert commands <= set(re.findall(r"[a-z]+", shown))


def settings() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_changelog_begins_with_the_version_of_the_package() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == systolic.__version__


def test_every_data_file_is_packaged() -> None:
    patterns = settings()["options.package_data"]["systolic"].split()
    packaged = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    sources = {".py", ".pyc", ".md"}  # a README beside the data tells where it comes from; no code reads it
    data = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in sources}
    assert data == packaged


def test_tools_that_tests_name_are_in_the_makefile() -> None:
    listed = re.search(r"^TEST_TOOLS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert listed is not None
    named = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        named |= set(re.findall(r'pytest\.mark\.tool\("([\w-]+)"\)', path.read_text()))
    assert named == {pair.partition(":")[0] for pair in listed[1].split()}
