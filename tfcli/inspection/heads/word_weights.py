"""Word alignment of tokens: what attention gives to a word is the sum over the tokens that spell it.

Shape legend: L layers, H heads, T queries, S keys, W words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from tfcli.inspection.reading import Inputs
from tfcli.records.attention import AttentionKind
from tfcli.runs.load import LoadedRun
from tfcli.tokenization.tokenizer import Tokenizer

_SPACED = re.compile(r"\S+")
_PUNCTUATION = ".,?!\"'"

Weights = NDArray[np.float32]


@dataclass(frozen=True)
class SpelledText:
    """A text's ids, its words, and the places of each word's tokens among the ids."""

    ids: tuple[int, ...]
    words: tuple[str, ...]
    places: tuple[tuple[int, ...], ...]


def spelled(tokenizer: Tokenizer, text: str) -> SpelledText:
    """The words of a text, split at spaces, without the punctuation around them.

    A token belongs to the word that one of its letters belongs to. Punctuation belongs to none.
    """
    spans = []
    for match in _SPACED.finditer(text):
        start = match.start() + len(match[0]) - len(match[0].lstrip(_PUNCTUATION))
        end = match.end() - (len(match[0]) - len(match[0].rstrip(_PUNCTUATION)))
        spans.append((start, end))
    return spelled_at(tokenizer, text, spans)


def spelled_at(tokenizer: Tokenizer, text: str, spans: Sequence[tuple[int, int]]) -> SpelledText:
    """The words that stand at `spans` of a text, from and up to."""
    [(ids, offsets)] = tokenizer.encode_spans([text])
    words = tuple(text[start:end] for start, end in spans)
    return SpelledText(tuple(ids), words, tuple(tuple(covered(offsets, *span)) for span in spans))


def covered(offsets: Sequence[tuple[int, int]], start: int, end: int) -> list[int]:
    """The tokens that stand, by their `offsets`, within a part of a text."""
    return [n for n, (first, last) in enumerate(offsets) if first < end and last > start]


def cross_places(run: LoadedRun, source: SpelledText, target: SpelledText) -> tuple[list[int | None], list[list[int]]]:
    """Of cross-attention: the row that predicts each target word's first token, None of a word without one; and the
    columns of each source word."""
    before, offset = len(run.config.roles.target_prefix), len(run.config.roles.source_start)
    rows = [before + word[0] - 1 if word else None for word in target.places]
    return rows, [[offset + place for place in word] for word in source.places]


def kind_weights(run: LoadedRun, inputs: Inputs, kind: AttentionKind) -> Weights:
    """Every head's weights of one kind.

    Shape:
        returns: (L, H, T, S)
    """
    kinds: dict[str, list[torch.Tensor]] = {}
    with torch.inference_mode():
        run.model.hidden(*inputs.tensors(run.device), weights=kinds)
    return torch.stack([layer[0] for layer in kinds[kind]]).float().cpu().numpy()


def on_words(rows: Weights, places: Sequence[Sequence[int]]) -> Weights:
    """What each word gets.

    Args:
        places: of each word's tokens among the keys.

    Shape:
        rows: (L, H, S)
        returns: (L, H, W)
    """
    return np.stack([rows[..., list(place)].sum(axis=-1) for place in places], axis=-1)


def best_head(shares: NDArray[np.float64], place: tuple[int, int | None] | None = None) -> tuple[int, ...]:
    """The place of the largest share; of a layer's heads, or of one head, where `place` names it.

    Shape:
        shares: (…, L, H)
    """
    if place is not None:
        layer, head = place
        of_head = slice(None) if head is None else head
        asked = np.full(shares.shape, -1.0)
        asked[..., layer, of_head] = shares[..., layer, of_head]
        shares = asked
    return tuple(int(index) for index in np.unravel_index(shares.argmax(), shares.shape))
