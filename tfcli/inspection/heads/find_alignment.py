"""The cross-attention head that aligns words: chosen on training pairs, measured on held-out ones.

The grammar of builtin:pt-en knows which Portuguese word became which English one. A head finds a word when, on the row
that predicts the word's first token, a source word that the grammar put there gets more weight than any other.

Shape legend: N words, L layers, H heads, S source words.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tfcli.corpora.pt_en import DEFAULT_DOCUMENTS, PtEnPair, pairs
from tfcli.errors import UsageError
from tfcli.inspection.heads.held_out import HELD_OUT_SEED, require_trained_on, share
from tfcli.inspection.heads.word_weights import Weights, best_head, kind_weights, on_words, spelled
from tfcli.inspection.reading import framed
from tfcli.records.find import AlignmentFound, Head, ReadSentence
from tfcli.runs.load import LoadedRun

_EXAMPLES = 3


@dataclass(frozen=True)
class _Word:
    """A target word, the source words it comes from, and every head's weights on all of them.

    Shape:
        weights: (L, H, S)
    """

    text: str
    number: int
    right: tuple[int, ...]
    sources: tuple[str, ...]
    weights: Weights
    reordered: bool

    def hits(self) -> NDArray[np.bool_]:
        """Shape: (L, H)."""
        return np.isin(self.weights.argmax(axis=-1), self.right)


def find_alignment(run: LoadedRun, training_pairs: int = 200, held_out_pairs: int = 300) -> AlignmentFound:
    """Choose the head that finds most words of training pairs, and measure it on held-out pairs.

    Raises:
        UsageError: the run is no translator of builtin:pt-en.
    """
    require_translator(run)
    training = [word for pair in _training(run, training_pairs) for word in _words(run, pair)]
    layer, head = best_head(np.mean([word.hits() for word in training], axis=0))
    read = [_words(run, pair) for pair in _held_out(run, held_out_pairs)]
    held_out = [word for words in read for word in words]
    return AlignmentFound(
        Head("cross", layer, head),
        training_pairs,
        share(word.hits()[layer, head] for word in training),
        held_out_pairs,
        share(word.hits()[layer, head] for word in held_out),
        share(word.hits()[layer, head] for word in held_out if word.reordered),
        share(word.weights.mean(axis=(0, 1)).argmax() in word.right for word in held_out),
        share(word.number in word.right for word in held_out),
        float(np.mean([len(word.right) / len(word.sources) for word in held_out])),
        tuple(_example(word, layer, head) for word in _telling(read)),
    )


def require_translator(run: LoadedRun) -> None:
    """Refuse a run whose words nobody has aligned.

    Raises:
        UsageError: the run is no translator of builtin:pt-en.
    """
    if run.architecture != "encoder-decoder":
        raise UsageError(
            f"An alignment is between two sides, and this {run.architecture} has one",
            "name a run of the recipe pt-en",
        )
    require_trained_on(run, "pairs", "the right alignment", "name a run of the recipe pt-en")


def _training(run: LoadedRun, count: int) -> Iterator[PtEnPair]:
    data = run.recipe.data
    own = islice(pairs(data.seed), data.max_documents or DEFAULT_DOCUMENTS)
    return islice((pair for pair in own if not pair.validation), count)


def _held_out(run: LoadedRun, count: int) -> Iterator[PtEnPair]:
    """Pairs with a combination that no training pair has, and so none that it has read."""
    stream = pairs(run.recipe.data.seed + HELD_OUT_SEED)
    return islice((pair for pair in stream if pair.validation), count)


def _words(run: LoadedRun, pair: PtEnPair) -> list[_Word]:
    """The target words that the grammar aligned, each read on the row that predicts it."""
    roles = run.config.roles
    source, target = spelled(run.tokenizer, pair.source), spelled(run.tokenizer, pair.target)
    weights = kind_weights(run, framed(run, source.ids, target.ids), "cross")
    before, offset = len(roles.target_prefix), len(roles.source_start)
    places = [[offset + place for place in word] for word in source.places]
    words = []
    for number, text in enumerate(target.words):
        right = tuple(i for i, j in pair.alignment if j == number)
        if right and target.places[number]:
            row = before + target.places[number][0] - 1
            on_sources = on_words(weights[:, :, row], places)
            words.append(_Word(text, number, right, source.words, on_sources, _is_reordered(pair, number)))
    return words


def _is_reordered(pair: PtEnPair, number: int) -> bool:
    """Whether the word comes from behind the source of a later word, or from before that of an earlier one."""
    return any(
        (j < number and i > own) or (j > number and i < own)
        for own, target in pair.alignment
        if target == number
        for i, j in pair.alignment
    )


def _telling(read: list[list[_Word]]) -> list[_Word]:
    """Of the first sentences with a reordering, the word that comes from the farthest away."""
    crossing = [words for words in read if any(word.reordered for word in words)]
    return [
        max((word for word in words if word.reordered), key=lambda word: min(abs(word.number - i) for i in word.right))
        for words in crossing[:_EXAMPLES]
    ]


def _example(word: _Word, layer: int, head: int) -> ReadSentence:
    weights = word.weights[layer, head]
    hit = bool(word.hits()[layer, head])
    return ReadSentence(word.sources, tuple(float(weight) for weight in weights), word.text, word.right, hit)
