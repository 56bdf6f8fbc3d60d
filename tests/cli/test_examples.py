"""Every example runs: those of the README and of the tour, in order and in one folder, and those of the help texts."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from tests.cli.commands import shell, tfcli
from tests.support.app import app
from tests.support.bench import measure_here
from tests.support.explorer import explore_headless
from tests.support.runs import Settings, tiny_recipe, train_tiny
from tfcli.interop.exporting import export_run
from tfcli.interop.importing import import_run
from tfcli.runs.load import load_run

ROOT = Path(__file__).parents[2]
README, TOUR = ROOT / "README.md", ROOT / "docs" / "tour.md"


def shell_commands(page: Path) -> list[str]:
    """The lines of a page's shell blocks that are run as they stand; setting up is what .ci/run does."""
    lines, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = line == "```sh"
        elif inside:
            lines.append(line.removeprefix("pip install -e . && "))
    return [line for line in lines if line.strip() and not line.startswith("pip ")]


def help_examples() -> Iterator[str]:
    """The lines of all help texts that show a command."""
    for command in typer.main.get_command(app).commands.values():
        for one in getattr(command, "commands", {"": command}).values():
            lines = re.sub(r"\\\n\s*", "", one.help or "").splitlines()
            yield from (line.strip() for line in lines if line.strip().startswith("tfcli "))


def test_the_readme_shows_how_to_begin():
    text = README.read_text(encoding="utf-8")
    assert shell_commands(README)[0] == "tfcli run quickstart"
    assert "pip install -e '.[dev]' && pytest" in text
    assert len(text.splitlines()) <= 200


def test_the_readme_has_a_picture_behind_its_first_command():
    """Made by the program: its title is what the view says, and the command stands on the page."""
    behind = README.read_text(encoding="utf-8").split("```")[2]
    picture = ROOT / re.findall(r"\]\((docs/pictures/.*?\.svg)\)", behind)[0]
    drawn = picture.read_text(encoding="utf-8")
    [command] = [line for line in shell_commands(README) if "inspect attention" in line and "--svg" in line]
    text, layer, head = re.findall(r'"(.*)".* --head (\d+)\.(\d+) --svg', command)[0]
    assert drawn.startswith("<svg ") and len(drawn) < 100_000 and f"layer {layer}, head {head}" in drawn
    shown = [label.replace("·", "") for label in re.findall(r"rotate\(-50\)'>(.*?)</text>", drawn)]
    assert "".join(shown[1:]) == text.replace(" ", "")


@pytest.mark.parametrize("page", [README, TOUR], ids=lambda page: page.stem)
def test_every_command_of_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One after the other, for later ones use what earlier ones made; the text and the pairs are the reader's own."""
    monkeypatch.chdir(tmp_path)
    measure_here(monkeypatch)
    if page == README:
        Path("mytext.txt").write_text("Tom swam across the river to the other bank.\n" * 40)
        Path("mine.de").write_text("".join(f"Hund {n} schläft.\n" for n in range(60)), encoding="utf-8")
        Path("mine.en").write_text("".join(f"Dog {n} sleeps.\n" for n in range(60)))
    for line in shell_commands(page):
        for result in shell(line):
            assert result.exit_code == 0, f"{line}\n{result.stderr}"


@pytest.fixture(scope="module")
def workspace(trained: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples of the help texts speak of."""
    folder = tmp_path_factory.mktemp("examples")
    names = {
        "decoder": ["decoder-1", "decoder-2"],
        "encoder": ["encoder-1"],
        "encoder-decoder": ["encoder-decoder-1", "pt-en-1", "translator"],
    }
    for architecture, runs in names.items():
        for run in runs:
            shutil.copytree(trained(architecture), folder / "runs" / run)
    shutil.copy(folder / "runs" / "translator" / "tokenizer.json", folder)
    # Rows enough for whatever tokenizer the examples put in the place of its own.
    rows: Settings = {"model": {"vocab_size": 20_000}, "train": {"steps": 1}}
    train_tiny(tiny_recipe("decoder", rows), folder / "made")
    train_tiny(tiny_recipe("decoder", {"train": {"keep_every": 4}}), folder / "runs" / "induction-1")
    export_run(load_run(folder / "made"), folder / "checkpoint")
    (folder / "checkpoint" / "chat_template.jinja").write_text("{{ messages[-1].content }}")
    import_run(str(folder / "checkpoint"), folder / "runs" / "imported")
    text = "Tom swam across the river to the bank. " * 2000
    (folder / "books").mkdir()
    for file in ("books/one.txt", "books/two.txt", "book.txt", "other.txt", "input.txt", "mytext.txt"):
        (folder / file).write_text(text)
    (folder / "law.txt").write_text("§ 7: the plaintiff waives every lien æ. " * 40, encoding="utf-8")
    for side in ("a.de", "a.en"):
        (folder / side).write_text("".join(f"Tom swam {number} times.\n" for number in range(300)))
    (folder / "prompts.txt").write_text("Tom\nOne day, Anna\n")
    pairs = ["pt\ten", *(f"O gato {n} dorme.\tCat {n} sleeps." for n in range(200))]
    (folder / "train.tsv").write_text("\n".join(pairs) + "\n")
    for table in ("web", "wiki"):
        (folder / f"{table}.jsonl").write_text("".join(f'{{"text": "{table} {n}"}}\n' for n in range(200)))
    words = [folder / "web.jsonl", "--tokenizer", folder / "tokenizer.json"]
    for number in (1, 2):
        share = ("--shard", f"{number}/2", "--out", folder / "shares" / str(number))
        assert tfcli("prepare", *words, *share).exit_code == 0
    return folder


_MEASURE = ("tfcli plan", "tfcli bench", "tfcli inspect recurrent")
"""They take their time by what they are; options and refusals are tested in test_{plan,bench,recurrent}.py."""


# Those that start several processes are run by tests/training/test_distributed_launch.py.
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=[pytest.mark.slow] if line.startswith(_MEASURE) else [])
        for line in help_examples()
        if "--nproc" not in line
    ],
)
def test_every_help_example_runs(line: str, workspace: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(workspace)
    monkeypatch.setattr("tfcli.interop.importing.fetch", lambda _: workspace / "checkpoint")  # in place of the hub
    measure_here(monkeypatch)
    explore_headless(monkeypatch)
    results = shell(line.replace("--checkpoint 750", "--checkpoint 80"))  # the tiny run has one, its last
    assert results
    for result in results:
        assert result.exit_code == 0, result.stderr


def test_help_has_examples_for_every_command():
    shown = {tuple(line.split()[1:3]) for line in help_examples()}
    for name, command in typer.main.get_command(app).commands.items():
        for sub in getattr(command, "commands", {"": None}):
            assert any(words[0] == name and sub in ("", *words[1:]) for words in shown), f"{name} {sub}"
