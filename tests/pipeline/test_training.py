"""Begin a run, continue the one that is there, take over another's weights, or refuse."""

import math
import shutil
import weakref
from pathlib import Path

import pytest
import torch

from tests.pipeline.corpora import contents, write_text
from tests.support.runs import (
    Settings,
    never,
    one_thread,
    resume_tiny,
    same,
    stop_after,
    tiny_recipe,
    train_tiny,
    weights,
)
from tfcli.errors import BrokenInputError, UsageError
from tfcli.evaluation.measure import total_loss
from tfcli.pipeline.datasets import obtain_data
from tfcli.pipeline.training import train_recipe
from tfcli.recipe.loading import load_recorded
from tfcli.recipe.recipe import Recipe
from tfcli.records.runs import Evaluated, StageStarted, StepsDone, TrainingStarted
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run, read_run
from tfcli.runs.weights import StoredTensors, model_tensors
from tfcli.tokenization.chat import ChatTemplates
from tfcli.training.job import TrainingJob
from tfcli.training.job import start as start_job


def on(source: Path | str, *settings: Settings) -> Recipe:
    return tiny_recipe("decoder", {"data": {"source": str(source)}}, *settings)


def interrupted(recipe: Recipe, out: Path, steps: int = 5) -> Path:
    finished, _ = train_tiny(recipe, out, stop=stop_after(steps))
    assert finished.reason == "interrupted"
    return out


def test_a_run_directory_holds_what_the_contract_says(tmp_path: Path):
    run = tmp_path / "deep" / "run"
    train_tiny(tiny_recipe(), run)
    files = {
        "recipe.toml",
        "config.json",
        "tokenizer.json",
        "model.safetensors",
        "metrics.jsonl",
        "data.json",
        "README.md",
    }
    assert {path.name for path in run.iterdir()} == files | {"checkpoints"}
    assert not [path for path in run.rglob("*") if ".tmp" in path.name]


def test_without_out_a_run_is_numbered_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    recipe = tiny_recipe("decoder", {"train": {"steps": 1}})
    paths = [train_recipe(recipe, None, lambda event: None, never).run for _ in range(2)]
    assert paths == ["runs/decoder-1", "runs/decoder-2"]
    assert load_run("runs/decoder-2").architecture == "decoder"


@pytest.mark.parametrize("threads", [0, 1], ids=["threads left open", "threads named"])
def test_the_same_recipe_into_the_same_folder_goes_on(tmp_path: Path, threads: int):
    recipe = tiny_recipe("decoder", {"train": {"threads": threads, "device": "auto"}})
    run = interrupted(recipe, tmp_path / "run")
    finished, events = train_tiny(recipe, run)
    assert events.of(TrainingStarted)[0].step == 5
    assert (finished.reason, finished.step) == ("done", 12)


def test_a_run_that_is_finished_says_so_and_stays_as_it_is(tmp_path: Path):
    first, _ = train_tiny(tiny_recipe(), tmp_path / "run")
    before = contents(tmp_path / "run")
    again, events = train_tiny(tiny_recipe(), tmp_path / "run")
    assert events == [StageStarted("training", str(tmp_path / "run"), reused=True)]
    assert (again.reason, again.step, again.best_loss) == ("done", 12, first.best_loss)
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("section", "name", "value", "words"),
    [
        ("train", "steps", 13, "train.steps = 12, and 13 is asked for"),
        ("train", "threads", 2, "train.threads = 1, and 2 is asked for"),
        ("model", "d_model", 32, "model.d_model = 16, and 32 is asked for"),
        ("tokenizer", "algorithm", "bpe", "tokenizer.algorithm = 'char', and 'bpe' is asked for"),
        (
            "data",
            "source",
            "builtin:python-docs",
            "data.source = 'builtin:stories', and 'builtin:python-docs' is",
        ),
    ],
)
def test_another_recipe_into_the_same_folder_is_refused_by_its_first_difference(
    tmp_path: Path, section: str, name: str, value: object, words: str
):
    run = interrupted(tiny_recipe(), tmp_path / "run")
    before = contents(run)
    with pytest.raises(UsageError) as caught:
        train_tiny(tiny_recipe("decoder", {section: {name: value}}), run)
    assert f"{run} holds a run with {words}" in str(caught.value)
    longer = f"choose another --out, or train it longer: tfcli train --resume {run} --steps 13"
    assert (longer in str(caught.value)) == (name == "steps")
    assert contents(run) == before


