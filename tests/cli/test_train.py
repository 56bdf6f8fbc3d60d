"""`tfcli train` as it is typed: its options, its text, and what a resume takes and refuses."""

import json
import math
import shlex
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from tests.cli.commands import snapshot, tfcli
from tests.support.app import app
from tests.support.runs import tiny_recipe, train_tiny
from tfcli.console.settings import LENGTH, MACHINE, PACE, SHAPE, SIZES, Asked, recipe_from
from tfcli.data.dataset import PreparedDataset
from tfcli.errors import Remark, UsageError
from tfcli.models.presets import PRESETS
from tfcli.pipeline.datasets import dataset_of_run
from tfcli.pipeline.training import train_recipe
from tfcli.recipe.loading import build_recipe, load_recorded
from tfcli.recipe.recipe import Recipe
from tfcli.runs.directory import RunDirectory

OPTIONS = ("sources", "data", "vocab_size", *SHAPE, *SIZES, *LENGTH, *PACE, *MACHINE)
EVERYDAY = (
    "--vocab-size 500 --layers 3 --heads 8 --d-model 32 --context 64 --dropout 0.1 --epochs 2.5 --batch-size 8 "
    "--lr 1e-3 --precision float32 --seed 7 --device cpu --threads 2"
)
KEYS = {
    "tokenizer": {"vocab_size": 500},
    "data": {"source": "a.de,a.en"},
    "model": {"num_layers": 3, "num_heads": 8, "d_model": 32, "max_seq_len": 64, "dropout": 0.1},
    "train": {"epochs": 2.5, "batch_size": 8, "learning_rate": 0.001, "precision": "float32", "seed": 7}
    | {"device": "cpu", "threads": 2},
    "generate": {"seed": 7},
}
PAIRS = "Ein Hund.\tA dog.\nEine Katze.\tA cat.\n" * 10


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a text and pairs in it."""
    for name, text in {"a.txt": "Tom swam.\n" * 90, "a.de": "Hund\n" * 9, "a.en": "dog\n" * 9, "a.tsv": PAIRS}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "named.tsv").write_text("text\tlanguage\nA dog.\ten\n")
    (tmp_path / "mine.toml").write_text("[model]\narchitecture = 'encoder-decoder'\nnum_decoder_layers = 1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(trained: Callable[[str], Path], folder: Path) -> str:
    """A finished decoder of 80 steps, of batches of 16, in the working folder."""
    shutil.copytree(trained("decoder"), folder / "my run")
    return "my run"


def recipe_of(words: str) -> Recipe:
    """What `tfcli train` would train."""
    typed = typer.main.get_command(app).commands["train"].make_context("train", shlex.split(words)).params
    given = {name: [*value] if isinstance(value, tuple) else value for name, value in typed.items() if name in OPTIONS}
    given = {name: value for name, value in given.items() if value not in (None, [])}
    return recipe_from(Asked(**given), init=typed["init"])


def test_everyday_options_are_recipe_keys(folder: Path):
    """Over a recipe that says otherwise; --layers means both stacks, for all that the recipe says of one."""
    recipe = recipe_of(f"--recipe mine.toml a.de,a.en {EVERYDAY}")
    assert recipe == build_recipe(PRESETS["portable"], KEYS)
    one = recipe_of("--layers 3 --recipe mine.toml --set model.num_decoder_layers=2").model
    assert (one.num_layers, one.num_decoder_layers) == (3, 2)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("--steps 5 --set train.steps=6", "--steps 5 and --set train.steps=6 give train.steps two values; leave one"),
        ("--set train.steps=5 --set train.steps=6", "--set train.steps=5 and --set train.steps=6 give train.steps two"),
        ("--set train.steps=5 --set 'train={steps = 6}'", "and --set 'train={steps = 6}' give train.steps two values"),
        ("--lr 0.001 --set train.learning_rate=2e-3", "--lr 0.001 and --set train.learning_rate=2e-3 give train.l"),
        ("--seed 3 --set generate.seed=4", "--seed 3 and --set generate.seed=4 give generate.seed two values"),
        ("--arch decoder --set model.architecture=encoder", "--arch decoder and --set model.architecture=encoder give"),
        ("a.txt --set data.source=b.txt", "a.txt and --set data.source=b.txt give data.source two values"),
        ("--steps 5 --epochs 3", "--epochs 3 and --steps 5 both say how long to train; leave one of them out"),
        ("--set train.steps=5 --epochs 0.5", "--epochs 0.5 and --set train.steps=5 both say how long to train"),
        ("a.txt --data a.txt", "a.txt and --data a.txt both name the text; leave one of them out"),
        ("quickstart", "quickstart is a recipe, not a text; run it: tfcli run quickstart."),
        ("mine.toml", "mine.toml is a recipe, not a text; train it: tfcli train --recipe mine.toml."),
        ("encoder", "encoder is an architecture, not a text; train one: tfcli train --arch encoder."),
        ("'my run'", "'my run' is a run, not a text; go on with it: tfcli train --resume 'my run'."),
        ("--epochs nan", "--epochs nan is not a finite number"),
        ("--epochs 0", "--epochs 0 is out of range; it must be more than 0"),
        ("--lr 0", "--lr 0 is out of range; it must be more than 0"),
        ("--heads 3", "model.d_model = 128 is not divisible by --heads 3; choose"),
        ("a.de a.en", "a.de is of no known kind; for pairs, write "),
        ("a.de, a.en", "A blank separates the names of two parallel files; write them as one: a.de,a.en."),
        ("--epochs inf", "--epochs inf is not a finite number"),
        ("--layers 0", "--layers '0' should be greater than or equal to 1"),
        ("--lr much", "--lr 'much' should be a valid number"),
        ("a.txt --set train.adapter=lora", "train.adapter = 'lora' changes a model that is there, and none is named;"),
        ("a.txt --init 'my run' --set train.adapter=dora", "train.adapter = \"dora\" is not known; choose 'lora'."),
        (
            "a.txt --init 'my run' --set train.adapter=lora --set train.adapter_rank=0",
            "adapter_rank = 0 is out of range",
        ),
        (
            "a.txt --init 'my run' --set train.adapter=lora --set train.adapter_rank=99",
            "adapter_rank = 99 is more than",
        ),
        (
            "a.txt --init 'my run' --set train.adapter=lora --dry-run --set train.adapter_rank=99",
            "rank = 99 is more than",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_as_it_was_typed(run: str, command: str, sentence: str):
    before = snapshot(Path())
    result = tfcli("train", *shlex.split(command))
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert snapshot(Path()) == before


def test_the_same_value_twice_is_fine(folder: Path):
    words = "--steps 5 --set train.steps=5 --lr 0.001 --set train.learning_rate=1e-3 --dropout 0 --set model.dropout=0"
    assert recipe_of(words).train.steps == 5


@pytest.mark.parametrize(
    ("words", "architecture"),
    [
        ("a.txt", "decoder"),
        ("a.de,a.en", "encoder-decoder"),
        ("--data a.de,a.en", "encoder-decoder"),
        ("--set data.source=a.de,a.en", "encoder-decoder"),
        ("a.tsv", "encoder-decoder"),
        ("builtin:pt-en", "encoder-decoder"),
        ("named.tsv", "decoder"),
        ('named.tsv --set \'data.columns=["text", "language"]\'', "encoder-decoder"),
        ("a.tsv --set 'data.columns=[\"1\"]'", "decoder"),
        ("a.txt a.txt --arch encoder", "encoder"),
        ("a.tsv --preset bert --size tiny", "encoder"),
    ],
)
def test_pairs_choose_the_encoder_decoder_where_nothing_else_does(folder: Path, words: str, architecture: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Remark)
        assert recipe_of(words).model.architecture == architecture


def test_a_prepared_folder_is_a_text_and_pairs_are_said(trained: Callable[[str], Path], folder: Path):
    run = trained("encoder-decoder")
    made = tfcli("prepare", "a.tsv", "--pairs", "--tokenizer", run, "--split", "tail", "--out", "prepared", "--quiet")
    assert made.exit_code == 0, made.stderr
    result = tfcli("train", "prepared", "--epochs", "3", "--batch-size", "1", "--size", "tiny", "--dry-run", "--json")
    assert "prepared holds pairs, so an encoder-decoder is trained." in result.stderr
    pairs = PreparedDataset.open(Path("prepared")).record().train.documents
    assert json.loads(result.stdout)["steps"] == 3 * pairs  # a batch a pair


def test_epochs_of_what_is_not_prepared_are_said_and_not_guessed(folder: Path):
    shown = tfcli("train", "a.txt", "--size", "tiny", "--epochs", "2.5", "--threads", "1", "--dry-run").stdout
    assert "in all         2.5 epochs, counted in steps once the text is prepared" in shown


@pytest.mark.parametrize(
    ("typed", "key", "init"),
    [
        ("--batch-size 8", "train.batch_size is 16 in this run", True),
        ("--precision bfloat16", "train.precision is 'float32' in this run", True),
        ("--set train.ema_decay=0.9", "train.ema_decay is 0.0 in this run", True),
        ("--seed 3", "train.seed is 0 in this run", True),
        ("--layers 8", "model.num_layers is 2 in this run", False),
        ("--vocab-size 80", "tokenizer.vocab_size is 200 in this run", False),
    ],
)
def test_what_makes_it_another_run_is_refused_with_the_command_for_one(run: str, typed: str, key: str, init: bool):
    """The command is pasted: it begins a new run, with the weights where they fit."""
    result = tfcli("train", "--resume", run, *typed.split(), "--steps", "90")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{key}, and with {typed} it would be another one; begin a new one" in result.stderr
    assert "--init 'my run'" in result.stderr
    command = result.stderr.partition("tfcli train ")[2].partition(";")[0]
    assert ("--init 'my run'" in command) == init
    assert sorted(shlex.split(command.partition("--recipe ")[2])) == sorted(
        ["my run/recipe.toml", *typed.split(), "--steps", "90"]
    )
    assert recipe_of(command).train.steps == 90


@pytest.mark.parametrize(
    ("typed", "remedy"),
    [
        ("a.txt", "begin a new run with its weights: tfcli train a.txt --init 'my run'"),
        ("--data a.txt", "begin a new run with its weights: tfcli train --data a.txt --init 'my run'"),
        ("--size tiny", "begin a new run: from its weights with --init"),
        ("--preset gpt2", "begin a new run: from its weights with --init"),
        ("--dry-run", "leave it out"),
    ],
)
def test_what_begins_a_run_is_refused_beside_resume(run: str, typed: str, remedy: str):
    result = tfcli("train", "--resume", run, *typed.split())
    assert result.exit_code == 2
    assert f"so it takes no other settings such as {typed}; " in result.stderr
    assert remedy in result.stderr


def test_a_resume_takes_threads_device_rate_and_length(run: str):
    """As options, and as docs/training.md says of their keys."""
    result = tfcli("train", "--resume", run, "--threads", "2", "--device", "cpu", "--lr", "0.002", "--steps", "82")
    assert result.exit_code == 0, result.stderr
    train = load_recorded(Path(run, "recipe.toml")).train
    assert (train.threads, train.device, train.learning_rate, train.steps) == (2, "cpu", 0.002, 82)
    changed = [json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()]
    keys = {line["key"] for line in changed if line["event"] == "changed"}
    assert keys == {"train.threads", "train.learning_rate", "train.steps", "train.schedule_steps"}


def test_epochs_are_counted_in_steps_by_the_text(folder: Path):
    """Of T tokens of a stream, (T - 1 - 31) // 32 windows of 32 fit into every epoch, in batches of 4, two a step."""
    settings = {
        "train": {"epochs": 0.3, "grad_accumulation": 2, "windows": "stream", "evaluate_every": 0, "save_every": 0}
    }
    asked = tiny_recipe("decoder", settings)
    finished, _ = train_tiny(asked, folder / "run")
    recorded = load_recorded(folder / "run" / "recipe.toml").train
    data = dataset_of_run(
        RunDirectory(folder / "run"), load_recorded(folder / "run" / "recipe.toml"), lambda event: None
    )
    batches = (len(data.text("train")) - 32) // 32 // 4
    assert finished.step == recorded.steps == math.ceil(0.3 * batches / 2)
    assert recorded.epochs is None
    again = train_recipe(asked, folder / "run", lambda event: None, lambda: False)
    assert again.step == finished.step
    twice = tiny_recipe("decoder", settings, {"train": {"epochs": 0.6}})
    held = rf"holds a run with train.steps = {finished.step}, and {math.ceil(0.6 * batches / 2)} is"
    with pytest.raises(UsageError, match=held):
        train_recipe(twice, folder / "run", lambda event: None, lambda: False)
    longer = tfcli("train", "--resume", folder / "run", "--epochs", "0.4", "--quiet")
    assert longer.exit_code == 0, longer.stderr
    assert load_recorded(folder / "run" / "recipe.toml").train.steps == math.ceil(0.4 * batches / 2)
