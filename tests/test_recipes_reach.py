"""What the shipped recipes promise, by training them. Minutes long: `pytest -m slow`."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.support.story_judge import is_story
from tfcli.corpora.stories import stories
from tfcli.evaluation.evaluate import evaluate
from tfcli.generation.generate import generate
from tfcli.inspection.heads import BankFound
from tfcli.inspection.heads.find import find_alignment, find_bank
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


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    return trained("quickstart", tmp_path_factory.mktemp("runs") / "quickstart")


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    return trained("pt-en", tmp_path_factory.mktemp("runs") / "pt-en")


def test_the_quickstart_writes_stories_of_its_own(quickstart: LoadedRun) -> None:
    made = generate(quickstart, "", generation_settings(quickstart.recipe, {"num_samples": 50, "seed": 1}))
    assert isinstance(made, list)
    texts = [one.text for one in made if isinstance(one, Generated)]
    assert sum(map(is_story, texts)) >= 45
    read = {span for story in islice(stories(0), 20_000) for span in spans(story)}
    assert not any(span in read for text in texts for span in spans(text))


def test_a_head_of_the_quickstart_tells_the_banks_apart(quickstart: LoadedRun) -> None:
    require_bank(find_bank(quickstart))


def test_a_head_of_the_encoder_tells_the_banks_apart(tmp_path: Path) -> None:
    require_bank(find_bank(trained("stories-encoder", tmp_path / "run")))


def require_bank(found: BankFound) -> None:
    """Of at least 100 held-out sentences of each sense, the head finds 80 %, and half as many when shuffled."""
    for sense in ("river", "money"):
        held_out, shuffled = getattr(found.held_out, sense), getattr(found.shuffled, sense)
        assert held_out.count >= 100
        assert held_out.value >= 0.8, sense
        assert shuffled.value <= 0.5, sense


def test_the_translator_translates_held_out_pairs(translator: LoadedRun) -> None:
    assert (scores(translator).exact_match or 0) >= 0.95


def test_a_head_of_the_translator_aligns_words(translator: LoadedRun) -> None:
    """Also where the order of words differs, which neither their place nor chance explains."""
    found = find_alignment(translator)
    assert found.held_out.count >= 1000
    assert found.held_out.value >= 0.8
    assert found.reordered.value >= 0.8
    assert found.same_place.value < 0.6


def test_shakespeare_reaches_the_published_loss(shared_data: Path, tmp_path: Path) -> None:
    run = trained("shakespeare-char", tmp_path / "run", source=str(shared_data / "shakespeare" / "input.txt"))
    section, train = run.config.model, run.recipe.train
    assert section.num_layers <= 4 and section.num_heads <= 4 and section.d_model <= 128 and train.context == 64
    assert train.steps * train.batch_size * train.grad_accumulation * train.context <= 1_540_000
    result = scores(run)
    assert result.tokens == 111_540 + 1  # every character of the last tenth, and the end
    assert result.loss <= 1.88
