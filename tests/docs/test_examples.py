"""What the pages tell the reader to type works, and the figures they give are true."""

import contextlib
import io
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import typer

from tests.docs.generate import DOCS, ROOT
from tests.docs.pages import PAGES, blocks, commands, headings, links
from tests.support.app import app
from tfcli.corpora.pt_en import DEFAULT_DOCUMENTS, PATTERNS, pairs
from tfcli.corpora.split import open_split
from tfcli.corpora.stories import PLOTS, stories
from tfcli.data.prepare import prepare
from tfcli.recipe.data import DataSection, TokenizerSection
from tfcli.recipe.loading import build_recipe, parse_assignments
from tfcli.runs.directory import RunDirectory
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.tokenization.train import train_tokenizer

STORIES = DataSection(source="builtin:stories", max_documents=120)
SENTENCE = "Tom swam across the river."


@pytest.fixture
def tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tokenizer:
    """A tokenizer.json and a dataset `prepared` in an empty working directory, as the pages assume them."""
    monkeypatch.chdir(tmp_path)
    division = open_split(STORIES, "text")
    made, _ = train_tokenizer(lambda: map(str, division.only("train")), TokenizerSection(vocab_size=500))
    made.save(tmp_path / "tokenizer.json")
    prepare(division, made, tmp_path / "prepared")
    return made


def output_of(code: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    return printed.getvalue()


def test_the_prepared_dataset_is_read_as_the_page_says(tokenizer: Tokenizer) -> None:
    [code] = blocks(DOCS / "data.md", "python")
    first = next(iter(open_split(STORIES, "text").only("train")))
    assert output_of(code) == f"{first}\n"


def test_the_tokenizer_loads_in_transformers_as_the_page_says(tokenizer: Tokenizer) -> None:
    pytest.importorskip("transformers")
    [code] = blocks(DOCS / "tokenizers.md", "python")
    assert output_of(code) == f"{tokenizer.encode(SENTENCE)} {SENTENCE}\n"


def test_the_python_api_works_as_the_page_says(
    trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two layers of two heads read characters: <s> and the 20 of "Tom swam to the bank"."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mine").symlink_to(trained("decoder"))
    monkeypatch.chdir(tmp_path)
    [code] = blocks(ROOT / "README.md", "python")
    assert output_of(code).splitlines()[-1] == "(2, 2, 21, 21)"


def test_a_record_is_a_picture_in_a_notebook_as_the_page_says(
    trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "decoder").symlink_to(trained("decoder"))
    monkeypatch.chdir(tmp_path)
    notebook, causes = blocks(DOCS / "inspection.md", "python")
    assert output_of(notebook + causes).splitlines()[-1] == "1"


def test_transformers_reads_special_tokens_unless_told_otherwise(tokenizer: Tokenizer) -> None:
    transformers = pytest.importorskip("transformers")
    other = transformers.PreTrainedTokenizerFast(tokenizer_file="tokenizer.json")
    assert tokenizer.roles.bos in other("<s>")["input_ids"]
    assert other("<s>", split_special_tokens=True)["input_ids"] == tokenizer.encode("<s>")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_is_one_that_tfcli_takes(page: Path) -> None:
    """Parsed, not run: commands, options and recipe keys have these names, and no argument is missing."""
    for words in commands(page):
        name, command, rest = "tfcli", typer.main.get_command(app), words
        while hasattr(command, "commands"):
            assert rest and rest[0] in command.commands, f"{page.name}: {name} {' '.join(rest)}"
            name, command, rest = f"{name} {rest[0]}", command.commands[rest[0]], rest[1:]
        context = command.make_context(name, list(rest))
        build_recipe(parse_assignments(context.params.get("assignments") or []))


def test_commands_are_found_in_the_pages() -> None:
    """The search itself: it would pass everything if it found nothing."""
    found = [words for page in PAGES for words in commands(page)]
    assert ["run", "quickstart"] in found
    assert ["tokenize", "decode", "tokenizer.json", "-"] in found
    assert len(found) > 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if heading:
            assert heading in headings(target), link


@pytest.mark.parametrize("page", ["architecture.md", "tokenizers.md", "data.md"])
def test_every_file_of_the_code_that_is_named_is_there(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", text):
        assert (ROOT / name).is_file() or (ROOT / "tfcli" / name).is_file(), name


def test_the_tree_of_the_house_is_that_of_the_package() -> None:
    [house, *_] = blocks(DOCS / "architecture.md", "text")
    named = re.findall(r"^  (\S+) ", house, re.MULTILINE)
    there = [path.name + "/" * path.is_dir() for path in (ROOT / "tfcli").iterdir() if path.name != "__pycache__"]
    assert sorted(named) == sorted(there)


def test_the_files_of_a_run_are_those_the_page_names() -> None:
    [tree] = [block for block in blocks(DOCS / "architecture.md", "text") if block.startswith("RUN/")]
    run = RunDirectory(Path("RUN"))
    files = {run.recipe, run.config, run.tokenizer, run.weights, run.metrics, run.data, run.scores, run.readme}
    in_run = tree.split("$TFCLI_CACHE")[0]
    assert set(re.findall(r"^  ([\w.]+\.\w+)", in_run, re.MULTILINE)) == {file.name for file in files}


def test_the_figures_of_the_built_in_corpora() -> None:
    """Word types of 2,000 stories are all but a few of those of 20,000; the mean hardly moves."""
    text = (DOCS / "data.md").read_text(encoding="utf-8")
    words = [re.findall(r"[a-z]+", story.lower()) for story in islice(stories(), 2000)]
    assert f"{len(PLOTS)} plots, about 500 word types" in text
    assert abs(len({word for story in words for word in story}) - 500) < 10
    assert "77 words a story" in " ".join(text.split())
    assert abs(sum(map(len, words)) / len(words) - 77) < 2
    assert f"{len(PATTERNS)} sentence patterns" in text
    drawn = list(islice(pairs(), DEFAULT_DOCUMENTS))
    different = len({pair.source for pair in drawn})
    assert f"{DEFAULT_DOCUMENTS:,} draws" in text and f"about {round(different, -2):,} different" in text
    sides = ([pair.source for pair in drawn], [pair.target for pair in drawn])
    portuguese, english = (len(set(re.findall(r"[\w'-]+", " ".join(side).lower()))) for side in sides)
    assert f"{portuguese} Portuguese and {english} English word types" in text
    lecture = {(pair.source, pair.target) for pair in drawn[:4]}
    for source, target in re.findall(r"^\| (.*Rio.*) \| (.*) \|$", text, re.MULTILINE):
        assert (source, target) in lecture
