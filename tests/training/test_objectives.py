"""Trainings for what a recipe's `objective`, `whole_words` and `completion_only` say."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.cli.commands import tfcli
from tests.support.runs import Settings, one_thread, resume_tiny, same, stop_after, tiny_recipe, train_tiny, weights
from tfcli.data.batch import IGNORED
from tfcli.data.loader import build_batches
from tfcli.pipeline.datasets import obtain_data
from tfcli.recipe.recipe import Recipe
from tfcli.records.runs import Evaluated
from tfcli.runs.directory import RunDirectory
from tfcli.runs.load import load_run

OBJECTIVES: dict[str, tuple[str, Settings]] = {
    "whole words": ("encoder", {"train": {"whole_words": True}}),
    "span-corruption": ("encoder-decoder", {"train": {"objective": "span-corruption"}}),
    "infilling": ("encoder-decoder", {"train": {"objective": "infilling"}}),
    "prefix": ("decoder", {"train": {"objective": "prefix"}}),
    "completion": ("decoder", {"train": {"completion_only": True}}),
}
WORDS: Settings = {"tokenizer": {"algorithm": "bpe", "vocab_size": 400}, "model": {"dropout": 0.1}}


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prompts and answers, and a number that is neither."""
    file = tmp_path_factory.mktemp("sums") / "sums.csv"
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["number", "answer", "prompt"])
        writer.writerows([str(n), str(n % 7 + n % 5), f"{n % 7} and {n % 5} make "] for n in range(300))
    return file


def recipe_for(name: str, sums: Path, *settings: Settings) -> Recipe:
    architecture, own = OBJECTIVES[name]
    source: Settings = {"data": {"source": str(sums)}} if name == "completion" else {}
    return tiny_recipe(architecture, WORDS, own, source, *settings)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_interrupted_run_becomes_the_unbroken_one(tmp_path: Path, sums: Path, cache: Path, name: str) -> None:
    recipe = recipe_for(name, sums)
    with one_thread():
        train_tiny(recipe, tmp_path / "unbroken")
        train_tiny(recipe, tmp_path / "run", stop=stop_after(5))
        torch.manual_seed(987)
        finished, _ = resume_tiny(tmp_path / "run")
    assert (finished.reason, finished.step) == ("done", 12)
    for ours, theirs in zip(*([RunDirectory(tmp_path / one).weights] for one in ("run", "unbroken")), strict=True):
        assert same(weights(ours), weights(theirs))
    last = [RunDirectory(tmp_path / one).checkpoint(12) / "optimizer.safetensors" for one in ("run", "unbroken")]
    assert same(*map(weights, last))


def test_prompts_and_answers_are_read_from_their_columns(sums: Path, cache: Path) -> None:
    recipe = recipe_for("completion", sums)
    tokenizer, data = obtain_data(recipe, lambda event: None)
    batch = next(build_batches(recipe, data, "train", tokenizer.roles).whole())
    text, answer = batch.input_ids[0], batch.labels[0]
    prompt, _, rest = tokenizer.decode(text).partition(" make ")
    one, other = map(int, prompt.split(" and "))
    assert int(rest) == one + other
    assert tokenizer.decode(answer[answer != IGNORED]) == rest


def test_words_of_the_text_are_hidden_as_wholes(sums: Path, cache: Path) -> None:
    recipe = recipe_for("whole words", sums)
    tokenizer, data = obtain_data(recipe, lambda event: None)
    for batch in build_batches(recipe, data, "validation", tokenizer.roles).whole():
        hidden = batch.labels != IGNORED
        for inputs, labels, chosen in zip(batch.input_ids, batch.labels, hidden, strict=True):
            ids = np.where(chosen, labels, inputs)
            for word in tokenizer.words(ids.tolist()):
                assert len({bool(chosen[place]) for place in word.places}) == 1


def test_a_tokenizer_gets_sentinels(sums: Path, cache: Path) -> None:
    tokenizer, _ = obtain_data(recipe_for("span-corruption", sums), lambda event: None)
    # 34 tokens of a window, 5 of them in 2 spans, and the last sentinel; one more is spare.
    assert tokenizer.special_names[4:] == [f"<extra_id_{n}>" for n in range(3)]
    plain, _ = obtain_data(tiny_recipe("decoder", WORDS), lambda event: None)
    assert len(plain.special_names) == 4


def typed(*words: str | Path) -> tuple[int, str, str]:
    result = tfcli(*words)
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


