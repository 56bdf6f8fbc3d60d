"""What the shipped recipes promise, by training them. Minutes long: `pytest -m slow`."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from tfcli.corpora.pt_en import pairs
from tfcli.corpora.stories import is_story, stories
from tfcli.evaluation.evaluate import evaluate
from tfcli.generation.generate import generate
from tfcli.inspection.attention import attention
from tfcli.pipeline.datasets import dataset_of_run
from tfcli.pipeline.training import train_recipe
from tfcli.recipe.loading import build_recipe, generation_settings, read_recipe
from tfcli.records.evaluation import Scores
from tfcli.records.generation import Generated
from tfcli.runs.load import LoadedRun, load_run

pytestmark = pytest.mark.slow

SPAN = 20


def trained(name: str, out: Path, **data: str) -> LoadedRun:
    """The run of a shipped recipe, as `tfcli run` makes it."""
    recipe = build_recipe(read_recipe(name), {"data": data})
    train_recipe(recipe, out, lambda event: None, lambda: False)
    return load_run(out)


def scores(run: LoadedRun) -> Scores:
    return evaluate(run, dataset_of_run(run.directory, run.recipe, lambda event: None))


def spans(text: str) -> Iterator[str]:
    """Every stretch of 20 words."""
    words = text.split()
    return (" ".join(words[i : i + SPAN]) for i in range(len(words) - SPAN + 1))


def test_the_quickstart_writes_stories_of_its_own(tmp_path: Path) -> None:
    run = trained("quickstart", tmp_path / "run")
    made = generate(run, "", generation_settings(run.recipe, {"num_samples": 50, "seed": 1}))
    assert isinstance(made, list)
    texts = [one.text for one in made if isinstance(one, Generated)]
    assert sum(map(is_story, texts)) >= 45
    read = {span for story in islice(stories(0), 20_000) for span in spans(story)}
    assert not any(span in read for text in texts for span in spans(text))


def test_the_translator_translates_held_out_pairs_and_its_attention_crosses(tmp_path: Path) -> None:
    run = trained("pt-en", tmp_path / "run")
    assert (scores(run).exact_match or 0) >= 0.95
    assert crossing_share(run) >= 0.7


def crossing_share(run: LoadedRun) -> float:
    """Share of held-out content words that the best cross-attention head finds, where the order of words differs.

    The head is chosen on training pairs. A word is found where, on the row that predicts it, the strongest source
    word is the one that the grammar put there.
    """
    crossing = (p for p in pairs(1) if any(j < k for (i, j), (h, k) in zip(p.alignment[1:], p.alignment, strict=False)))
    chosen = list(islice(crossing, 400))
    training = [hits(run, p.source, p.target, p.alignment) for p in chosen if not p.validation][:60]
    held_out = [hits(run, p.source, p.target, p.alignment) for p in chosen if p.validation][:60]
    best = np.unravel_index(np.concatenate(training).mean(axis=0).argmax(), training[0].shape[1:])
    return float(np.concatenate(held_out)[(slice(None), *best)].mean())


def hits(run: LoadedRun, source: str, target: str, alignment: tuple[tuple[int, int], ...]) -> np.ndarray:
    """For every aligned word, layer and head: whether the strongest source word is the right one.

    Shape: (words, L, H)
    """
    record = attention(run, source, target)[-1]
    keys, queries = word_of_token(run, source), word_of_token(run, target)
    strongest = record.weights[..., : len(keys)].argmax(axis=-1)
    rows = []
    for source_word, target_word in alignment:
        row = queries.index(target_word)  # row t predicts the token after <s> and t others
        rows.append(np.array(keys)[strongest[:, :, row]] == source_word)
    return np.stack(rows)


def word_of_token(run: LoadedRun, text: str) -> list[int]:
    """The number of the word that each token belongs to."""
    return [number for number, word in enumerate(text.split()) for _ in run.tokenizer.encode(word)]


def test_shakespeare_reaches_the_published_loss(shared_data: Path, tmp_path: Path) -> None:
    run = trained("shakespeare-char", tmp_path / "run", source=str(shared_data / "shakespeare" / "input.txt"))
    section, train = run.config.model, run.recipe.train
    assert section.num_layers <= 4 and section.num_heads <= 4 and section.d_model <= 128 and train.context == 64
    assert train.steps * train.batch_size * train.grad_accumulation * train.context <= 1_540_000
    result = scores(run)
    assert result.tokens == 111_540 + 1  # every character of the last tenth, and the end
    assert result.loss <= 1.88