@pytest.mark.parametrize(
    ("section", "name", "value", "words"),
    [
        ("data", "max_documents", 120, "data.max_documents = 120, and the default is asked for"),
        ("model", "d_ff", 48, "model.d_ff = 48, and the default is asked for"),
    ],
)
def test_leaving_out_what_the_run_was_told_is_another_recipe(
    tmp_path: Path, section: str, name: str, value: int, words: str
):
    run = interrupted(tiny_recipe("decoder", {section: {name: value}}), tmp_path / "run")
    before = contents(run)
    with pytest.raises(UsageError) as caught:
        train_tiny(tiny_recipe("decoder", {section: {name: None}}), run)
    assert f"{run} holds a run with {words}" in str(caught.value)
    assert contents(run) == before


def begun(recipe: Recipe, out: Path) -> TrainingJob:
    """A run that has written down all that it decides, and has not trained yet."""
    tokenizer, data = obtain_data(recipe.resolved(), lambda event: None)
    return start_job(recipe, data, tokenizer, RunDirectory(out))


@pytest.mark.parametrize("architecture", ["decoder", "encoder"])
@pytest.mark.parametrize("asked", [None, "documents", "stream"])
@pytest.mark.parametrize("spare", [0, -1], ids=["the average document fits", "it is one token longer"])
def test_windows_hold_documents_where_the_average_one_fits_unless_said_otherwise(
    tmp_path: Path, architecture: str, asked: str | None, spare: int
):
    """Decided once, and written into the run; a window of text cut anywhere needs no padding."""
    recipe = tiny_recipe(architecture)
    _, data = obtain_data(recipe.resolved(), lambda event: None)
    counts = data.record().train
    # The counts leave out <s>: a decoder never predicts it, but an encoder reads it with the rest.
    context = math.ceil(counts.tokens / counts.documents) + (architecture == "encoder") + spare
    settings = {"model": {"max_seq_len": context}, "train": {"windows": asked}}
    job = begun(tiny_recipe(architecture, {"model": {"positions": "rotary"}}, settings), tmp_path / "run")
    decided = asked or ("stream" if spare else "documents")
    assert job.recipe.train.windows == decided
    assert load_recorded(tmp_path / "run" / "recipe.toml").train.windows == decided
    for batches in (job.training, job.validation):
        assert any(batch.padding for batch in batches.whole()) == (decided == "documents")


def test_the_context_that_is_trained_on_decides_not_what_the_model_could_read(tmp_path: Path):
    settings = {"model": {"max_seq_len": 2000}}
    assert begun(tiny_recipe("decoder", settings), tmp_path / "long").recipe.train.windows == "documents"
    short = tiny_recipe("decoder", settings, {"train": {"context": 16}})
    assert begun(short, tmp_path / "short").recipe.train.windows == "stream"


def test_pairs_have_no_windows(tmp_path: Path):
    job = begun(tiny_recipe("encoder-decoder"), tmp_path / "run")
    assert job.recipe.train.windows is None
    assert "windows" not in (tmp_path / "run" / "recipe.toml").read_text()


@pytest.mark.parametrize("architecture", ["decoder", "encoder"])
def test_a_run_on_documents_that_is_interrupted_ends_as_if_it_had_not_been(tmp_path: Path, architecture: str):
    """The folder's recipe says documents; the one that goes on leaves it open."""
    recipe = tiny_recipe(architecture, {"model": {"max_seq_len": 512, "dropout": 0.1}, "train": {"log_every": 1}})
    with one_thread():
        whole, _ = train_tiny(recipe, tmp_path / "whole")
        run = interrupted(recipe, tmp_path / "run")
        finished, _ = train_tiny(recipe, run)
    assert load_recorded(run / "recipe.toml").train.windows == "documents"
    assert (finished.tokens, finished.best_loss) == (whole.tokens, whole.best_loss)
    assert same(weights(run / "model.safetensors"), weights(tmp_path / "whole" / "model.safetensors"))


