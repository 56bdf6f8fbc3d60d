"""Imports point one way only. Every import of every module is read with `ast`, wherever in the file it
stands.

Each rule is a function from one module to its violations, so that each can also be shown a planted one.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import tfcli

PACKAGE = Path(tfcli.__file__).parent

# A room's `command.py` is a command and its `view.py` (or `…_view.py`) a view, wherever they live: they have rows of
# their own. What a package's `__init__.py` holds is a record.
# From the top row to the bottom one. A part may import itself and the rows below its own.
ROWS: tuple[tuple[str, ...], ...] = (
    ("cli",),
    ("commands",),
    ("explorer", "console"),
    ("pipeline",),
    ("verification", "bench", "planning", "doctor"),
    ("inspection", "interop"),
    ("training",),
    ("evaluation",),
    ("generation",),
    ("runs",),
    ("models",),
    ("data",),
    ("corpora", "tokenization", "layers"),
    ("recipe",),
    ("outputs", "lectures"),
    ("records", "errors", "files", "machine", "threads", "addresses"),
)
ROW = {part: number for number, row in enumerate(ROWS) for part in row}

# What the rows do not say: views and the drawing kit stand beside them, and some neighbours may be read.
ALSO = {
    "cli": {"draw", "views"},
    "commands": {"draw", "views"},
    "console": {"draw", "views"},
    "explorer": {"draw", "views"},
    "tokenization": {"corpora"},
    "files": {"errors", "machine"},
    "addresses": {"errors", "files"},
    "machine": {"errors"},
    "records": {"errors"},
    "views": {"draw", "records", "errors"},
    "draw": {"records", "errors"},
}
SEES_MODEL_SECTION_ALONE = {"layers", "models"}
TORCH_FREE = {
    "addresses",
    "errors",
    "files",
    "lectures",
    "machine",
    "outputs",
    "records",
    "recipe",
    "threads",
    "corpora",
    "tokenization",
    "data",
    "draw",
    "views",
}
DRAWN = {"draw", "views"}
MAY_IMPORT_TYPER = {"cli", "commands", "console"}
MAY_IMPORT_RICH = {*MAY_IMPORT_TYPER, "explorer", *DRAWN}
MAY_PRINT = {*MAY_IMPORT_TYPER, "explorer"}
STARTS_PROCESSES = (
    *("subprocess", "multiprocessing", "pty", "concurrent.futures.ProcessPoolExecutor"),
    *("torch.multiprocessing", "torch.distributed.launcher", "torch.distributed.elastic", "torch.distributed.run"),
)


def part_of(name: str) -> str:
    """ "cli" for tfcli.cli.main, "" for tfcli itself; "commands", "views" and "records" wherever they live."""
    names = name.split(".")
    if len(names) < 2:
        return ""
    while len(names) > 2 and not is_module(names):
        names.pop()  # what is imported from a module is of its part
    if len(names) > 2 and names[-1] == "command":
        return "commands"
    if len(names) > 2 and (names[-1] == "view" or names[-1].endswith("_view")):
        return "views"
    if len(names) > 2 and names[-1] == "record":
        return "records"
    if len(names) > 1 and (PACKAGE.joinpath(*names[1:]) / "__init__.py").is_file() and name != ".".join(names):
        return "records"  # a name out of a package: its record
    return names[1]


def is_module(names: list[str]) -> bool:
    """Whether a file or a folder of the package has these names."""
    place = PACKAGE.joinpath(*names[1:])
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


@dataclass(frozen=True)
class Import:
    """One imported module, by its full dotted name."""

    name: str
    line: int
    in_function: bool
    for_types: bool = False


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    source: str
    is_package: bool = False

    @property
    def part(self) -> str:
        """The part of the house it belongs to."""
        return part_of(self.name)

    def imports(self) -> Iterator[Import]:
        """Every import: in functions, under TYPE_CHECKING, relative, and through importlib with a written
        name."""
        tree = ast.parse(self.source)
        in_functions = {
            id(inner)
            for outer in ast.walk(tree)
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for inner in ast.walk(outer)
        }
        for_types = {
            id(inner)
            for outer in ast.walk(tree)
            if isinstance(outer, ast.If) and ast.unparse(outer.test) == "TYPE_CHECKING"
            for inner in ast.walk(outer)
        }
        for node in ast.walk(tree):
            for name in self._names(node):
                yield Import(name, node.lineno, id(node) in in_functions, id(node) in for_types)

    def _names(self, node: ast.AST) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            base = self._absolute(node)
            return [f"{base}.{alias.name}" for alias in node.names]
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func)
            if called in ("__import__", "import_module", "importlib.import_module"):
                return [str(node.args[0].value)]
        return []

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        package = package[: len(package) - (node.level - 1)]
        return ".".join([*package, *([node.module] if node.module else [])])


def inside(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def may_import(importer: str, imported: str) -> bool:
    """Whether the part `importer` may import the part `imported`."""
    if importer == imported or imported in ALSO.get(importer, ()):
        return True
    if importer not in ROW or imported not in ROW:
        return False
    return ROW[importer] < ROW[imported]


def check_rows(module: Module) -> Iterator[str]:
    """No import goes up or sideways. `tfcli` itself may reach anything, but only when a function of it is
    called."""
    for found in module.imports():
        if not inside(found.name, "tfcli") or module.name == "tfcli.__main__":
            continue
        imported = part_of(found.name)
        if imported in ("", "__version__", "__file__"):
            continue
        if module.part == "":
            if not found.in_function and not found.for_types:
                yield f"{module.name}:{found.line} imports {found.name} before anybody asks for it"
        elif imported not in {*ROW, *DRAWN}:
            yield f"{module.name}:{found.line} imports {found.name}, which is on no row"
        elif not may_import(module.part, imported):
            yield f"{module.name}:{found.line} imports {found.name}"


def check_model_section(module: Module) -> Iterator[str]:
    """Layers and models see the model section of a recipe and nothing else of it."""
    if module.part in SEES_MODEL_SECTION_ALONE:
        for found in module.imports():
            if inside(found.name, "tfcli.recipe") and not inside(found.name, "tfcli.recipe.model"):
                yield f"{module.name}:{found.line} imports {found.name}"


def check_typer(module: Module) -> Iterator[str]:
    """Only commands and what they share know typer."""
    if module.part not in MAY_IMPORT_TYPER:
        yield from (f"{module.name}:{i.line}" for i in module.imports() if inside(i.name, "typer"))


def check_rich(module: Module) -> Iterator[str]:
    """Only what draws knows rich."""
    if module.part not in MAY_IMPORT_RICH:
        yield from (f"{module.name}:{i.line}" for i in module.imports() if inside(i.name, "rich"))


def check_textual(module: Module) -> Iterator[str]:
    """Only the explorer knows Textual, which is an extra."""
    if module.part != "explorer":
        yield from (f"{module.name}:{i.line}" for i in module.imports() if inside(i.name, "textual"))


def check_torch_free(module: Module) -> Iterator[str]:
    """The cheap parts never import torch, nor a part of tfcli that does."""
    if module.part not in TORCH_FREE:
        return
    for found in module.imports():
        imported = part_of(found.name)
        heavy_part = inside(found.name, "tfcli") and imported in set(ROW) - TORCH_FREE
        if inside(found.name, "torch") or inside(found.name, "safetensors.torch") or heavy_part:
            yield f"{module.name}:{found.line} imports {found.name}"


def check_pydantic(module: Module) -> Iterator[str]:
    """Recipes and records are imported for help texts: pydantic waits until a recipe is checked."""
    if module.part in ("recipe", "records"):
        for found in module.imports():
            if inside(found.name, "pydantic") and not found.in_function:
                yield f"{module.name}:{found.line}"


def check_printing(module: Module) -> Iterator[str]:
    """Only the command line and the explorer print, read the keyboard or exit."""
    if module.part in MAY_PRINT or module.name == "tfcli.__main__":
        return
    for node in ast.walk(ast.parse(module.source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "print",
            "input",
            "exit",
            "quit",
            "sys.exit",
        ):
            yield f"{module.name}:{node.lineno} calls {ast.unparse(node.func)}"


def check_processes(module: Module) -> Iterator[str]:
    """Only `machine` starts a process: isolated from the working folder, and ended with whoever started it."""
    if module.part == "machine":
        return
    for found in module.imports():
        if any(inside(found.name, name) for name in STARTS_PROCESSES):
            yield f"{module.name}:{found.line} imports {found.name}"
    for node in ast.walk(ast.parse(module.source)):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if re.fullmatch(r"os\.(fork\w*|exec\w+|spawn\w+|posix_spawn\w*|system|popen|startfile)", called):
            yield f"{module.name}:{node.lineno} calls {called}"


Rule = Callable[[Module], Iterator[str]]
RULES: tuple[Rule, ...] = (
    check_rows,
    check_model_section,
    check_typer,
    check_rich,
    check_textual,
    check_torch_free,
    check_pydantic,
    check_printing,
    check_processes,
)


def modules() -> list[Module]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(Module(name, path.read_text(encoding="utf-8"), is_package))
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_module_keeps_the_rule(rule: Rule):
    assert [violation for module in modules() for violation in rule(module)] == []


def test_every_module_stands_on_a_row():
    homeless = {m.part for m in modules()} - {*ROW, *DRAWN, "", "__main__"}
    assert not homeless


PLANTED = [
    # up, sideways, and each way of writing an import
    (check_rows, "tfcli.layers.norms", "from tfcli.models.build import build_model"),
    (check_rows, "tfcli.layers.norms", "from tfcli.corpora import stories"),
    (check_rows, "tfcli.corpora.stories", "from tfcli.tokenization.tokenizer import load_tokenizer"),
    (check_rows, "tfcli.data.loader", "def f():\n    import tfcli.training.loop"),
    (check_rows, "tfcli.runs.load", "if TYPE_CHECKING:\n    from tfcli.cli.main import app"),
    (check_rows, "tfcli.recipe.model", "from ..layers import norms"),
    (check_rows, "tfcli.recipe.model", "from .. import layers"),
    (check_rows, "tfcli.recipe.model", "from tfcli import layers"),
    (check_rows, "tfcli.recipe.model", "importlib.import_module('tfcli.models.build')"),
    (check_rows, "tfcli.generation.sampling", "from tfcli.evaluation.measure import score"),
    (check_rows, "tfcli.pipeline", "from tfcli.draw.heatmap import Heatmap"),
    (check_rows, "tfcli.inspection.attention.compute", "import tfcli.draw"),
    (check_rows, "tfcli.draw.heatmap", "from tfcli.recipe.model import ModelSection"),
    (check_rows, "tfcli.draw.heatmap", "from tfcli.files import write_text"),
    (check_rows, "tfcli.records.roles", "from tfcli.recipe.recipe import Recipe"),
    (check_rows, "tfcli.explorer.scene", "from tfcli.console.options import require_file_place"),
    (check_rows, "tfcli.errors", "from tfcli.files import digest"),
    (check_rows, "tfcli.training.loop", "from tfcli import load"),
    (check_rows, "tfcli", "from tfcli.runs.load import load_run"),
    (check_model_section, "tfcli.models.build", "from tfcli.recipe.recipe import Recipe"),
    (check_model_section, "tfcli.layers.norms", "from tfcli.recipe import train"),
    (check_typer, "tfcli.explorer.app", "import typer"),
    (check_typer, "tfcli.pipeline", "def f():\n    from typer.testing import CliRunner"),
    (check_rich, "tfcli.inspection.attention.compute", "from rich.console import Console"),
    (check_textual, "tfcli.explorer.command", "def f():\n    from textual.app import App"),
    (check_textual, "tfcli.draw.heatmap", "import textual"),
    (check_torch_free, "tfcli.data.batch", "def f():\n    from torch import Tensor"),
    (check_torch_free, "tfcli.data.batch", "from tfcli.layers.attention import causal_mask"),
    (check_torch_free, "tfcli.tokenization.tokenizer", "import safetensors.torch"),
    (check_torch_free, "tfcli.draw.heatmap", "if TYPE_CHECKING:\n    import torch"),
    (check_pydantic, "tfcli.recipe.loading", "import pydantic"),
    (check_pydantic, "tfcli.records.roles", "from pydantic import BaseModel"),
    (check_printing, "tfcli.training.loop", "print('step')"),
    (check_printing, "tfcli.runs.load", "import sys\nsys.exit(2)"),
    (check_processes, "tfcli.planning.command", "def f():\n    import subprocess"),
    (check_processes, "tfcli.planning.command", "from concurrent.futures import ProcessPoolExecutor"),
    (check_processes, "tfcli.console.launching", "from torch.distributed.launcher.api import elastic_launch"),
    (check_processes, "tfcli.bench.measure", "import os\nos.posix_spawn('a', [], {})"),
]


@pytest.mark.parametrize(("rule", "name", "source"), PLANTED, ids=lambda v: getattr(v, "__name__", v))
def test_a_planted_violation_is_found(rule: Rule, name: str, source: str):
    assert list(rule(Module(name, source)))


ALLOWED = [
    ("tfcli.cli.main", "import typer\nfrom tfcli.draw.heatmap import Heatmap\nprint()"),
    ("tfcli.explorer.app", "import rich\nfrom textual.app import App\nfrom tfcli.draw.heatmap import Heatmap"),
    ("tfcli.pipeline", "from tfcli.training.loop import train\nimport torch"),
    ("tfcli.tokenization.train", "from tfcli.corpora import open_source"),
    ("tfcli.data.cache", "from tfcli.tokenization.tokenizer import load_tokenizer\nimport tfcli.corpora"),
    ("tfcli.models.build", "from tfcli.recipe.model import ModelSection\nfrom tfcli.layers import norms"),
    ("tfcli.models.build", "from . import decoder\nfrom .decoder import Decoder"),
    ("tfcli.recipe.loading", "def f():\n    import pydantic"),
    ("tfcli.recipe.loading", "import tfcli\nfrom tfcli import __version__"),
    ("tfcli.draw.heatmap", "import rich\nfrom tfcli.inspection.attention import AttentionRecord"),
    ("tfcli.files", "from tfcli.errors import UsageError"),
    ("tfcli", "def load_run():\n    from tfcli.runs.load import load_run"),
]


@pytest.mark.parametrize(("name", "source"), ALLOWED, ids=lambda v: v)
def test_what_is_allowed_is_let_through(name: str, source: str):
    assert [violation for rule in RULES for violation in rule(Module(name, source))] == []


def test_a_package_resolves_its_relative_imports_from_itself():
    """In tfcli/data/__init__.py one dot is tfcli.data; in tfcli/data/batch.py too, and two dots are tfcli."""
    package = Module("tfcli.data", "from . import batch", is_package=True)
    module = Module("tfcli.data.batch", "from . import windows\nfrom ..errors import UsageError")
    assert [i.name for i in package.imports()] == ["tfcli.data.batch"]
    assert [i.name for i in module.imports()] == ["tfcli.data.windows", "tfcli.errors.UsageError"]


@pytest.mark.parametrize(
    ("parts", "unloaded"),
    [
        (TORCH_FREE, {"torch"}),
        ({"errors", "files", "recipe", "records"}, {"torch", "pydantic", "datasets", "tokenizers"}),
    ],
    ids=["torch-free", "cheapest"],
)
def test_the_cheap_parts_stay_cheap_when_they_are_imported(parts: set[str], unloaded: set[str]):
    """The rule as Python itself sees it: third-party modules could bring torch along."""
    names = [m.name for m in modules() if m.part in parts]
    code = f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
    code += f"print(*{unloaded} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
