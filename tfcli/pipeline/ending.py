"""What to say of a run when its training has ended: its loss next to chance, and commands that run as they stand."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfcli.corpora import TASKS, Part
from tfcli.data.dataset import PreparedDataset, SequencesView
from tfcli.pipeline.datasets import dataset_of_run
from tfcli.recipe.loading import load_recorded
from tfcli.recipe.recipe import Recipe
from tfcli.records.roles import TokenRoles
from tfcli.records.runs import RunEnding, TrainingFinished
from tfcli.runs.config import read_config
from tfcli.runs.directory import existing_run
from tfcli.runs.load import load_run_tokenizer
from tfcli.tokenization.tokenizer import Tokenizer

# As many tokens of a part are counted; more would change the loss in its third digit.
MOST_COUNTED_TOKENS = 2_000_000
MOST_COUNTED_SEQUENCES = 50_000
SEQUENCES_AT_A_TIME = 500
NO_TOKEN = -1
# Words of the texts in commands.
PROMPT_WORDS = 3
TEXT_WORDS = 8
LONGEST_WORD = 20
# Looked through for a text that can be typed.
MOST_DOCUMENTS = 20


def ending_of(finished: TrainingFinished) -> RunEnding:
    """What to say of a run that has been trained.

    Raises:
        TfcliError: If its files or its dataset cannot be read.
    """
    run = existing_run(Path(finished.run))
    recipe = load_recorded(run.recipe)
    config = read_config(run.config)
    tokenizer = load_run_tokenizer(run, config)
    data = dataset_of_run(run, recipe, lambda event: None)
    labels = data.manifest.labels
    num_choices = len(labels) or config.model.vocab_size or tokenizer.vocab_size
    return RunEnding(
        run=finished.run,
        objective=recipe.objective,
        loss=finished.best_loss,
        num_choices=num_choices,
        frequency_loss=_frequency_loss(recipe, data, config.roles, num_choices),
        commands=_commands(finished.run, recipe, data, tokenizer, config.roles),
    )


def cross_entropy_of_frequencies(train_counts: NDArray[np.int64], validation_counts: NDArray[np.int64]) -> float | None:
    """The loss of always guessing by the frequencies of the training part, in nats.

    Each choice is counted once more than it occurs (Laplace), so none of the validation part is impossible.

    Shape:
        train_counts, validation_counts: (choices,).
    """
    if not validation_counts.sum() or not train_counts.sum():
        return None
    smoothed = train_counts + 1.0
    log_probabilities = np.log(smoothed / smoothed.sum())
    return float(-(validation_counts * log_probabilities).sum() / validation_counts.sum())


def _frequency_loss(recipe: Recipe, data: PreparedDataset, roles: TokenRoles, num_choices: int) -> float | None:
    if recipe.objective not in ("clm", "mlm", "seq2seq", "completion", "classify", "tag"):
        return None  # what is predicted is made while training
    train = _counts(recipe, data, roles, "train", num_choices)
    validation = _counts(recipe, data, roles, "validation", num_choices)
    return cross_entropy_of_frequencies(train, validation)


def _counts(
    recipe: Recipe, data: PreparedDataset, roles: TokenRoles, part: Part, num_choices: int
) -> NDArray[np.int64]:
    """How often each choice is the right one in a part, or in the beginning of it. Shape: (choices,)."""
    counts = np.zeros(num_choices, np.int64)
    if data.manifest.kind in TASKS:
        for numbers in _sequences(data.pairs(part).target):
            counts += _label_counts(recipe.objective, numbers, num_choices)
        return counts
    if data.manifest.kind == "pairs":
        for ids in _sequences(data.pairs(part).target):
            counts += np.bincount(ids[ids != NO_TOKEN], minlength=num_choices)[:num_choices]
    else:
        stream = data.text(part)
        length = min(len(stream), MOST_COUNTED_TOKENS)
        ids = stream.padded(np.array([0]), np.array([length]), pad=NO_TOKEN)[0]
        counts += np.bincount(ids, minlength=num_choices)[:num_choices]
    counts[_never_predicted(recipe.objective, roles)] = 0
    return counts


def _label_counts(objective: str, numbers: NDArray[np.int64], num_labels: int) -> NDArray[np.int64]:
    """How often each label occurs. Shape: numbers (B, S), with the number of the label at its tokens, from 1."""
    labelled = numbers.max(axis=1) if objective == "classify" else numbers[numbers > 0]
    return np.bincount(labelled[labelled > 0] - 1, minlength=num_labels)[:num_labels]


def _never_predicted(objective: str, roles: TokenRoles) -> list[int]:
    """Ids that are in the text and are not predicted."""
    ids = [] if roles.is_shared else [roles.bos]
    if objective == "mlm":
        ids = [roles.bos, roles.eos]
    return [token for token in ids if token is not None]


def _sequences(view: SequencesView) -> Iterator[NDArray[np.int64]]:
    """Sequences, some at a time. Shape: each (B, longest of them)."""
    for first in range(0, min(len(view), MOST_COUNTED_SEQUENCES), SEQUENCES_AT_A_TIME):
        numbers = np.arange(first, min(first + SEQUENCES_AT_A_TIME, len(view)))
        yield view.padded(numbers, pad=NO_TOKEN)


def _commands(
    run: str, recipe: Recipe, data: PreparedDataset, tokenizer: Tokenizer, roles: TokenRoles
) -> tuple[tuple[str, ...], ...]:
    """Commands for a run, with a text of its validation part."""
    heads = ("tfcli", "inspect", "heads", run)
    words = _words(data, tokenizer, recipe.context)
    if not words:
        return (("tfcli", "evaluate", run), heads)
    prompt = " ".join(words[:PROMPT_WORDS])
    text = " ".join(words)
    place = len(words) // 2
    looking: tuple[str, ...] = ("tfcli", "inspect", "attention", run, text)
    asking: tuple[str, ...] = ()
    if recipe.objective == "mlm" and roles.mask is not None:
        prompt = " ".join([*words[:place], tokenizer.labels([roles.mask])[0], *words[place + 1 :]])
    elif recipe.objective in ("span-corruption", "infilling"):
        gap = "<extra_id_0>"
        if recipe.objective == "infilling" and roles.mask is not None:
            gap = tokenizer.labels([roles.mask])[0]
        prompt = " ".join([*words[:place], gap, *words[place + 1 :]])
        looking = ("tfcli", "inspect", "tokens", run, text)
    elif recipe.model.architecture == "encoder-decoder":
        prompt = text
        looking += ("--kind", "cross")
    elif recipe.train.task is not None:
        prompt = text
        asking = ("--question", "What?") if recipe.train.task == "span" else ()
    return (("tfcli", "generate", run, prompt, *asking), looking, heads)


def _words(data: PreparedDataset, tokenizer: Tokenizer, context: int) -> list[str]:
    """The first words of a validation document that fit into half of the context and can be typed."""
    for ids in _documents(data):
        words = []
        for word in tokenizer.decode(ids).split():
            if not word.isprintable() or "\ufffd" in word or word.startswith("-"):
                break
            words.append(word[:LONGEST_WORD])
            if len(words) == TEXT_WORDS:
                break
        while words and len(tokenizer.encode(" ".join(words))) > context // 2:
            words.pop()
        if words:
            return words
    return []


def _documents(data: PreparedDataset) -> Iterator[list[int]]:
    """The beginnings of the first validation documents."""
    longest = TEXT_WORDS * LONGEST_WORD * 2
    if data.manifest.kind == "text":
        stream = data.text("validation")
        starts, ends = stream.documents[:, :MOST_DOCUMENTS]
        for start, end in zip(starts, ends, strict=True):
            length = min(int(end - start), longest)
            yield stream.padded(np.array([start]), np.array([length]), pad=0)[0].tolist()
        return
    source = data.pairs("validation").source
    for number in range(min(len(source), MOST_DOCUMENTS)):
        yield source.sequence(number)[:longest].tolist()