def test_what_is_only_shown_may_differ(tmp_path: Path):
    run = interrupted(tiny_recipe(), tmp_path / "run")
    finished, _ = train_tiny(tiny_recipe("decoder", {"generate": {"prompts": ["x"]}, "inspect": {"positions": 3}}), run)
    assert finished.reason == "done"


def test_a_folder_with_other_things_is_refused_and_untouched(tmp_path: Path):
    taken = tmp_path / "thesis"
    taken.mkdir()
    (taken / "chapter.tex").write_text("x")
    with pytest.raises(UsageError, match="is not empty and holds no run"):
        train_tiny(tiny_recipe(), taken)
    assert contents(taken) == {"chapter.tex": b"x"}


def test_a_folder_that_cannot_be_made_is_refused_before_any_work(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    events: list[object] = []
    with pytest.raises(UsageError, match="is a file, not a folder"):
        train_recipe(tiny_recipe(), tmp_path / "file" / "run", events.append, never)
    assert events == []


def test_a_run_resumes_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path):
    """Its source was named from where it began, and its cache is gone."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    write_text(tmp_path / "here" / "text.txt")
    monkeypatch.chdir(tmp_path / "here")
    interrupted(on("text.txt"), Path("../run"))
    shutil.rmtree(own_cache)
    monkeypatch.chdir(tmp_path / "there")
    assert load_recorded(Path("../run/recipe.toml")).data.source == str(tmp_path / "here" / "text.txt")
    finished, _ = resume_tiny(Path("../run"))
    assert finished.reason == "done"


def test_a_run_that_was_moved_loads_and_goes_on(tmp_path: Path):
    run = interrupted(on(write_text(tmp_path / "text.txt")), tmp_path / "run")
    (tmp_path / "archive").mkdir()
    moved = run.rename(tmp_path / "archive" / "renamed")
    assert load_run(moved, "last").architecture == "decoder"
    finished, _ = resume_tiny(moved)
    assert (finished.reason, finished.run) == ("done", str(moved))
    assert not run.exists()


def test_a_cache_that_is_gone_is_made_again(tmp_path: Path, own_cache: Path):
    """And the run ends as if it had stayed."""
    recipe = on(write_text(tmp_path / "text.txt"))
    with one_thread():
        train_tiny(recipe, tmp_path / "whole")
        run = interrupted(recipe, tmp_path / "run")
        shutil.rmtree(own_cache)
        _, events = resume_tiny(run)
    assert [(event.stage, event.reused) for event in events.of(StageStarted)] == [
        ("data", False),
        ("training", False),
    ]
    assert same(weights(run / "model.safetensors"), weights(tmp_path / "whole" / "model.safetensors"))


def test_a_text_that_has_changed_is_refused(tmp_path: Path, own_cache: Path):
    file = write_text(tmp_path / "text.txt")
    run = interrupted(on(file), tmp_path / "run")
    write_text(file, seed=1)
    shutil.rmtree(own_cache)
    before = contents(run)
    with pytest.raises(UsageError) as caught:
        resume_tiny(run)
    assert f"The text of {file} has changed since {run} was trained on it; restore it" in str(caught.value)
    assert contents(run) == before


def test_a_text_that_has_changed_does_no_harm_while_the_cache_has_the_old_one(tmp_path: Path, own_cache: Path):
    file = write_text(tmp_path / "text.txt")
    with one_thread():
        train_tiny(on(file), tmp_path / "whole")
        run = interrupted(on(file), tmp_path / "run")
        file.unlink()
        resume_tiny(run)
    assert same(weights(run / "model.safetensors"), weights(tmp_path / "whole" / "model.safetensors"))


def test_a_prepared_folder_trains_and_resumes(tmp_path: Path, own_cache: Path):
    _, data = obtain_data(on(write_text(tmp_path / "text.txt")), lambda event: None)
    folder = data.path.rename(tmp_path / "prepared")
    run = interrupted(on(folder), tmp_path / "run")
    shutil.rmtree(own_cache)
    (tmp_path / "text.txt").unlink()
    finished, _ = resume_tiny(run)
    assert finished.reason == "done"
    assert not own_cache.exists(), "nothing had to be prepared"


def test_what_holds_no_run_cannot_be_resumed(tmp_path: Path):
    with pytest.raises(UsageError, match="There is no run"):
        resume_tiny(tmp_path / "gone")
    with pytest.raises(UsageError, match=r"it has no recipe\.toml"):
        resume_tiny(tmp_path)


def test_a_damaged_recipe_is_told(tmp_path: Path):
    run = interrupted(tiny_recipe(), tmp_path / "run")
    (run / "recipe.toml").write_text("[train]\nstepps = 3\n")
    with pytest.raises(BrokenInputError, match=r"recipe\.toml cannot be read .*stepps"):
        resume_tiny(run)


# --init: a new run from a run's weights


def test_init_goes_on_from_the_weights_of_another_run(tmp_path: Path):
    """At a rate of almost nothing, the new run scores what the old one scored; from scratch it would be ln
    Vocab."""
    old = tmp_path / "old"
    finished, _ = train_tiny(tiny_recipe("decoder", {"train": {"steps": 60, "evaluate_every": 0}}), old)
    gentle = {"train": {"learning_rate": 1e-9, "steps": 2, "log_every": 1, "evaluate_every": 1}}
    _, events = train_tiny(tiny_recipe("decoder", gentle), tmp_path / "new", init=old)
    assert finished.best_loss is not None
    assert events.of(Evaluated)[0].loss == pytest.approx(finished.best_loss, abs=1e-5)
    assert events.of(StepsDone)[0].loss < finished.best_loss + 0.5
    _, fresh = train_tiny(tiny_recipe("decoder", gentle), tmp_path / "fresh")
    assert fresh.of(StepsDone)[0].loss > finished.best_loss + 0.5
    assert load_run(tmp_path / "new").config.tokenizer_fingerprint == load_run(old).config.tokenizer_fingerprint


def test_init_copies_every_weight_and_leaves_the_old_run_alone(tmp_path: Path, trained):
    old = load_run(trained("encoder-decoder"))
    recipe = old.recipe
    tokenizer, data = obtain_data(recipe, lambda event: None)
    job = start_job(recipe, data, tokenizer, RunDirectory(tmp_path / "new"), read_run(old.directory.path))
    assert same(model_tensors(job.model), model_tensors(old.model))
    assert all(p is not q for p, q in zip(job.model.parameters(), old.model.parameters(), strict=True))
    expected = total_loss(old.model, job.validation.whole(), torch.device("cpu"))
    assert total_loss(job.model, job.validation.whole(), torch.device("cpu")) == expected


def test_init_takes_the_tokenizer_of_the_run_on_another_text(tmp_path: Path, trained):
    old = shutil.copytree(trained("decoder"), tmp_path / "old")
    chat = ChatTemplates({"default": "{{ messages[0].content }}"}, {})
    chat.save(old)
    settings = {"model": {"num_layers": 2}, "train": {"steps": 1}}
    train_tiny(on(write_text(tmp_path / "text.txt"), settings), tmp_path / "new", init=old)
    assert (tmp_path / "new" / "tokenizer.json").read_bytes() == (old / "tokenizer.json").read_bytes()
    assert load_run(tmp_path / "new").tokenizer.chat == chat, "what a chat looks like stays when it is trained on"


def test_init_may_change_what_only_training_sees(tmp_path: Path, trained):
    settings = {
        "model": {"num_layers": 2, "dropout": 0.3, "max_seq_len": 64, "d_ff": 48},
        "train": {"steps": 1},
    }
    finished, _ = train_tiny(tiny_recipe("decoder", settings), tmp_path / "new", init=trained("decoder"))
    assert finished.reason == "done"


def test_init_may_name_other_initial_weights_since_it_takes_none_of_them(tmp_path: Path, trained):
    """The embeddings' scale is written out: a copying start has scaled ones, and those are part of the model."""
    start = {"initialization": "gpt2", "init_std": 0.1, "scale_embeddings": True}
    recipe = tiny_recipe("decoder", {"model": {"num_layers": 2, **start}, "train": {"steps": 1}})
    finished, _ = train_tiny(recipe, tmp_path / "new", init=trained("decoder"))
    assert finished.reason == "done"


