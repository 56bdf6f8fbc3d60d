"""What is said of a run when its training has ended: the loss next to chance, and commands that run as they stand."""

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import SHRUNK, tfcli
from tfcli.pipeline.datasets import dataset_of_run
from tfcli.pipeline.ending import cross_entropy_of_frequencies, ending_of
from tfcli.recipe.loading import load_recorded
from tfcli.records.runs import RunEnding, TrainingFinished
from tfcli.runs.directory import existing_run
from tfcli.training.view import loss_in_words

ENDING = RunEnding("runs/decoder-1", "clm", 2.312, 1024, 5.1, ())


def finished(run: Path) -> TrainingFinished:
    return TrainingFinished("done", 80, 1, 1.0, 2.5, 80, str(run))


def test_the_loss_of_frequencies_by_hand():
    """Training has 3 a and 1 b: with one more of each, 4/7, 2/7 and, for a c that it lacks, 1/7."""
    loss = cross_entropy_of_frequencies(np.array([3, 1, 0]), np.array([2, 1, 1]))
    assert loss == pytest.approx(-(2 * math.log(4 / 7) + math.log(2 / 7) + math.log(1 / 7)) / 4)
    assert cross_entropy_of_frequencies(np.array([0, 0]), np.array([1, 1])) is None
    assert cross_entropy_of_frequencies(np.array([1, 1]), np.array([0, 0])) is None


def test_frequencies_that_are_even_are_as_good_as_guessing_evenly():
    assert cross_entropy_of_frequencies(np.full(8, 5), np.full(8, 3)) == pytest.approx(math.log(8))


EVENLY = "guessing evenly among 1,024 tokens gives 6.93"
BY_LABEL = "guessing evenly among 2 labels gives 0.69, guessing by how frequent each label is gives 0.50"


@pytest.mark.parametrize(
    ("objective", "choices", "frequency_loss", "sentence"),
    [
        ("clm", 1024, 5.1, f"2.31 nats per token; {EVENLY}, guessing by how frequent each token is gives 5.10."),
        ("mlm", 1024, 5.1, f"2.31 nats per masked token; {EVENLY}, guessing by how frequent each token is gives 5.10."),
        ("seq2seq", 1024, None, f"2.31 nats per target token; {EVENLY}."),
        ("span-corruption", 1024, None, f"2.31 nats per target token; {EVENLY}."),
        ("classify", 2, 0.5, f"2.31 nats per text; {BY_LABEL}."),
        ("span", 2, None, "2.31 nats per end of an answer."),
    ],
)
def test_the_sentence(objective: str, choices: int, frequency_loss: float | None, sentence: str):
    ending = replace(ENDING, objective=objective, num_choices=choices, frequency_loss=frequency_loss)
    assert loss_in_words(ending) == f"Validation loss {sentence}"


def test_without_an_evaluation_there_is_no_sentence():
    assert loss_in_words(replace(ENDING, loss=None)) == ""


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_the_frequencies_are_those_of_what_is_scored(architecture: str, trained: Callable[[str], Path]):
    """Counted anew, document by document, from the ids as they are on the disk."""
    path = trained(architecture)
    ending = ending_of(finished(path))
    run = existing_run(path)
    data = dataset_of_run(run, load_recorded(run.recipe), lambda event: None)
    never_scored = {data.manifest.roles.bos}
    if architecture == "encoder":
        never_scored.add(data.manifest.roles.eos)
    side = "target." if architecture == "encoder-decoder" else ""
    counted: dict[str, Counter[int]] = {}
    for part in ("train", "validation"):
        files = sorted(data.path.glob(f"{part}-*.{side}tokens.npy"))
        ids = np.concatenate([np.load(file) for file in files]).tolist()
        counted[part] = Counter(token for token in ids if token not in never_scored)
    choices = ending.num_choices
    total = sum(counted["train"].values()) + choices
    nats = -sum(many * math.log((counted["train"][token] + 1) / total) for token, many in counted["validation"].items())
    assert ending.frequency_loss == pytest.approx(nats / sum(counted["validation"].values()))
    assert 0 < ending.frequency_loss < math.log(choices)


@pytest.mark.parametrize("architecture", ["decoder", "encoder", "encoder-decoder"])
def test_every_command_runs_as_it_stands(architecture: str, trained: Callable[[str], Path]):
    commands = ending_of(finished(trained(architecture))).commands
    assert [command[1] for command in commands] == ["generate", "inspect", "inspect"]
    for command in commands:
        result = tfcli(*command[1:])
        assert result.exit_code == 0, result.stderr
        assert result.stdout


def answered(number: int) -> dict[str, object]:
    """A context with a question and its answer, as SQuAD has them."""
    answers = {"text": [f"town{number}"], "answer_start": [len("Tom lives in ")]}
    return {"context": f"Tom lives in town{number} now.", "question": "Where?", "answers": answers}


TASKS = {
    "classify": [{"text": f"A {word} film number {n}.", "label": word} for n in range(60) for word in ("good", "bad")],
    "tag": [{"tokens": ["Tom", "sees", f"town{n}"], "tags": ["PER", "O", "LOC"]} for n in range(120)],
    "span": [answered(number) for number in range(120)],
}
SAID = {
    "classify": "guessing evenly among 2 labels gives 0.69, guessing by how frequent each label is gives 0.",
    "tag": "guessing evenly among 3 labels gives 1.10, guessing by how frequent each label is gives 1.10.",
    "span": "nats per end of an answer.",
}


@pytest.mark.parametrize("task", list(TASKS))
def test_a_task_ends_so_too(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("texts.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in TASKS[task]))
    result = tfcli("train", "texts.jsonl", "--task", task, *SHRUNK)
    assert result.exit_code == 0, result.stderr
    assert "Validation loss " in result.stderr
    assert SAID[task] in result.stderr
    for command in ending_of(finished(tmp_path / result.stdout.strip())).commands:
        done = tfcli(*command[1:])
        assert done.exit_code == 0, done.stderr


def test_train_ends_with_the_loss_and_with_lines_for_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = tfcli("train", *SHRUNK, "--out", "my run")
    assert (result.exit_code, result.stdout) == (0, "my run\n")
    sentence, _, lines = result.stderr.partition("Try:\n")
    assert sentence.splitlines()[-1].startswith("Validation loss ")
    assert lines.splitlines()[0].startswith("tfcli generate 'my run' ")
    assert lines.splitlines()[2] == "tfcli inspect heads 'my run'"
    assert not any(placeholder in lines for placeholder in ("PROMPT", "TEXT"))


def test_a_text_of_signs_that_no_shell_should_see_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every document begins with an option or a control character: the commands need no text."""
    monkeypatch.chdir(tmp_path)
    texts = ("--debug \x1b[31m", "\x07bell rings")
    Path("t.jsonl").write_text("".join(f"{json.dumps({'text': texts[n % 2] + str(n)})}\n" for n in range(300)))
    result = tfcli("train", "t.jsonl", *SHRUNK, "--set", "model.max_seq_len=32")
    assert result.exit_code == 0, result.stderr
    run = result.stdout.strip()
    assert result.stderr.endswith(f"Try:\ntfcli evaluate {run}\ntfcli inspect heads {run}\n")


def test_quiet_and_json_say_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert tfcli("train", *SHRUNK, "--quiet").stderr == ""
    assert "Try:" not in tfcli("train", *SHRUNK, "--json").stderr
