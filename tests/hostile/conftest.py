"""The ingredients of hostile cases, each made once a session when first named, and which cases run by default.

All cases run with `-m slow`; without, those of the sample alone.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import tfcli
from tests.hostile.harness import Place

_HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all cases as slow, but for the sample where slow tests are left out."""
    by_default = config.getoption("markexpr") == "not slow"
    for item in items:
        if _HERE in item.path.parents and not (by_default and item.get_closest_marker("sample")):
            item.add_marker(pytest.mark.slow)


def _made(*arguments: str | Path) -> None:
    result = tfcli(*arguments, "--quiet")
    assert result.exit_code == 0, result.stderr


@pytest.fixture(scope="session")
def ingredients(trained: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Where an ingredient is, by its name; it is made at the first call, and never changed."""
    made = tmp_path_factory.mktemp("ingredients")
    words = "One day, Tom swam across the river to get to the other bank. "

    def untied(out: Path) -> None:
        from tests.support.runs import tiny_recipe, train_tiny

        many = {"train": {"keep_checkpoints": 3}, "model": {"dropout": 0.1}, "data": {"seed": 5}}
        train_tiny(tiny_recipe("decoder", many), out)

    makers: dict[str, Callable[[Path], object]] = {
        "untied": untied,
        "text.txt": lambda out: out.write_text((words * 3 + "\n") * 40),
        "pairs.tsv": lambda out: out.write_text("pt\ten\n" + "".join(f"o gato {n}\tthe cat {n}\n" for n in range(60))),
        "prompts.txt": lambda out: out.write_text("One day\nTom swam\n"),
        "tokenizer.json": lambda out: _made("tokenize", "train", one("text.txt"), "--out", out),
        "other.json": lambda out: _made("tokenize", "train", one("text.txt"), "--algorithm", "char", "--out", out),
        "prepared": lambda out: _made("prepare", one("text.txt"), "--tokenizer", one("tokenizer.json"), "--out", out),
        "pairs": lambda out: _made(
            *("prepare", one("pairs.tsv"), "--pairs", "--tokenizer", one("tokenizer.json"), "--out", out)
        ),
        "hf": lambda out: _made("export", one("decoder"), "--out", out),
    }

    def one(name: str) -> Path:
        if name in ("decoder", "encoder", "translator"):
            architecture = "encoder-decoder" if name == "translator" else name
            path = made / name
            if not path.is_symlink():
                path.symlink_to(trained(architecture))
            return path
        path = made / name
        if not path.exists():
            makers[name](path)
        return path

    return one


@pytest.fixture
def place(ingredients: Callable[[str], Path], cache: Path, tmp_path: Path) -> Place:
    """A folder of its own for a case."""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    return Place(here, temporary, cache, ingredients)
