"""What an attention head could look at: for each role, the keys that it means on every row of a text.

Shape legend: T queries, S keys.
"""

import re

import numpy as np
from numpy.typing import NDArray

from tfcli.corpora.pt_en import PtEnPair
from tfcli.corpora.stories import TOLD_BY
from tfcli.inspection.heads.material import Material, Surface, surface
from tfcli.inspection.heads.word_weights import covered, cross_places, spelled
from tfcli.inspection.kinds import key_ids, query_ids
from tfcli.records.attention import AttentionKind
from tfcli.runs.load import LoadedRun

_FARTHEST = 8  # of the single offsets that are looked at
_SENTENCE_END = (".", "!", "?", "…", "。", "！", "？")

Keys = NDArray[np.bool_]


def role_keys(run: LoadedRun, kind: AttentionKind, material: Material, number: int) -> dict[str, Keys]:
    """The keys of every role of a kind of attention, on a text by its number; of some, none.

    Shape:
        returns: (T, S) each
    """
    inputs = material.texts[number]
    ids, queries = np.array(key_ids(kind, inputs)), np.array(query_ids(kind, inputs))
    labels = run.tokenizer.labels(ids.tolist())
    special = np.isin(ids, sorted(run.tokenizer.special_ids))
    shape = (len(queries), len(ids))
    places, rows = np.arange(len(ids)), np.arange(len(queries))[:, None]
    elsewhere = np.ones(shape, bool) if kind == "cross" else places != rows
    marks = np.array([bool(label.strip()) and not re.search(r"\w", label) for label in labels]) & ~special
    ends = marks & np.array([label.strip().startswith(_SENTENCE_END) for label in labels])
    same = (queries[:, None] == ids) & elsewhere & ~special
    found = {
        "first token": np.broadcast_to(places == 0, shape),
        "end mark": (special & (places > 0)) & elsewhere,
        "same token": same,
        "punctuation": marks & elsewhere,
        "end of a sentence": ends & elsewhere,
        "space": np.array([label.isspace() for label in labels]) & elsewhere,
    }
    if kind == "cross":
        found["same place"] = abs(places - rows * (len(ids) - 1) / max(1, len(queries) - 1)) <= 1
        if material.aligned:
            found["aligned word"] = _aligned(run, shape, material.aligned.get(number))
        return found
    behind = np.pad(same, ((0, 0), (1, 0)))[:, :-1]
    found |= {"itself": places == rows, "after the same token": behind & elsewhere}
    for offset in (*range(-_FARTHEST, 0), *(range(1, _FARTHEST + 1) if kind == "encoder_self" else ())):
        found[offset_role(offset)] = places - rows == offset
    if material.stories:
        told = surface(run.tokenizer, ids.tolist())
        found |= {role: _last(told, pattern, elsewhere) for role, pattern in TOLD_BY.items()}
    return found


def offset_role(offset: int) -> str:
    """The role of a head that looks so many tokens on, or back.

    >>> offset_role(-1), offset_role(3)
    ('previous token', '3 tokens after')
    """
    if abs(offset) == 1:
        return "previous token" if offset < 0 else "next token"
    return f"{abs(offset)} tokens {'before' if offset < 0 else 'after'}"


def _last(told: Surface, pattern: re.Pattern[str], elsewhere: Keys) -> Keys:
    """The tokens of the last such word that ends before a row's own token. Shape: (T, S)."""
    keys = np.zeros_like(elsewhere)
    for match in pattern.finditer(told.text):
        tokens = covered(told.spans, *match.span())
        if tokens:
            after = tokens[-1] + 1
            keys[after:] = False
            keys[after:, tokens] = True
    return keys


def _aligned(run: LoadedRun, shape: tuple[int, int], pair: PtEnPair | None) -> Keys:
    """On the row that predicts a target word's first token, the source words that it comes from. Shape: (T, S)."""
    keys = np.zeros(shape, bool)
    if pair is not None:
        source, target = spelled(run.tokenizer, pair.source), spelled(run.tokenizer, pair.target)
        rows, columns = cross_places(run, source, target)
        for i, j in pair.alignment:
            row = rows[j]
            if row is not None and row < shape[0]:
                keys[row, [column for column in columns[i] if column < shape[1]]] = True
    return keys
