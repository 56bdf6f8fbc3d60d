"""Words: the pieces of each merged into one, in every record that has a row or a column a piece. What a word gets is
the sum of what its pieces get (attention to a key, losses); what it does is the mean of what they do (attention of a
query). What is predicted is predicted a piece at a time, and is asked of a word's first piece alone."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.embeddings import TokenRow, Word
from tfcli.inspection.predictions import ScoredToken
from tfcli.records.arrays import frozen


def merged(
    values: NDArray[Any], words: Sequence[Word], axis: int, how: Callable[..., NDArray[Any]] = np.sum
) -> NDArray[Any]:
    """One entry a word along `axis`, made of its pieces by a function of NumPy that takes an axis.

    >>> merged(np.array([0.5, 0.25, 0.25]), (Word("Tom", (0, 1)), Word("ran", (2,))), 0).tolist()
    [0.75, 0.25]
    """
    return np.stack([how(np.take(values, word.places, axis), axis=axis) for word in words], axis=axis)


def attention_in_words(record: AttentionRecord) -> AttentionRecord:
    """Keys summed, queries averaged, so that each row of a whole text's record sums to what it did; a word may look
    where a piece of it may. Scores are left out: before the softmax they do not add up."""
    queries, keys = record.query_words, record.key_words
    on_words = merged(record.weights.astype(np.float64), keys, -1)
    mask = record.mask
    return replace(
        record,
        query_tokens=tuple(word.text for word in queries),
        key_tokens=tuple(word.text for word in keys),
        next_tokens=(*(word.text for word in queries[1:]), record.next_tokens[-1]) if record.next_tokens else (),
        words=True,
        weights=frozen(merged(on_words, queries, -2, np.mean)),
        scores=None,
        bias=None,
        mask=None if mask is None else frozen(merged(merged(mask, keys, -1, np.any), queries, -2, np.any), np.bool_),
        query_words=_numbered(queries),
        key_words=_numbered(keys),
    )


def losses_in_words(tokens: Sequence[ScoredToken], words: Sequence[Word]) -> tuple[ScoredToken, ...]:
    """Losses summed, which is −ln of the product of the probabilities; rank and likeliest are the first piece's."""
    found = []
    for number, word in enumerate(words):
        pieces = [tokens[place] for place in word.places]
        scored = [piece for piece in pieces if piece.loss is not None]
        loss = sum(piece.loss or 0.0 for piece in scored) if scored else None
        text = pieces[0].text + "".join(piece.before + piece.text for piece in pieces[1:])
        first = (scored or pieces)[0]
        found.append(replace(first, position=number, token=word.text, before=pieces[0].before, text=text, loss=loss))
    return tuple(found)


def tokens_in_words(rows: Sequence[TokenRow], words: Sequence[Word]) -> tuple[TokenRow, ...]:
    """Bytes summed, lengths of vectors averaged; the id is that of the first piece."""

    def one(number: int, word: Word) -> TokenRow:
        pieces = [rows[place] for place in word.places]
        spans = [(piece.first, piece.end) for piece in pieces if piece.first is not None]
        unknown = [piece for piece in pieces if piece.role == "unknown"]
        positions = [piece.position_norm for piece in pieces if piece.position_norm is not None]
        return replace(
            (unknown or pieces)[0],
            position=number,
            token_id=pieces[0].token_id,
            token=word.text,
            first=spans[0][0] if spans else None,
            end=spans[-1][1] if spans else None,
            bytes=sum(piece.bytes for piece in pieces),
            norm=float(np.mean([piece.norm for piece in pieces])),
            position_norm=float(np.mean(positions)) if positions else None,
            pieces=len(pieces),
        )

    return tuple(one(number, word) for number, word in enumerate(words))


def _numbered(words: Sequence[Word]) -> tuple[Word, ...]:
    """The same words, each in the place of its own number."""
    return tuple(replace(word, places=(number,)) for number, word in enumerate(words))
