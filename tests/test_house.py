"""The house is easy to live in: no file of many ideas, tests where the code is, worked examples that work."""

import ast
import doctest
import importlib
from pathlib import Path

import pytest

import tfcli

PACKAGE = Path(tfcli.__file__).parent
FILES = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in FILES}

MAX_LINES_PER_FILE = 800


def importers() -> dict[Path, set[Path]]:
    found: dict[Path, set[Path]] = {path: set() for path in FILES}
    for path, source in FILES.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for name in names:
                if name in MODULES and MODULES[name] != path:
                    found[MODULES[name]].add(path)
    return found


def test_no_file_is_longer_than_one_idea_needs() -> None:
    long_files = [
        str(path.relative_to(PACKAGE))
        for path, source in FILES.items()
        if len(source.splitlines()) > MAX_LINES_PER_FILE
    ]
    assert long_files == []


def test_every_room_has_tests_of_its_own() -> None:
    """`records` are tested where they are made, `console` through the commands in tests/cli."""
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    tested = {path.name for path in Path(__file__).parent.iterdir() if any(path.glob("test_*.py"))}
    assert rooms - tested <= {"records", "console", "doctor"}


WITH_EXAMPLES = [name for name, path in MODULES.items() if ">>> " in FILES[path] and "explorer" not in name]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_worked_examples_work(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


# These take any number of values.
OF_MANY = {"columns", "grid", "_grid", "bare", "digest", "_first", "_family", "cls"}


def test_a_call_with_many_arguments_names_them() -> None:
    """Of more than five values, those behind the third are told apart by their names."""
    nameless = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.func.id}"
        for path, source in FILES.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and len(node.args) > 5
        and not any(isinstance(one, ast.Starred) for one in node.args)
        and node.func.id not in OF_MANY
    ]
    assert nameless == []


def test_files_import_in_no_circle() -> None:
    """Neither while they are loaded, nor when functions import what they need: a folder and its files neither."""
    edges = {path: set() for path in FILES}  # type: dict[Path, set[Path]]
    for imported, by in importers().items():
        for path in by:
            edges[path].add(imported)
    loaded = {}  # type: dict[Path, int]

    def visit(path: Path, way: list[Path]) -> None:
        assert loaded.get(path) != 1, " → ".join(str(one.relative_to(PACKAGE)) for one in [*way, path])
        if path not in loaded:
            loaded[path] = 1
            for other in sorted(edges[path]):
                visit(other, [*way, path])
            loaded[path] = 2

    for path in FILES:
        visit(path, [])
