"""Freshly initialised models that read words."""

from collections.abc import Sequence
from dataclasses import replace

from tfcli.errors import UsageError
from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection

Read = tuple[tuple[int, ...], tuple[str, ...]]
"""A text's ids and their labels."""


def model_of_words(section: ModelSection, texts: Sequence[str], seed: int) -> tuple[Transformer, list[Read]]:
    """A model of this shape whose vocabulary is the words of the texts, with the texts as it reads them.

    Raises:
        UsageError: a text has more words than the context holds.
    """
    words = [tuple(text.split()) for text in texts]
    longest = max(map(len, words))
    if longest > section.max_seq_len:
        raise UsageError(
            f"The text has {longest} words and the context holds {section.max_seq_len}", "shorten the text"
        )
    numbers = {word: number for number, word in enumerate(dict.fromkeys(word for text in words for word in text))}
    model = build_model(replace(section, vocab_size=max(len(numbers), 1)), seed).eval()
    return model, [(tuple(numbers[word] for word in text), text) for text in words]
