"""One small tokenizer of each algorithm, trained once."""

import pytest

from tfcli.recipe.data import TokenizerSection
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.tokenization.train import train_tokenizer

ALGORITHMS = ("bpe", "wordpiece", "unigram", "word", "char")
SENTENCES = (
    "The cat sat on the mat. The dog sat on the bank, and the cat ran!\n\n"
    "A cat: don't run (or do) to the bank of the river; the dog can't swim.\n"
    "def run(x):\n    return x + 1\n"
)
# Unigram considers only what several words share, hence cats and catch beside cat.
WORDS = ["the", "a", "cats", "catch", "dog", "bank", "river", "sat", "ran", "on", "in", "of", "and", "to"]
TEXT = SENTENCES * 20 + "".join(f"{a} {b} cat {c}\n" for a in WORDS for b in WORDS for c in WORDS)


def train(algorithm: str, text: str = TEXT, **settings: object) -> Tokenizer:
    section = TokenizerSection(algorithm=algorithm, **{"vocab_size": 400, **settings})  # type: ignore[arg-type]
    return train_tokenizer(lambda: iter([text]), section)[0]


@pytest.fixture(scope="session")
def trained() -> dict[str, Tokenizer]:
    return {algorithm: train(algorithm) for algorithm in ALGORITHMS}


@pytest.fixture(params=ALGORITHMS)
def tokenizer(request: pytest.FixtureRequest, trained: dict[str, Tokenizer]) -> Tokenizer:
    return trained[request.param]
