"""A resume that is not provably the same run is refused before anything is written; a run of before still resumes."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cli.commands import tfcli
from tests.support.run_folders import signed
from tests.support.runs import Settings, one_thread, resume_tiny, stop_after, tiny_recipe, train_tiny
from tfcli.corpora.split import open_split
from tfcli.data.prepare import dataset_fingerprint
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.files import file_digest, read_json, write_json
from tfcli.pipeline.training import resume_run
from tfcli.recipe.loading import load_recorded
from tfcli.records.runs import SettingChanged, TrainingStarted
from tfcli.runs.checkpoint import open_checkpoint
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run
from tfcli.runs.metrics import append_metrics
from tfcli.runs.weights import load_tensors, save_tensors
from tfcli.tokenization.tokenizer import load_tokenizer

BEFORE = Path(__file__).parent / "data" / "interrupted"
"""Interrupted at step 21 of 60, and written before checkpoints said what they belong to."""

RECIPE: Settings = {
    "model": {"dropout": 0.1},
    "train": {"ema_decay": 0.9, "save_every": 3, "keep_checkpoints": 2, "log_every": 1, "evaluate_every": 3},
}
QUERY = "stack.layers.0.attention.query.weight"


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def interrupted(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """At step 5 of 12, with a checkpoint of step 3 as well."""
    run = tmp_path_factory.mktemp("interrupted") / "run"
    with one_thread():
        train_tiny(tiny_recipe("decoder", RECIPE), run, stop=stop_after(5))
    assert [*RunDirectory(run).checkpoints()] == [3, 5]
    return run


@pytest.fixture
def run(tmp_path: Path, interrupted: Path) -> Path:
    return shutil.copytree(interrupted, tmp_path / "run")


def contents(run: Path) -> dict[str, str]:
    return {str(path): file_digest(path) if path.is_file() else "" for path in sorted(run.rglob("*"))}


def refused(run: Path, settings: Settings | None = None, kind: type[TfcliError] = TfcliError) -> TfcliError:
    """What a resume says that ends with every file as it was."""
    before = contents(run)
    with pytest.raises(kind) as caught:
        resume_run(run, lambda _: None, stop_after(1), settings)
    assert contents(run) == before
    return caught.value


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, file
    file.write_text(text.replace(old, new))


def test_a_run_of_before_resumes_and_says_that_it_has_no_digest(tmp_path: Path):
    run = shutil.copytree(BEFORE, tmp_path / "run")
    assert "builtin:stories has changed since" in str(refused(run, kind=UsageError)), "they tell more today"
    recipe = load_recorded(run / "recipe.toml")
    today = dataset_fingerprint(open_split(recipe.data, "text"), load_tokenizer(run / "tokenizer.json"))
    edit(run / "data.json", "983ab72be5289a02", today)
    assert load_run(run, "last").config.run_id == load_run(run).config.run_id
    assert tfcli("runs", "show", run).exit_code == 0
    result = tfcli("train", "--resume", run, "--set", "train.steps=24")
    assert result.exit_code == 0, result.stderr
    [told] = [line for line in result.stderr.splitlines() if "has no digest" in line]
    assert told.startswith("resume")
    assert open_checkpoint(RunDirectory(run).checkpoint(24)).origin is not None
    again = tfcli("train", "--resume", run, "--set", "train.steps=26")
    assert (again.exit_code, "digest" in again.stderr) == (0, False)


def test_of_a_run_of_before_the_recipe_is_held_against_what_can_be_seen(tmp_path: Path):
    run = shutil.copytree(BEFORE, tmp_path / "run")
    edit(run / "recipe.toml", "steps = 60", "steps = 20")
    assert "is of step 21, and" in str(refused(run, kind=UsageError))
    edit(run / "recipe.toml", "steps = 20", "steps = 60")
    edit(run / "recipe.toml", "num_heads = 2", "num_heads = 4")
    assert "describe different models: model.num_heads is 4 and 2" in str(refused(run, kind=UsageError))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("batch_size = 4", "batch_size = 8", "train.batch_size is 8, and the run was trained with 4; put it back to 4"),
        ("\nseed = 0\ndevice", "\nseed = 1\ndevice", "train.seed is 1"),
        ("max_documents = 120", "max_documents = 60", "data.max_documents is 60"),
        ("validation_fraction = 0.1", "validation_fraction = 0.2", "data.validation_fraction is 0.2"),
        ('algorithm = "char"', 'algorithm = "word"', "tokenizer.algorithm is 'word'"),
        ("num_heads = 2", "num_heads = 4", "describe different models: model.num_heads is 4 and 2"),
        ("dropout = 0.1\nact", "dropout = 0.3\nact", "describe different models: model.dropout is 0.3 and 0.1"),
        ("steps = 12", "steps = 20", "put it back to 12, and ask for it: --set train.steps=20"),
        ("learning_rate = 0.01\n", "learning_rate = 0.5\n", "ask for it: --set train.learning_rate=0.5"),
        ("steps = 12", "steps = 4", "train.steps is 4, and the run was trained with 12"),
        ("warmup_steps = 2\n", "", "train.warmup_steps is 100, and the run was trained with 2"),
    ],
    ids=lambda value: value.strip(),
)
def test_an_edited_recipe_is_refused(run: Path, old: str, new: str, words: str):
    edit(run / "recipe.toml", old, new)
    assert words in str(refused(run, kind=UsageError))


def test_the_command_line_says_it_with_exit_code_2(run: Path):
    edit(run / "recipe.toml", "batch_size = 4", "batch_size = 8")
    before = contents(run)
    for asked in ((), ("--set", "train.batch_size=8")):
        result = tfcli("train", "--resume", run, *asked)
        assert (result.exit_code, "recipe.toml was edited" in result.stderr) == (2, True), result.stderr
    assert contents(run) == before


def test_the_model_edited_in_both_places_is_refused(run: Path):
    edit(run / "recipe.toml", "dropout = 0.1\nact", "dropout = 0.3\nact")
    config = read_json(run / "config.json")
    write_json(run / "config.json", {**config, "model": {**config["model"], "dropout": 0.3}})
    assert "model.dropout is 0.3" in str(refused(run))


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("config.json", {"run_id": "another"}),
        ("config.json", {"roles": {"pad": 0, "bos": 2, "eos": 2}}),
        ("data.json", {"fingerprint": "0123456789abcdef"}),
    ],
    ids=str,
)
def test_an_edited_file_beside_the_recipe_is_refused(run: Path, file: str, change: dict[str, Any]):
    write_json(run / file, {**read_json(run / file), **change})
    error = refused(run, kind=BrokenInputError)
    assert str(run / file) in error.problem


def test_an_edit_that_may_be_made_and_is_asked_for_acts_and_is_written_down(run: Path):
    edit(run / "recipe.toml", "steps = 12", "steps = 8")
    resume_run(run, lambda _: None, stop_after(100), {"train": {"steps": 8}})
    assert [*RunDirectory(run).checkpoints()] == [6, 8]
    assert (
        '"changed", "step": 5, "key": "train.steps", "from": 12, "to": 8, "rate_before"'
        in (run / "metrics.jsonl").read_text()
    )


@pytest.mark.parametrize("written", ["metrics", "metrics and recipe"])
def test_a_change_that_a_kill_has_cut_short_is_no_edit(run: Path, written: str):
    """It is a line of the metrics, then in the recipe, and then in the next checkpoint, which never came."""
    append_metrics(run / "metrics.jsonl", SettingChanged(5, "train.steps", 12, 8))
    if written == "metrics and recipe":
        edit(run / "recipe.toml", "steps = 12", "steps = 8")
    _, events = resume_tiny(run)
    assert events.of(TrainingStarted)[0].total_steps == (12 if written == "metrics" else 8)


def test_what_may_never_change_is_an_edit_whatever_the_metrics_say(run: Path):
    append_metrics(run / "metrics.jsonl", SettingChanged(5, "train.batch_size", 4, 8))
    edit(run / "recipe.toml", "batch_size = 4", "batch_size = 8")
    assert "train.batch_size is 8, and the run was trained with 4" in str(refused(run, kind=UsageError))


def test_the_same_text_at_another_place_is_the_same_run(tmp_path: Path, own_cache: Path):
    text = tmp_path / "a.txt"
    text.write_text("one two three four five six seven eight nine ten\n" * 60)
    run = tmp_path / "run"
    train_tiny(tiny_recipe("decoder", {"data": {"source": str(text)}}), run, stop=stop_after(5))
    text.rename(tmp_path / "b.txt")
    edit(run / "recipe.toml", str(text), str(tmp_path / "b.txt"))
    assert resume_tiny(run)[0].reason == resume_tiny(run)[0].reason == "done"
    (tmp_path / "c.txt").write_text("another text\n" * 60)
    edit(run / "recipe.toml", str(tmp_path / "b.txt"), str(tmp_path / "c.txt"))
    assert "has changed" in str(refused(run))


def tensors_of(file: str, change: Callable[[dict[str, Tensor], dict[str, str]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        tensors, metadata = load_tensors(folder / file)
        change(tensors, metadata)
        save_tensors(folder / file, tensors, metadata)

    return apply


def counted(**change: Any) -> Callable[[Path], None]:
    """Other counters, signed as if they were right."""

    def apply(folder: Path) -> None:
        signed(folder / "state.json", **change)

    return apply


def renamed_to(step: int) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        counted(step=step)(folder)
        folder.rename(RunDirectory(folder.parents[1]).checkpoint(step))

    return apply


def of_before(apply: Callable[[Path], None], **change: Any) -> Callable[[Path], None]:
    """In a checkpoint that says nothing of what it belongs to, nor of its step."""

    def without(folder: Path) -> None:
        for file in ("model.safetensors", "optimizer.safetensors"):
            tensors_of(file, lambda _, metadata: metadata.pop("step"))(folder)
        apply(folder)
        now = list(RunDirectory(folder.parents[1]).checkpoints().values())[-1]
        state = read_json(now / "state.json")
        counters = {name: value for name, value in state.items() if name not in ("belongs_to", "digest")}
        write_json(now / "state.json", {**counters, "format_version": 3, **change})

    return without


MOMENTS, WEIGHTS = "optimizer.safetensors", "model.safetensors"
DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a negative step": (counted(step=-5), "step: "),
    "a huge step": (counted(step=10**300), "step: "),
    "no state": (lambda folder: (folder / "state.json").unlink(), "has no state.json"),
    "another step": (counted(step=7), "it is of step 7"),
    "a foreign step": (renamed_to(7), "belongs to another step than 7"),
    "a foreign step of before": (of_before(renamed_to(7)), "counts another number of updates than the 7"),
    "steps left out of before": (of_before(lambda _: None, skipped=2), "counts another number of updates than the 3"),
    "the weights of another step": (
        lambda folder: shutil.copy(folder.with_name("step-000003") / WEIGHTS, folder / WEIGHTS),
        "belongs to another step than 5",
    ),
    "rubbish for random numbers": (
        tensors_of(MOMENTS, lambda t, _: t.update({"random.cpu": torch.full((5056,), 7, dtype=torch.uint8)})),
        "the random state is damaged",
    ),
    "few random numbers": (
        tensors_of(MOMENTS, lambda t, _: t.update({"random.cpu": t["random.cpu"][:9].clone()})),
        "the random state is damaged",
    ),
    "random numbers of another type": (
        tensors_of(MOMENTS, lambda t, _: t.update({"random.cpu": t["random.cpu"].float()})),
        "the random state is damaged",
    ),
    "a moment that is NaN": (
        tensors_of(MOMENTS, lambda t, _: t[f"exp_avg.{QUERY}"].view(-1)[3:4].fill_(float("nan"))),
        f"'exp_avg.{QUERY}' holds a value that is not finite",
    ),
    "a moment that is infinite": (
        tensors_of(MOMENTS, lambda t, _: t[f"exp_avg_sq.{QUERY}"].view(-1)[3:4].fill_(float("inf"))),
        "not finite",
    ),
    "a square below zero": (
        tensors_of(MOMENTS, lambda t, _: t[f"exp_avg_sq.{QUERY}"].view(-1)[3:4].fill_(-1.0)),
        "is below zero",
    ),
    "moments as integers": (
        tensors_of(MOMENTS, lambda t, _: t.update({f"exp_avg.{QUERY}": t[f"exp_avg.{QUERY}"].view(torch.int32)})),
        f"'exp_avg.{QUERY}' is of the type torch.int32, not torch.float32",
    ),
    "weights as integers": (
        tensors_of(WEIGHTS, lambda t, _: t.update({QUERY: t[QUERY].view(torch.int32)})),
        f"'{QUERY}' is of the type torch.int32, not torch.float32",
    ),
    "a moving average of another shape": (
        tensors_of(MOMENTS, lambda t, _: t.update({f"average.{QUERY}": torch.ones(16)})),
        f"'average.{QUERY}' has the shape (16,), not (16, 16)",
    ),
    "a moving average that is NaN": (
        tensors_of(MOMENTS, lambda t, _: t[f"average.{QUERY}"].view(-1)[:1].fill_(float("nan"))),
        "not finite",
    ),
}


@pytest.mark.parametrize(("apply", "words"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_is_named(
    run: Path, apply: Callable[[Path], None], words: str
):
    """Nothing is written or removed; and what the remedy says, works."""
    apply(RunDirectory(run).checkpoint(5))
    last = max((run / "checkpoints").glob("step-*"))
    error = refused(run)
    assert words in error.problem
    assert f"remove {last} to go on from step 3" in error.remedy
    shutil.rmtree(last)
    finished, events = resume_tiny(run)
    assert (events.of(TrainingStarted)[0].step, finished.step) == (3, 12)


def test_damaged_metrics_are_told_and_not_cut_off(run: Path):
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (run / "metrics.jsonl").write_bytes(b"".join([lines[0], b"\xff\n", *lines[1:]]))
    assert "metrics.jsonl is damaged in line 2" in str(refused(run))


@pytest.mark.parametrize("checkpoint", ["best", "last", "5"])
def test_weights_as_integers_are_never_loaded(run: Path, checkpoint: str):
    folder = run if checkpoint == "best" else RunDirectory(run).checkpoint(5)
    tensors_of(WEIGHTS, lambda t, _: t.update({QUERY: t[QUERY].view(torch.int32)}))(folder)
    with pytest.raises(BrokenInputError, match=r"is of the type torch\.int32, not torch\.float32"):
        load_run(run, checkpoint)
