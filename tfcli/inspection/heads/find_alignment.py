"""Word alignment by cross-attention: the head that aligns words, chosen on training pairs, measured on held-out ones.

The grammar of builtin:pt-en knows which Portuguese word became which English one. A head finds a word when, on the row
that predicts the word's first token, a source word that the grammar put there gets more weight than any other.

Shape legend: N words, L layers, H heads, S source words.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tfcli.corpora.pt_en import PtEnPair, pairs
from tfcli.errors import UsageError
from tfcli.inspection.heads.material import HELD_OUT_SEED, own_pairs, require_trained_on
from tfcli.inspection.heads.word_weights import Weights, best_head, cross_places, kind_weights, on_words, spelled
from tfcli.inspection.kinds import chosen_kinds
from tfcli.inspection.reading import framed
from tfcli.records.find import AlignmentFound, Head, ReadSentence, Share
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


def find_alignment(
    run: LoadedRun,
    training_pairs: int = 200,
    held_out_pairs: int = 300,
    place: tuple[int, int | None] | None = None,
) -> AlignmentFound:
    """Choose the head that finds most words of training pairs, and measure it on held-out pairs.

    Args:
        place: choose among the heads of this layer alone, or take this layer and head.

    Raises:
        UsageError: the run is no translator of builtin:pt-en, or has no such layer or head.
    """
    require_translator(run)
    chosen_kinds(run, "cross", place)
    own = islice(own_pairs(run, "train"), training_pairs)
    training = [word for pair in own for word in _words(run, pair)]
    layer, head = best_head(np.mean([word.hits() for word in training], axis=0), place)
    # Validation pairs have a combination that no training pair has, so the run has read none of them.
    others = (pair for pair in pairs(run.recipe.data.seed + HELD_OUT_SEED) if pair.validation)
    read = [_words(run, pair) for pair in islice(others, held_out_pairs)]
    held_out = [word for words in read for word in words]
    return AlignmentFound(
        Head("cross", layer, head),
        training_pairs,
        Share.of(word.hits()[layer, head] for word in training),
        held_out_pairs,
        Share.of(word.hits()[layer, head] for word in held_out),
        Share.of(word.hits()[layer, head] for word in held_out if word.reordered),
        Share.of(word.weights.mean(axis=(0, 1)).argmax() in word.right for word in held_out),
        Share.of(word.number in word.right for word in held_out),
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


def _words(run: LoadedRun, pair: PtEnPair) -> list[_Word]:
    """The target words that the grammar aligned, each read on the row that predicts it."""
    source, target = spelled(run.tokenizer, pair.source), spelled(run.tokenizer, pair.target)
    weights = kind_weights(run, framed(run, source.ids, target.ids), "cross")
    rows, places = cross_places(run, source, target)
    words = []
    for number, (text, row) in enumerate(zip(target.words, rows, strict=True)):
        right = tuple(i for i, j in pair.alignment if j == number)
        if right and row is not None:
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
    weights = tuple(word.weights[layer, head].tolist())
    return ReadSentence(word.sources, weights, word.text, word.right, bool(word.hits()[layer, head]))