REFUSED = [
    (["--arch", "decoder", "--set", "train.objective=infilling"], "is for the architecture 'encoder-decoder'"),
    (["--arch", "encoder", "--set", "train.completion_only=true"], "is for the architecture 'decoder'"),
    (["--arch", "decoder", "--set", "train.whole_words=true"], "is for the architecture 'encoder', and this one"),
    (["--set", "train.objective=prefix", "--set", "train.completion_only=true"], "leave one of the two out"),
    (["--set", "train.objective=denoising"], "is not known"),
    (["--set", "train.completion_only=true", "--set", "train.windows=stream"], "a decoder with train.completion_only"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED, ids=[sentence for _, sentence in REFUSED])
def test_what_does_not_go_together_is_refused(tmp_path: Path, words: list[str], sentence: str) -> None:
    code, out, err = typed("train", *words, "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    assert sentence in err
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_without_sentinels_is_refused(tmp_path: Path, cache: Path) -> None:
    train_tiny(tiny_recipe("decoder"), tmp_path / "plain")
    path = tmp_path / "plain" / "tokenizer.json"
    words = ["--set", "train.objective=span-corruption", "--set", f"tokenizer.path={path}", "--size", "tiny"]
    code, _, err = typed("train", *words, "--out", tmp_path / "run", "--set", "data.max_documents=100")
    assert code == 2
    assert "this tokenizer has no sentinels; let tfcli train a tokenizer" in err
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def trained(sums: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("objectives")
    longer: Settings = {"train": {"steps": 250, "evaluate_every": 125, "save_every": 0, "batch_size": 16}}
    with one_thread():
        for name in OBJECTIVES:
            more: Settings = {"train": {"steps": 600, "evaluate_every": 300}} if name == "completion" else {}
            _, events = train_tiny(recipe_for(name, sums, longer, more), folder / name)
            losses = [event.loss for event in events.of(Evaluated)]
            (folder / f"{name}.txt").write_text(" ".join(map(str, losses)))
    return {name: folder / name for name in OBJECTIVES}


@pytest.mark.slow
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_loss_falls_and_the_run_is_proved(trained: dict[str, Path], name: str) -> None:
    run = trained[name]
    first, *_, last = map(float, run.with_name(f"{name}.txt").read_text().split())
    # All of 400 tokens as likely would be ln 400 = 5.99 nats.
    assert last < first < 5.5
    code, out, _ = typed("verify", run, "--json")
    assert (code, '"passed": true' in out) == (0, True)


@pytest.mark.slow
def test_evaluation_says_what_it_scores(trained: dict[str, Path]) -> None:
    import json

    said: dict[str, Any] = {name: json.loads(typed("evaluate", run, "--json")[1]) for name, run in trained.items()}
    assert {name: one["objective"] for name, one in said.items()} == {
        **{name: name for name in ("span-corruption", "infilling", "prefix", "completion")},
        "whole words": "mlm",
    }
    assert [name for name, one in said.items() if one["bits_per_byte"] is not None] == ["completion"]
    assert "of the spans' tokens and sentinels" in typed("evaluate", trained["span-corruption"])[1]
    code, _, err = typed("evaluate", trained["infilling"], "--beam", "2")
    assert (code, "--beam is for translations" in err) == (2, True)
    code, _, err = typed("evaluate", trained["completion"], "--compare", trained["prefix"])
    assert (code, "was trained for prefix" in err) == (2, True)


@pytest.mark.slow
def test_generation_fills_what_the_run_was_trained_to_fill(trained: dict[str, Path]) -> None:
    code, out, _ = typed("generate", trained["span-corruption"], "One <extra_id_0> day", "--quiet")
    assert (code, out.startswith("<extra_id_0>")) == (0, True)
    code, out, err = typed("generate", trained["span-corruption"], "One day")
    assert (code, out, "has no <extra_id_0>, and this run fills sentinels" in err) == (2, "", True)
    code, out, err = typed("generate", trained["span-corruption"], "A <extra_id_1> <extra_id_0>")
    assert (code, out, "are not in their order" in err) == (2, "", True)
    assert typed("generate", trained["infilling"], "One <mask> day", "--quiet")[0] == 0
    right = 0
    for one in range(7):
        _, out, _ = typed("generate", trained["completion"], f"{one} and 3 make ", "--temperature", "0", "--quiet")
        right += out.strip().endswith(f" make {one + 3}") or out.strip() == str(one + 3)
    assert right >= 5
    assert load_run(trained["prefix"]).model.reads_prefix