@pytest.mark.parametrize("way", ["checkpoint", "init"])
def test_weights_are_read_one_by_one(way: str, tmp_path: Path, trained, monkeypatch):
    """Never is more than one tensor of the file held beside the model, or two while they are looked at."""
    read: list[weakref.ref[torch.Tensor]] = []
    held: list[int] = []
    true = StoredTensors.__getitem__

    def counting(self: StoredTensors, name: str) -> torch.Tensor:
        tensor = true(self, name)
        read.append(weakref.ref(tensor))
        held.append(sum(one() is not None for one in read))
        return tensor

    monkeypatch.setattr(StoredTensors, "__getitem__", counting)
    if way == "checkpoint":
        load_run(trained("decoder"), "last")
    else:
        monkeypatch.setattr("tfcli.runs.load.uninitialized_model", None)  # no second model is made
        recipe = tiny_recipe("decoder", {"model": {"num_layers": 2}, "train": {"steps": 1}})
        train_tiny(recipe, tmp_path / "new", init=trained("decoder"))
    assert max(held) <= 2 and len(read) > 20


def test_init_refuses_a_start_that_scales_embeddings_otherwise(tmp_path: Path, trained):
    recipe = tiny_recipe("decoder", {"model": {"num_layers": 2, "initialization": "gpt2"}})
    with pytest.raises(UsageError, match=r"its model\.scale_embeddings is True, not False"):
        train_tiny(recipe, tmp_path / "new", init=trained("decoder"))


