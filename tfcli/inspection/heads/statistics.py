"""Statistics of attention heads: entropy, distance, induction heads, and the weights that each word gets. Induction is
measured on random tokens read twice: nothing but the first copy tells what comes in the second. Shape legend: L layers,
H heads, T queries, S keys, W words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from tfcli.inspection.attention import AttentionKind
from tfcli.inspection.passes import KINDS, Inputs, framed, record_model
from tfcli.runs.load import LoadedRun
from tfcli.tokenization.tokenizer import Tokenizer

Weights = NDArray[np.float64]
PerHead = NDArray[np.float64]
WordWeights = NDArray[np.float32]
Place = tuple[int, int | None] | None  # the layer and the head that are asked for, or the layer alone; None: all
_SEQUENCES, _LONGEST, _SHORTEST, _SEED = 4, 50, 4, 0  # of random tokens that are read twice
_SPACED = re.compile(r"\S+")
_SIGNS = ".,?!\"'"  # around a word


def entropy(weights: Weights) -> PerHead:
    """Mean over queries of −Σ a ln a, in nats. Shape: (H, T, S) → (H,)."""
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    return np.asarray(-(weights * logs).sum(axis=-1).mean(axis=-1))


def largest_entropy(mask: NDArray[np.bool_]) -> float:
    """Mean over queries of ln(visible keys), which `mask` (T, S) says: the entropy of weights that are all equal."""
    return float(np.log(mask.sum(axis=-1)).mean())


def sharpness(weights: Weights) -> PerHead:
    """Mean over queries of the largest weight. Shape: (H, T, S) → (H,)."""
    return np.asarray(weights.max(axis=-1).mean(axis=-1))


def distance(weights: Weights) -> PerHead:
    """Mean over queries of Σ a |t − s|, in tokens; of self-attention. Shape: (H, T, T) → (H,)."""
    queries, keys = np.indices(weights.shape[1:])
    return np.asarray((weights * abs(queries - keys)).sum(axis=-1).mean(axis=-1))


def in_order(weights: Weights) -> PerHead:
    """Share of steps t → t + 1 at which the strongest key does not step back. Shape: (H, T, S) → (H,)."""
    return np.asarray((np.diff(weights.argmax(axis=-1), axis=-1) >= 0).mean(axis=-1))


def induction(weights: Weights, start: int, period: int) -> PerHead:
    """Mean share that a token of the second copy gives to the token behind its first copy: in … A B … A, the head looks
    from the second A at B, which then can be predicted (Elhage et al. 2021; Olsson et al. 2022). The first copy begins
    at `start` and has `period` tokens. Shape: (H, T, T) → (H,)."""
    queries = np.arange(start + period, start + 2 * period)
    return np.asarray(weights[:, queries, queries + 1 - period].mean(axis=-1))


def previous(weights: Weights, start: int, period: int) -> PerHead:
    """Mean share that a token of either copy but the first gives to the token before it. Shape: (H, T, T) → (H,)."""
    queries = np.arange(start + 1, start + 2 * period)
    return np.asarray(weights[:, queries, queries - 1].mean(axis=-1))


def duplicate(weights: Weights, start: int, period: int) -> PerHead:
    """Mean share that a token of the second copy gives to its first copy. Shape: (H, T, T) → (H,)."""
    queries = np.arange(start + period, start + 2 * period)
    return np.asarray(weights[:, queries, queries - period].mean(axis=-1))


@dataclass(frozen=True)
class Copies:
    """The induction and duplicate scores of every head of a run, and those of `even` weights, (H,) each: by kind and
    layer, by name, of self-attention; measured on so many sequences of `period` tokens read twice, None where the
    context is too short."""

    period: int | None
    sequences: int
    scores: dict[tuple[AttentionKind, int], dict[str, PerHead]]


def copies(run: LoadedRun) -> Copies:
    """Run the model on tokens read twice."""
    period, starts, twice = repeated_sequences(run)
    with torch.inference_mode():
        passes = [record_model(run.model, one.tensors(run.device)) for one in twice]
    scores: dict[tuple[AttentionKind, int], dict[str, PerHead]] = {}
    for kind, start in starts.items():
        for layer, read in enumerate(zip(*(one.attentions(kind) for one in passes), strict=True)):
            weights = [one.weights.cpu().double().numpy() for one in read]
            for score in (induction, duplicate, previous):
                of_texts = [score(one, start, period) for one in weights]
                scores.setdefault((kind, layer), {})[score.__name__] = np.mean(of_texts, axis=0)
            alike = read[0].mask.cpu().double().numpy()
            alike = np.broadcast_to(alike / np.maximum(alike.sum(-1, keepdims=True), 1), weights[0].shape)
            scores[kind, layer]["even"] = induction(alike, start, period)
    return Copies(period or None, len(twice), scores)


def watched(run: LoadedRun) -> dict[str, float]:
    """The best head's `induction` and `previous` scores, and of a decoder `in_context`: by how many nats a token its
    mean loss is less in the second copy than in the first, which nothing tells. Nothing in too short a context."""
    period, starts, twice = repeated_sequences(run)
    scores = copies(run).scores.values()
    found = {name: max(float(of[name].max()) for of in scores) for name in ("induction", "previous") if twice}
    if twice and run.architecture == "decoder" and run.config.model.predicts_tokens:
        read = torch.tensor([one.decoder for one in twice], device=run.device)
        with torch.inference_mode():
            nats = F.cross_entropy(run.model(read)[:, :-1].transpose(1, 2), read[:, 1:], reduction="none")
        copy = starts["decoder_self"] + period  # where the second begins, whose first token nothing tells either
        found["in_context"] = float(nats[:, : copy - 1].mean() - nats[:, copy:].mean())
    return found


def repeated_sequences(run: LoadedRun) -> tuple[int, dict[AttentionKind, int], list[Inputs]]:
    """So many of the run's own ordinary tokens, all different, twice in a row; where the first copy begins in each kind
    of self-attention; a few such inputs, always the same. 0 and none where the context is too short."""
    roles, ids = run.config.roles, np.array(sorted(run.tokenizer.ordinary_ids))
    text, both = len(roles.text_prefix), (len(roles.source_start), len(roles.target_prefix))
    period = min(_LONGEST, len(ids), (run.config.model.max_seq_len - 1 - max(text, *both)) // 2)
    if period < _SHORTEST:
        return 0, {}, []
    kinds: list[AttentionKind] = [kind for kind in KINDS[run.architecture] if kind != "cross"]
    starts = dict(zip(kinds, both if len(kinds) > 1 else (text,), strict=True))
    rng = np.random.default_rng(_SEED)
    drawn = [rng.choice(ids, period, replace=False).tolist() * 2 for _ in range(_SEQUENCES)]
    return period, starts, [framed(run, twice, twice) for twice in drawn]


@dataclass(frozen=True)
class SpelledText:
    """A text's ids, its words, and the places of each word's tokens among the ids."""

    ids: tuple[int, ...]
    words: tuple[str, ...]
    places: tuple[tuple[int, ...], ...]


def spelled(tokenizer: Tokenizer, text: str) -> SpelledText:
    """The words of a text, split at spaces, without the punctuation around them. A token belongs to the word that one
    of its letters belongs to; one of punctuation alone belongs to none."""
    spaced = _SPACED.finditer(text)
    spans = [(one.end() - len(one[0].lstrip(_SIGNS)), one.start() + len(one[0].rstrip(_SIGNS))) for one in spaced]
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
    """The row that predicts each target word's first token, None of one without; each source word's columns."""
    before, offset = len(run.config.roles.target_prefix), len(run.config.roles.source_start)
    rows = [before + word[0] - 1 if word else None for word in target.places]
    return rows, [[offset + place for place in word] for word in source.places]


def kind_weights(run: LoadedRun, inputs: Inputs, kind: AttentionKind) -> WordWeights:
    """Every head's weights of one kind. Shape: (L, H, T, S)."""
    kinds: dict[str, list[torch.Tensor]] = {}
    with torch.inference_mode():
        run.model.hidden(*inputs.tensors(run.device), weights=kinds)
    return torch.stack([layer[0] for layer in kinds[kind]]).float().cpu().numpy()


def on_words(rows: WordWeights, places: Sequence[Sequence[int]]) -> WordWeights:
    """What each word gets, whose tokens stand at `places` among the keys. Shape: (L, H, S) → (L, H, W)."""
    return np.stack([rows[..., list(place)].sum(axis=-1) for place in places], axis=-1)


def best_head(shares: NDArray[np.float64], place: Place = None) -> tuple[int, ...]:
    """The place of the largest of the shares (…, L, H); of a layer's heads, or of one head, where `place` names it."""
    if place is not None:
        asked = (..., place[0], slice(None) if place[1] is None else place[1])
        others, shares = shares, np.full(shares.shape, -1.0)
        shares[asked] = others[asked]
    return tuple(int(index) for index in np.unravel_index(shares.argmax(), shares.shape))