@pytest.mark.parametrize(
    ("architecture", "settings", "words"),
    [
        ("decoder", {"d_model": 32}, "its model.d_model is 16, not 32"),
        ("decoder", {"num_layers": 3}, "its model.num_layers is 2, not 3"),
        ("decoder", {"num_heads": 4}, "its model.num_heads is 2, not 4"),
        ("decoder", {"positions": "sinusoidal"}, "its model.positions is 'rotary', not 'sinusoidal'"),
        ("decoder", {"activation": "gelu", "d_ff": 48}, "its model.activation is 'swiglu', not 'gelu'"),
        (
            "encoder",
            {"positions": "rotary", "norm": "rmsnorm", "norm_placement": "pre"},
            "is 'decoder', not 'encoder'",
        ),
    ],
    ids=str,
)
def test_init_refuses_another_model_even_of_the_same_shapes(
    tmp_path: Path, trained, architecture: str, settings: dict[str, object], words: str
):
    """The number of heads, the positions and the direction of attention change no shape, and yet
    everything."""
    recipe = tiny_recipe(architecture, {"model": {"num_layers": 2}}, {"model": settings})
    with pytest.raises(UsageError) as caught:
        train_tiny(recipe, tmp_path / "new", init=trained("decoder"))
    assert f"The run {trained('decoder')} is another model: " in str(caught.value)
    assert words in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_init_refuses_a_dataset_of_another_tokenizer(tmp_path: Path, trained):
    other = tiny_recipe("decoder", {"tokenizer": {"algorithm": "bpe", "vocab_size": 300}})
    _, data = obtain_data(other.resolved(), lambda event: None)
    with pytest.raises(UsageError, match="was prepared with another tokenizer"):
        train_tiny(on(data.path, {"model": {"num_layers": 2}}), tmp_path / "new", init=trained("decoder"))
    assert not (tmp_path / "new").exists()


def test_a_vocabulary_that_is_too_small_for_the_tokenizer_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match=r"model\.vocab_size = 10 is less than the tokenizer's \d+ ids"):
        train_tiny(tiny_recipe("decoder", {"model": {"vocab_size": 10}}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_may_be_larger_than_the_tokenizer_s(tmp_path: Path):
    train_tiny(tiny_recipe("decoder", {"model": {"vocab_size": 128}, "train": {"steps": 1}}), tmp_path / "run")
    assert weights(tmp_path / "run" / "model.safetensors")["embedding.weight"].shape[0] == 128
